"""Scores against the plainest scheduler there is: pod after pod, each formula as its source writes it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from services.scheduler.core import index as index_module
from services.scheduler.core.model import Model
from services.scheduler.core.nodes import Nodes
from services.scheduler.core.policy import FitRule, Policy, Scarce, Scores, StrategyFit
from services.scheduler.core.scores import Score, Term
from services.scheduler.core.shapes import Shape
from shared.events import contracts as c

GPU = "nvidia.com/gpu"


class ByLength(Term):
    """A plugin's term: nodes with long names, less for each pod on them."""

    def __init__(self, shape: Shape, nodes: Nodes) -> None:
        self._nodes = nodes

    def many(self, slots):
        names = np.array([float(len(self._nodes.names[slot])) for slot in slots.tolist()])
        return 40.0 * names - 7.0 * self._nodes.used[2][slots]


@dataclass
class Plain:
    """A node as the reference keeps it."""

    name: str
    allocatable: dict[str, int]
    used: dict[str, int] = field(default_factory=dict)


def score(node: Plain, requests: dict[str, int], scores: Scores) -> float:  # noqa: C901 - one line a formula
    """Every formula with loops and names, nothing shared with the code under test."""
    after = {name: node.used.get(name, 0) + requests.get(name, 0) for name in node.allocatable}
    total = 0.0
    if scores.binpack_weight:
        packed = weights = 0.0
        for name in sorted(requests, key=("cpu", "memory", GPU).index):
            weight = scores.resource_weight(name)
            packed += weight * (after[name] / node.allocatable[name])
            weights += weight
        total += packed / (weights or 1.0) * (100.0 * scores.binpack_weight)
    if scores.strategy_fit:
        fit = weights = 0.0
        for name in sorted(requests, key=("cpu", "memory", GPU).index):
            rule = next((r for r in scores.strategy_fit.rules if r.pattern == name), None) or next(
                (r for r in scores.strategy_fit.rules if r.pattern == "nvidia.com/*" and name == GPU), None
            )
            if rule:
                there = node.allocatable[name]
                fit += rule.weight * ((after[name] if rule.most else there - after[name]) / there)
                weights += rule.weight
        if weights:
            total += fit / weights * (100.0 * scores.strategy_fit.weight)
    if scores.scarce:
        has = sum(each for name, each in scores.scarce.resources if node.allocatable.get(name))
        whole = sum(each for _, each in scores.scarce.resources)
        total += (1.0 - has / whole) * (100.0 * scores.scarce.weight)
    unasked = {"cpu": 100, "memory": 200 << 20}
    asked = {
        name: min(node.allocatable[name], node.used.get(name, 0) + requests.get(name, unasked[name]))
        for name in unasked
    }
    if scores.least_requested_weight:
        parts = [(node.allocatable[n] - used) * 100 // node.allocatable[n] for n, used in asked.items()]
        total += scores.least_requested_weight * (sum(parts) // 2)
    if scores.most_requested_weight:
        parts = [used * 100 // node.allocatable[n] for n, used in asked.items()]
        total += scores.most_requested_weight * (sum(parts) // 2)
    if scores.balanced_weight:
        fractions = [used / node.allocatable[name] for name, used in asked.items()]
        if requests.get(GPU) and node.allocatable[GPU]:
            fractions.append(after[GPU] / node.allocatable[GPU])
        mean = sum(fractions) / len(fractions)
        deviation = math.sqrt(sum((f - mean) ** 2 for f in fractions) / len(fractions))
        total += scores.balanced_weight * math.floor((1 - deviation) * 100)
    if scores.extra:
        total += 40.0 * len(node.name) - 7.0 * node.used.get("pods", 0)
    return total


def place(nodes: list[Plain], requests: dict[str, int], count: int, scores: Scores) -> list[str] | None:
    """Place pod after pod on the best node, ties by name; None (and no change) when not all fit."""
    wanted = {**requests, "pods": 1}
    placed: list[Plain] = []
    for _ in range(count):
        fitting = [
            n for n in nodes if all(n.used.get(r, 0) + a <= n.allocatable[r] for r, a in wanted.items())
        ]
        if not fitting:
            for node in placed:
                for name, amount in wanted.items():
                    node.used[name] -= amount
            return None
        best = min(fitting, key=lambda node: (-score(node, requests, scores), node.name))
        for name, amount in wanted.items():
            best.used[name] = best.used.get(name, 0) + amount
        placed.append(best)
    return sorted(node.name for node in placed)


WEIGHT = st.sampled_from([0.0, 1.0, 2.5])
FITS = st.sampled_from(
    [
        None,
        StrategyFit(),
        StrategyFit(2.0, (FitRule("cpu"), FitRule("nvidia.com/*", most=True, weight=2.0))),
        StrategyFit(1.0, (FitRule("cpu", most=True), FitRule("memory", most=True, weight=3.0))),
    ]
)
SCARCE = st.sampled_from([None, Scarce(2.0, ((GPU, 1.0),)), Scarce(1.0, (("cpu", 3.0), (GPU, 1.0)))])
SCORES = st.builds(
    Scores,
    scarce=SCARCE,
    binpack_weight=WEIGHT,
    least_requested_weight=WEIGHT,
    most_requested_weight=WEIGHT,
    balanced_weight=WEIGHT,
    strategy_fit=FITS,
    extra=st.sampled_from([(), (ByLength,)]),
)
NODES = st.lists(
    st.fixed_dictionaries(
        {
            "cpu": st.sampled_from([3000, 4000, 8000]),
            "memory": st.sampled_from([1 << 30, 3 << 30]),
            GPU: st.sampled_from([0, 2, 4]),
            "pods": st.sampled_from([3, 110]),
        }
    ),
    min_size=1,
    max_size=8,
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from([0, 500, 1000]),
        st.sampled_from([0, 100 << 20, 1 << 29]),
        st.sampled_from([0, 1, 2]),
        st.integers(1, 6),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=150, deadline=None)
@given(
    scores=SCORES,
    nodes=NODES,
    steps=STEPS,
    row=st.sampled_from([1, 2, 1024]),
    scalar=st.sampled_from([0, 12]),
    among=st.booleans(),
)
def test_any_sum_of_terms_places_as_scoring_all_nodes_for_each_pod_would(
    scores, nodes, steps, row, scalar, among
) -> None:
    before = index_module._AHEAD, index_module._SMALL
    index_module._AHEAD, index_module._SMALL = row, scalar
    try:
        model = Model(policy=Policy(scores=scores))
        plain = [
            Plain("n" * (1 + number % 3) + f"{number}", dict(amounts)) for number, amounts in enumerate(nodes)
        ]
        for node in plain:
            model.apply_node(c.NodeState(name=node.name, allocatable=node.allocatable))
        for cpu, memory, gpu, count in steps:
            requests = {name: n for name, n in (("cpu", cpu), ("memory", memory), (GPU, gpu)) if n}
            index = model.index(model.shapes.intern(c.Shape(requests=requests)))
            expected = place(plain, requests, count, scores)
            assert (index.total >= count) == (expected is not None)
            if expected is not None:
                nodes_by_name = model.nodes.by_name() if among else None
                taken = index.take(count) if nodes_by_name is None else index.take_among(nodes_by_name, count)
                assert taken is not None
                mine = [model.nodes.names[slot] for slot in taken.places()]
                assert sorted(mine) == expected
    finally:
        index_module._AHEAD, index_module._SMALL = before


@settings(max_examples=100, deadline=None)
@given(scores=SCORES, nodes=NODES, step=STEPS)
def test_both_forms_of_a_score_are_equal_to_the_last_bit(scores, nodes, step) -> None:
    model = Model(policy=Policy(scores=scores))
    for number, allocatable in enumerate(nodes):
        model.apply_node(c.NodeState(name=f"n{number}", allocatable=allocatable))
    cpu, memory, _, count = step[0]
    shape = model.shapes.intern(c.Shape(requests={"cpu": cpu, "memory": memory}))
    score_of = Score(shape, model.nodes, scores, model.typical)
    model.index(shape).take(min(count, model.index(shape).total))
    slots = np.arange(len(nodes))
    assert score_of.many(slots).tolist() == [score_of.one(slot) for slot in slots.tolist()]


@settings(max_examples=100, deadline=None)
@given(scores=SCORES, nodes=NODES, step=STEPS)
def test_a_score_that_says_it_rises_never_falls_with_a_pod(scores, nodes, step) -> None:
    model = Model(policy=Policy(scores=scores))
    for number, allocatable in enumerate(nodes):
        model.apply_node(c.NodeState(name=f"n{number}", allocatable=allocatable))
    cpu, memory, gpu, _ = step[0]
    requests = {name: n for name, n in (("cpu", cpu), ("memory", memory), (GPU, gpu)) if n}
    shape = model.shapes.intern(c.Shape(requests=requests))
    score_of = Score(shape, model.nodes, scores, model.typical)
    if not score_of.rising:
        return
    for slot in range(len(nodes)):
        seen = []
        while model.index(shape).fit_on(slot):
            seen.append(score_of.one(slot))
            model.nodes.place(shape.amounts, [slot], [1])
        assert all(before <= after for before, after in pairwise(seen))
