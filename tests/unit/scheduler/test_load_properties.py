"""The score of what nodes really use, against Volcano's own rule, pod by pod, for pods cut into small parts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.scheduler.core.cycle import decide
from services.scheduler.core.load import LoadLimit, LoadScore
from services.scheduler.core.model import Model
from services.scheduler.core.policy import Policy, Scores
from services.scheduler.core.resources import CPU, MEMORY
from services.scheduler.core.scores import Score
from shared.events import contracts as c
from tests.scenarios.world import START

PARTS = 2000
GI = 1 << 30
BARE = replace(Scores(), binpack_weight=0.0, node_affinity_weight=0.0, taint_weight=0.0, fragmentation=None)
WEIGHTS = st.sampled_from([0.5, 1.0, 3.0])
SCORES = st.builds(
    LoadScore,
    weight=st.sampled_from([1.0, 5.0]),
    cpu_weight=WEIGHTS,
    memory_weight=WEIGHTS,
    unseen_for=st.sampled_from([timedelta(seconds=10), timedelta(minutes=2)]),
    request_ratio=st.sampled_from([0.0, 0.7, 1.0]),
    risk_threshold=st.sampled_from([0.0, 0.3, 0.6, 1.0]),
    risk_factor=st.sampled_from([1.0, 1.2, 3.0]),
    unasked_cpu=st.sampled_from([0.0, 250.0]),
)


@dataclass
class There:
    """A node as the reference sees it."""

    cpu: int
    memory: int
    used: tuple[float, float] | None
    unseen: list[tuple[int, int]] = field(default_factory=list)
    """What pods ask for that figures do not show, milli-CPU and bytes."""


def volcano(node: There, score: LoadScore) -> float:
    """Volcano's rule: estimates are added one by one, each by a factor that depends on those before it."""
    if node.used is None:
        return 0.0
    room = (node.cpu, node.memory)
    weights = (score.cpu_weight, score.memory_weight)
    part = [0.0, 0.0]
    calm = np.sum([estimate(pod, score, calm=True) for pod in node.unseen] or [(0, 0)], axis=0) / PARTS
    busy = np.sum([estimate(pod, score, calm=False) for pod in node.unseen] or [(0, 0)], axis=0) / PARTS
    steps = calm.tolist(), busy.tolist()
    for _ in range(PARTS):
        mean = sum(
            w * (u / 100 + p / r) for w, u, p, r in zip(weights, node.used, part, room, strict=True)
        ) / sum(weights)
        more = steps[mean >= score.risk_threshold]
        part = [part[0] + more[0], part[1] + more[1]]
    free = [1 - min(1.0, u / 100 + p / r) for u, p, r in zip(node.used, part, room, strict=True)]
    return 100 * score.weight * sum(w * one for w, one in zip(weights, free, strict=True)) / sum(weights)


def estimate(pod: tuple[int, int], score: LoadScore, *, calm: bool) -> np.ndarray:
    factor = 1.0 if calm else score.risk_factor
    if pod == (0, 0):
        return np.array([score.unasked_cpu * factor, score.unasked_memory * factor])
    return np.array([min(one * score.request_ratio * factor, one) for one in pod])


PODS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from([(0, 0), (500, GI), (0, GI), (3000, 0)]),
        st.sampled_from(["Pending", "Running", "Unknown"]),
        st.integers(0, 180),
        st.booleans(),
    ),
    max_size=8,
)
FIGURES = st.lists(
    st.none() | st.tuples(st.floats(0, 100), st.floats(0, 100)),
    min_size=3,
    max_size=3,
)


def pod_state(
    number: int, node: int, asked: tuple[int, int], phase: str, age: int, leaves: bool
) -> c.PodState:
    begun = START - timedelta(seconds=age)
    requests = {name: one for name, one in zip(("cpu", "memory"), asked, strict=True) if one}
    return c.PodState(
        namespace="other",
        name=f"p{number}",
        uid=f"u{number}",
        node=f"n{node}",
        phase=phase,
        releasing=leaves,
        ours=False,
        shape=c.Shape(requests=requests),
        created_at=begun,
        scheduled_at=begun,
        started_at=begun if phase == "Running" else None,
    )


def tell(model: Model, figures: list[tuple[float, float] | None], at: timedelta = timedelta(0)) -> None:
    known = {f"n{number}": one for number, one in enumerate(figures) if one is not None}
    model.apply_measured(
        c.NodesMeasured(
            pool="default",
            at=START + at,
            cpu={name: cpu for name, (cpu, _) in known.items()},
            memory={name: memory for name, (_, memory) in known.items()},
        )
    )


def is_unseen(pod: c.PodState, score: LoadScore, after: int) -> bool:
    if pod.releasing or pod.phase == "Unknown":
        return False
    if pod.phase == "Pending":
        return True
    assert pod.started_at is not None
    return pod.started_at + score.unseen_for > START + timedelta(seconds=after)


