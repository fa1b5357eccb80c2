"""Who moves so that a gang can start, by example. Those that move are made anew by their controller."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from services.scheduler.core.decisions import Decision
from services.scheduler.core.defragment import defragment
from services.scheduler.core.gangs import Gang
from services.scheduler.core.lanes import Lane
from services.scheduler.core.moving import Mover, Moves
from services.scheduler.core.policy import Backfill, Defragmentation, Policy
from shared.events import contracts as c
from tests.scenarios.scenario import (
    RUNNING,
    Scenario,
    Step,
    adds,
    finishes,
    job,
    node,
    other,
    passes,
    placed,
    queue,
    reports,
    submits,
    waits,
)
from tests.scenarios.test_topology import hypernode, near
from tests.scenarios.world import START, World

MOVING = Defragmentation(enabled=True, after=timedelta(0), rest=timedelta(0))


def moving(**choices: object) -> Policy:
    """The default policy, but that gangs move at once, and for these choices about it."""
    return Policy(defragmentation=replace(MOVING, **choices))  # type: ignore[arg-type]


def big(gpu: int = 4, at: float = 60, **wants: object) -> c.Gang:
    """The gang that needs room in one piece."""
    return job("big", gpu=gpu, at=at, **wants)  # type: ignore[arg-type]


def asks() -> Step:
    """Somebody asks that gangs move."""
    return lambda world: world.model.ask_to_move(world.now)


def budget(allowed: int) -> Step:
    """A disruption budget that covers all pods of budget "b"."""
    state = c.PodDisruptionBudgetState(namespace="ns", name="b", disruptions_allowed=allowed)
    return lambda world: world.model.apply_budget(state)


def told(name: str, **facts: object) -> Step:
    """A pod's state says something else."""

    def step(world: World) -> None:
        world.pod(world.books.pods["ns", name].model_copy(update=facts))

    return step


def placed_now(*names: str) -> Step:
    """The first pods of jobs have just come to where they are."""

    def step(world: World) -> None:
        for name in names:
            told(f"{name}-worker-0", scheduled_at=world.now)(world)

    return step


TWO = [node("n1", gpu=4), node("n2", gpu=4)]
HALVES = [job(name, gpu=2, at=at) for at, name in enumerate("abcd")]
"""Four jobs that fill them: a and b are on n1, c and d on n2."""
APART = (finishes("b"), finishes("d"), passes(60))
"""Then half of each node is free, for a while."""


RACKS = [node(name, gpu=2) for name in ("a1", "a2", "b1", "b2", "c1")]

MOVES = [
    Scenario(
        "the younger of two gangs moves when another one needs a whole node",
        nodes=TWO,
        jobs=HALVES,
        then=[*APART, submits(big())],
        policy=moving(),
        evicted=["c-worker-0"],
        expect={"big": placed(n2=1), "a": placed(n1=1), "c": placed(n1=1)},
    ),
    Scenario(
        "of two gangs that could move the one of lower priority does, however old",
        nodes=TWO,
        jobs=[job("a", gpu=2, priority=1, at=3), job("b", gpu=2, priority=9)],
        then=[
            submits(job("c", gpu=2, priority=2), job("d", gpu=2, priority=2)),
            *APART,
            submits(big(priority=5)),
        ],
        policy=moving(),
        evicted=["a-worker-0"],
        expect={"big": placed(n1=1), "a": placed(n2=1), "c": placed(n2=1)},
    ),
    Scenario(
        "a gang at its minimum moves as a whole, also from a node where it is not in the way",
        nodes=TWO,
        jobs=[job("pair", gang=2, gpu=3)],
        then=[adds(node("n3", gpu=3)), passes(60), submits(big())],
        policy=moving(),
        evicted=["pair-worker-0", "pair-worker-1"],
        expect={"pair": RUNNING, "big": RUNNING},
    ),
    Scenario(
        "what a gang has beyond its minimum moves alone",
        nodes=TWO,
        jobs=[job("elastic", gang=1, replicas=3, gpu=1)],
        then=[
            submits(job("x", gpu=1)),
            submits(job("y", gpu=2)),
            finishes("x"),
            passes(60),
            submits(big(gpu=3)),
        ],
        policy=moving(),
        evicted=["elastic-worker-2", "elastic-worker-1"],
        expect={"elastic": placed(n1=1, n2=2), "big": placed(n1=1), "y": placed(n2=1)},
    ),
    Scenario(
        "several gangs move for one",
        nodes=[node(name, gpu=4) for name in ("n1", "n2", "n3")],
        jobs=[job(name, gpu=1, at=at) for at, name in enumerate("abcdefghijkl")],
        then=[*map(finishes, "abefij"), passes(60), submits(big())],
        policy=moving(),
        evicted=["k-worker-0", "l-worker-0"],
        expect={"big": placed(n3=1), "k": RUNNING, "l": RUNNING},
    ),
    Scenario(
        "gangs move from and to the nodes of others, in other queues, too",
        nodes=TWO,
        queues=[queue("mine"), queue("theirs")],
        jobs=[job(name, gpu=2, at=at, queue="theirs") for at, name in enumerate("abcd")],
        then=[*APART, submits(big(queue="mine"))],
        policy=moving(),
        evicted=["c-worker-0"],
        expect={"big": placed(n2=1), "c": placed(n1=1)},
    ),
    Scenario(
        "a gang with a hypernode of its own to find is made room for in one",
        nodes=[node(name, gpu=2) for name in ("a1", "a2", "b1", "b2")],
        hypernodes=[hypernode("rack-a", 1, "a1", "a2"), hypernode("rack-b", 1, "b1", "b2")],
        jobs=[job(name, gpu=2, at=at) for at, name in enumerate("wxyz")],
        then=[finishes("w"), finishes("y"), passes(60), submits(near(big(gpu=2, gang=2)))],
        policy=moving(),
        evicted=["z-worker-0"],
        expect={"big": placed(b1=1, b2=1), "x": placed(a2=1), "z": placed(a1=1)},
    ),
    Scenario(
        "a gang in one hypernode moves into another one",
        nodes=RACKS,
        hypernodes=[hypernode("rack-a", 1, "a1", "a2"), hypernode("rack-b", 1, "b1", "b2")],
        pods=[other("p1", "b1", gpu=1), other("p2", "b2", gpu=1), other("p3", "c1", gpu=1)],
        jobs=[near(job("pair", gang=2, gpu=1)), job("x", gpu=1)],
        then=[finishes("x"), passes(60), submits(near(big(gpu=2, gang=2)))],
        policy=moving(),
        expect={"big": RUNNING, "pair": RUNNING},
    ),
]

