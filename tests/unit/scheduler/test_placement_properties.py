"""The index against the plainest scheduler there is: pod after pod, over all nodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.scheduler.core import index as index_module
from services.scheduler.core.model import Model
from services.scheduler.core.plan import Plan
from services.scheduler.core.policy import Scores
from shared.events import contracts as c

GPU = "nvidia.com/gpu"
SCORES = Scores()


@dataclass
class Plain:
    """A node as the reference keeps it."""

    state: c.NodeState
    used: dict[str, int] = field(default_factory=dict)


class Reference:
    """One pod at a time: of the nodes where it fits, the best score; of equals, the first name."""

    def __init__(self, nodes: list[c.NodeState]) -> None:
        self.nodes = {node.name: Plain(node) for node in nodes}

    def place(self, shape: c.Shape, count: int) -> list[str] | None:
        """Return nodes pod by pod, or None and no change."""
        placed: list[str] = []
        for _ in range(count):
            fitting = [node for node in self.nodes.values() if self.fits(node, shape)]
            if not fitting:
                for name in placed:
                    self.charge(name, shape, -1)
                return None
            best = min(fitting, key=lambda node: (-self.score(node, shape), node.state.name))
            self.charge(best.state.name, shape, 1)
            placed.append(best.state.name)
        return placed

    def charge(self, name: str, shape: c.Shape, sign: int) -> None:
        used = self.nodes[name].used
        for resource, amount in {**shape.requests, "pods": 1}.items():
            used[resource] = used.get(resource, 0) + sign * amount

    def fits(self, node: Plain, shape: c.Shape) -> bool:
        state = node.state
        if not state.ready or any(state.labels.get(k) != v for k, v in shape.node_selector.items()):
            return False
        if any(node.used.get(name, 0) > amount for name, amount in state.allocatable.items()):
            return False
        wanted = {**shape.requests, "pods": 1}
        return all(node.used.get(n, 0) + a <= state.allocatable.get(n, 0) for n, a in wanted.items())

    def score(self, node: Plain, shape: c.Shape) -> float:
        """Volcano's binpack, then preferred affinity and taints scaled over the nodes that are allowed."""
        total, weights = 0.0, 0.0
        for name in ("cpu", "memory", GPU):
            amount = shape.requests.get(name, 0)
            if amount:
                weight = SCORES.resource_weight(name)
                total += weight * ((node.used.get(name, 0) + amount) / node.state.allocatable[name])
                weights += weight
        score = total / (weights or 1.0) * 100.0
        allowed = [
            one
            for one in self.nodes.values()
            if one.state.ready and all(one.state.labels.get(k) == v for k, v in shape.node_selector.items())
        ]
        wish = max(self.wish(one, shape) for one in allowed)
        dislike = max(self.dislike(one) for one in allowed)
        static = 0.0
        if wish:
            static = 2.0 * (100.0 * self.wish(node, shape) / wish)
        if dislike:
            static = static + 3.0 * (100.0 - 100.0 * self.dislike(node) / dislike)
        return score + static

    @staticmethod
    def wish(node: Plain, shape: c.Shape) -> float:
        return float(
            sum(
                preferred.weight
                for preferred in shape.preferred_terms
                if node.state.labels.get(preferred.term.expressions[0].key)
                in preferred.term.expressions[0].values
            )
        )

    @staticmethod
    def dislike(node: Plain) -> float:
        return float(len(node.state.taints))


def node_states() -> st.SearchStrategy[list[c.NodeState]]:
    amounts = st.fixed_dictionaries(
        {
            "cpu": st.sampled_from([3000, 4000, 8000]),
            "memory": st.sampled_from([7, 16]),
            GPU: st.sampled_from([0, 2, 4]),
            "pods": st.sampled_from([2, 110]),
        }
    )
    one = st.tuples(amounts, st.sampled_from("ab"), st.booleans(), st.sampled_from([True, True, True, False]))
    return st.lists(one, min_size=1, max_size=9).map(
        lambda rows: [
            c.NodeState(
                name=f"n{(number * 7) % 10}",
                labels={"zone": zone},
                taints=(c.Taint(key="old", effect="PreferNoSchedule"),) if old else (),
                ready=ready,
                allocatable=allocatable,
            )
            for number, (allocatable, zone, old, ready) in enumerate(rows)
        ]
    )


