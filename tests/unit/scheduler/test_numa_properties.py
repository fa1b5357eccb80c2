"""CPUs by NUMA node against a reference that tries every set of NUMA nodes for every container."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.scheduler.core.model import Model
from services.scheduler.core.plan import Plan
from services.scheduler.core.policy import Policy
from shared.events import contracts as c

POLICIES = ("best-effort", "restricted", "single-numa-node")
UNALIGNED = ("none", "", "of-tomorrow")


@dataclass
class Machine:
    """A node as the reference keeps it: by the number of each NUMA node, all CPUs and those that are free."""

    policy: str
    there: dict[int, int]
    free: dict[int, int] = field(default_factory=dict)

    def masks(self) -> Iterator[tuple[int, ...]]:
        """Yield the sets of NUMA nodes: the narrow first, then by the number that has a bit for each."""
        for size in range(1, len(self.there) + 1):
            sets = combinations(sorted(self.there), size)
            yield from sorted(sets, key=lambda one: sum(1 << number for number in one))

    def hint(self, cpus: int) -> tuple[int, ...] | None:
        """Return the NUMA nodes that a container gets its CPUs of; None: the kubelet would not take it."""
        narrowest = min(
            (len(one) for one in self.masks() if sum(self.there[at] for at in one) >= cpus),
            default=len(self.there),
        )
        for one in self.masks():
            if sum(self.free[at] for at in one) >= cpus:
                if self.policy == "single-numa-node" and len(one) > 1:
                    return None
                return None if self.policy == "restricted" and len(one) > narrowest else one
        return None

    def take(self, pod: Sequence[int]) -> dict[int, int] | None:
        """Take a pod's CPUs, container by container; None, and no change, where it does not fit."""
        before, taken = dict(self.free), dict.fromkeys(self.there, 0)
        for cpus in pod:
            chosen = self.hint(cpus)
            if chosen is None:
                self.free = before
                return None
            left = cpus
            for at in sorted(chosen, key=lambda one: (self.free[one], one)):
                some = min(left, self.free[at])
                self.free[at] -= some
                taken[at] += some
                left -= some
            assert left == 0
        return {at: some for at, some in taken.items() if some}


NUMBERS = st.lists(st.sampled_from([0, 1, 2, 3, 8]), min_size=1, max_size=4, unique=True)


@st.composite
def topologies(draw: st.DrawFn) -> c.NumaTopology:
    nodes = []
    for number in draw(NUMBERS):
        cpus = draw(st.integers(0, 8))
        nodes.append(c.NumaNode(number=number, cpus=cpus, usable=draw(st.integers(0, cpus))))
    policy = draw(st.sampled_from((*POLICIES, *POLICIES, *UNALIGNED)))
    manager = draw(st.sampled_from(["static", "static", "static", "none"]))
    return c.NumaTopology(cpu_manager=manager, policy=policy, nodes=tuple(nodes))


REQUESTS = st.builds(
    c.NumaRequest,
    policy=st.sampled_from(("", "", *POLICIES)),
    cpus=st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple),
)
MOST = 12
"""Pods that a node takes: it has as many places."""


def machine(topology: c.NumaTopology) -> Machine | None:
    if topology.cpu_manager != "static" or topology.policy not in POLICIES:
        return None
    return Machine(
        topology.policy,
        {one.number: one.cpus for one in topology.nodes},
        {one.number: one.usable for one in topology.nodes},
    )


def expected(topology: c.NumaTopology | None, request: c.NumaRequest, known: Machine | None) -> int:
    """Return how many pods fit on a node by the reference, which takes their CPUs."""
    if request.policy and (known is None or known.policy != request.policy):
        return 0
    if known is None:
        return MOST
    count = 0
    while count < MOST and known.take(request.cpus) is not None:
        count += 1
    return count


@settings(max_examples=400, deadline=None)
@given(
    nodes=st.lists(st.none() | topologies(), min_size=1, max_size=4),
    requests=st.lists(REQUESTS, min_size=1, max_size=4),
    part=st.integers(1, 4),
    keep=st.booleans(),
)
def test_pods_fit_where_a_kubelet_would_take_them_one_after_the_other(nodes, requests, part, keep) -> None:
    model = Model(policy=Policy(numa=True))
    machines = {f"n{number}": None if one is None else machine(one) for number, one in enumerate(nodes)}
    pods = dict.fromkeys(machines, 0)
    for number, topology in enumerate(nodes):
        model.apply_node(c.NodeState(name=f"n{number}", numa=topology, allocatable={"pods": MOST}))
    for request in requests:
        shape = model.shapes.intern(c.Shape(numa=request))
        copies = {
            name: None if one is None else Machine(one.policy, one.there, dict(one.free))
            for name, one in machines.items()
        }
        fits = {
            name: min(expected(nodes[int(name[1:])], request, copies[name]), MOST - pods[name])
            for name in machines
        }
        index = model.index(shape)
        assert {name: index.fit_on(model.nodes.slot(name)) for name in machines} == fits
        for name, count in fits.items():
            slot = model.nodes.slot(name)
            spans = model.numa.spans(request.cpus, np.array([slot])).item()
            assert not count or spans == len(model.numa.choose(request.cpus, slot))
        some = index.total // part
        if not some:
            continue
        with Plan(model).attempt() as trial:
            assert trial.place(shape, some)
            ((_, taken),) = trial.since(0)
            if keep:
                for slot, placed in zip(taken.places(), taken.shapes(shape), strict=True):
                    name = model.nodes.names[slot]
                    known = machines[name]
                    pods[name] += 1
                    cells = {} if known is None else known.take(request.cpus)
                    assert dict(placed.on_cells) == cells
                trial.commit()
        for name, known in machines.items():
            for number, free in {} if known is None else known.free.items():
                column = model.resources.numa[number]
                slot = model.nodes.slot(name)
                assert model.nodes.allocatable[column, slot] - model.nodes.used[column, slot] == free


@pytest.mark.parametrize("policy", [Policy(), Policy(numa=True)])
def test_shapes_stay_plain_where_no_node_aligns_pods_or_the_policy_does_not_ask(policy) -> None:
    model = Model(policy=policy)
    shape = model.shapes.intern(c.Shape(requests={"cpu": 2000}, numa=c.NumaRequest(cpus=(2,))))
    topology = c.NumaTopology(
        cpu_manager="static", policy="restricted", nodes=(c.NumaNode(number=0, cpus=4, usable=3),)
    )
    model.apply_node(c.NodeState(name="a", allocatable={"cpu": 4000}))
    assert shape.is_plain
    model.apply_node(c.NodeState(name="b", allocatable={"cpu": 4000}, numa=topology))
    assert shape.is_plain is not policy.numa
    assert model.index(shape).total == 4 - policy.numa
    model.remove_node("b")
    assert shape.is_plain
    assert model.index(shape).total == 2