SHARED = [
    Scenario(
        "a pod with part of a GPU moves to another one when a whole one is needed",
        nodes=[node("n1", gpu=1, shared=1), node("n2", gpu=1, shared=1)],
        jobs=[job("a", part=600)],
        then=[
            submits(job("y", part=400)),
            submits(job("x", part=500)),
            submits(job("c", part=400)),
            finishes("x"),
            finishes("y"),
            passes(60),
            submits(job("big", part=1000, at=60)),
        ],
        policy=moving(),
        evicted=["c-worker-0"],
        expect={"big": placed(n2=1), "a": placed(n1=1), "c": placed(n1=1)},
    ),
]

BUDGETED = [
    Scenario(
        "a pod moves that a disruption budget lets go",
        nodes=TWO,
        jobs=HALVES,
        then=[
            budget(1),
            *APART,
            *(told(f"{name}-worker-0", budgets=("b",)) for name in "ac"),
            submits(big()),
        ],
        policy=moving(),
        evicted=["c-worker-0"],
        expect={"big": placed(n2=1)},
    ),
]

STAYS = [
    Scenario(
        "a gang on several nodes moves as a whole or not at all",
        nodes=[*TWO, node("n3", gpu=4)],
        pods=[other("p3", "n3", gpu=2)],
        jobs=[job("a", gpu=2), job("x", gpu=1)],
        then=[submits(job("pair", gang=2, gpu=3)), finishes("a"), finishes("x"), passes(60), submits(big())],
        policy=moving(),
        expect={"pair": RUNNING, "big": waits("no-room")},
    ),
    Scenario(
        "nobody moves by the built-in policy",
        nodes=TWO,
        jobs=HALVES,
        then=[*APART, submits(big()), passes(3600)],
        expect={"big": waits("no-room"), "a": placed(n1=1), "c": placed(n2=1)},
    ),
    Scenario(
        "nobody moves who finds no other place",
        nodes=TWO,
        jobs=[job("a", gpu=3), job("x", gpu=1, at=1), job("c", gpu=3, at=2), job("y", gpu=1, at=3)],
        then=[finishes("x"), finishes("y"), submits(big(gpu=2))],
        policy=moving(),
        expect={"big": waits("no-room"), "a": placed(n1=1), "c": placed(n2=1)},
    ),
    Scenario(
        "nobody moves for a gang that asks for more than is free in all",
        nodes=TWO,
        jobs=HALVES,
        then=[finishes("b"), submits(big(gpu=4))],
        policy=moving(),
        expect={"big": waits("no-room"), "a": RUNNING, "c": RUNNING, "d": RUNNING},
    ),
    Scenario(
        "nobody of a higher priority moves",
        nodes=TWO,
        jobs=[job(name, gpu=2, at=at, priority=7) for at, name in enumerate("abcd")],
        then=[*APART, submits(big(priority=6))],
        policy=moving(),
        expect={"big": waits("no-room"), "a": RUNNING, "c": RUNNING},
    ),
    Scenario(
        "nobody moves who may not be evicted",
        nodes=TWO,
        jobs=[job(name, gpu=2, at=at, preemptable=False) for at, name in enumerate("abcd")],
        then=[*APART, submits(big())],
        policy=moving(),
        expect={"big": waits("no-room"), "a": RUNNING, "c": RUNNING},
    ),
    Scenario(
        "no pod moves that is nobody's gang",
        nodes=TWO,
        pods=[other("p1", "n1", gpu=2), other("p2", "n2", gpu=2)],
        then=[submits(big())],
        policy=moving(),
        expect={"big": waits("no-room")},
    ),
    Scenario(
        "nobody moves for a gang of a priority class that evicts nobody",
        nodes=TWO,
        jobs=HALVES,
        then=[
            lambda world: world.model.apply_priority_class(
                c.PriorityClassState(name="meek", value=0, preemption_policy="Never")
            ),
            *APART,
            submits(big(priority_class="meek")),
        ],
        policy=moving(),
        expect={"big": waits("no-room"), "a": RUNNING, "c": RUNNING},
    ),
    Scenario(
        "nobody moves for a gang that its queue has no quota for",
        nodes=TWO,
        queues=[queue("small", gpu=3)],
        jobs=HALVES,
        then=[*APART, submits(big(queue="small"))],
        policy=moving(),
        expect={"big": waits("queue-capability"), "a": RUNNING, "c": RUNNING},
    ),
    Scenario(
        "nobody moves beyond what a disruption budget allows",
        nodes=TWO,
        jobs=HALVES,
        then=[
            budget(0),
            *APART,
            *(told(f"{name}-worker-0", budgets=("b",)) for name in "ac"),
            submits(big()),
        ],
        policy=moving(),
        expect={"big": waits("no-room"), "a": RUNNING, "c": RUNNING},
    ),
    Scenario(
        "no more pods move than are allowed to",
        nodes=[node("n1", gpu=4), node("n2", gpu=4)],
        jobs=[job(name, gpu=1, at=at) for at, name in enumerate("abcdefgh")],
        then=[*map(finishes, "abef"), submits(big())],
        policy=moving(most_pods=1),
        expect={"big": waits("no-room")},
    ),
    Scenario(
        "nobody moves for members beyond a minimum",
        nodes=TWO,
        jobs=HALVES,
        then=[*APART, submits(job("elastic", gang=1, replicas=2, gpu=2, at=9)), submits(big(gpu=3, at=10))],
        policy=moving(),
        expect={"elastic": placed(2), "big": waits("no-room"), "a": RUNNING, "c": RUNNING},
    ),
    Scenario(
        "a gang in one hypernode does not move to where it would be in none",
        nodes=RACKS,
        hypernodes=[hypernode("rack-a", 1, "a1", "a2"), hypernode("rack-b", 1, "b1", "b2")],
        pods=[other("p1", "b1", gpu=1), other("p2", "b2", gpu=2), other("p3", "c1", gpu=1)],
        jobs=[near(job("pair", gang=2, gpu=1))],
        then=[passes(60), submits(near(big(gpu=2, gang=2)))],
        policy=moving(),
        expect={"big": waits("no-room"), "pair": placed(a1=2)},
    ),
]

