"""A scheduler that asks Prometheus: where gangs go follows what nodes really use, and is the same in a replay."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from services.scheduler.adapters.replaying import Again, read_stretch, replay
from services.scheduler.core.configuration import configure
from services.scheduler.settings import SchedulerSettings
from shared.events import contracts as c
from shared.events import topics
from shared.events.codec import decode
from shared.log.core.state import Limits
from shared.log.memory import MemoryLog
from shared.telemetry.telemetry import Telemetry
from tests.fixtures.prometheus import Prometheus, prometheus
from tests.fixtures.waiting import eventually
from tests.integration.test_scheduler_service import World, gang, running

POLICY = """
actions: "allocate"
tiers:
- plugins:
  - name: gang
  - name: usage
metrics:
  address: {address}
  interval: 1s
"""


LEVELS = """
actions: "allocate, shuffle"
tiers:
- plugins:
  - name: gang
  - name: binpack
  - name: rescheduling
    arguments:
      strategies:
      - name: lowNodeUtilization
        params: {{thresholds: {{cpu: 20}}, targetThresholds: {{cpu: 50}}}}
metrics:
  address: {address}
  interval: 1s
"""


async def _uses(world: World, server: Prometheus, **cpu: str) -> None:
    """Nodes use so much, and the scheduler has heard of it."""
    server.cpu.update(cpu)
    server.memory.update(cpu)

    async def heard() -> bool:
        told = [decode(one).data for one in await world.read(topics.NODE_LOAD)]
        last = told[-1] if told else None
        return isinstance(last, c.NodesMeasured) and all(last.cpu[name] == float(cpu[name]) for name in cpu)

    await eventually(heard)


async def _place(world: World, name: str) -> str:
    before = len(await world.decisions())
    await world.gang(gang(name, 1))

    async def decided() -> c.GangDecided | None:
        found = await world.decisions()
        return found[-1] if len(found) > before else None

    decision = await eventually(decided)
    assert decision.gang.name == name
    return decision.bindings[0].node


async def test_gangs_go_where_less_is_used_and_do_so_again_in_a_replay(tmp_path: Path) -> None:
    world = await _world()
    file = tmp_path / "policy.conf"
    async with prometheus() as server:
        text = POLICY.format(address=server.address)
        file.write_text(text)
        async with running(world, policy_file=file):
            await _uses(world, server, a="70", b="10")
            assert await _place(world, "first") == "b"
            await _uses(world, server, a="10", b="70")
            assert await _place(world, "second") == "a"
            await _uses(world, server, a="90", b="90")
            await world.gang(gang("third", 1))
            report = await eventually(lambda: _report(world, b"ns/third"))
            assert report.reason.code == "no-node-unloaded"
            await _uses(world, server, a="90", b="79")
            await eventually(lambda: _decided(world, "third"))
    made = await _replayed(world, file, text)
    again = {one.gang.name: one.bindings[0].node for cycle in made for one in cycle.again}
    assert again == {"first": "b", "second": "a", "third": "b"}


async def test_pods_leave_a_busy_node_where_only_rescheduling_asks_for_figures(tmp_path: Path) -> None:
    world = await _world()
    old = world.clock.now() - timedelta(hours=1)
    for number in range(2):
        one = gang(f"old{number}", 1)
        await world.gang(one, ready=False)
        pod = c.PodState(
            namespace="ns",
            name=f"{one.name}-worker-0",
            uid=f"uid-{number}",
            gang=one.name,
            task="worker",
            queue="default",
            node="a",
            phase="Running",
            shape=one.tasks[0].shape,
            created_at=old,
        )
        await world.state("pod", "ns", pod.name, pod)
    file = tmp_path / "policy.conf"
    async with prometheus() as server:
        text = LEVELS.format(address=server.address)
        file.write_text(text)
        async with running(world, policy_file=file):
            await _uses(world, server, a="60", b="10")
            decision = (await eventually(world.decisions))[0]
    assert [one.pod for one in decision.evictions] == ["old0-worker-0"]
    assert [one.node for one in decision.reservations] == ["b"]
    made = await _replayed(world, file, text)
    assert [one.evictions for cycle in made for one in cycle.again] == [decision.evictions]


async def _world() -> World:
    """Two nodes, and a log that keeps all."""
    world = World()
    world.log = MemoryLog(world.clock, limits=Limits(sweep_records=10**9, maintenance_seconds=1e9))
    await world.start()
    await world.queue()
    for name in ("a", "b"):
        await world.node(name, 8)
    return world


async def _replayed(world: World, file: Path, text: str) -> list[Again]:
    """Decide all again by the policy of a file; nothing comes out differently."""
    policy = configure(text, SchedulerSettings(policy_file=file).policy()).policy
    stretch = await read_stretch(world.log, "default", None, None)
    assert stretch.gaps == []
    made = list(replay(stretch, policy, Telemetry("replay"), fixed=True))
    assert [one.differences for one in made] == [()] * len(made)
    return made


async def _report(world: World, key: bytes) -> c.GangReport | None:
    return (await world.reports()).get(key)


async def _decided(world: World, name: str) -> bool:
    return any(one.gang.name == name for one in await world.decisions())
