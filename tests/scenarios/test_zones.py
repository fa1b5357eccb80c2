"""Zones of nodes that are open at some hours (Volcano's ``tdm``), as scenarios. They begin at midnight."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.core.cycle import decide
from services.scheduler.core.policy import Eviction, Grouping, Policy, Scores, Sharing, Window, Zones
from services.scheduler.core.zones import next_change, open_zones
from shared.api.names import NODEGROUP_NAME, REVOCABLE_ZONE
from shared.events import contracts as c
from tests.scenarios.scenario import (
    RUNNING,
    Scenario,
    adds,
    job,
    node,
    passes,
    placed,
    queue,
    submits,
    task,
    uses,
    waits,
)
from tests.scenarios.world import START, World

HOUR = 3600.0
NIGHT = Zones((Window("z", 22 * 60, 6 * 60),))
DAY = Zones((Window("z", 6 * 60, 22 * 60),))
OPEN, SHUT = Policy(zones=NIGHT), Policy(zones=DAY)
STAYING = Policy(zones=replace(NIGHT, evicts=False))
LASTING = Policy(zones=NIGHT, eviction=Eviction(reclaim=False, preempt_filters=(("tdm", "conformance"),)))


def of(zone: str, name: str, **what: Any) -> c.NodeState:
    """A node of a zone."""
    return node(name, labels={REVOCABLE_ZONE: zone}, **what)


def unavailable(count: int) -> c.JobBudget:
    return c.JobBudget(max_unavailable=count)


def spot(name: str, priority: int) -> c.GangTask:
    return task(name, 1, cpu=1, revocable=True, pod_priority=priority)


WHERE = [
    Scenario(
        "pods that may be evicted run in a zone that is open rather than elsewhere",
        nodes=[node("n1", cpu=8), of("z", "n2", cpu=8)],
        jobs=[job("spot", gang=2, cpu=1, revocable=True)],
        policy=OPEN,
        expect={"spot": placed(n2=2)},
    ),
    Scenario(
        "they run elsewhere while it is closed",
        nodes=[node("n1", cpu=8), of("z", "n2", cpu=8)],
        jobs=[job("spot", gang=2, cpu=1, revocable=True)],
        policy=SHUT,
        expect={"spot": placed(n1=2)},
    ),
    Scenario(
        "where there is nothing else they wait for its hours, and the reason says so",
        nodes=[of("z", "n2", cpu=8)],
        jobs=[job("spot", gang=2, cpu=1, revocable=True)],
        policy=SHUT,
        expect={"spot": waits("no-node-open", "is of zones whose hours these are not")},
    ),
    Scenario(
        "and start when they begin",
        nodes=[of("z", "n2", cpu=8)],
        jobs=[job("spot", gang=2, cpu=1, revocable=True)],
        then=[passes(6 * HOUR)],
        policy=SHUT,
        expect={"spot": placed(n2=2)},
    ),
    Scenario(
        "other pods do not run in a zone, at no time",
        nodes=[of("z", "n2", cpu=8)],
        jobs=[job("web", gang=1, cpu=1)],
        then=[passes(23 * HOUR)],
        policy=OPEN,
        expect={"web": waits("no-node-revocable", "for pods that may be evicted")},
    ),
    Scenario(
        "a zone that the policy does not name is always closed",
        nodes=[of("y", "n2", cpu=8)],
        jobs=[job("spot", gang=1, cpu=1, revocable=True)],
        policy=OPEN,
        expect={"spot": waits("no-node-open")},
    ),
    Scenario(
        "where only scores count, a zone is for everybody and liked by those that may be evicted",
        nodes=[node("n1", cpu=8), of("z", "n2", cpu=8)],
        jobs=[job("spot", gang=1, cpu=1, revocable=True), job("web", gang=8, cpu=1, at=1)],
        policy=Policy(scores=Scores(binpack_weight=0.0), zones=replace(NIGHT, filters=False)),
        expect={"spot": placed(n2=1), "web": placed(n1=8)},
    ),
    Scenario(
        "without the plugin zones mean nothing",
        nodes=[of("z", "n1")],
        jobs=[job("web", gang=1, cpu=1)],
        expect={"web": RUNNING},
    ),
    Scenario(
        "groups of nodes and zones hold together",
        nodes=[of("z", "n1"), node("n2", labels={REVOCABLE_ZONE: "z", NODEGROUP_NAME: "a"})],
        queues=[queue("q", groups=c.NodeGroups(required=("a",)))],
        jobs=[job("spot", gang=1, cpu=1, queue="q", revocable=True), job("web", gang=1, cpu=1, queue="q")],
        policy=Policy(zones=NIGHT, grouping=Grouping()),
        expect={
            "spot": placed(n2=1),
            "web": waits("no-node-in-group", "1 is of no group", "1 node is of zones for pods"),
        },
    ),
    Scenario(
        "a node that is taken out of its zone is for everybody",
        nodes=[of("z", "n1")],
        jobs=[job("web", gang=1, cpu=1)],
        then=[adds(node("n1"))],
        policy=OPEN,
        expect={"web": RUNNING},
    ),
    Scenario(
        "a policy with zones holds for pods that wait already",
        nodes=[of("z", "n1", cpu=1)],
        jobs=[job("web", gang=1, cpu=2), job("spot", gang=1, cpu=2, revocable=True)],
        then=[uses(OPEN), adds(of("z", "n2", cpu=2))],
        expect={"web": waits("no-node-revocable"), "spot": placed(n2=1)},
    ),
    Scenario(
        "gangs that their owners do not give up come first where that is compared",
        nodes=[node("n1", cpu=2)],
        jobs=[job("spot", gang=1, cpu=2, revocable=True), job("web", gang=1, cpu=2, at=9)],
        policy=Policy(sharing=Sharing(gang_order=("lasting",)), zones=NIGHT),
        expect={"web": RUNNING, "spot": waits("no-room")},
    ),
]
CLEARED = [
    Scenario(
        "pods are evicted from a zone that closes, one of each gang where no budget says more",
        nodes=[of("z", "n1", cpu=8), node("n2", cpu=8)],
        jobs=[job("spot", gang=3, cpu=1, revocable=True)],
        then=[passes(6 * HOUR)],
        policy=OPEN,
        expect={"spot": placed(n1=2, n2=1)},
        evicted=["spot-worker-2"],
    ),
    Scenario(
        "and the others in the rounds after it",
        nodes=[of("z", "n1", cpu=8), node("n2", cpu=8)],
        jobs=[job("spot", gang=3, cpu=1, revocable=True)],
        then=[passes(6 * HOUR), passes(59), passes(1), passes(60)],
        policy=OPEN,
        expect={"spot": placed(n2=3)},
        evicted=[f"spot-worker-{number}" for number in range(3)],
    ),
    Scenario(
        "as many at a time as may be unavailable",
        nodes=[of("z", "n1", cpu=8), node("n2", cpu=8)],
        jobs=[job("spot", gang=4, cpu=1, revocable=True, budget=unavailable(3))],
        then=[passes(6 * HOUR)],
        policy=OPEN,
        expect={"spot": placed(n1=1, n2=3)},
        evicted=["spot-worker-1", "spot-worker-2", "spot-worker-3"],
    ),
    Scenario(
        "those that are away already count",
        nodes=[of("z", "n1", cpu=8)],
        jobs=[job("spot", gang=4, cpu=1, revocable=True, budget=unavailable(3))],
        then=[passes(6 * HOUR), passes(60), passes(60)],
        policy=OPEN,
        expect={"spot": placed(n1=1)},
        evicted=["spot-worker-1", "spot-worker-2", "spot-worker-3"],
    ),
    Scenario(
        "so many stay as must be available, and of a gang below that nobody goes",
        nodes=[of("z", "n1", cpu=8)],
        jobs=[
            job("spot", gang=4, cpu=1, revocable=True, budget=c.JobBudget(min_available=3)),
            job("low", gang=2, cpu=1, revocable=True, budget=c.JobBudget(min_available=5)),
        ],
        then=[passes(6 * HOUR), passes(60)],
        policy=OPEN,
        expect={"spot": placed(n1=3), "low": placed(n1=2)},
        evicted=["spot-worker-3"],
    ),
    Scenario(
        "of a gang the pods of the lowest priority go first, then the last",
        nodes=[of("z", "n1", cpu=8)],
        jobs=[job("spot", spot("a", 9), spot("b", 1), budget=unavailable(1))],
        then=[passes(6 * HOUR)],
        policy=OPEN,
        expect={"spot": placed(n1=1)},
        evicted=["spot-b-0"],
    ),
    Scenario(
        "pods that may not be evicted stay, wherever they came from",
        nodes=[node("n1", cpu=8)],
        jobs=[job("web", gang=1, cpu=1, preemptable=False)],
        then=[adds(of("y", "n1", cpu=8)), passes(6 * HOUR)],
        policy=OPEN,
        expect={"web": placed(n1=1)},
    ),
    Scenario(
        "nobody is evicted while the zone is open",
        nodes=[of("z", "n1", cpu=8)],
        jobs=[job("spot", gang=1, cpu=1, revocable=True)],
        then=[passes(5 * HOUR)],
        policy=OPEN,
        expect={"spot": placed(n1=1)},
    ),
    Scenario(
        "nobody is evicted where shuffle is not among the actions",
        nodes=[of("z", "n1", cpu=8)],
        jobs=[job("spot", gang=1, cpu=1, revocable=True)],
        then=[passes(6 * HOUR)],
        policy=STAYING,
        expect={"spot": placed(n1=1)},
    ),
]
VOTES = [
    Scenario(
        "with tdm's vote a gang that may not be evicted preempts pods that may, one of each gang",
        nodes=[node("n1", cpu=2)],
        jobs=[job("spot", replicas=2, gang=1, cpu=1, revocable=True)],
        then=[submits(job("web", gang=1, cpu=1, priority=9, preemptable=False, at=1))],
        policy=LASTING,
        expect={"web": RUNNING, "spot": placed(n1=1)},
        evicted=["spot-worker-1"],
    ),
    Scenario(
        "and one that may be evicted itself preempts nobody",
        nodes=[node("n1", cpu=2)],
        jobs=[job("spot", replicas=2, gang=1, cpu=1, revocable=True)],
        then=[submits(job("high", gang=1, cpu=1, priority=9, at=1))],
        policy=LASTING,
        expect={"high": waits("no-room"), "spot": placed(n1=2)},
    ),
]


@pytest.mark.parametrize("scenario", [*WHERE, *CLEARED, *VOTES], ids=lambda one: one.name)
def test_zones(scenario: Scenario) -> None:
    scenario.run()


def test_disruption_budgets_are_kept_where_they_are_asked() -> None:
    world = World(OPEN)
    world.queue(queue("default"))
    world.node(of("z", "n1", cpu=8))
    world.submit(job("spot", gang=3, cpu=1, revocable=True, budget=unavailable(3)))
    world.settle()
    world.model.apply_budget(c.PodDisruptionBudgetState(namespace="ns", name="b", disruptions_allowed=1))
    for pod in list(world.books.pods.values()):
        world.pod(pod.model_copy(update={"budgets": ("b",)}))
    world.pass_time(6 * HOUR)
    [decision] = world.decide()
    assert len(decision.evictions) == 1
    assert decision.evictions[0].reason == "node n1 is of zone z, whose hours are over"


def test_the_scheduler_looks_again_when_a_zone_opens_or_closes_and_when_a_round_is_due() -> None:
    world = World(OPEN)
    world.queue(queue("default"))
    world.node(of("z", "n1", cpu=8))
    world.submit(job("spot", gang=2, cpu=1, revocable=True))
    world.settle()
    world.pass_time(600)
    world.settle()
    assert decide(world.model, world.now).wake_at == START + timedelta(hours=6)
    world.pass_time(6 * HOUR - 600)
    world.settle()
    wake = decide(world.model, world.now).wake_at
    assert wake is not None
    assert wake <= START + timedelta(hours=6, minutes=1)


@given(st.integers(0, 1439), st.integers(0, 1439), st.integers(0, 2 * 86_400 - 1))
def test_hours_are_those_of_a_clock_that_goes_round(begins: int, ends: int, second: int) -> None:
    zones = Zones((Window("z", begins, ends),))
    now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
    minutes = {(begins + more) % 1440 for more in range((ends - begins) % 1440 or 1440)}
    here = now.hour * 60 + now.minute in minutes
    assert open_zones(zones, now) == (frozenset("z") if here else frozenset())
    change = next_change(zones, now)
    assert change is not None
    assert timedelta(0) < change - now <= timedelta(days=1)
    if begins != ends:
        assert (open_zones(zones, change) == frozenset()) == here
    before = change - timedelta(seconds=1)
    assert before < now or open_zones(zones, before) == open_zones(zones, now)