WHEN = [
    Scenario(
        "gangs move for one that has waited for long enough",
        nodes=TWO,
        jobs=HALVES,
        then=[*APART, submits(big()), passes(299), passes(2)],
        policy=moving(after=timedelta(minutes=5)),
        evicted=["c-worker-0"],
        expect={"big": placed(n2=1)},
    ),
    Scenario(
        "and not before",
        nodes=TWO,
        jobs=HALVES,
        then=[*APART, submits(big()), passes(299)],
        policy=moving(after=timedelta(minutes=5)),
        expect={"big": waits("no-room")},
    ),
    Scenario(
        "whoever asks for it has gangs move at once, also where they do not by themselves",
        nodes=TWO,
        jobs=HALVES,
        then=[*APART, placed_now("a", "c"), submits(big()), asks()],
        policy=Policy(),
        evicted=["c-worker-0"],
        expect={"big": placed(n2=1), "c": placed(n1=1)},
    ),
    Scenario(
        "who asks has gangs move for all that wait, one after the other",
        nodes=[node(f"n{number}", gpu=2) for number in range(6)],
        jobs=[job(name, gpu=1, at=at) for at, name in enumerate("abcdefghijkl")],
        then=[
            *map(finishes, "acegik"),
            passes(60),
            submits(*(job(f"big{n}", gpu=2, at=60) for n in range(3))),
            asks(),
        ],
        evicted=["h-worker-0", "j-worker-0", "l-worker-0"],
        expect={"big0": RUNNING, "big1": RUNNING, "big2": RUNNING},
    ),
    Scenario(
        "it is asked for once: later gangs wait",
        nodes=TWO,
        jobs=HALVES,
        then=[*APART, asks(), submits(big()), passes(3600)],
        policy=Policy(),
        expect={"big": waits("no-room"), "c": placed(n2=1)},
    ),
    Scenario(
        "gangs move where at least so much of what is free is of no use to the gang",
        nodes=[*TWO, node("n3", gpu=8)],
        jobs=[*HALVES, job("e", gpu=4, at=4)],
        then=[*APART, submits(big(gang=2, gpu=4))],
        policy=moving(threshold=0.5),
        evicted=["c-worker-0"],
        expect={"big": placed(n2=1, n3=1)},
    ),
    Scenario(
        "what is kept for the gang itself is free for it",
        nodes=[*TWO, node("n3", gpu=8)],
        jobs=[*HALVES, job("e", gpu=4, at=4)],
        then=[*APART, submits(big(gang=2, gpu=4)), passes(301), passes(300)],
        policy=moving(threshold=0.5, after=timedelta(minutes=10)),
        evicted=["c-worker-0"],
        expect={"big": placed(n2=1, n3=1)},
    ),
    Scenario(
        "and not where it is less",
        nodes=[*TWO, node("n3", gpu=8)],
        jobs=[*HALVES, job("e", gpu=4, at=4)],
        then=[*APART, submits(big(gang=2, gpu=4))],
        policy=moving(threshold=0.51),
        expect={"big": waits("no-room"), "c": placed(n2=1)},
    ),
    Scenario(
        "a pod stays for a while where it has come to",
        nodes=TWO,
        jobs=HALVES,
        then=[
            *APART,
            placed_now("a", "c"),
            submits(big()),
            passes(1799),
        ],
        policy=moving(rest=timedelta(minutes=30)),
        expect={"big": waits("no-room")},
    ),
    Scenario(
        "and may move afterwards",
        nodes=TWO,
        jobs=HALVES,
        then=[
            *APART,
            placed_now("a", "c"),
            submits(big()),
            passes(1799),
            passes(61),
        ],
        policy=moving(rest=timedelta(minutes=30)),
        evicted=["c-worker-0"],
        expect={"big": placed(n2=1)},
    ),
]


