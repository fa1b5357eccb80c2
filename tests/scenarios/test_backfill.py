"""Who waits for how long, by example: a gang that waited for long gets room, others run in its shadow.

Nodes have 4 GPUs. A gang is late after five minutes, and reservations have a margin of half a minute.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from services.scheduler.core.decisions import Decision
from services.scheduler.core.policy import Backfill, Eviction, Policy
from shared.events import contracts as c
from tests.scenarios.scenario import (
    PENDING,
    RUNNING,
    Scenario,
    finishes,
    job,
    node,
    passes,
    placed,
    queue,
    removes,
    submits,
)
from tests.scenarios.test_kin import HOST, ZONE, apart, term
from tests.scenarios.test_topology import hypernode, near
from tests.scenarios.world import START, World

LATE = 301
"""Seconds after which a gang that waits from the beginning is late."""


PORT = {"hostPorts": [["TCP", "0.0.0.0", 80]]}


def small(name: str, gpu: int = 1, **wants: object) -> c.Gang:
    return job(name, **{"gang": 1, "gpu": gpu, **wants})  # type: ignore[arg-type]


def large(name: str = "large", nodes: int = 1, **wants: object) -> c.Gang:
    return job(name, **{"gang": nodes, "gpu": 4, **wants})  # type: ignore[arg-type]


def choosing(**choices: object) -> Policy:
    """The default policy, but for these choices about backfill."""
    return Policy(backfill=replace(Backfill(), **choices))  # type: ignore[arg-type]


ONE = [node("n1", gpu=4)]
TWO = [node("n1", gpu=4), node("n2", gpu=4)]
HALF = [small("first", 2, runs=3600), small("second", 2, runs=1800)]
"""They fill a node; the first of them ends after an hour."""

RACKS = [hypernode("r1", 1, "n1", "n2"), hypernode("r2", 1, "n3", "n4")]
FOUR = [
    node(f"n{number}", gpu=4, labels={HOST: f"n{number}", ZONE: "ab"[number % 2]}) for number in range(1, 5)
]
FULL = [small(f"full{number}", 4, runs=3600 * number, on=[f"n{number}"]) for number in range(1, 5)]
"""Each fills a node, and the first ends after an hour."""

CASES = [
    Scenario(
        "what becomes free is kept for a gang that has waited for too long",
        nodes=ONE,
        jobs=[*HALF, large()],
        then=[passes(LATE), finishes("second"), submits(small("late", at=LATE))],
        expect={"large": PENDING, "late": PENDING},
    ),
    Scenario(
        "nothing is kept for a gang that has not waited for long, once its hold is over",
        nodes=ONE,
        jobs=[*HALF, large()],
        then=[passes(LATE), finishes("second"), submits(small("late", at=LATE))],
        policy=replace(choosing(threshold=timedelta(hours=1))),
        expect={"large": PENDING, "late": RUNNING},
    ),
    Scenario(
        "without backfill nothing is reserved",
        nodes=ONE,
        jobs=[*HALF, large()],
        then=[passes(LATE), finishes("second"), submits(small("late", at=LATE))],
        policy=choosing(enabled=False),
        expect={"large": PENDING, "late": RUNNING},
    ),
    Scenario(
        "the reserved gang starts when all its room is free",
        nodes=ONE,
        jobs=[*HALF, large()],
        then=[passes(LATE), finishes("second"), submits(small("late", at=LATE)), finishes("first")],
        expect={"large": RUNNING, "late": PENDING},
    ),
    Scenario(
        "a gang that ends before the reserved one starts runs in its shadow",
        nodes=ONE,
        jobs=[*HALF, large()],
        then=[passes(LATE), finishes("second"), submits(small("short", at=LATE, runs=3600 - LATE - 30))],
        expect={"large": PENDING, "short": RUNNING},
    ),
    Scenario(
        "a gang that would end after the reserved one starts does not",
        nodes=ONE,
        jobs=[*HALF, large()],
        then=[passes(LATE), finishes("second"), submits(small("long", at=LATE, runs=3600 - LATE - 29))],
        expect={"large": PENDING, "long": PENDING},
    ),
    Scenario(
        "nobody runs in the shadow of a start that nobody knows",
        nodes=ONE,
        jobs=[small("first", 2), small("second", 2), large()],
        then=[passes(LATE), finishes("second"), submits(small("short", at=LATE, runs=1))],
        expect={"large": PENDING, "short": PENDING},
    ),
    Scenario(
        "of the same lane one that may use more of what is reserved passes one that may use less",
        nodes=TWO,
        queues=[queue("a"), queue("b"), queue("c")],
        jobs=[
            small("first", 2, runs=1800, on=["n1"]),
            small("second", 2, runs=600, on=["n1"]),
            small("third", 4, runs=7200, on=["n2"]),
        ],
        then=[
            submits(large("sooner", queue="a")),
            submits(large("later", queue="b", at=1)),
            submits(small("long", 2, queue="c", at=2, runs=3600)),
            submits(small("short", 2, queue="c", at=3, runs=60)),
            passes(LATE + 5),
            finishes("second"),
        ],
        policy=Policy(eviction=Eviction(preempt=False, reclaim=False)),
        expect={"sooner": PENDING, "later": PENDING, "long": PENDING, "short": RUNNING},
    ),
    Scenario(
        "of the same lane the short gang passes the long one",
        nodes=ONE,
        jobs=[*HALF, large(), small("long", 2, at=1, runs=9999), small("short", 2, at=2, runs=60)],
        then=[passes(LATE + 1), finishes("second")],
        expect={"large": PENDING, "long": PENDING, "short": RUNNING},
    ),
    Scenario(
        "room that the reserved gang will not need is anybody's",
        nodes=[node("n1", gpu=6)],
        jobs=[small("first", 4, runs=3600), small("second", 2, runs=7200), large("large", gpu=4)],
        then=[passes(LATE), finishes("second"), submits(small("other", 2, at=LATE))],
        expect={"large": PENDING, "other": RUNNING},
    ),
    Scenario(
        "nodes that are not reserved are anybody's",
        nodes=TWO,
        jobs=[
            *HALF,
            small("third", 2, runs=99999, at=1),
            small("fourth", 2, runs=99999, at=1),
            large(at=2),
        ],
        then=[passes(LATE + 2), finishes("third"), submits(small("other", 1, at=LATE))],
        expect={"large": PENDING, "other": placed(n2=1)},
    ),
    Scenario(
        "the nodes where it can start the soonest are reserved",
        nodes=TWO,
        jobs=[small("long", 4, runs=7200), small("soon", 4, runs=3600, at=1), large()],
        then=[passes(LATE), finishes("long"), submits(small("other", 4, at=LATE))],
        expect={"large": placed(n1=1), "other": PENDING},
    ),
    Scenario(
        "a gang of a higher priority in the same queue uses reserved room",
        nodes=ONE,
        jobs=[small("first", 2, runs=3600), small("second", 2, runs=1800), large()],
        then=[passes(LATE), finishes("second"), submits(small("urgent", 2, at=LATE, priority=9))],
        expect={"large": PENDING, "urgent": RUNNING},
    ),
    Scenario(
        "a gang of another queue does not use reserved room",
        nodes=ONE,
        queues=[queue("default"), queue("other")],
        jobs=[*HALF, large()],
        then=[passes(LATE), finishes("second"), submits(small("late", at=LATE, queue="other"))],
        expect={"large": PENDING, "late": PENDING},
    ),
    Scenario(
        "of a gang that must be in one rack, the rack is reserved that is free the soonest",
        nodes=FOUR,
        hypernodes=RACKS,
        jobs=[*FULL, near(large(nodes=2))],
        then=[passes(LATE), finishes("full4"), finishes("full2"), submits(small("late", at=LATE, on=["n2"]))],
        expect={"large": PENDING, "late": PENDING},
    ),
    Scenario(
        "and it starts when all of the rack is free",
        nodes=FOUR,
        hypernodes=RACKS,
        jobs=[*FULL, near(large(nodes=2))],
        then=[passes(LATE), finishes("full4"), finishes("full2"), finishes("full1")],
        expect={"large": placed(n1=1, n2=1)},
    ),
    Scenario(
        "a gang that must be in one rack runs in a shadow",
        nodes=FOUR,
        hypernodes=RACKS,
        jobs=[*FULL, near(large(nodes=2))],
        then=[passes(LATE), finishes("full2"), submits(near(small("short", 2, at=LATE, runs=60)))],
        expect={"large": PENDING, "short": placed(n2=1)},
    ),
    Scenario(
        "parts of GPUs are kept as they become free",
        nodes=[node("n1", shared=1)],
        jobs=[
            *(job(name, gang=1, part=500, runs=3600) for name in "ab"),
            job("large", gang=1, part=1000, at=1),
        ],
        then=[passes(LATE + 1), finishes("a"), submits(job("late", gang=1, part=300, at=LATE))],
        expect={"large": PENDING, "late": PENDING},
    ),
    Scenario(
        "and other GPUs are anybody's",
        nodes=[node("n1", shared=2)],
        jobs=[
            *(job(name, gang=1, part=500, runs=3600) for name in "abcd"),
            job("large", gang=1, part=1000, at=1),
        ],
        then=[
            passes(LATE + 1),
            *(finishes(name) for name in "ac"),
            submits(job("late", gang=2, part=500, at=LATE), job("later", gang=1, part=400, at=LATE + 1)),
        ],
        expect={"large": PENDING, "late": PENDING, "later": RUNNING},
    ),
    Scenario(
        "a port is kept as it becomes free",
        nodes=ONE,
        jobs=[
            job("a", gang=1, runs=3600, extras=PORT),
            small("b", 4, runs=7200),
            small("large", 4, at=1, extras=PORT),
        ],
        then=[passes(LATE + 1), finishes("a"), submits(job("late", gang=1, at=LATE, extras=PORT))],
        expect={"large": PENDING, "late": PENDING},
    ),
    Scenario(
        "who must keep away from the reserved gang does not take its node",
        nodes=[node("n1", gpu=6, labels={HOST: "n1"})],
        jobs=[
            small("first", 4, runs=3600),
            small("second", 2),
            small("large", 4, at=1, pod_labels={"app": "x"}, extras=apart(term("x"))),
        ],
        then=[
            passes(LATE + 1),
            finishes("second"),
            submits(
                small("shy", 1, at=LATE, pod_labels={"app": "x"}, extras=apart(term("x"))),
                small("other", 1, at=LATE),
            ),
        ],
        expect={"large": PENDING, "shy": PENDING, "other": RUNNING},
    ),
    Scenario(
        "a gang that can never be as it asks leaves the reservation to the next of its queue",
        nodes=FOUR[:2],
        hypernodes=RACKS[:1],
        jobs=[
            *FULL[:2],
            small("never", 1, at=1, gang=3, pod_labels={"app": "x"}, extras=apart(term("x"))),
            large(at=2),
        ],
        then=[passes(LATE + 2), finishes("full1"), submits(small("late", 2, at=LATE, on=["n1"]))],
        policy=Policy(hold=timedelta(0), backfill=Backfill(threshold=timedelta(seconds=300))),
        expect={"never": PENDING, "large": placed(n1=1), "late": PENDING},
    ),
    Scenario(
        "a gang that could never fit gets no reservation",
        nodes=ONE,
        jobs=[*HALF, large(nodes=2)],
        then=[passes(LATE), finishes("second"), submits(small("late", at=LATE))],
        expect={"large": PENDING, "late": RUNNING},
    ),
    Scenario(
        "a reservation is made anew when its nodes go",
        nodes=TWO,
        jobs=[small("a", 4, runs=3600), small("b", 4, runs=7200, at=1), large()],
        then=[passes(LATE), removes("n1"), finishes("b"), submits(small("late", at=LATE))],
        expect={"large": placed(n2=1), "late": PENDING},
    ),
    Scenario(
        "nobody waits for a gang that is gone",
        nodes=ONE,
        jobs=[*HALF, large()],
        then=[passes(LATE), finishes("second"), submits(small("late", at=LATE)), finishes("large")],
        expect={"late": RUNNING},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_scenario(case: Scenario) -> None:
    case.run()


def reserving(*jobs: c.Gang, nodes: int = 1, policy: Policy | None = None) -> tuple[World, Decision]:
    """A world whose large gang is late, and the decision that reserves room for it, carried out."""
    world = World(policy)
    world.queue(queue("default"))
    for number in range(1, nodes + 1):
        world.node(node(f"n{number}", gpu=4))
    for gang in jobs:
        world.submit(gang)
    world.settle()
    world.pass_time(LATE)
    (decision,) = world.decide()
    world.carry_out(decision)
    return world, decision


def test_a_reservation_says_its_nodes_and_when_all_of_it_should_be_free() -> None:
    _, decision = reserving(*HALF, large())
    assert (decision.rows, decision.evictions) == ([], ())
    (row,) = decision.reservations
    assert (row.node, row.pods, row.as_freed) == ("n1", 1, True)
    assert row.starts == START + timedelta(hours=1)


def test_the_start_is_unknown_when_run_times_are_and_the_oldest_pods_are_awaited() -> None:
    old = small("old", 4)
    world, decision = reserving(old, small("young", 4, at=1), large(at=1), nodes=2)
    (row,) = decision.reservations
    assert row.starts is None
    first = next(pod.node for pod in world.members(("ns", "old")))
    assert row.node in ("n1", first)


def test_the_start_of_a_gang_is_not_put_off_by_one_that_found_its_room_beside_it() -> None:
    world = World(Policy(eviction=Eviction(preempt=False, reclaim=False)))
    for name in ("default", "other"):
        world.queue(queue(name))
    world.node(node("n1", gpu=4))
    for gang in (small("soon", 2, runs=1000), small("late", 2, runs=3000)):
        world.submit(gang)
    world.settle()
    world.submit(small("first", 2))
    world.submit(small("second", 2, queue="other", at=1))
    world.pass_time(LATE + 1)
    starts = {}
    for _ in range(2):
        for decision in world.decide():
            starts[decision.name] = decision.reservations[0].starts
            world.carry_out(decision)
        world.pass_time(601)
    assert starts == {"first": START + timedelta(seconds=1000), "second": START + timedelta(seconds=3000)}


def test_a_rack_that_is_one_no_more_is_not_reserved() -> None:
    world = World()
    world.queue(queue("default"))
    for state in FOUR:
        world.node(state)
    for rack in RACKS:
        world.hypernode(rack)
    for gang in (*FULL, near(large(nodes=2))):
        world.submit(gang)
    world.settle()
    world.pass_time(LATE)
    for members, reserved in (((), {"n1", "n2"}), (("n1",), {"n3", "n4"})):
        if members:
            world.hypernode(hypernode("r1", 1, *members))
        (decision,) = world.decide()
        world.carry_out(decision)
        assert {row.node for row in decision.reservations} == reserved


def test_reservations_stand_and_are_renewed_before_their_time_is_over() -> None:
    world, first = reserving(*HALF, large())
    world.pass_time(599)
    assert world.decide() == []
    world.pass_time(2)
    (second,) = world.decide()
    assert [row.node for row in second.reservations] == [row.node for row in first.reservations]
    assert second.reservations[0].starts == first.reservations[0].starts
    assert second.reservations[0].until == first.reservations[0].until + timedelta(seconds=601)


def test_a_reservation_moves_only_to_where_its_gang_starts_clearly_sooner() -> None:
    a, b = small("a", 4, runs=7200), small("b", 4, runs=7300)
    world, first = reserving(a, b, large(at=1), nodes=2)
    (row,) = first.reservations
    for runs, moves in ((7000.0, False), (3600.0, True)):
        world.submit(b.model_copy(update={"run_seconds": runs}))
        world.pass_time(601)
        (decision,) = world.decide()
        world.carry_out(decision)
        assert (decision.reservations[0].node != row.node) is moves


def test_one_gang_of_a_queue_has_a_reservation_and_a_few_in_all() -> None:
    policy = replace(choosing(in_all=2), eviction=Eviction(preempt=False, reclaim=False))
    world = World(policy)
    for name in ("default", "a", "b"):
        world.queue(queue(name))
    for number in range(4):
        world.node(node(f"n{number}", gpu=4))
        world.submit(small(f"full{number}", 4, runs=9999))
    world.settle()
    for number, name in enumerate(("default", "default", "a", "b")):
        world.submit(large(f"large{number}", queue=name, at=number))
    world.settle()
    world.pass_time(LATE + 4)
    assert sorted(decision.name for decision in world.decide()) == ["large0", "large2"]


def test_nothing_is_looked_at_while_no_gang_is_late() -> None:
    world = World()
    world.queue(queue("default"))
    world.node(node("n1", gpu=4))
    for gang in (*HALF, large()):
        world.submit(gang)
    world.settle()
    assert not world.model.waiting.late
    assert not world.model.nodes.kept.any()
    world.pass_time(LATE)
    world.decide()
    assert len(world.model.waiting.late) == 1


def test_smaller_gangs_do_not_pass_a_large_one_for_ever() -> None:
    """A stream of small gangs of unknown run time, each of which starts before the last has ended."""
    for policy, starts in ((Policy(), True), (choosing(enabled=False), False)):
        world = World(policy)
        world.queue(queue("default"))
        world.node(node("n1", gpu=4))
        world.submit(small("s0", 2))
        world.submit(small("s1", 2))
        world.settle()
        world.submit(large(at=0))
        for number in range(2, 40):
            world.pass_time(200)
            world.submit(small(f"s{number}", 2, at=number * 200))
            world.settle()
            running = sorted(
                (pod.created_at, pod.gang or "")
                for pod in world.books.pods.values()
                if pod.node is not None and pod.gang != "large"
            )
            if running:
                world.remove_gang(("ns", running[0][1]))
            world.settle()
        assert bool([pod for pod in world.members(("ns", "large")) if pod.node]) is starts
