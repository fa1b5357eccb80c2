"""Fragments against the paper's definition, written with loops; and pods placed by it against scoring all nodes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.scheduler.core.model import Model
from services.scheduler.core.policy import Fragmentation, Policy, Scores, TypicalPod
from services.scheduler.core.scores import Score
from shared.events import contracts as c

MODEL = "gpu-model"


def pod(cpu: int, count: int, cores: int, model: str = "") -> c.Shape:
    """Return the shape of a pod that takes parts of devices (``count`` 0: none)."""
    only = c.NodeTerm(expressions=(c.Requirement(key=MODEL, operator="In", values=(model,)),))
    return c.Shape(
        requests={"cpu": cpu},
        devices=c.DeviceRequest(count=count, cores=cores) if count else None,
        required_terms=(only,) if model else None,
    )


PODS = st.one_of(
    st.builds(
        pod,
        st.sampled_from([500, 2000]),
        st.just(1),
        st.sampled_from([300, 500, 1000]),
        st.sampled_from(["", "A"]),
    ),
    st.builds(pod, st.sampled_from([500, 2000]), st.just(2), st.just(1000)),
    st.builds(pod, st.sampled_from([500, 2000]), st.just(0), st.just(0)),
)
TYPICAL = st.lists(
    st.builds(TypicalPod, PODS.filter(lambda shape: shape.devices), st.integers(1, 5)), min_size=1, max_size=4
)
NODES = st.lists(
    st.tuples(st.sampled_from([1000, 4000, 9000]), st.integers(0, 3), st.sampled_from("AB")),
    min_size=1,
    max_size=6,
)


class Cluster:
    """Nodes with free CPU and free thousandths of each device."""

    def __init__(self, nodes: list[tuple[int, int, str]]) -> None:
        self.cpu = {f"n{number}": cpu for number, (cpu, _, _) in enumerate(nodes)}
        self.free = {f"n{number}": [1000] * count for number, (_, count, _) in enumerate(nodes)}
        self.model = {f"n{number}": model for number, (_, _, model) in enumerate(nodes)}

    def suits(self, name: str, shape: c.Shape) -> bool:
        wanted = (
            shape.required_terms[0].expressions[0].values if shape.required_terms else (self.model[name],)
        )
        enough = (
            shape.devices is None
            or sum(f >= shape.devices.cores for f in self.free[name]) >= shape.devices.count
        )
        return self.model[name] in wanted and self.cpu[name] >= shape.requests["cpu"] and enough

    def fragments(self, name: str, typical: list[TypicalPod]) -> Fraction:
        """Return the expected part of the free devices that a typical pod cannot use."""
        lost = Fraction(0)
        for one in typical:
            request = one.shape.devices
            assert request is not None
            suits = self.suits(name, one.shape)
            lost += one.weight * sum(f for f in self.free[name] if not suits or f < request.cores)
        return lost / sum(one.weight for one in typical) / 1000

    def beside(self, name: str, enough: float) -> float:
        free = sum(self.free[name])
        return min(self.cpu[name] / free, enough) if free else enough

    def put(self, name: str, shape: c.Shape) -> tuple[int, ...]:
        """Place a pod on the devices that it fills best; return their indices."""
        self.cpu[name] -= shape.requests["cpu"]
        if shape.devices is None:
            return ()
        fitting = [at for at, free in enumerate(self.free[name]) if free >= shape.devices.cores]
        chosen = tuple(sorted(fitting, key=lambda at: self.free[name][at])[: shape.devices.count])
        for at in chosen:
            self.free[name][at] -= shape.devices.cores
        return chosen

    def score(self, name: str, shape: c.Shape, policy: Fragmentation) -> float:
        before = self.fragments(name, list(policy.typical)), self.beside(name, policy.enough_cpu)
        cpu, free = self.cpu[name], list(self.free[name])
        self.put(name, shape)
        after = self.fragments(name, list(policy.typical)), self.beside(name, policy.enough_cpu)
        self.cpu[name], self.free[name] = cpu, free
        return 100.0 * (
            policy.weight * float(before[0] - after[0]) + policy.cpu_weight * (after[1] - before[1])
        )


def build(nodes: list[tuple[int, int, str]], policy: Fragmentation) -> Model:
    model = Model(policy=Policy(scores=Scores(binpack_weight=0.0, fragmentation=policy)))
    for number, (cpu, count, kind) in enumerate(nodes):
        model.apply_node(
            c.NodeState(
                name=f"n{number}",
                labels={MODEL: kind},
                allocatable={"cpu": cpu},
                devices=(c.Device(),) * count,
            )
        )
    return model


@settings(max_examples=100, deadline=None)
@given(
    nodes=NODES.filter(lambda nodes: any(count for _, count, _ in nodes)),
    typical=TYPICAL,
    pods=st.lists(PODS, max_size=8),
)
def test_points_are_the_papers_gradient_and_equal_in_both_forms(nodes, typical, pods) -> None:
    policy = Fragmentation(typical=tuple(typical))
    model, cluster = build(nodes, policy), Cluster(nodes)
    for shape in pods:
        mine = model.shapes.intern(shape)
        index = model.index(mine)
        fitting = [name for name in cluster.cpu if cluster.suits(name, shape)]
        assert {model.nodes.names[slot] for slot in range(len(nodes)) if index.fit_on(slot)} == set(fitting)
        if not fitting:
            continue
        slots = np.array([model.nodes.slots[name] for name in fitting])
        score = Score(mine, model.nodes, model.policy.scores, model.typical)
        score.refresh()
        points = score.many(slots).tolist()
        assert points == [score.one(slot) for slot in slots.tolist()]
        assert points == pytest.approx([cluster.score(name, shape, policy) for name in fitting], abs=1e-6)
        best = max(points)
        taken = index.take(1)
        name = model.nodes.names[taken.slots[0]]
        assert name == min(one for one, score in zip(fitting, points, strict=True) if score == best)
        assert cluster.put(name, shape) == tuple(taken.shapes(mine)[0].on_devices)


def test_without_devices_the_default_scores_still_fill_whole_nodes_at_a_time() -> None:
    model = Model()
    model.apply_node(c.NodeState(name="n", allocatable={"cpu": 4000}))
    shape = model.shapes.intern(c.Shape(requests={"cpu": 1000}))
    assert Score(shape, model.nodes, model.policy.scores, model.typical).rising
    model.apply_node(c.NodeState(name="g", allocatable={"cpu": 4000}, devices=(c.Device(),)))
    assert not Score(shape, model.nodes, model.policy.scores, model.typical).rising


def test_the_learned_workload_is_that_of_the_pods_and_gangs_which_exist_in_any_order() -> None:
    def state(number: int) -> c.PodState:
        return c.PodState(
            namespace="x",
            name=f"p{number}",
            uid=f"p{number}",
            node="n0",
            devices=(0,),
            shape=pod(500, 1, 100 + 100 * (number % 3)),
            created_at="2026-01-01T00:00:00Z",
        )

    lived, fresh = build([(9000, 2, "A")], Fragmentation()), build([(9000, 2, "A")], Fragmentation())
    for number in range(20):
        lived.apply_pod(state(number))
    for number in range(3, 18):
        lived.remove_pod("x", f"p{number}")
    for number in (19, 2, 1, 18, 0):
        fresh.apply_pod(state(number))

    def known(model: Model) -> dict[int, int]:
        return {shape.devices[0].cores: weight for shape, weight in model.workload.shapes() if shape.devices}

    assert known(lived) == known(fresh) == {100: 4, 200: 4, 300: 1}
