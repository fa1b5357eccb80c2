"""Pods that have CPUs for themselves on nodes that align them (Volcano's ``numa-aware``), as scenarios."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from services.scheduler.core.events import event_of
from services.scheduler.core.model import Model
from services.scheduler.core.policy import Policy, Scores
from services.scheduler.core.results import adopt
from shared.events import contracts as c
from tests.scenarios.scenario import (
    RUNNING,
    Scenario,
    Step,
    ends,
    job,
    node,
    placed,
    queue,
    submits,
    task,
    uses,
    waits,
)
from tests.scenarios.world import START, World

AWARE = Policy(numa=True)
NARROW = Policy(numa=True, scores=Scores(numa_weight=1.0))
SINGLE, RESTRICTED, BEST = "single-numa-node", "restricted", "best-effort"


def topology(
    policy: str, *cpus: int, usable: Mapping[int, int] | None = None, manager: str = "static"
) -> c.NumaTopology:
    """NUMA nodes with so many CPUs; all of them for pods but where ``usable`` says otherwise, by number."""
    nodes = (
        c.NumaNode(number=number, cpus=count, usable=(usable or {}).get(number, count))
        for number, count in enumerate(cpus)
    )
    return c.NumaTopology(cpu_manager=manager, policy=policy, nodes=tuple(nodes))


def machine(name: str, policy: str, *cpus: int, more: int = 0, **what: Any) -> c.NodeState:
    """A node with NUMA nodes, and ``more`` CPUs than they have."""
    return node(name, cpu=sum(cpus) + more, numa=topology(policy, *cpus, **what))


def has(name: str, *cells: tuple[int, int]) -> Step:
    """Expect that a job's first pod has these CPUs."""

    def step(world: World) -> None:
        pod = world.books.pods["ns", f"{name}-worker-0"]
        assert [(one.node, one.cpus) for one in pod.numa] == list(cells)

    return step


def moved(name: str, *cells: tuple[int, int]) -> Step:
    """Kubelet gave a job's first pod other CPUs than it was told."""

    def step(world: World) -> None:
        pod = world.books.pods["ns", f"{name}-worker-0"]
        cpus = tuple(c.NumaCpus(node=number, cpus=count) for number, count in cells)
        world.pod(pod.model_copy(update={"numa": cpus}))

    return step


def renode(state: c.NodeState) -> Step:
    return lambda world: world.node(state)


