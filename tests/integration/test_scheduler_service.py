"""The scheduler over the in-process log: events in, decisions and reports out."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from services.scheduler.app import Scheduler, build
from services.scheduler.core import cycle
from services.scheduler.settings import SchedulerSettings
from shared.clock import LoopClock
from shared.errors import Fenced
from shared.events import contracts as c
from shared.events import topics
from shared.events.codec import decode, encode
from shared.events.envelope import Envelope
from shared.log.memory import MemoryLog
from shared.log.port import Delivery, Record
from shared.plugins import Maker
from shared.telemetry.telemetry import Telemetry

pytestmark = pytest.mark.looptime
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SHAPE = c.Shape(requests={"cpu": 1000, "nvidia.com/gpu": 1})


class World:
    """A log and what to say on it."""

    def __init__(self) -> None:
        self.clock = LoopClock(NOW)
        self.log = MemoryLog(self.clock)
        self.count = itertools.count(1)

    def ids(self) -> str:
        return f"{next(self.count):032x}"

    async def start(self, **record_bytes: int) -> None:
        """``bind_decisions=4000``: the most bytes of a record on that topic."""
        await self.log.start()
        limits = {topic.replace("_", "-"): limit for topic, limit in record_bytes.items()}
        await self.log.create_topics(
            replace(spec, record_bytes=limits.get(spec.name, spec.record_bytes)) for spec in topics.SPECS
        )

    async def say(self, topic: str, key: bytes, data: c.Contract, traceparent: str | None = None) -> None:
        envelope = Envelope(self.ids(), "/test", self.clock.now(), data, traceparent=traceparent)
        await self.log.producer.send(encode(topic, key, envelope))

    async def state(self, kind: str, namespace: str, name: str, data: c.Contract | None) -> None:
        key = topics.state_key(kind, namespace, name)
        if data is None:
            await self.log.producer.send(Record(topics.CLUSTER_STATE, key, None))
        else:
            await self.say(topics.CLUSTER_STATE, key, data)

    async def node(self, name: str, gpus: int, pool: str = "default") -> None:
        amounts = {"cpu": 64000, "pods": 110, "nvidia.com/gpu": gpus}
        await self.state("node", "", name, c.NodeState(name=name, pool=pool, allocatable=amounts))

    async def queue(self, name: str = "default") -> None:
        await self.state("queue", "", name, c.QueueState(name=name))

    async def gang(self, contract: c.Gang, *, ready: bool = True) -> None:
        state = c.PodGroupState(
            namespace=contract.namespace, name=contract.name, uid=contract.uid, gang=contract
        )
        await self.state("podgroup", contract.namespace, contract.name, state)
        if ready:
            await self.say(topics.PODGROUP_READY, contract.pool.encode(), c.GangReady(gang=contract))

    async def bound(self, contract: c.Gang, decision: c.GangDecided) -> None:
        for binding in decision.bindings:
            await self.pod(contract, binding.pod, binding.node)

    async def pod(self, contract: c.Gang, name: str, node: str | None = None) -> None:
        pod = c.PodState(
            namespace="ns",
            name=name,
            uid=f"uid-{name}",
            gang=contract.name,
            task="worker",
            queue="default",
            node=node,
            phase="Running" if node else "Pending",
            shape=contract.tasks[0].shape,
            created_at=NOW,
        )
        await self.state("pod", "ns", name, pod)

    async def read(self, topic: str) -> list[Delivery]:
        reader = await self.log.read([topic])
        found: list[Delivery] = []
        while not await reader.caught_up():
            found += await reader.poll(timeout=0.1)
        await reader.close()
        return found

    async def decisions(self) -> list[c.GangDecided]:
        events = [decode(delivery).data for delivery in await self.read(topics.BIND_DECISIONS)]
        return [event for event in events if isinstance(event, c.GangDecided)]

    async def reports(self) -> dict[bytes, c.GangReport | None]:
        found: dict[bytes, c.GangReport | None] = {}
        for delivery in await self.read(topics.SCHEDULING_REPORTS):
            event = None if delivery.value is None else decode(delivery).data
            found[delivery.key or b""] = event if isinstance(event, c.GangReport) else None
        return found


def gang(name: str, count: int, *, pool: str = "default", generation: int = 0) -> c.Gang:
    return c.Gang(
        namespace="ns",
        name=name,
        uid=f"uid-{name}",
        generation=generation,
        job=name,
        pool=pool,
        min_member=count,
        tasks=(
            c.GangTask(
                name="worker",
                shape=SHAPE,
                members=tuple(c.Member(pod=f"{name}-worker-{i}", index=i) for i in range(count)),
                minimum=count,
            ),
        ),
        created_at=NOW,
        ready_since=NOW,
    )


@asynccontextmanager
async def running(
    world: World, own: Mapping[str, Maker] | None = None, **settings: Any
) -> AsyncIterator[Scheduler]:
    scheduler = build(
        SchedulerSettings(**settings),
        clock=world.clock,
        log=world.log,
        ids=world.ids,
        telemetry=Telemetry("scheduler"),
        own=own,
    )
    task = asyncio.create_task(scheduler.run())
    try:
        yield scheduler
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_gang_that_fits_is_decided_in_one_message() -> None:
    world = World()
    await world.start()
    await world.queue()
    await world.node("n1", 8)
    async with running(world) as scheduler:
        await asyncio.sleep(1)
        assert scheduler.health.ready
        await world.gang(gang("train", 4))
        await asyncio.sleep(1)
        (decision,) = await world.decisions()
    assert decision.enqueue
    assert decision.minimum == 4
    assert [(b.pod, b.node) for b in decision.bindings] == [(f"train-worker-{i}", "n1") for i in range(4)]


async def test_the_offset_of_a_gang_is_committed_with_its_decision() -> None:
    world = World()
    await world.start()
    await world.queue()
    await world.node("n1", 8)
    async with running(world):
        await world.gang(gang("train", 4))
        await asyncio.sleep(1)
        committed = await world.log.committed("scheduler", topics.PODGROUP_READY)
    assert sorted(committed.values()) == [1]


async def test_a_gang_that_waits_is_reported_and_the_report_taken_back_when_it_starts() -> None:
    world = World()
    await world.start()
    await world.queue()
    await world.node("n1", 2)
    async with running(world):
        await world.gang(gang("train", 4))
        await asyncio.sleep(3)
        report = (await world.reports())[b"ns/train"]
        assert report is not None
        assert report.reason.code == "gang-too-large"
        assert report.position == 1
        await world.node("n2", 8)
        await asyncio.sleep(3)
        assert (await world.reports())[b"ns/train"] is None
        assert len(await world.decisions()) == 1


async def test_a_gang_is_reported_however_it_came_between_cycles_and_reports() -> None:
    world = World()
    await world.start()
    await world.queue()
    await world.node("n1", 2)
    async with running(world, debounce=0.6, report_pause=1.0):
        for number in range(10):
            await world.node("n2", 0 if number % 2 else 1)  # decided at once: the next change has to rest
            await asyncio.sleep(0.1)
            await world.gang(gang(f"waits-{number}", 4))
            await asyncio.sleep(3.13)  # so that each comes at another moment of the reports' round
            assert f"ns/waits-{number}".encode() in await world.reports()


async def test_the_report_about_a_gang_of_one_pool_is_not_taken_back_by_another_that_starts() -> None:
    world = World()
    await world.start()
    await world.queue()
    await world.node("n1", 2)
    async with running(world) as scheduler:
        await world.gang(gang("train", 4))
        await asyncio.sleep(3)
        assert (await world.reports())[b"ns/train"] is not None
        await world.node("n2", 2, pool="late")
        await asyncio.sleep(3)
        late = scheduler.pools["late"]
        late._reporter.remember("ns", "train")  # as when it had read the report, and not the gang yet
        await world.node("n3", 2, pool="late")
        await asyncio.sleep(3)
        assert (await world.reports())[b"ns/train"] is not None


async def test_a_reason_that_quotes_a_long_selector_fits_into_a_report() -> None:
    world = World()
    await world.start()
    await world.queue()
    await world.node("n1", 8)
    picky = SHAPE.model_copy(
        update={"node_selector": {f"label-{number}": 60 * "x" for number in range(20_000)}}
    )
    contract = gang("picky", 1)
    contract = contract.model_copy(update={"tasks": (contract.tasks[0].model_copy(update={"shape": picky}),)})
    async with running(world):
        await world.gang(contract)
        await asyncio.sleep(3)
        report = (await world.reports())[b"ns/picky"]
    assert report is not None
    assert report.reason.code == "no-node-matches"
    assert len(report.reason.message) < 3000


async def test_a_decision_too_large_for_the_log_holds_its_gang_alone_and_says_so() -> None:
    world = World()
    await world.start(bind_decisions=3000)
    await world.queue()
    await world.node("n1", 64)
    async with running(world) as scheduler:
        await world.gang(gang("huge", 60))
        await world.gang(gang("small", 4))
        await asyncio.sleep(3)
        assert [one.gang.name for one in await world.decisions()] == ["small"]
        report = (await world.reports())[b"ns/huge"]
        assert report is not None
        assert report.reason.code == "decision-too-large"
        assert report.reason.numbers["limit"] == 3000
        assert "a record of the log at most 3000" in report.reason.message
        await world.gang(gang("other", 10))  # in the room that was meant for the huge one
        await world.gang(gang("huge", 20, generation=1))
        await asyncio.sleep(3)
        assert [one.gang.name for one in await world.decisions()] == ["small", "other", "huge"]
        assert scheduler.health.ready


async def test_what_is_beyond_the_minimum_of_a_huge_gang_is_decided_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cycle, "_MOST_PODS", 5)
    world = World()
    await world.start()
    await world.queue()
    await world.node("n1", 20)
    contract = gang("wide", 12).model_copy(update={"job": None, "min_member": 2})
    contract = contract.model_copy(update={"tasks": (contract.tasks[0].model_copy(update={"minimum": 0}),)})
    for member in contract.tasks[0].members:
        await world.pod(contract, member.pod)
    async with running(world):
        await world.gang(contract)
        for _ in range(4):
            await asyncio.sleep(1)
            decisions = await world.decisions()
            await world.bound(contract, decisions[-1])
    assert max(len(one.bindings) for one in decisions) == 5
    placed = [binding.pod for one in decisions for binding in one.bindings]
    assert sorted(placed) == sorted(member.pod for member in contract.tasks[0].members)


async def test_a_restarted_scheduler_counts_what_was_decided_and_not_carried_out() -> None:
    world = World()
    await world.start()
    await world.queue()
    await world.node("n1", 8)
    async with running(world):
        await world.gang(gang("first", 6))
        await asyncio.sleep(1)
    async with running(world):
        await world.gang(gang("second", 6))
        await asyncio.sleep(2)
        assert [d.gang.name for d in await world.decisions()] == ["first"]


async def test_a_restarted_scheduler_decides_about_gangs_that_only_the_state_names() -> None:
    world = World()
    await world.start()
    await world.queue()
    async with running(world):
        await world.gang(gang("train", 4))
        await asyncio.sleep(2)
    await world.node("n1", 8)
    async with running(world):
        await asyncio.sleep(2)
        assert [d.gang.name for d in await world.decisions()] == ["train"]


async def test_a_decision_that_was_rolled_back_is_decided_anew() -> None:
    world = World()
    await world.start()
    await world.queue()
    await world.node("n1", 8)
    async with running(world):
        await world.gang(gang("train", 4))
        await asyncio.sleep(1)
        (decision,) = await world.decisions()
        result = c.DecisionApplied(
            decision=decision.decision,
            pool="default",
            gang=decision.gang,
            outcome=c.DecisionOutcome.ROLLED_BACK,
            at=world.clock.now(),
        )
        await world.say(topics.BIND_RESULTS, b"default", result)
        await asyncio.sleep(2)
        first, second = await world.decisions()
    assert second.bindings == first.bindings
    assert second.decision != first.decision


async def test_a_scheduler_that_was_fenced_joins_anew_and_schedules_what_the_group_gives_it() -> None:
    """It lost its transactional id to nobody of the group: so the pool is its own again, decided from anew."""
    world = World()
    await world.start()
    await world.queue()
    await world.node("n1", 8)
    async with running(world):
        fencing = await world.log.transactional("pumice-scheduler-default")
        await world.gang(gang("train", 4))
        await asyncio.sleep(3)
        (decision,) = await world.decisions()
        assert len(decision.bindings) == 4
        with pytest.raises(Fenced):
            async with fencing.transaction() as transaction:
                await transaction.send(Record(topics.BIND_DECISIONS, b"default", b"{}"))


async def test_a_scheduler_that_lost_its_pool_to_a_member_of_the_group_stands_by() -> None:
    world = World()
    await world.start()
    await world.queue()
    await world.node("n1", 8)
    async with running(world) as first, running(world) as second:
        await world.gang(gang("one", 4))
        await asyncio.sleep(3)
        owner, other = (first, second) if "default" in first.pools else (second, first)
        await world.log.transactional("pumice-scheduler-default")  # as a hung owner finds it
        await world.gang(gang("two", 4))
        await asyncio.sleep(5)
        assert len([pool for pool in (*owner.pools, *other.pools) if pool == "default"]) == 1
    assert Counter(one.gang.name for one in await world.decisions()) == {"one": 1, "two": 1}


async def test_a_pool_that_a_gang_names_is_scheduled_on_its_own_nodes() -> None:
    world = World()
    await world.start()
    await world.queue()
    await world.node("n1", 8)
    await world.node("a1", 8, pool="a100")
    async with running(world):
        await world.gang(gang("train", 4, pool="a100"))
        await asyncio.sleep(2)
        (decision,) = await world.decisions()
    assert decision.pool == "a100"
    assert {binding.node for binding in decision.bindings} == {"a1"}


async def test_an_unreadable_gang_goes_to_the_dead_letters_and_the_next_one_is_decided() -> None:
    world = World()
    await world.start()
    await world.queue()
    await world.node("n1", 8)
    async with running(world):
        await world.log.producer.send(Record(topics.PODGROUP_READY, b"default", b"{not json"))
        await world.gang(gang("train", 4))
        await asyncio.sleep(2)
        assert len(await world.decisions()) == 1
        (letter,) = await world.read(topics.dead_letter(topics.PODGROUP_READY))
    assert letter.value == b"{not json"


async def test_room_freed_by_a_pod_that_ended_starts_the_next_gang() -> None:
    world = World()
    await world.start()
    await world.queue()
    await world.node("n1", 4)
    async with running(world):
        await world.gang(gang("first", 4))
        await asyncio.sleep(1)
        (decision,) = await world.decisions()
        await world.bound(gang("first", 4), decision)
        await world.gang(gang("second", 4))
        await asyncio.sleep(1)
        assert len(await world.decisions()) == 1
        for binding in decision.bindings:
            await world.state("pod", "ns", binding.pod, None)
        await world.state("podgroup", "ns", "first", None)
        await asyncio.sleep(1)
        assert [d.gang.name for d in await world.decisions()] == ["first", "second"]