SHAPES = st.builds(
    lambda cpu, memory, gpu, selector, wish: c.Shape(
        requests={name: n for name, n in (("cpu", cpu), ("memory", memory), (GPU, gpu)) if n},
        node_selector={"zone": selector} if selector else {},
        preferred_terms=(
            (
                c.PreferredTerm(
                    weight=wish,
                    term=c.NodeTerm(expressions=(c.Requirement(key="zone", operator="In", values=("b",)),)),
                ),
            )
            if wish
            else ()
        ),
    ),
    st.sampled_from([0, 500, 1000]),
    st.sampled_from([0, 1, 3]),
    st.sampled_from([0, 1, 2]),
    st.sampled_from(["", "", "a"]),
    st.sampled_from([0, 0, 5]),
)


@contextmanager
def short_row(length: int, scalar: int) -> Iterator[None]:
    """Make the index's row short, and its vector path frequent, so that small worlds reach every branch."""
    before = index_module._AHEAD, index_module._SMALL
    index_module._AHEAD, index_module._SMALL = length, scalar
    try:
        yield
    finally:
        index_module._AHEAD, index_module._SMALL = before


def placed_by(model: Model, shape: c.Shape, count: int) -> list[str] | None:
    """Place with the index; nodes pod by pod."""
    mine = model.shapes.intern(shape)
    if model.index(mine).total < count:
        return None
    return [model.nodes.names[slot] for slot in model.index(mine).take(count).places()]


@settings(max_examples=300, deadline=None)
@given(
    nodes=node_states(),
    steps=st.lists(st.tuples(SHAPES, st.integers(1, 6)), min_size=1, max_size=8),
    row=st.sampled_from([1, 2, 1024]),
    scalar=st.sampled_from([0, 12]),
)
def test_filling_whole_nodes_gives_what_pod_after_pod_gives(nodes, steps, row, scalar) -> None:
    with short_row(row, scalar):
        model, reference = Model(), Reference(nodes)
        for node in nodes:
            model.apply_node(node)
        for shape, count in steps:
            assert placed_by(model, shape, count) == reference.place(shape, count)


EVENTS = st.one_of(
    st.tuples(st.just("place"), SHAPES, st.integers(1, 4)),
    st.tuples(st.just("pod"), SHAPES, st.integers(0, 9)),
    st.tuples(st.just("end"), SHAPES, st.integers(0, 9)),
    st.tuples(st.just("ready"), SHAPES, st.integers(0, 9)),
    st.tuples(st.just("label"), SHAPES, st.integers(0, 9)),
)


@settings(max_examples=300, deadline=None)
@given(
    nodes=node_states(),
    events=st.lists(EVENTS, min_size=3, max_size=20),
    row=st.sampled_from([1, 2, 1024]),
    scalar=st.sampled_from([0, 12]),
)
def test_an_index_repaired_from_changes_is_that_of_a_new_model(nodes, events, row, scalar) -> None:
    with short_row(row, scalar):
        model, reference = Model(), Reference(nodes)
        for node in nodes:
            model.apply_node(node)
        pods: list[tuple[str, str, c.Shape]] = []
        for number, (what, shape, where) in enumerate(events):
            plain = reference.nodes[nodes[where % len(nodes)].name]
            state = plain.state
            if what == "place":
                assert placed_by(model, shape, where) == reference.place(shape, where)
            elif what == "pod":
                name = f"p{number}"
                pods.append((name, state.name, shape))
                reference.charge(state.name, shape, 1)
                model.apply_pod(
                    c.PodState(
                        namespace="x",
                        name=name,
                        uid=name,
                        node=state.name,
                        shape=shape,
                        created_at="2026-01-01T00:00:00Z",
                    )
                )
            elif what == "end" and pods:
                name, node_name, old = pods.pop(where % len(pods))
                reference.charge(node_name, old, -1)
                model.remove_pod("x", name)
            elif what in ("ready", "label"):
                zone = "a" if state.labels["zone"] == "b" else "b"
                update = {"ready": not state.ready} if what == "ready" else {"labels": {"zone": zone}}
                plain.state = state.model_copy(update=update)
                model.apply_node(plain.state)