SCENARIOS = [
    Scenario(
        "pods that must be inside one NUMA node do not take what is free of several",
        nodes=[machine("n", SINGLE, 8, 8)],
        jobs=[job("a", gang=3, cpu=5, numa=SINGLE)],
        policy=AWARE,
        expect={
            "a": waits(
                "gang-too-large",
                "for each of 3 pods; even empty, 1 of 1 nodes would hold 2 of them",
            )
        },
    ),
    Scenario(
        "a gang takes the NUMA nodes one after the other, and mates see what mates have",
        nodes=[machine("n", SINGLE, 8, 8)],
        jobs=[job("a", gang=4, cpu=4, numa=SINGLE)],
        policy=AWARE,
        expect={"a": placed(n=4)},
    ),
    Scenario(
        "where CPUs are free in pieces only the reason counts nodes and says the largest piece",
        nodes=[machine("n", SINGLE, 8, 8)],
        jobs=[job("a", gang=2, cpu=5, numa=SINGLE), job("b", gang=1, cpu=6, numa=SINGLE, at=1)],
        policy=AWARE,
        expect={
            "a": placed(n=2),
            "b": waits(
                "no-room",
                "needs 6 CPUs for itself, by NUMA policy single-numa-node, on one node for each of 1 pods: 0 fit "
                "now; 0 of 1 nodes have them free so, and the most that is free of one NUMA node is 3",
            ),
        },
    ),
    Scenario(
        "a later pod comes where an earlier one has left",
        nodes=[machine("n", SINGLE, 8, 8)],
        jobs=[job("a", gang=1, cpu=5, numa=SINGLE), job("b", gang=2, cpu=5, numa=SINGLE, at=1)],
        policy=AWARE,
        then=[ends("a-worker-0")],
        expect={"b": placed(n=2)},
    ),
    Scenario(
        "only nodes of the very policy will do",
        nodes=[
            machine("best", BEST, 8),
            machine("restricted", RESTRICTED, 8),
            machine("none", "none", 8),
            machine("shared", SINGLE, 8, manager="none"),
            node("silent"),
        ],
        jobs=[job("a", gang=1, cpu=2, numa=SINGLE)],
        policy=AWARE,
        expect={
            "a": waits(
                "no-node-aligns",
                "of 5 nodes, 5 do not align pods by NUMA policy single-numa-node (",
                "1 with topology manager policy best-effort",
            )
        },
    ),
    Scenario(
        "pods without a policy go anywhere, by the policy of the node",
        nodes=[machine("n", SINGLE, 8, 8)],
        jobs=[job("a", gang=1, cpu=10, numa="")],
        policy=AWARE,
        expect={
            "a": waits(
                "pod-too-large",
                "needs 10 CPUs for itself, by the NUMA policy of the node; even empty, no node has them so: the "
                "most that pods can have of one NUMA node is 8",
            )
        },
    ),
    Scenario(
        "pods that share their CPUs take no notice of NUMA nodes",
        nodes=[machine("n", SINGLE, 8, 8)],
        jobs=[job("a", gang=1, cpu=10)],
        policy=AWARE,
        expect={"a": placed(n=1)},
    ),
    Scenario(
        "restricted takes two NUMA nodes where one would never do",
        nodes=[machine("n", RESTRICTED, 8, 8, 8)],
        jobs=[job("a", gang=1, cpu=12, numa=RESTRICTED)],
        policy=AWARE,
        then=[has("a", (0, 8), (1, 4))],
        expect={"a": placed(n=1)},
    ),
    Scenario(
        "restricted does not take two NUMA nodes where one would do if it were free",
        nodes=[machine("n", RESTRICTED, 8, 8)],
        jobs=[job("a", gang=2, cpu=5, numa=RESTRICTED), job("b", gang=1, cpu=6, numa=RESTRICTED, at=1)],
        policy=AWARE,
        expect={"a": placed(n=2), "b": waits("no-room", "the most that is free of one NUMA node is 3")},
    ),
    Scenario(
        "best effort takes what there is",
        nodes=[machine("n", BEST, 8, 8)],
        jobs=[job("a", gang=2, cpu=5, numa=BEST), job("b", gang=1, cpu=6, numa=BEST, at=1)],
        policy=AWARE,
        then=[has("b", (0, 3), (1, 3))],
        expect={"a": placed(n=2), "b": placed(n=1)},
    ),
    Scenario(
        "no pod gets CPUs that are reserved, though they count for what one NUMA node could hold",
        nodes=[machine("n", RESTRICTED, 8, 8, usable={0: 4, 1: 4}, more=8)],
        jobs=[job("a", gang=1, cpu=6, numa=RESTRICTED)],
        policy=AWARE,
        expect={"a": waits("pod-too-large", "the most that pods can have of one NUMA node is 4")},
    ),
    Scenario(
        "each container is aligned for itself",
        nodes=[machine("n", SINGLE, 4, 4)],
        jobs=[job("a", gang=1, cpu=6, numa=SINGLE, own=(3, 3)), job("b", gang=1, cpu=2, numa=SINGLE, at=1)],
        policy=AWARE,
        then=[has("a", (0, 3), (1, 3))],
        expect={"a": placed(n=1), "b": waits("no-room")},
    ),
    Scenario(
        "what kubelet really gave counts instead of what was chosen",
        nodes=[machine("n", SINGLE, 8, 8)],
        jobs=[job("a", gang=1, cpu=6, numa=SINGLE)],
        policy=AWARE,
        then=[
            has("a", (0, 6)),
            moved("a", (1, 6)),
            submits(job("b", gang=1, cpu=7, numa=SINGLE)),
            has("b", (0, 7)),
        ],
        expect={"b": placed(n=1)},
    ),
    Scenario(
        "CPUs that a node has no more keep nobody from the others",
        nodes=[machine("n", SINGLE, 8, 8)],
        jobs=[job("a", gang=1, cpu=6, numa=SINGLE)],
        policy=AWARE,
        then=[
            renode(machine("n", SINGLE, 2, 8, more=6)),
            submits(job("b", gang=1, cpu=8, numa=SINGLE)),
            has("b", (1, 8)),
        ],
        expect={"b": placed(n=1)},
    ),
    Scenario(
        "without the plugin NUMA policies mean nothing",
        nodes=[machine("n", RESTRICTED, 8, 8)],
        jobs=[job("a", gang=3, cpu=5, numa=SINGLE)],
        expect={"a": placed(n=3)},
    ),
    Scenario(
        "a policy that is switched on at run time counts for all that comes, and sees who came before",
        nodes=[machine("n", SINGLE, 8, 8, more=16)],
        jobs=[job("a", gang=1, cpu=5, numa=SINGLE)],
        policy=AWARE,
        then=[
            uses(Policy()),
            submits(job("b", gang=1, cpu=9, numa=SINGLE)),
            uses(AWARE),
            submits(job("c", gang=1, cpu=8, numa=SINGLE)),
            has("c", (1, 8)),
            submits(job("d", gang=1, cpu=4, numa=SINGLE)),
        ],
        expect={"b": RUNNING, "c": RUNNING, "d": waits("no-room", "free of one NUMA node is 3")},
    ),
    Scenario(
        "of nodes that take a pod, the one wins where it has the CPUs of fewer NUMA nodes",
        nodes=[machine("a-two", BEST, 6, 6), machine("b-one", BEST, 12, 12)],
        jobs=[job("a", gang=1, cpu=8, numa=BEST)],
        policy=NARROW,
        expect={"a": placed(**{"b-one": 1})},
    ),
    Scenario(
        "without its score the fuller node wins",
        nodes=[machine("a-two", BEST, 6, 6), machine("b-one", BEST, 12, 12)],
        jobs=[job("a", gang=1, cpu=8, numa=BEST)],
        policy=AWARE,
        expect={"a": placed(**{"a-two": 1})},
    ),
    Scenario(
        "victims leave CPUs of one NUMA node, and only as many go as that takes",
        nodes=[machine("n", SINGLE, 8, 8)],
        queues=[queue("default")],
        jobs=[
            job("low", task("worker", 4, 0, cpu=4, numa=SINGLE), gang=0),
        ],
        policy=AWARE,
        then=[submits(job("high", gang=1, cpu=8, numa=SINGLE, priority=10)), has("high", (1, 8))],
        evicted=["low-worker-2", "low-worker-3"],
        expect={"high": placed(n=1), "low": placed(n=2)},
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
def test_numa(scenario: Scenario) -> None:
    scenario.run()


def test_a_decision_that_is_taken_back_frees_the_cpus_of_all_its_pods() -> None:
    world = World(AWARE)
    world.queue(queue("default"))
    world.node(machine("n", SINGLE, 8, 8))
    world.submit(job("a", gang=2, cpu=6, numa=SINGLE))
    (decision,) = world.decide()
    column = [world.model.resources.numa[number] for number in (0, 1)]
    slot = world.model.nodes.slot("n")
    assert world.model.nodes.used[column, slot].tolist() == [6, 6]
    world.carry_out(decision, frozenset({"a-worker-1"}))
    assert world.model.nodes.used[column, slot].tolist() == [0, 0]
    world.pass_time(60)
    world.settle()
    assert world.model.nodes.used[column, slot].tolist() == [6, 6]


@pytest.mark.parametrize("seen", [False, True])
def test_a_new_scheduler_counts_the_cpus_of_earlier_decisions_and_of_pods(seen: bool) -> None:
    old = World(AWARE)
    old.queue(queue("default"))
    old.node(machine("n", SINGLE, 8, 8))
    old.submit(job("a", gang=1, cpu=6, numa=SINGLE))
    (decision,) = old.decide()
    new = World(AWARE)
    new.model = Model(policy=AWARE)
    event = c.GangDecided.model_validate_json(event_of(decision, "default", 1, None).model_dump_json())
    new.queue(queue("default"))
    new.submit(job("a", gang=1, cpu=6, numa=SINGLE))
    if seen:
        old.carry_out(decision)
        new.pod(old.books.pods["ns", "a-worker-0"])
    # The node may be told of after what is on it.
    new.node(machine("n", SINGLE, 8, 8))
    adopt(new.model, event, START + timedelta(seconds=1))
    new.submit(job("b", gang=1, cpu=7, numa=SINGLE))
    (later,) = new.decide()
    assert later.cells == {"b-worker-0": ((1, 7),)}