@pytest.mark.parametrize("scenario", [*MOVES, *SHARED, *BUDGETED], ids=lambda one: one.name)
def test_gangs_move(scenario: Scenario) -> None:
    scenario.run()


@pytest.mark.parametrize("scenario", STAYS, ids=lambda one: one.name)
def test_gangs_stay(scenario: Scenario) -> None:
    scenario.run()


@pytest.mark.parametrize("scenario", WHEN, ids=lambda one: one.name)
def test_gangs_move_when(scenario: Scenario) -> None:
    scenario.run()


def under_way() -> tuple[World, Decision]:
    """A world in which c is to move from n2 to n1 so that big can start."""
    world = World(moving())
    world.queue(queue("default"))
    for one in TWO:
        world.node(one)
    for gang in HALVES:
        world.submit(gang)
    world.settle()
    for step in (*APART, submits(big())):
        step(world)
    (decision,) = world.decide()
    assert [one.pod for one in decision.evictions] == ["c-worker-0"]
    return world, decision


def nodes_of(world: World, name: str) -> list[str | None]:
    return [pod.node for pod in world.members(("ns", name))]


def test_one_decision_says_who_leaves_who_starts_and_where_each_of_them_goes() -> None:
    _, decision = under_way()
    (moved,) = decision.evictions
    assert (moved.gang, moved.reason) == ("c", "moves so that ns/big can start: room is kept for it on n1")
    kept = {(one.gang.name if one.gang else decision.name): one.node for one in decision.reservations}
    assert kept == {"big": "n2", "c": "n1"}
    assert decision.rows == []


def test_nobody_takes_the_room_of_those_that_move() -> None:
    world, decision = under_way()
    world.carry_out(decision)
    world.submit(job("new", gpu=2, at=61))
    assert world.decide() == []
    world.victims_go()
    world.settle()
    assert nodes_of(world, "c") == ["n1"]
    assert nodes_of(world, "big") == ["n2"]
    assert nodes_of(world, "new") == []


