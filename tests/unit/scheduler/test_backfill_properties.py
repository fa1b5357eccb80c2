"""No starvation: random streams of gangs on small clusters, in virtual time.

Where every gang runs for as long as it declared, a gang that has a reservation starts by the time which that
said, whatever else arrives. Where nobody declares anything, every gang still starts.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from services.scheduler.core.decisions import Decision
from services.scheduler.core.policy import Backfill, Eviction, Policy
from shared.events import contracts as c
from tests.scenarios.scenario import job, node, queue, reports, task
from tests.scenarios.test_kin import HOST, ZONE, apart, term
from tests.scenarios.test_topology import grouped, hypernode, near
from tests.scenarios.world import START, Key, World
from tests.unit.scheduler.test_landing_properties import KINDS as LANDING
from tests.unit.scheduler.test_landing_properties import SHARING, Maker, lands, small

BACKFILL = Backfill(margin=timedelta(0), in_all=3)
POLICY = Policy(
    hold=timedelta(seconds=60), backfill=BACKFILL, eviction=Eviction(preempt=False, reclaim=False)
)
QUEUES = ["a", "b"]


Kind = Callable[[random.Random, dict[str, Any]], c.Gang]


def plain(dice: random.Random, common: dict[str, Any]) -> c.Gang:
    return job(gang=dice.randint(1, 4), gpu=dice.choice([1, 1, 2, 4]), **common)


def in_rack(dice: random.Random, common: dict[str, Any]) -> c.Gang:
    return near(plain(dice, common))


def groups_in_racks(dice: random.Random, common: dict[str, Any]) -> c.Gang:
    return grouped(job(gang=4, gpu=dice.choice([1, 2]), **common), size=2, tier=1)


def one_a_node(dice: random.Random, common: dict[str, Any]) -> c.Gang:
    """Not beside those of other gangs either."""
    labels, asks = {"app": "apart"}, apart(term("apart"))
    return job(gang=dice.randint(1, 3), gpu=1, pod_labels=labels, extras=asks, **common)


def one_a_zone(dice: random.Random, common: dict[str, Any]) -> c.Gang:
    labels, asks = {"app": "apart"}, apart(term("apart", ZONE))
    return job(gang=dice.randint(1, 2), gpu=dice.choice([1, 2]), pod_labels=labels, extras=asks, **common)


def with_port(dice: random.Random, common: dict[str, Any]) -> c.Gang:
    asks = {"hostPorts": [["TCP", "0.0.0.0", 80]]}
    return job(gang=dice.randint(1, 3), gpu=dice.choice([0, 1]), extras=asks, **common)


def of_either_zone(dice: random.Random, common: dict[str, Any]) -> c.Gang:
    tasks = (task(f"t{zone}", 2, 0, gpu=dice.choice([1, 2]), selector={ZONE: zone}) for zone in "ab")
    return job(common.pop("name"), *tasks, gang=2, **common)


def parts(dice: random.Random, common: dict[str, Any]) -> c.Gang:
    wants = {"part": dice.choice([300, 500, 1000]), "parts": dice.choice([1, 1, 2])}
    return job(gang=dice.randint(1, 3), **wants, **common)


def parts_in_rack(dice: random.Random, common: dict[str, Any]) -> c.Gang:
    return near(parts(dice, common))


def of_two_shapes(dice: random.Random, common: dict[str, Any]) -> c.Gang:
    first, second = task("a", dice.randint(1, 2), gpu=dice.choice([1, 2])), task("b", 2, gpu=1, cpu=3)
    return dice.choice([near, lambda one: one])(job(common.pop("name"), first, second, **common))


PLACED: list[Kind] = [in_rack, groups_in_racks, one_a_node, one_a_zone, with_port, of_either_zone]
SHARED: list[Kind] = [parts, parts_in_rack]
EVERY: list[Kind] = [plain, of_two_shapes, *PLACED, *SHARED]


class Stream:
    """Gangs arrive, are placed at once when the scheduler says so, and end when they have run."""

    def __init__(
        self,
        dice: random.Random,
        *,
        declared: float,
        policy: Policy = POLICY,
        kinds: Sequence[Kind] = (),
    ) -> None:
        self.dice = dice
        self.kinds = kinds
        self.declared = declared
        self.world = World(policy)
        for name in QUEUES:
            self.world.queue(queue(name))
        names = [f"n{number}" for number in range(dice.randint(2, 5))]
        for number, name in enumerate(names):
            labels = {HOST: name, ZONE: "ab"[number % 2]}
            self.world.node(node(name, gpu=4, cpu=8, labels=labels, shared=2 if kinds else 0))
        if kinds:
            self.world.hypernode(hypernode("rack-a", 1, *names[:2]))
            self.world.hypernode(hypernode("rack-b", 1, *names[2:]))
        self.gpus = 4 * len(self.world.books.nodes)
        self.ends: list[tuple[datetime, Key]] = []
        self.runs: dict[Key, float] = {}
        self.started: dict[Key, datetime] = {}
        self.promised: dict[Key, datetime] = {}
        self.reserved: set[Key] = set()

    def arrive(self, number: int) -> None:
        dice = self.dice
        gpu = dice.choice([1, 1, 2, 4])
        most = self.gpus // 4 if gpu == 4 else 3
        runs = float(dice.choice([20, 60, 100, 300, 900]))
        key = ("ns", f"j{number}")
        self.runs[key] = runs
        if self.kinds:
            common = {"queue": dice.choice(QUEUES), "at": (self.world.now - START).total_seconds()}
            common |= {"name": key[1], "runs": runs if dice.random() < self.declared else None}
            self.world.submit(dice.choice(self.kinds)(dice, common))
            return
        self.world.submit(
            job(
                key[1],
                gang=dice.randint(1, most),
                gpu=gpu,
                queue=dice.choice(QUEUES),
                at=(self.world.now - START).total_seconds(),
                runs=runs if dice.random() < self.declared else None,
            )
        )

    def advance(self, seconds: float) -> None:
        """Let time pass, from one end to the next."""
        until = self.world.now + timedelta(seconds=seconds)
        while self.ends and min(self.ends)[0] <= until:
            self.world.now, key = min(self.ends)
            self.ends.remove((self.world.now, key))
            self.world.remove_gang(key)
            self.settle()
        self.world.now = until
        self.settle()

    def settle(self) -> None:
        for _ in range(20):
            found = self.world.decide()
            if not found:
                return
            for decision in found:
                self.note(decision)
                self.world.carry_out(decision)
        raise AssertionError("the scheduler does not come to rest")

    def note(self, decision: Decision) -> None:
        key = (decision.namespace, decision.name)
        if decision.rows and key not in self.started:
            self.started[key] = self.world.now
            self.ends.append((self.world.now + timedelta(seconds=self.runs[key]), key))
        for row in decision.reservations:
            self.reserved.add(key)
            if row.starts is not None:
                self.promised[key] = min(row.starts, self.promised.get(key, row.starts))

    def drain(self) -> None:
        """Nothing arrives any more."""
        for _ in range(200):
            if not self.world.model.unplaced:
                return
            self.advance(100)


@pytest.mark.parametrize("seed", range(16))
def test_a_reserved_gang_starts_by_the_time_that_was_expected_if_run_times_are_kept(seed) -> None:
    stream = Stream(random.Random(seed), declared=1.0)
    for number in range(60):
        stream.arrive(number)
        stream.advance(stream.dice.choice([0, 5, 20, 60]))
    stream.drain()
    assert stream.promised
    for key, at in stream.promised.items():
        assert stream.started[key] <= at + timedelta(milliseconds=1), key


@pytest.mark.parametrize("kinds", [PLACED, SHARED, EVERY], ids=["placed", "shared", "every"])
@pytest.mark.parametrize("seed", [0, 1, 2, 3, 11])
def test_so_does_one_to_which_it_matters_where_it_is_or_that_takes_parts_of_devices(seed, kinds) -> None:
    stream = Stream(random.Random(seed), declared=1.0, kinds=kinds)
    for number in range(40):
        stream.arrive(number)
        stream.advance(stream.dice.choice([0, 5, 20, 60]))
    stream.drain()
    assert stream.promised
    for key, at in stream.promised.items():
        assert stream.started[key] <= at + timedelta(milliseconds=1), key


def ends(world: World) -> list[tuple[float, Key]]:
    """When gangs end that run, in order: seconds from the beginning. Their pods began at once."""
    found: list[tuple[float, Key]] = []
    for key, gang in world.books.gangs.items():
        since = [pod.created_at for pod in world.members(key) if pod.node is not None]
        if since:
            found.append(((max(since) - START).total_seconds() + (gang.run_seconds or 0.0), key))
    return sorted(found)


def soonest(world: World, gang: c.Gang) -> float | None:
    """When a gang can start, by trying all places after each end; None: never."""
    gone: frozenset[Key] = frozenset()
    for at, _ in [((world.now - START).total_seconds(), None), *ends(world)]:
        over = [key for end, key in ends(world) if end <= at]
        gone = frozenset((pod.namespace, pod.name) for key in over for pod in world.members(key))
        if lands(world, gang, gone):
            return at
    return None


def too_full(kind: Maker, dice: random.Random) -> tuple[World, c.Gang]:
    """Make small worlds until there is one in which a gang of this kind has to wait."""
    policy = replace(POLICY, backfill=Backfill(threshold=timedelta(seconds=100)))
    for _ in range(100):
        world = small(dice, sharing=kind in SHARING, policy=policy, declared=True)
        gang = kind(dice)
        world.submit(gang)
        world.settle()
        if not any(pod.node for pod in world.members(("ns", "high"))):
            return world, gang
    raise AssertionError("they all have room")


@pytest.mark.parametrize("kind", [*LANDING, *SHARING], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("seed", range(25))
def test_the_start_that_is_told_is_the_soonest_and_the_gang_then_starts(kind, seed) -> None:
    """Both as an estimate and of the reservation, in small worlds where all places can be tried."""
    world, gang = too_full(kind, random.Random(seed))
    told = reports(world)["high"].estimated_start
    assert (told and (told - START).total_seconds()) == soonest(world, gang)
    world.pass_time(200)
    decisions = world.decide()
    for decision in decisions:
        world.carry_out(decision)
    kept = [one for one in decisions if one.name == "high"]
    starts = {(row.starts - START).total_seconds() for one in kept for row in one.reservations if row.starts}
    at = soonest(world, gang)
    assert starts == ({at} if at is not None else set())
    for end, key in ends(world):
        world.now = START + timedelta(seconds=end)
        world.remove_gang(key)
        world.settle()
        if any(pod.node for pod in world.members(("ns", "high"))):
            assert at is not None
            assert end <= at
            return
    assert at is None


@pytest.mark.parametrize("kind", [*LANDING, *SHARING], ids=lambda kind: kind.__name__)
def test_in_most_of_these_worlds_there_is_a_start(kind) -> None:
    found = [soonest(*too_full(kind, random.Random(seed))) for seed in range(25)]
    assert sum(at is not None for at in found) > 12


@pytest.mark.parametrize("seed", range(3))
def test_a_gang_of_the_whole_cluster_starts_though_smaller_ones_never_stop_coming(seed) -> None:
    """The smaller ones fill the cluster and end one at a time: only what is reserved lets the large one start."""
    started = {}
    for enabled in (True, False):
        policy = replace(POLICY, backfill=replace(BACKFILL, enabled=enabled))
        stream = Stream(random.Random(seed), declared=seed / 2, policy=policy)
        number = 0
        large = job("large", gang=stream.gpus // 4, gpu=4, queue="a", at=50)
        stream.runs["ns", "large"] = 100.0
        for step in range(120):
            if step == 5:
                stream.world.submit(large)
            for _ in range(2):
                key = ("ns", f"j{number}")
                stream.runs[key] = float(stream.dice.choice([30, 50, 70]))
                runs = stream.runs[key] if stream.dice.random() < stream.declared else None
                at = (stream.world.now - START).total_seconds()
                stream.world.submit(job(key[1], gang=1, gpu=2, queue="a", at=at, runs=runs))
                number += 1
            stream.advance(5)
        started[enabled] = ("ns", "large") in stream.started
    assert started == {True: True, False: False}
