"""The scheduler's policy comes from a file and changes with it, or stays when the file is wrong."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from services.scheduler.app import build
from services.scheduler.settings import SchedulerSettings
from shared.errors import ConfigurationError
from shared.events import contracts as c
from shared.plugins import Floats, NodesView, Plugin, PodShape
from shared.telemetry.telemetry import Telemetry
from tests.integration.test_scheduler_service import World, gang, running

pytestmark = pytest.mark.looptime
SPREADS = 'actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n'
"""Nothing is scored: the first node by name is the best."""
PACKS = SPREADS + "  - name: binpack\n"
WRONG = SPREADS + "  - name: binpak\n"


async def a_world() -> World:
    """Node b is fuller than node a: where the next gang goes tells the policy."""
    world = World()
    await world.start()
    await world.queue()
    await world.node("a", 8)
    await world.node("b", 8)
    first = gang("first", 1)
    await world.gang(first, ready=False)
    await world.pod(first, "first-worker-0", "b")
    return world


async def place(world: World, name: str) -> str:
    """Say on which node a gang of one lands."""
    await world.gang(gang(name, 1))
    await asyncio.sleep(0.1)
    decision = (await world.decisions())[-1]
    assert decision.gang.name == name
    return decision.bindings[0].node


async def test_a_file_that_changes_decides_within_a_second(tmp_path: Path) -> None:
    world, file = await a_world(), tmp_path / "policy.conf"
    file.write_text(PACKS)
    async with running(world, policy_file=file):
        await asyncio.sleep(0.2)
        assert await place(world, "packed") == "b"
        file.write_text(SPREADS)
        await asyncio.sleep(0.9)
        assert await place(world, "first-by-name") == "a"


async def test_a_file_that_becomes_wrong_or_goes_changes_nothing_and_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world, file = await a_world(), tmp_path / "policy.conf"
    file.write_text(PACKS)
    async with running(world, policy_file=file) as scheduler:
        await asyncio.sleep(0.2)
        with caplog.at_level(logging.WARNING):
            file.write_text(WRONG)
            await asyncio.sleep(0.9)
            file.unlink()
            await asyncio.sleep(2)
        assert scheduler.health.ready
        assert await place(world, "packed") == "b"
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert "tiers[0].plugins[1].name: unknown plugin 'binpak'; did you mean binpack?" in told[0]
    assert "policy.conf" in told[1]


async def test_no_scheduler_starts_with_a_wrong_file(tmp_path: Path) -> None:
    world, file = await a_world(), tmp_path / "policy.conf"
    for text, words in ((None, "No such file"), (WRONG, "did you mean binpack?")):
        if text is not None:
            file.write_text(text)
        with pytest.raises(ConfigurationError, match=words) as raised:
            build(
                SchedulerSettings(policy_file=file),
                clock=world.clock,
                log=world.log,
                ids=world.ids,
                telemetry=Telemetry("scheduler"),
            )
        assert "\n" not in str(raised.value)


async def test_decisions_name_the_policy_that_made_them(tmp_path: Path) -> None:
    world, file = await a_world(), tmp_path / "policy.conf"
    file.write_text(PACKS)
    async with running(world, policy_file=file):
        await asyncio.sleep(0.2)
        await place(world, "one")
        await place(world, "two")
        file.write_text(SPREADS)
        await asyncio.sleep(0.9)
        await place(world, "three")
    one, two, three = [decision.policy for decision in await world.decisions()]
    assert one == two != three


# ---------------------------------------------------------------------- a ConfigMap, by the log


async def say(world: World, text: str | None) -> None:
    """What the controller tells of the ConfigMap; None: it is gone."""
    state = None if text is None else c.PolicyState(namespace="sys", name="conf", key="key", text=text)
    await world.state("policy", "sys", "conf", state)


async def test_the_log_tells_the_policy_and_every_change_of_it() -> None:
    world = await a_world()
    await say(world, SPREADS)
    async with running(world):
        await asyncio.sleep(0.2)
        assert await place(world, "first-by-name") == "a"
        await say(world, PACKS)
        await asyncio.sleep(0.5)
        await place(world, "packed")
        await say(world, None)
        await asyncio.sleep(0.5)
        await place(world, "built-in")
    first, packed, built_in = await world.decisions()
    assert len({first.policy, packed.policy, built_in.policy}) == 3
    assert built_in.policy == SchedulerSettings().policy().digest


async def test_only_the_last_word_before_the_start_counts() -> None:
    world = await a_world()
    for text in (WRONG, SPREADS, WRONG, PACKS):
        await say(world, text)
    async with running(world) as scheduler:
        await asyncio.sleep(0.2)
        assert scheduler.health.ready
        assert await place(world, "packed") == "b"


async def test_nothing_is_decided_by_a_policy_that_nobody_chose() -> None:
    world = await a_world()
    await say(world, WRONG)
    async with running(world) as scheduler:
        await world.gang(gang("waits", 1))
        await asyncio.sleep(2)
        assert await world.decisions() == []
        [why] = scheduler.health.reasons.values()
        assert "ConfigMap sys/conf, key: tiers[0].plugins[1].name: unknown plugin 'binpak'" in why
        await say(world, PACKS)
        await asyncio.sleep(1)
        assert scheduler.health.ready
        [decision] = await world.decisions()
        assert decision.gang.name == "waits"


async def test_a_wrong_change_of_the_policy_is_counted_and_changes_nothing() -> None:
    world = await a_world()
    await say(world, PACKS)
    async with running(world) as scheduler:
        await asyncio.sleep(0.2)
        await say(world, WRONG)
        await asyncio.sleep(0.5)
        assert scheduler.health.ready
        assert 'pumice_scheduler_policy_problems{pool="default"} 1.0' in scheduler._telemetry.exposition()
        assert await place(world, "packed") == "b"


async def test_a_wrong_policy_that_comes_later_leaves_the_built_in_one_in_force() -> None:
    world = await a_world()
    async with running(world) as scheduler:
        await asyncio.sleep(0.2)
        await place(world, "built-in")
        await say(world, WRONG)
        await asyncio.sleep(0.5)
        assert scheduler.health.ready
        await place(world, "goes-on")
    first, second = await world.decisions()
    assert first.policy == second.policy == SchedulerSettings().policy().digest


async def test_a_file_wins_over_the_log(tmp_path: Path) -> None:
    world, file = await a_world(), tmp_path / "policy.conf"
    file.write_text(PACKS)
    await say(world, SPREADS)
    async with running(world, policy_file=file):
        await asyncio.sleep(0.2)
        await say(world, WRONG)
        assert await place(world, "packed") == "b"


# ---------------------------------------------------------------------- plugins

PLUGIN = SPREADS + "  - name: ours\n    onError: {}\n"


class Last(Plugin):
    """The last node by name is the best, as long as it works."""

    works = True

    def scores(self, shape: PodShape, nodes: NodesView) -> Floats:
        if not self.works:
            raise RuntimeError("it does not work")
        return np.array([float(ord(name)) for name in nodes.names])


@pytest.fixture
def last() -> Iterator[type[Last]]:
    yield Last
    Last.works = True


def maker(_: object) -> Plugin:
    return Last()


async def test_a_plugin_named_in_the_file_decides(tmp_path: Path, last: type[Last]) -> None:
    world, file = await a_world(), tmp_path / "policy.conf"
    file.write_text(PLUGIN.format("skip"))
    async with running(world, own={"ours": maker}, policy_file=file):
        await asyncio.sleep(0.2)
        assert await place(world, "by-plugin") == "b"


async def test_a_plugin_whose_errors_are_skipped_is_named_once_and_counted(
    tmp_path: Path, last: type[Last], caplog: pytest.LogCaptureFixture
) -> None:
    world, file = await a_world(), tmp_path / "policy.conf"
    file.write_text(PLUGIN.format("skip"))
    last.works = False
    async with running(world, own={"ours": maker}, policy_file=file) as scheduler:
        await asyncio.sleep(0.2)
        for name in ("one", "two", "three"):
            assert await place(world, name) == "a"
        assert scheduler.health.ready
        assert 'plugin_errors_total{plugin="ours",pool="default"}' in scheduler._telemetry.exposition()
    told = [record.getMessage() for record in caplog.records if "plugin ours" in record.getMessage()]
    assert told == ["plugin ours: scores: raised RuntimeError: it does not work (skipped)"]


async def test_a_plugin_whose_errors_are_fatal_stops_its_pool_until_it_is_mended(
    tmp_path: Path, last: type[Last]
) -> None:
    world, file = await a_world(), tmp_path / "policy.conf"
    file.write_text(PLUGIN.format("fatal"))
    last.works = False
    async with running(world, own={"ours": maker}, policy_file=file) as scheduler:
        await asyncio.sleep(0.2)
        await world.gang(gang("waits", 1))
        await asyncio.sleep(2)
        assert await world.decisions() == []
        [why] = scheduler.health.reasons.values()
        assert why == "plugin ours: scores: raised RuntimeError: it does not work"
        last.works = True
        await asyncio.sleep(6)
        assert scheduler.health.ready
        [decision] = await world.decisions()
        assert (decision.gang.name, decision.bindings[0].node) == ("waits", "b")