def test_who_moves_is_told_where_to() -> None:
    world, decision = under_way()
    world.carry_out(decision)
    assert world.decide() == []
    reason = reports(world)["c"].reason
    assert reason.code == "moving"
    assert reason.message == "moves so that another gang can start: room for 1 of its pods is kept on n1"
    assert reports(world)["big"].reason.code == "waits-for-victims"


def test_who_refuses_to_go_stays_and_nothing_is_kept() -> None:
    world, decision = under_way()
    world.carry_out(decision, frozenset({"c-worker-0"}))
    assert len(world.model.earmarks) == 0
    world.decide()
    assert not world.model.nodes.earmarked.any()
    assert nodes_of(world, "c") == ["n2"]


def test_a_job_that_starts_anew_because_it_moves_does_so_where_room_is_kept() -> None:
    world, decision = under_way()
    world.carry_out(decision)
    anew = world.books.gangs["ns", "c"].model_copy(update={"generation": 1})
    world.books.phases["ns", "c"] = "Pending"
    world.submit(anew)
    world.submit(job("new", gpu=2, at=61))
    world.victims_go(remade=False)
    world.settle()
    assert nodes_of(world, "c") == ["n1"]
    assert nodes_of(world, "big") == ["n2"]


def test_who_moves_lands_when_the_gang_that_waits_is_gone() -> None:
    world, decision = under_way()
    world.carry_out(decision)
    world.remove_gang(("ns", "big"))
    world.submit(job("new", gpu=2, at=61))
    world.victims_go()
    world.settle()
    assert nodes_of(world, "c") == ["n1"]


def test_the_gang_starts_when_the_one_that_moves_is_gone() -> None:
    world, decision = under_way()
    world.carry_out(decision)
    world.remove_gang(("ns", "c"))
    world.settle()
    assert nodes_of(world, "big") == ["n2"]
    assert len(world.model.earmarks) == 0


def test_room_to_move_to_is_kept_for_a_bounded_time() -> None:
    world, decision = under_way()
    world.carry_out(decision)
    world.victims_go(remade=False)
    world.settle()
    assert len(world.model.earmarks) == 1  # big has started, and c is not made anew
    world.pass_time(601)
    world.decide()
    assert len(world.model.earmarks) == 0


def test_a_look_in_vain_is_followed_by_another_one_after_the_pause_if_anything_happened_meanwhile() -> None:
    world = World(moving())
    world.queue(queue("default"))
    for one in TWO:
        world.node(one)
    for gang in HALVES:
        world.submit(gang)
    world.settle()
    world.pass_time(60)
    world.submit(big())
    assert world.decide() == []
    world.pass_time(10)
    for step in APART[:2]:
        step(world)
    assert world.decide() == []
    assert defragment(world.model, world.now) == ([], START + timedelta(seconds=120))
    world.pass_time(50)
    (decision,) = world.decide()
    assert [one.pod for one in decision.evictions] == ["c-worker-0"]


def test_a_gang_that_nobody_can_move_for_is_searched_for_once_while_nothing_changes(monkeypatch) -> None:
    searched: list[str] = []
    find = Mover._find

    def noted(self: Mover, lane: Lane, gang: Gang) -> Moves | None:
        searched.append(gang.contract.name)
        return find(self, lane, gang)

    monkeypatch.setattr(Mover, "_find", noted)
    world = World(replace(moving(), hold=timedelta(0), backfill=Backfill(enabled=False)))
    world.queue(queue("default"))
    for one in TWO:
        world.node(one)
    world.submit(job("there", gang=2, gpu=3, preemptable=False))
    world.pass_time(60)
    for number in range(20):
        world.submit(job(f"a{number}", gang=2 + number, gpu=2, at=60))
    for _ in range(4):
        world.decide()
        world.pass_time(61)
    assert sorted(searched) == sorted(f"a{number}" for number in range(20))  # those behind the first 16, too


@pytest.mark.parametrize("off", [timedelta(days=40_000), timedelta(minutes=3), timedelta(minutes=-3)])
def test_what_was_asked_long_ago_or_is_to_come_moves_nobody(off: timedelta) -> None:
    world = World()
    world.queue(queue("default"))
    for one in TWO:
        world.node(one)
    for gang in HALVES:
        world.submit(gang)
    world.settle()
    for step in (*APART, submits(big())):
        step(world)
    world.model.ask_to_move(world.now + off)
    assert world.decide() == []
    assert world.model.asked is None