@settings(max_examples=80, deadline=None)
@given(
    score=SCORES,
    figures=FIGURES,
    pods=PODS,
    late=st.booleans(),
    after=st.integers(0, 200),
    ended=st.sets(st.integers(0, 7), max_size=2),
    more=st.integers(0, 3),
)
def test_a_score_is_volcanos_for_pods_in_small_parts(score, figures, pods, late, after, ended, more) -> None:
    policy = Policy(scores=replace(BARE, load=score))
    model = Model(policy=Policy(scores=BARE) if late else policy)
    nodes = [There(8000, 16 * GI, one) for one in figures]
    for number in range(len(nodes)):
        model.apply_node(
            c.NodeState(name=f"n{number}", allocatable={"cpu": 8000, "memory": 16 * GI, "pods": 99})
        )
    told = [pod_state(number, *one) for number, one in enumerate(pods)]
    for one in told:
        model.apply_pod(one)
    decide(model, START)
    tell(model, figures)
    model.set_policy(policy)
    for number in ended & set(range(len(told))):
        model.remove_pod("other", f"p{number}")
    decide(model, START + timedelta(seconds=after))
    for number, one in enumerate(told):
        if number not in ended and is_unseen(one, score, after):
            asked = (one.shape.requests.get("cpu", 0), one.shape.requests.get("memory", 0))
            nodes[pods[number][0]].unseen.append(asked)

    shape = model.shapes.intern(c.Shape(requests={"cpu": 1000, "memory": GI}))
    index = model.index(shape)
    for slot in index.take(min(more, index.total)).places():
        nodes[int(model.nodes.names[slot][1:])].unseen.append((1000, GI))

    term = Score(shape, model.nodes, policy.scores, model.typical)
    slots = np.array([model.nodes.slots[f"n{number}"] for number in range(len(nodes))])
    found = term.many(slots)
    near = 100 * score.weight * score.risk_factor * 4 / PARTS
    assert found == pytest.approx([volcano(node, score) for node in nodes], abs=near)
    assert found.tolist() == [term.one(slot) for slot in slots.tolist()]


def test_room_that_is_kept_for_others_is_used_by_nobody() -> None:
    model = Model(policy=Policy(scores=replace(BARE, load=LoadScore())))
    model.apply_node(c.NodeState(name="n0", allocatable={"cpu": 8000, "memory": 16 * GI, "pods": 99}))
    tell(model, [(10.0, 10.0)])
    decide(model, START)
    shape = model.shapes.intern(c.Shape(requests={"cpu": 1000}))
    term = Score(shape, model.nodes, model.policy.scores, model.typical)
    before = term.one(0)
    model.nodes.earmark(0, ((CPU, 2000), (MEMORY, GI)), 1)
    kept = np.zeros((len(model.resources), 1), np.int64)
    kept[CPU] = 3000
    model.nodes.keep(np.array([0]), kept, lasting=True)
    assert model.nodes.used.item(CPU, 0) == 5000
    assert term.one(0) == before


@settings(max_examples=100, deadline=None)
@given(
    figures=st.lists(FIGURES, min_size=1, max_size=4),
    ages=st.lists(st.integers(0, 400), min_size=4, max_size=4),
    cpu=st.sampled_from([0, 50, 80]),
    memory=st.sampled_from([0, 70, 100]),
    gone=st.sets(st.integers(0, 2), max_size=2),
)
def test_nodes_take_pods_just_where_the_latest_figures_let_them(figures, ages, cpu, memory, gone) -> None:
    """Whatever came before: figures, their age, and nodes that go and come again in other slots."""
    model = Model(policy=Policy(scores=BARE, load_limit=LoadLimit(cpu, memory)))
    room = {"cpu": 8000, "pods": 1}
    for number in range(3):
        model.apply_node(c.NodeState(name=f"n{number}", allocatable=room))
    shape = model.shapes.intern(c.Shape(requests={"cpu": 1}))
    now = START
    latest, at = figures[0], START
    for number, (some, age) in enumerate(zip(figures, ages, strict=False)):
        tell(model, some, now - START)
        latest, at = some, now
        if number == 1:
            for one in gone:
                model.remove_node(f"n{one}")
            for one in sorted(gone, reverse=True):
                model.apply_node(c.NodeState(name=f"n{one}", allocatable=room))
        now += timedelta(seconds=age)
        decide(model, now)
        old = now >= at + timedelta(minutes=5)
        expected = {
            f"n{name}"
            for name, one in enumerate(latest)
            if old or one is None or (one[0] <= cpu and one[1] <= memory)
        }
        index = model.index(shape)
        slots = np.flatnonzero(index.fits)
        assert {model.nodes.names[slot] for slot in slots.tolist()} == expected