@settings(max_examples=200, deadline=None)
@given(nodes=node_states(), steps=st.lists(st.tuples(SHAPES, st.integers(1, 6)), min_size=1, max_size=6))
def test_an_attempt_that_is_not_committed_leaves_nothing(nodes, steps) -> None:
    model = Model()
    for node in nodes:
        model.apply_node(node)
    shapes = [model.shapes.intern(shape) for shape, _ in steps]
    before = model.nodes.used.copy()
    totals = [model.index(shape).total for shape in shapes]
    with Plan(model).attempt() as trial:
        for shape, (_, count) in zip(shapes, steps, strict=True):
            trial.place(shape, count)
    assert (model.nodes.used == before).all()
    assert [model.index(shape).total for shape in shapes] == totals


def test_an_attempt_that_raises_leaves_nothing() -> None:
    model = Model()
    model.apply_node(c.NodeState(name="n1", allocatable={"cpu": 4000, "pods": 9}))
    shape = model.shapes.intern(c.Shape(requests={"cpu": 1000}))

    def fail_half_way() -> None:
        with Plan(model).attempt() as trial:
            assert trial.place(shape, 3)
            raise LookupError

    with pytest.raises(LookupError):
        fail_half_way()
    assert model.index(shape).total == 4


def test_what_is_committed_stays() -> None:
    model = Model()
    model.apply_node(c.NodeState(name="n1", allocatable={"cpu": 4000, "pods": 9}))
    shape = model.shapes.intern(c.Shape(requests={"cpu": 1000}))
    with Plan(model).attempt() as trial:
        assert trial.place(shape, 3)
        assert not trial.place(shape, 2)
        trial.commit()
    assert model.index(shape).total == 1


def test_a_pod_on_a_node_that_nobody_knows_may_come_and_go() -> None:
    """Its slot is the first one beyond the columns: they grow without a change of any rule."""
    model = Model()
    for number in range(16):
        model.apply_node(c.NodeState(name=f"n{number}", allocatable={"cpu": 1000, "pods": 9}))
    shape = model.shapes.intern(c.Shape(requests={"cpu": 1000}))
    assert model.index(shape).total == 16
    model.apply_pod(
        c.PodState(
            namespace="x",
            name="p",
            uid="p",
            node="unknown",
            shape=c.Shape(requests={"cpu": 1000}),
            created_at="2026-01-01T00:00:00Z",
        )
    )
    assert model.index(shape).total == 16
    model.remove_pod("x", "p")
    assert model.index(shape).total == 16


def test_a_changed_node_behind_the_row_waits_for_those_between_that_are_not_listed() -> None:
    with short_row(1, 12):
        model = Model()
        nodes = [c.NodeState(name=f"n{number}", allocatable={"cpu": 4000}) for number in range(3)]
        for node in nodes:
            model.apply_node(node)
        shape = c.Shape(requests={"cpu": 1000})
        assert model.index(model.shapes.intern(shape)).total == 12
        model.apply_node(nodes[2].model_copy(update={"labels": {"any": "label"}}))
        assert placed_by(model, shape, 9) == ["n0"] * 4 + ["n1"] * 4 + ["n2"]
