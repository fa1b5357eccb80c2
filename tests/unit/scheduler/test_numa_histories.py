"""Random histories of a cluster in which kubelets align pods: the promises of ``test_invariants`` hold there, too.

Beside that, no NUMA node ever gives a new pod more CPUs than it has, and each pod has its CPUs as it asks
(``World`` checks both against its own books).
"""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
from hypothesis.stateful import initialize, precondition, rule

from shared.events import contracts as c
from tests.scenarios.scenario import job, node, queue, task
from tests.unit.scheduler.test_invariants import ABOVE, JOBS, MOVES, NAMES, POLICY, QUEUES, Cluster, pick

AWARE = replace(POLICY, numa=True)
MOVING = replace(MOVES[0], numa=True)
NARROW = replace(AWARE, scores=replace(AWARE.scores, numa_weight=5.0))
KINDS = ("best-effort", "restricted", "single-numa-node")


def topologies() -> st.SearchStrategy[c.NumaTopology | None]:
    numbers = st.sampled_from([(0, 1), (0, 1), (0, 1, 2), (0, 8)])
    sizes = st.sampled_from([(4, 4), (4, 3), (8, 5)])
    policies = st.sampled_from([*KINDS, *KINDS, "none"])

    def topology(numbers: tuple[int, ...], size: tuple[int, int], policy: str) -> c.NumaTopology:
        cpus, usable = size
        nodes = tuple(c.NumaNode(number=number, cpus=cpus, usable=usable) for number in numbers)
        return c.NumaTopology(cpu_manager="static", policy=policy, nodes=nodes)

    return st.none() | st.builds(topology, numbers, sizes, policies)


SHAPES = st.sampled_from(
    [
        {"cpu": 3, "numa": "single-numa-node"},
        {"cpu": 2, "numa": ""},
        {"cpu": 5, "numa": "restricted"},
        {"cpu": 3, "numa": "restricted"},
        {"cpu": 5, "numa": "best-effort"},
        {"cpu": 4, "numa": "", "own": (2, 2)},
        {"cpu": 1, "gpu": 1, "numa": ""},
        {"cpu": 2},
    ]
)


class Aligned(Cluster):
    """As its parent, but for what nodes are and pods ask for."""

    def __init__(self) -> None:
        super().__init__(AWARE)

    @initialize(some=st.lists(topologies(), min_size=1, max_size=4))
    def some_nodes(self, some) -> None:
        for name in [*QUEUES, ABOVE]:
            self.world.queue(queue(name))
        for name, numa in zip(NAMES, some, strict=False):
            self.world.node(node(name, gpu=2, cpu=16, numa=numa))

    @rule(
        name=st.sampled_from(NAMES),
        numa=topologies(),
        cpu=st.sampled_from([8, 16]),
        ready=st.sampled_from([True, True, True, False]),
    )
    def node(self, name, numa, cpu, ready) -> None:
        self.world.node(node(name, gpu=2, cpu=cpu, numa=numa, ready=ready))

    @rule(
        name=st.sampled_from(JOBS),
        shapes=st.lists(st.tuples(SHAPES, st.integers(1, 3), st.integers(0, 3)), min_size=1, max_size=2),
        priority=st.sampled_from([0, 0, 3]),
        then=st.sampled_from(["", "decide", "run", "run"]),
    )
    def submit(self, name, shapes, priority, then) -> None:
        if ("ns", name) in self.world.books.gangs:
            if not then:
                return
            self.world.remove_gang(("ns", name))
        tasks = [
            task(f"t{number}", replicas, min(minimum, replicas), **wants)
            for number, (wants, replicas, minimum) in enumerate(shapes)
        ]
        gang = job(name, *tasks, priority=priority)
        self.world.submit(gang.model_copy(update={"uid": f"{name}-{self.world.decisions}"}))
        if then:
            self.world.decide()
        if then == "run":
            self.world.settle()

    @precondition(lambda self: any(pod.numa for pod in self.world.books.pods.values()))
    @rule(data=st.data(), number=st.sampled_from([0, 1, 8]))
    def kubelet_gave_a_pod_other_cpus(self, data, number) -> None:
        key = pick(data, sorted(key for key, pod in self.world.books.pods.items() if pod.numa))
        pod = self.world.books.pods[key]
        cpus = sum(one.cpus for one in pod.numa)
        self.world.pod(pod.model_copy(update={"numa": (c.NumaCpus(node=number, cpus=cpus),)}))

    @rule(policy=st.sampled_from([AWARE, AWARE, NARROW, MOVING, POLICY]))
    def policy_changes(self, policy) -> None:
        self.world.set_policy(policy)


Aligned.TestCase.settings = Cluster.TestCase.settings
TestAligned = Aligned.TestCase
