"""A trial says what would be decided, and leaves no trace."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from hashlib import blake2b
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from services.scheduler.core.model import Model
from services.scheduler.core.policy import Backfill, Eviction, Policy
from services.scheduler.core.reports import reasons_of
from services.scheduler.core.trial import Trial, try_out
from shared.events import contracts as c
from tests.scenarios.scenario import finishes, job, node, queue, reports, task
from tests.scenarios.world import START, World
from tests.unit.scheduler.test_invariants import decide_all

POLICIES = [
    Policy(),
    Policy(hold=timedelta(0)),
    Policy(hold=timedelta(seconds=20), backfill=replace(Backfill(), margin=timedelta(seconds=5))),
    Policy(eviction=Eviction(preempt=False, reclaim=False)),
]
SHAPES: list[dict[str, Any]] = [
    {"gpu": 1},
    {"gpu": 2},
    {"gpu": 4},
    {"cpu": 30},
    {"gpu": 1, "selector": {"zone": "a"}},
    {"part": 500},
    {"gpu": 1, "pod_labels": {"app": "x"}},
]


def digest(model: Model) -> str:
    """What a model knows and what it has worked out of that, but for indexes and names of resources."""
    nodes, waiting = model.nodes, model.waiting
    height = model.nodes.used.shape[0]
    arrays = [
        [row.tolist() for row in part[:height] if row.any()]
        for part in (nodes.used, nodes.releasing, nodes.earmarked, nodes.kept)
    ]
    queues = {
        name: [_some(part) for part in (one.held, one.own, one.wanted, one.kept)] + [one.waiting]
        for name, one in sorted(model.queues.by_name.items())
    }
    lanes = [
        (
            lane.signature[:4],
            [type(stop) for stop in lane.stops],
            reasons_of(model, lane),
            lane.holding,
            lane.late_at,
            [gang.key for _, gang in lane.members()],
        )
        for lane in waiting.lanes.values()
    ]
    facts = (
        arrays,
        nodes.holders,
        sorted(nodes.moved),
        sorted(nodes.grown),
        queues,
        sorted(model.queues.freed),
        lanes,
        waiting.size,
        [gang.key for gang in model.unplaced],
        [gang.key for gang in model.dirty],
        sorted(model.gangs),
        sorted(model.flights.by_number),
        [mark.number for mark in model.earmarks],
        [mark.number for mark in model.reservations],
        [(shape.number, count) for shape, count in model.workload.shapes()],
        [(key, pod.doomed) for key, pod in sorted(model.pods.items())],
    )
    return blake2b(repr(facts).encode()).hexdigest()


def _some(amounts: dict[int, int]) -> dict[int, int]:
    return {column: amount for column, amount in sorted(amounts.items()) if amount}


def random_gang(chance: random.Random, name: str, at: float) -> c.Gang:
    shape = chance.choice(SHAPES)
    least = chance.choice([1, 1, 2, 3])
    common: dict[str, Any] = {
        "queue": chance.choice(["default", "team-a", "team-b"]),
        "priority": chance.choice([0, 0, 10]),
        "runs": chance.choice([None, 20.0, 60.0, 600.0]),
        "at": at,
    }
    if chance.random() < 0.2:
        least = chance.choice([0, 1])
        return job(name, task("a", 2, least, **shape), task("b", 2, least, gpu=1), gang=2, **common)
    return job(name, gang=least, replicas=least + chance.choice([0, 0, 1]), **common, **shape)


def live(chance: random.Random) -> World:
    world = World(chance.choice(POLICIES))
    world.queue(queue("default"))
    world.queue(queue("team-a", gpu=chance.choice([None, 4]), deserved={"gpu": 4}, weight=2))
    world.queue(queue("team-b", priority=chance.choice([0, 5]), deserved={"gpu": 2}))
    for number in range(chance.choice([1, 2, 4])):
        world.node(node(f"n{number}", gpu=4, shared=2, labels={"zone": chance.choice("ab")}))
    for number in range(chance.choice([3, 8, 14])):
        at = (world.now - START).total_seconds()
        if world.books.gangs and chance.random() < 0.25:
            finishes(chance.choice(sorted(world.books.gangs))[1])(world)
        else:
            world.submit(random_gang(chance, f"g{number}", at))
        if chance.random() < 0.8:
            world.settle()
        world.pass_time(chance.choice([0.0, 1.0, 30.0]))
    world.settle()
    return world


def outcome(world: World, contract: c.Gang) -> tuple[Trial, bool]:
    """What is really decided about a gang, and reported of it; and whether nothing else is decided then.

    That it wants something may bring others to act, or room to be reserved anew: what is told of it follows.
    """
    world.submit(contract)
    decisions = decide_all(world.model, world.now)
    mine = [one for one in decisions if one.name == contract.name and (one.rows or one.evictions)]
    if not mine:
        return Trial(report=reports(world)[contract.name]), not decisions
    rows = tuple(c.Binding(pod=pod, task=of, node=on) for pod, of, on, _ in mine[0].rows)
    return Trial(rows, mine[0].evictions), len(decisions) == len(mine)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_trial_says_what_is_decided_then_and_leaves_the_model_as_it_was(seed: int) -> None:
    chance = random.Random(seed)
    world = live(chance)
    twin = live(random.Random(seed))
    before = digest(world.model)
    at = (world.now - START).total_seconds()
    for number in range(3):
        contract = random_gang(chance, f"new{number}", at)
        said = try_out(world.model, contract, world.now)
        assert digest(world.model) == before
        really, alone = outcome(live(random.Random(seed)), contract)
        if alone:
            _compare(said, really, contract)
    world.pass_time(40)
    twin.pass_time(40)
    late = random_gang(chance, "late", at + 40)
    for one in (world, twin):
        one.submit(late)
    assert repr(decide_all(world.model, world.now)) == repr(decide_all(twin.model, twin.now))


def _compare(said: Trial, really: Trial, contract: c.Gang) -> None:
    assert said.report == really.report
    if really.report is not None:
        return
    assert said.evictions == really.evictions
    assert really.evictions or said.bindings == really.bindings[: len(said.bindings)]
    assert len(said.bindings) >= contract.min_member


def test_a_trial_says_who_would_leave_and_where_the_gang_would_go() -> None:
    world = World()
    world.queue(queue("default"))
    world.node(node("n1", gpu=4))
    world.submit(job("low", gang=1, gpu=4))
    world.settle()
    said = try_out(world.model, job("high", gang=1, replicas=3, gpu=4, priority=9), world.now)
    assert [one.pod for one in said.evictions] == ["low-worker-0"]
    assert [(one.pod, one.node) for one in said.bindings] == [("high-worker-0", "n1")]
    assert (said.later, said.report) == (2, None)
    assert decide_all(world.model, world.now) == []


def test_a_trial_says_who_would_leave_for_whichever_members_a_minimum_may_be_made_of() -> None:
    """No node takes pods of the first task."""
    world = World()
    world.queue(queue("default"))
    world.node(node("n1", gpu=4))
    world.submit(job("low", gang=1, gpu=4))
    world.settle()
    tasks = (task("a", 2, 0, gpu=1, selector={"zone": "none"}), task("b", 2, 0, gpu=4))
    said = try_out(world.model, job("high", *tasks, gang=1, priority=9), world.now)
    assert [one.pod for one in said.evictions] == ["low-worker-0"]
    assert [(one.pod, one.node) for one in said.bindings] == [("high-b-0", "n1")]


def test_a_trial_says_who_would_leave_for_parts_of_devices() -> None:
    world = World()
    world.queue(queue("default"))
    world.node(node("n1", shared=2))
    world.submit(job("low", gang=2, part=500, parts=2))
    world.settle()
    said = try_out(world.model, job("high", gang=2, part=1000, priority=9), world.now)
    assert sorted(one.pod for one in said.evictions) == ["low-worker-0", "low-worker-1"]
    nodes = [(one.pod, one.node) for one in said.bindings]
    assert nodes == [("high-worker-0", "n1"), ("high-worker-1", "n1")]
    assert decide_all(world.model, world.now) == []


def test_a_trial_says_why_a_gang_would_wait_its_place_and_until_when() -> None:
    world = World()
    world.queue(queue("default"))
    world.node(node("n1", gpu=4))
    world.submit(job("runs", gang=1, gpu=4, runs=600))
    world.submit(job("first", gang=1, gpu=4, at=1, runs=60))
    world.settle()
    report = try_out(world.model, job("late", gang=1, gpu=4, at=2), world.now).report
    assert report is not None
    assert (report.reason.code, report.position, report.queue_length) == ("no-room", 2, 2)
    assert report.estimated_start == START + timedelta(seconds=660)
    assert report.outlook == "when ns/first ends on n1"


def test_a_trial_says_that_members_are_missing() -> None:
    world = World()
    world.queue(queue("default"))
    world.node(node("n1", gpu=4))
    world.settle()
    report = try_out(world.model, job("gated", gang=1, gpu=1, gated=True), world.now).report
    assert report is not None
    assert report.reason.code == "scheduling-gated"
