"""What nodes really use (Volcano's ``usage``), as scenarios: which nodes take no pods, and which are better."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from services.scheduler.core.load import LoadLimit, LoadScore
from services.scheduler.core.policy import Policy, Scores
from shared.events import contracts as c
from tests.scenarios.scenario import (
    Scenario,
    Step,
    adds,
    finishes,
    job,
    node,
    other,
    passes,
    placed,
    submits,
    task,
    uses,
    waits,
)
from tests.scenarios.world import START, World

PLAIN = replace(Scores(), binpack_weight=0.0, load=LoadScore())
SCORED = Policy(scores=PLAIN)
LIMITED = Policy(scores=Scores(binpack_weight=0.0), load_limit=LoadLimit(cpu=80, memory=70))
BOTH = Policy(scores=PLAIN, load_limit=LoadLimit())
MINUTE = 60.0


def measures(**percent: tuple[float, float]) -> Step:
    """Nodes use so much of their CPU and memory, as is found now."""

    return lambda world: world.measure(
        {name: cpu for name, (cpu, _) in percent.items()},
        {name: memory for name, (_, memory) in percent.items()},
    )


def measured(pool: str = "default", at: float = 0, **cpu: float) -> Step:
    """Figures of CPU alone, found ``at`` seconds after the beginning."""
    event = c.NodesMeasured(pool=pool, at=START + timedelta(seconds=at), cpu=cpu)
    return lambda world: world.model.apply_measured(event)


def forgets(world: World) -> None:
    """The record of the figures is deleted."""
    world.model.forget_measured()


def running(name: str, on: str, *, since: float, **wants: float) -> c.PodState:
    """A pod of somebody else that began so many seconds before the beginning."""
    begun = START - timedelta(seconds=since)
    return other(name, on, **wants).model_copy(update={"started_at": begun, "scheduled_at": begun})


TWO = [node("n1", cpu=8), node("n2", cpu=8)]
EACH = [job("a", gang=1, cpu=1), job("b", gang=1, cpu=1, at=1)]

LIMITS = [
    Scenario(
        "a node that uses more CPU than the threshold takes no pod",
        nodes=TWO,
        then=[measures(n1=(81, 10), n2=(80, 70)), submits(job("a", gang=2, cpu=1))],
        policy=LIMITED,
        expect={"a": placed(n2=2)},
    ),
    Scenario(
        "one that uses more memory takes none either",
        nodes=TWO,
        then=[measures(n1=(10, 70.5), n2=(80, 70)), submits(job("a", gang=2, cpu=1))],
        policy=LIMITED,
        expect={"a": placed(n2=2)},
    ),
    Scenario(
        "where all do a gang waits, and the reason says by how much",
        nodes=TWO,
        then=[measures(n1=(90, 10), n2=(95, 10)), submits(job("a", gang=1, cpu=1))],
        policy=LIMITED,
        expect={"a": waits("no-node-unloaded", "2 really use more than 80% of their CPU")},
    ),
    Scenario(
        "the reason names what is exceeded",
        nodes=[node("n1")],
        then=[measures(n1=(90, 90)), submits(job("a", gang=1, cpu=1))],
        policy=LIMITED,
        expect={
            "a": waits("no-node-unloaded", "1 really uses more than 80% of its CPU or 70% of its memory")
        },
    ),
    Scenario(
        "it starts when a node has less to do",
        nodes=TWO,
        jobs=[job("late", gang=1, cpu=8, at=5)],
        then=[
            measures(n1=(90, 10), n2=(95, 10)),
            submits(job("a", gang=2, cpu=4)),
            passes(30),
            finishes("late"),
            measures(n1=(90, 10), n2=(79, 10)),
        ],
        policy=LIMITED,
        expect={"a": placed(n2=2)},
    ),
    Scenario(
        "and when nobody has measured for five minutes",
        nodes=[node("n1")],
        then=[measures(n1=(90, 10)), submits(job("a", gang=1, cpu=1)), passes(5 * MINUTE)],
        policy=LIMITED,
        expect={"a": placed(1)},
    ),
    Scenario(
        "but not before",
        nodes=[node("n1")],
        then=[measures(n1=(90, 10)), submits(job("a", gang=1, cpu=1)), passes(5 * MINUTE - 1)],
        policy=LIMITED,
        expect={"a": waits("no-node-unloaded")},
    ),
    Scenario(
        "figures that are older than those known change nothing",
        nodes=[node("n1")],
        then=[passes(60), measures(n1=(90, 10)), measured(at=30, n1=10), submits(job("a", gang=1, cpu=1))],
        policy=LIMITED,
        expect={"a": waits("no-node-unloaded")},
    ),
    Scenario(
        "figures of another pool change nothing",
        nodes=[node("n1")],
        then=[measured(pool="other", n1=90), submits(job("a", gang=1, cpu=1))],
        policy=LIMITED,
        expect={"a": placed(1)},
    ),
    Scenario(
        "figures that are taken back count no more",
        nodes=[node("n1")],
        then=[measures(n1=(90, 10)), submits(job("a", gang=1, cpu=1)), forgets],
        policy=LIMITED,
        expect={"a": placed(1)},
    ),
    Scenario(
        "figures may come before their node",
        then=[measures(n1=(90, 10)), adds(node("n1")), submits(job("a", gang=1, cpu=1))],
        policy=LIMITED,
        expect={"a": waits("no-node-unloaded")},
    ),
    Scenario(
        "a node that comes again under another's name is known by its own figures",
        nodes=[node("n1")],
        then=[
            measures(n1=(90, 10), n2=(10, 10)),
            lambda w: w.remove_node("n1"),
            adds(node("n2")),
            submits(job("a", gang=1, cpu=1)),
        ],
        policy=LIMITED,
        expect={"a": placed(n2=1)},
    ),
    Scenario(
        "without a threshold nodes take pods whatever they use",
        nodes=[node("n1")],
        then=[measures(n1=(99, 99)), submits(job("a", gang=1, cpu=1))],
        policy=SCORED,
        expect={"a": placed(1)},
    ),
    Scenario(
        "a policy that asks for thresholds finds the figures that were told before",
        nodes=[node("n1")],
        then=[measures(n1=(90, 10)), uses(LIMITED), submits(job("a", gang=1, cpu=1))],
        expect={"a": waits("no-node-unloaded")},
    ),
    Scenario(
        "one that asks no more lets pods run anywhere",
        nodes=[node("n1")],
        then=[measures(n1=(90, 10)), submits(job("a", gang=1, cpu=1)), uses(Policy())],
        policy=LIMITED,
        expect={"a": placed(1)},
    ),
]

BETTER = [
    Scenario(
        "of nodes with room the one that really uses less is taken",
        nodes=TWO,
        then=[measures(n1=(50, 40), n2=(40, 40)), submits(job("a", gang=1, cpu=1))],
        policy=SCORED,
        expect={"a": placed(n2=1)},
    ),
    Scenario(
        "memory counts as much as CPU",
        nodes=TWO,
        then=[measures(n1=(30, 60), n2=(40, 40)), submits(job("a", gang=1, cpu=1))],
        policy=SCORED,
        expect={"a": placed(n2=1)},
    ),
    Scenario(
        "unless it weighs less",
        nodes=TWO,
        then=[measures(n1=(30, 60), n2=(40, 40)), submits(job("a", gang=1, cpu=1))],
        policy=Policy(scores=replace(PLAIN, load=LoadScore(memory_weight=0.1))),
        expect={"a": placed(n1=1)},
    ),
    Scenario(
        "a node of which nothing is known comes last",
        nodes=TWO,
        then=[measures(n2=(90, 90)), submits(job("a", gang=1, cpu=1))],
        policy=SCORED,
        expect={"a": placed(n2=1)},
    ),
    Scenario(
        "after five minutes nothing is known of any",
        nodes=TWO,
        then=[measures(n2=(10, 10)), passes(5 * MINUTE), submits(job("a", gang=1, cpu=1))],
        policy=SCORED,
        expect={"a": placed(n1=1)},
    ),
    Scenario(
        "pods of one decision go where those before them leave the most",
        nodes=TWO,
        then=[measures(n1=(10, 10), n2=(20, 10)), submits(job("a", gang=4, cpu=1))],
        policy=SCORED,
        expect={"a": placed(n1=3, n2=1)},
    ),
    Scenario(
        "pods that have just begun count by what they ask for",
        nodes=TWO,
        pods=[running("young", "n1", since=10, cpu=4)],
        then=[measures(n1=(10, 10), n2=(40, 10)), submits(job("a", gang=1, cpu=1))],
        policy=SCORED,
        expect={"a": placed(n2=1)},
    ),
    Scenario(
        "those that run for longer are in the figures",
        nodes=TWO,
        pods=[running("old", "n1", since=30, cpu=4)],
        then=[measures(n1=(10, 10), n2=(40, 10)), submits(job("a", gang=1, cpu=1))],
        policy=SCORED,
        expect={"a": placed(n1=1)},
    ),
    Scenario(
        "and are so as time passes",
        nodes=TWO,
        pods=[running("young", "n1", since=10, cpu=4)],
        then=[measures(n1=(10, 10), n2=(40, 10)), passes(20), submits(job("a", gang=1, cpu=1))],
        policy=SCORED,
        expect={"a": placed(n1=1)},
    ),
    Scenario(
        "pods that ask for nothing are taken to use something",
        nodes=[node("n1", cpu=1), node("n2", cpu=1)],
        pods=[running("plain", "n1", since=10, cpu=0)],
        then=[measures(n1=(10, 10), n2=(30, 10)), submits(job("a", gang=1, cpu=0))],
        policy=SCORED,
        expect={"a": placed(n2=1)},
    ),
    Scenario(
        "thresholds and scores go together",
        nodes=[*TWO, node("n3", cpu=8)],
        then=[measures(n1=(85, 0), n2=(60, 60), n3=(50, 50)), submits(job("a", task("w", 2, cpu=1)))],
        policy=BOTH,
        expect={"a": placed(n3=2)},
    ),
]


@pytest.mark.parametrize("scenario", [*LIMITS, *BETTER], ids=lambda scenario: scenario.name)
def test_load(scenario: Scenario) -> None:
    scenario.run()


def test_a_closed_node_has_the_cycle_wake_up_when_its_figures_are_too_old() -> None:
    world = World(LIMITED)
    world.node(node("n1"))
    measures(n1=(90, 10))(world)
    world.decide()
    assert world.model.measured.next() == (START + timedelta(minutes=5)).timestamp()
    measures(n1=(10, 10))(world)
    world.decide()
    assert world.model.measured.next() is None


def test_figures_cost_nothing_where_no_policy_asks_for_them() -> None:
    world = World()
    world.node(node("n1"))
    world.decide()
    before = world.model.nodes.log.end, world.model.nodes.load.version
    measures(n1=(99, 99))(world)
    world.pod(running("young", "n1", since=0, cpu=4))
    seen = world.model.nodes.log.end
    world.decide()
    assert world.model.nodes.load.version == before[1]
    assert world.model.nodes.log.end == seen
    assert world.model.nodes.load.unasked is None
