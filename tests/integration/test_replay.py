"""The decisions of a stretch of the log, made again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from services.scheduler.adapters.replaying import Again, Stretch, read_stretch, replay
from services.scheduler.core.policy import Policy, Scores
from services.scheduler.settings import SchedulerSettings
from shared.errors import ConfigurationError
from shared.events import contracts as c
from shared.events import topics
from shared.events.codec import decode
from shared.log.core.state import Limits
from shared.log.memory import MemoryLog
from shared.telemetry.telemetry import Telemetry
from tests.integration.test_scheduler_service import World, gang, running

pytestmark = pytest.mark.looptime


class Cluster(World):
    """A world whose decisions are carried out, a little later, by what stands for the controller."""

    def __init__(self, *, compacts: bool = False) -> None:
        super().__init__()
        if not compacts:  # as with a lag of compaction that is longer than the stretch
            self.log = MemoryLog(self.clock, limits=Limits(sweep_records=10**9, maintenance_seconds=1e9))
        self.gangs: dict[str, c.Gang] = {}
        self.running: dict[str, c.GangDecided] = {}

    @asynccontextmanager
    async def carried_out(self, delay: float = 0.2) -> AsyncIterator[None]:
        task = asyncio.create_task(self._carry_out(delay))
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _carry_out(self, delay: float) -> None:
        reader = await self.log.read([topics.BIND_DECISIONS])
        while True:
            for delivery in await reader.poll(timeout=1.0):
                decision = decode(delivery).data
                if isinstance(decision, c.GangDecided):
                    await asyncio.sleep(delay)
                    await self._apply(decision)

    async def _apply(self, decision: c.GangDecided) -> None:
        contract = self.gangs[decision.gang.name]
        if decision.bindings:
            await self._place(contract, decision)
        for one in decision.evictions:
            await self.state("pod", "ns", one.pod, None)
            await self.pod(self.gangs[one.gang], one.pod)
        result = c.DecisionApplied(
            decision=decision.decision,
            pool="default",
            gang=decision.gang,
            outcome=c.DecisionOutcome.APPLIED,
            at=self.clock.now(),
        )
        await self.say(topics.BIND_RESULTS, b"default", result)

    async def _place(self, contract: c.Gang, decision: c.GangDecided) -> None:
        await self.bound(contract, decision)
        self.running[contract.name] = decision
        state = c.PodGroupState(
            namespace="ns", name=contract.name, uid=contract.uid, phase="Running", gang=contract
        )
        await self.state("podgroup", "ns", contract.name, state)

    async def submit(self, name: str, count: int) -> None:
        self.gangs[name] = gang(name, count).model_copy(update={"ready_since": self.clock.now()})
        await self.gang(self.gangs[name])

    async def finish(self, name: str) -> None:
        decision = self.running.pop(name)
        for binding in decision.bindings:
            await self.state("pod", "ns", binding.pod, None)
        await self.state("podgroup", "ns", name, None)

    async def live(self, seed: int) -> None:
        """Let gangs come and go."""
        chance = random.Random(seed)
        for number in range(40):
            if self.running and chance.random() < 0.4:
                await self.finish(chance.choice(sorted(self.running)))
            else:
                await self.submit(f"g{seed}-{number}", chance.choice([1, 1, 2, 3, 5, 8]))
            if chance.random() < 0.1:
                await self.node(f"n{chance.randrange(4)}", chance.choice([4, 8]))
            await asyncio.sleep(chance.choice([0.0, 0.05, 0.3, 2.0]))


async def _history(seed: int, *, restart: bool = False, compacts: bool = False, **settings: int) -> Cluster:
    world = Cluster(compacts=compacts)
    await world.start()
    await world.queue()
    for number in range(3):
        await world.node(f"n{number}", 8)
    async with world.carried_out():
        async with running(world, **settings):
            await world.live(seed)
            await asyncio.sleep(5)
            await world.live(seed + 100)
            await asyncio.sleep(5)
        if restart:
            async with running(world, **settings):
                for name in sorted(world.running):
                    await world.finish(name)
                await asyncio.sleep(5)
    return world


async def _again(world: Cluster, policy: Policy, *, fixed: bool = False) -> tuple[Stretch, list[Again]]:
    stretch = await read_stretch(world.log, "default", None, None)
    return stretch, list(replay(stretch, policy, Telemetry("replay"), fixed=fixed))


@pytest.mark.parametrize("seed", range(6))
async def test_the_same_policy_decides_the_same_again(seed: int) -> None:
    world = await _history(seed, restart=seed % 2 == 0)
    stretch, made = await _again(world, SchedulerSettings().policy())
    assert sum(len(one.again) for one in made) == len(await world.decisions()) > 10
    assert [one.differences for one in made] == [()] * len(made)
    assert all(one.cycle.policy == SchedulerSettings().policy().digest for one in made)
    assert stretch.gaps == []


async def test_cycles_that_were_cut_short_are_made_again_as_they_were() -> None:
    world = await _history(3, cycle_gangs=1)
    stretch, made = await _again(world, SchedulerSettings().policy())
    assert any(not cycle.decisions for cycle in stretch.cycles)
    assert [one.differences for one in made] == [()] * len(made)


async def test_another_policy_is_compared_in_the_world_as_it_was() -> None:
    world = await _history(1)
    spread = Policy(scores=Scores(binpack_weight=0.0, least_requested_weight=1.0))
    _, made = await _again(world, spread, fixed=True)
    assert any(one.differences for one in made)
    for one in made:
        for difference in one.differences:
            assert difference.logged is not None or difference.again is not None
    assert any(one.logged and not one.differences for one in made), "what was decided then is what goes on"


async def test_a_stretch_begins_with_a_cycle_that_depends_on_nothing_before() -> None:
    world = await _history(2)
    whole, _ = await _again(world, SchedulerSettings().policy())
    middle = next(one.at for one in whole.cycles if any("g102-" in name for name in one.decisions))
    stretch = await read_stretch(world.log, "default", middle, None)
    assert stretch.cycles[0].fresh
    assert middle <= stretch.cycles[0].at < whole.cycles[-1].at
    made = list(replay(stretch, SchedulerSettings().policy(), Telemetry("replay"), fixed=False))
    assert [one.differences for one in made] == [()] * len(made)


async def test_a_stretch_without_a_beginning_is_refused() -> None:
    world = Cluster()
    await world.start()
    with pytest.raises(ConfigurationError, match="none of the 0 cycles"):
        await read_stretch(world.log, "default", None, None)


async def test_records_that_compaction_took_out_of_the_stretch_are_told() -> None:
    world = await _history(2, compacts=True)
    await world.log._broker.maintain()
    stretch = await read_stretch(world.log, "default", None, None)
    assert stretch.gaps
    assert all("records are gone" in gap and gap.startswith("cluster-state/") for gap in stretch.gaps)


async def test_who_ran_in_a_shadow_by_what_was_learned_does_so_again() -> None:
    world = Cluster()
    await world.start()
    await world.queue()
    await world.node("n0", 8)
    settings: dict[str, Any] = {"backfill_learned": True, "hold": 2.0}

    async def learn(*seconds: float) -> None:
        ran = c.TemplateRunTimes(queue="default", template="t", seconds=seconds, as_of=world.clock.now())
        await world.say(topics.RUN_TIMES, b"default/t", ran)

    async def submit(name: str, count: int, **more: object) -> None:
        new = gang(name, count).model_copy(update={"ready_since": world.clock.now(), **more})
        world.gangs[name] = new
        await world.gang(new)
        await asyncio.sleep(3)

    await learn(*[9999.0] * 5)
    async with world.carried_out(), running(world, **settings):
        await submit("first", 4, run_seconds=600.0)
        await submit("second", 4, run_seconds=6.0)
        await submit("large", 8)
        await asyncio.sleep(3)
        await world.finish("second")
        await submit("short", 4, template="t")
        assert "short" not in world.running
        await learn(*[60.0] * 5)
        await submit("another", 4, template="t")
        assert {"short", "another"} & set(world.running)
    policy = SchedulerSettings(**settings).policy()
    _, made = await _again(world, policy)
    assert [one.differences for one in made] == [()] * len(made)
    assert sum(len(one.again) for one in made) == len(await world.decisions())


async def _halves(world: Cluster) -> None:
    """Have a gang on half of each node, which could go to the other one."""
    for name in "abcd":
        await _comes(world, name, 4)
    for name in "bd":
        await world.finish(name)


async def _two_nodes() -> Cluster:
    world = Cluster()
    await world.start()
    await world.queue()
    for number in range(2):
        await world.node(f"n{number}", 8)
    return world


async def _ask(world: Cluster) -> None:
    command = c.CommandPool(pool="default", action=c.PoolAction.DEFRAGMENT, at=world.clock.now())
    await world.say(topics.POOL_COMMANDS, b"default", command)
    await asyncio.sleep(3)


async def _comes(world: Cluster, name: str, gpus: int) -> None:
    """A gang of one pod with so many GPUs is ready."""
    contract = gang(name, 1)
    (only,) = contract.tasks
    requests = {"cpu": 1000} | ({"nvidia.com/gpu": gpus} if gpus else {})
    shape = only.shape.model_copy(update={"requests": requests})
    tasks = (only.model_copy(update={"shape": shape}),)
    world.gangs[name] = contract.model_copy(update={"tasks": tasks, "ready_since": world.clock.now()})
    await world.gang(world.gangs[name])
    await asyncio.sleep(3)


async def test_who_moved_because_somebody_asked_moves_again() -> None:
    world = await _two_nodes()
    async with world.carried_out(), running(world):
        await _halves(world)
        await _comes(world, "large", 8)
        await _ask(world)
    assert "large" in world.running
    _, made = await _again(world, SchedulerSettings().policy())
    assert [one.differences for one in made] == [()] * len(made)
    assert sum(len(decision.evictions) for one in made for decision in one.again) == 1


async def test_what_was_asked_before_there_was_anything_to_move_moves_nobody_in_a_replay_either() -> None:
    """The look that found nothing is in no record."""
    world = await _two_nodes()
    async with world.carried_out(), running(world):
        await _halves(world)
        await _ask(world)
        await _comes(world, "large", 8)
        await _comes(world, "small", 0)
    assert "large" not in world.running
    _, made = await _again(world, SchedulerSettings().policy())
    assert [one.differences for one in made] == [()] * len(made)
