"""Pods leave nodes that really use too much (Volcano's ``rescheduling``), as scenarios."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from services.scheduler.core.cycle import decide
from services.scheduler.core.load import Levelling
from services.scheduler.core.policy import Eviction, Policy
from services.scheduler.core.replay import differences
from shared.events import contracts as c
from tests.scenarios.scenario import (
    Scenario,
    Step,
    adds,
    job,
    node,
    other,
    passes,
    placed,
    queue,
    reports,
    sets,
    submits,
    task,
    uses,
)
from tests.scenarios.test_load import measures
from tests.scenarios.world import World
from tests.unit.scheduler.test_invariants import event, rebuilt

LEVELS = Levelling(low=(20, 100, 100), high=(50, 100, 100))
PLAIN = Policy(levelling=LEVELS)
"""Pods are packed: without room kept for them elsewhere they would come back."""
HOUR = 3600.0
TWO = [node("n1", cpu=10), node("n2", cpu=10, cordoned=True)]
OPEN = node("n2", cpu=10)
BUSY = measures(n1=(80, 10), n2=(0, 10))
"""Pods that ask for all of n1 use 80% of it."""


def levels(**changes: object) -> Policy:
    return Policy(levelling=replace(LEVELS, **changes))  # type: ignore[arg-type]


def budget(**least: int) -> c.JobBudget:
    return c.JobBudget(**least)


def many(replicas: int, **more: object) -> c.Gang:
    """A job whose pods ask for 2 cores each, of which one has to run, and any may go."""
    given = {"gang": 1, "cpu": 2, "budget": budget(max_unavailable=replicas), **more}
    return job("web", replicas=replicas, **given)  # type: ignore[arg-type]


def lately(*more: Step) -> list[Step]:
    """Pods have been on n1 for an hour when n2 takes pods, too."""
    return [passes(HOUR), adds(OPEN), *more]


def scenario(name: str, web: c.Gang | None, *then: Step, policy: Policy = PLAIN, **what: object) -> Scenario:
    """Pods of a job run on n1, and n2 is empty."""
    jobs = [] if web is None else [web]
    given = {"nodes": TWO, "jobs": jobs, "then": lately(*then), "policy": policy, **what}
    return Scenario(name, **given)  # type: ignore[arg-type]


LEAVING = [
    scenario(
        "pods leave a node that uses too much, for room that is kept on one that uses little",
        many(5),
        BUSY,
        expect={"web": placed(n1=3, n2=2)},
        evicted=["web-worker-3", "web-worker-4"],
    ),
    scenario(
        "as many as it takes, counted by what they ask for where that is more than what is used",
        many(5),
        measures(n1=(60, 10), n2=(0, 10)),
        expect={"web": placed(n1=4, n2=1)},
        evicted=["web-worker-4"],
    ),
    scenario(
        "and by their part of what is used where they ask for less than they use",
        many(2),
        measures(n1=(80, 10), n2=(0, 10)),
        expect={"web": placed(n1=1, n2=1)},
        evicted=["web-worker-1"],
    ),
    scenario(
        "no more than the other nodes take without using too much themselves",
        many(5),
        measures(n1=(100, 10), n2=(15, 10)),
        expect={"web": placed(n1=4, n2=1)},
        evicted=["web-worker-4"],
    ),
    scenario(
        "nobody leaves where no node uses too much",
        many(5),
        measures(n1=(50, 10), n2=(0, 10)),
        expect={"web": placed(n1=5)},
    ),
    scenario(
        "nor where none uses little",
        many(5),
        measures(n1=(80, 10), n2=(20, 10)),
        expect={"web": placed(n1=5)},
    ),
    scenario(
        "memory counts as CPU does",
        many(5, memory=1),
        measures(n1=(10, 80), n2=(0, 10)),
        policy=levels(low=(100, 20, 100), high=(100, 50, 100)),
        expect={"web": placed(n1=3, n2=2)},
        evicted=["web-worker-3", "web-worker-4"],
    ),
    scenario(
        "so does how many pods a node takes",
        many(4),
        measures(n1=(10, 10), n2=(10, 10)),
        nodes=[node("n1", cpu=10, pods=5), node("n2", cpu=10, cordoned=True)],
        policy=levels(low=(100, 100, 20), high=(100, 100, 60)),
        expect={"web": placed(n1=3, n2=1)},
        evicted=["web-worker-3"],
    ),
    scenario(
        "a node of which nothing is known uses neither too much nor little",
        many(5),
        measures(n1=(80, 10)),
        adds(node("n3", cpu=10)),
        expect={"web": placed(n1=5)},
    ),
    scenario(
        "what was measured long ago counts no more",
        many(5),
        lambda world: world.measure({"n1": 80, "n2": 0}, {"n1": 10, "n2": 10}, ago=300),
        expect={"web": placed(n1=5)},
    ),
    scenario(
        "the most important stay",
        None,
        BUSY,
        jobs=[
            job("low", replicas=2, gang=1, cpu=2, budget=budget(max_unavailable=2)),
            job("high", replicas=3, gang=1, cpu=2, priority=5, budget=budget(max_unavailable=3)),
        ],
        expect={"low": placed(n2=1, n1=1), "high": placed(n1=2, n2=1)},
        evicted=["low-worker-1", "high-worker-2"],
    ),
    scenario(
        "the node that uses the most is relieved first",
        None,
        measures(n1=(60, 10), n2=(0, 10), n3=(90, 10)),
        nodes=[*TWO, node("n3", cpu=10)],
        jobs=[
            job("one", replicas=3, gang=1, cpu=3, budget=budget(max_unavailable=3), on=["n1", "n2"]),
            job("two", replicas=3, gang=1, cpu=3, budget=budget(max_unavailable=3), on=["n3", "n2"]),
        ],
        expect={"one": placed(n1=3), "two": placed(n3=2, n2=1)},
        evicted=["two-worker-2"],
    ),
    scenario(
        "without the policy nobody leaves", many(5), BUSY, policy=Policy(), expect={"web": placed(n1=5)}
    ),
    scenario(
        "a policy that asks for it finds the figures that were told before",
        many(5),
        BUSY,
        uses(PLAIN),
        policy=Policy(),
        expect={"web": placed(n1=3, n2=2)},
        evicted=["web-worker-3", "web-worker-4"],
    ),
]
STAYING = [
    scenario(
        "a gang loses no member of its minimum",
        many(5, gang=4),
        BUSY,
        expect={"web": placed(n1=4, n2=1)},
        evicted=["web-worker-4"],
    ),
    scenario(
        "nor a task one of its own minimum",
        job("web", task("a", 2, 1, cpu=2), task("b", 2, 2, cpu=2), budget=budget(max_unavailable=4)),
        BUSY,
        expect={"web": placed(n1=3, n2=1)},
        evicted=["web-a-1"],
    ),
    scenario(
        "a gang of one pod moves whole",
        job("web", gang=1, cpu=4),
        BUSY,
        pods=[other("stays", "n1", cpu=6)],
        expect={"web": placed(n2=1)},
        evicted=["web-worker-0"],
    ),
    scenario(
        "but for one that would have its new node use too much",
        job("web", gang=1, cpu=4),
        BUSY,
        pods=[other("stays", "n1", cpu=1)],
        expect={"web": placed(n1=1)},
    ),
    scenario(
        "a gang of two that needs both stays",
        job("web", gang=2, cpu=4),
        BUSY,
        expect={"web": placed(n1=2)},
    ),
    scenario(
        "of a gang without a budget one pod goes in a round",
        many(5, budget=None),
        BUSY,
        expect={"web": placed(n1=4, n2=1)},
        evicted=["web-worker-4"],
    ),
    scenario(
        "pods that may not be evicted stay",
        many(5, preemptable=False),
        BUSY,
        expect={"web": placed(n1=5)},
    ),
    scenario(
        "pods of the system stay",
        many(5, pod_priority=2_000_000_000),
        BUSY,
        expect={"web": placed(n1=5)},
    ),
    scenario(
        "pods of a class that is to be spared, and of higher priority, stay",
        many(5, priority=100),
        lambda world: world.model.apply_priority_class(c.PriorityClassState(name="vip", value=100)),
        BUSY,
        policy=levels(spared="vip"),
        expect={"web": placed(n1=5)},
    ),
    scenario(
        "pods of lower priority than the class leave",
        many(5, priority=99),
        lambda world: world.model.apply_priority_class(c.PriorityClassState(name="vip", value=100)),
        BUSY,
        policy=levels(spared="vip"),
        expect={"web": placed(n1=3, n2=2)},
        evicted=["web-worker-3", "web-worker-4"],
    ),
    scenario(
        "while there is no such class nobody leaves",
        many(5),
        BUSY,
        policy=levels(spared="vip"),
        expect={"web": placed(n1=5)},
    ),
    scenario(
        "only pods of the queues that are named leave",
        many(5),
        BUSY,
        policy=levels(queues=("other",)),
        expect={"web": placed(n1=5)},
    ),
    scenario(
        "so do pods of a queue that may hold less than it does: they would not come back",
        many(5),
        sets(queue("default", cpu=9)),
        BUSY,
        expect={"web": placed(n1=5)},
    ),
    scenario(
        "one that may hold just what it does keeps its pods, wherever they are",
        many(5),
        sets(queue("default", cpu=10)),
        BUSY,
        expect={"web": placed(n1=3, n2=2)},
        evicted=["web-worker-3", "web-worker-4"],
    ),
    scenario(
        "pods that came not long ago stay",
        many(5),
        BUSY,
        then=[passes(1799), adds(OPEN), BUSY],
        expect={"web": placed(n1=5)},
    ),
    scenario(
        "so do those that began not as long ago as the policy asks for",
        many(5),
        BUSY,
        policy=replace(PLAIN, eviction=Eviction(min_run_time=timedelta(hours=2))),
        expect={"web": placed(n1=5)},
    ),
    scenario(
        "a pod for which there is no room elsewhere stays",
        job("web", gang=1, cpu=6),
        BUSY,
        pods=[other("there", "n2", cpu=5)],
        expect={"web": placed(n1=1)},
    ),
    scenario(
        "one that may run nowhere else stays",
        many(5, on=["n1"]),
        BUSY,
        expect={"web": placed(n1=5)},
    ),
    scenario(
        "a cordoned node gets no pods",
        many(5),
        adds(TWO[1]),
        BUSY,
        expect={"web": placed(n1=5)},
    ),
    scenario(
        "what is placed on a node counts there before figures show it",
        many(5),
        submits(job("new", gang=1, cpu=5, on=["n2"])),
        BUSY,
        expect={"web": placed(n1=5)},
    ),
]
ROUNDS = [
    scenario(
        "after a round nobody leaves until the figures show it",
        many(5),
        BUSY,
        passes(599),
        BUSY,
        expect={"web": placed(n1=3, n2=2)},
        evicted=["web-worker-3", "web-worker-4"],
    ),
    scenario(
        "then others may",
        many(5),
        BUSY,
        passes(600),
        measures(n1=(80, 10), n2=(0, 10)),
        expect={"web": placed(n1=2, n2=3)},
        evicted=["web-worker-2", "web-worker-3", "web-worker-4"],
    ),
    scenario(
        "a longer interval holds",
        many(5),
        BUSY,
        passes(HOUR - 1),
        BUSY,
        policy=levels(period=timedelta(hours=1)),
        expect={"web": placed(n1=3, n2=2)},
        evicted=["web-worker-3", "web-worker-4"],
    ),
    scenario(
        "a pod that moved does not come back at once, though its new node uses too much now",
        many(5),
        BUSY,
        passes(900),
        measures(n1=(10, 10), n2=(90, 10)),
        expect={"web": placed(n1=3, n2=2)},
        evicted=["web-worker-3", "web-worker-4"],
    ),
]


@pytest.mark.parametrize("one", [*LEAVING, *STAYING, *ROUNDS], ids=lambda one: one.name)
def test_levelling(one: Scenario) -> None:
    one.run()


def busy(policy: Policy = PLAIN, web: c.Gang | None = None) -> World:
    """The world of most scenarios, before anything is decided about n1, which uses too much."""
    world = World(policy)
    world.queue(queue("default"))
    for one in TWO:
        world.node(one)
    world.submit(web or many(5))
    world.settle()
    for step in lately(BUSY):
        step(world)
    return world


def test_one_decision_about_a_gang_says_who_leaves_why_and_where_room_is_kept() -> None:
    world = busy()
    [decision] = world.decide()
    assert (decision.name, decision.rows, decision.enqueue) == ("web", [], False)
    names = [(one.pod, one.gang) for one in decision.evictions]
    assert names == [("web-worker-3", "web"), ("web-worker-4", "web")]
    reason = "node n1 really uses 80% of its CPU, more than 50%: room is kept on n2"
    assert {one.reason for one in decision.evictions} == {reason}
    [kept] = decision.reservations
    assert (kept.node, kept.pods, kept.resources["cpu"]) == ("n2", 2, 4000)
    assert kept.gang is not None
    assert kept.gang.name == "web"


def test_a_gang_whose_only_pod_moves_says_where_to() -> None:
    world = busy(web=job("web", gang=1, cpu=4))
    world.pod(other("stays", "n1", cpu=6))
    world.pass_time(HOUR)
    BUSY(world)
    [decision] = world.decide()
    world.carry_out(decision)
    assert world.decide() == []
    reason = reports(world)["web"].reason
    assert reason.code == "moving"
    words = "moves off nodes that really use too much: room for 1 of its pods is kept on n2"
    assert reason.message == words


def test_disruption_budgets_are_kept_whatever_plugins_are_named() -> None:
    world = busy()
    world.model.apply_budget(c.PodDisruptionBudgetState(namespace="ns", name="b", disruptions_allowed=1))
    for pod in list(world.books.pods.values()):
        world.pod(pod.model_copy(update={"budgets": ("b",)}))
    [decision] = world.decide()
    assert len(decision.evictions) == 1


def test_the_scheduler_looks_again_when_a_round_is_due() -> None:
    world = busy()
    at = world.now
    world.settle()
    world.pass_time(180)
    assert decide(world.model, world.now).wake_at == at + timedelta(minutes=10)
    world = busy(web=many(5, on=["n1"]))
    assert decide(world.model, world.now).wake_at == world.now + timedelta(minutes=5)


def test_no_round_is_begun_where_no_node_uses_too_much() -> None:
    world = busy()
    measures(n1=(50, 10), n2=(0, 10))(world)
    assert world.decide() == []
    world.pass_time(1)
    BUSY(world)
    assert len(world.decide()) == 1


@pytest.mark.parametrize("seconds", [0, 599, 600])
def test_a_replay_decides_the_same_as_the_cycle_record_says_until_when_it_paused(seconds: float) -> None:
    world = busy()
    world.settle()
    world.pass_time(seconds)
    BUSY(world)
    again = rebuilt(world, seed=3)
    found, replayed = decide(world.model, world.now), decide(again, world.now)
    assert bool(found.decisions) == (seconds == 600)
    assert (
        differences([event(one) for one in found.decisions], [event(one) for one in replayed.decisions]) == []
    )
    assert again.pauses == world.model.pauses


def test_a_pod_that_does_not_go_stays_and_nothing_is_kept_for_it() -> None:
    world = busy()
    [decision] = world.decide()
    world.carry_out(decision, fail=frozenset({"web-worker-4"}))
    world.victims_go()
    world.pass_time(1)
    world.settle()
    assert world.model.earmarks.of(("ns", "web")) is None
    assert sorted(pod.name for pod in world.members(("ns", "web")) if pod.node) == [
        f"web-worker-{number}" for number in range(5)
    ]
