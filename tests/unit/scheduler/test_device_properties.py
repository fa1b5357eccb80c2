"""Parts of devices against a reference that tries every choice of devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.scheduler.core.model import Model
from services.scheduler.core.plan import Plan
from services.scheduler.core.policy import Policy, Scores
from services.scheduler.core.resources import PODS as PODS_COLUMN
from shared.events import contracts as c


@dataclass
class Card:
    """A device as the reference keeps it."""

    device: c.Device
    pods: list[c.DeviceRequest] = field(default_factory=list)

    def memory_of(self, request: c.DeviceRequest) -> int:
        return self.device.memory * request.memory_percent // 100 or request.memory

    def suits(self, request: c.DeviceRequest) -> bool:
        model = self.device.model.upper()
        if request.models and not any(text.upper() in model for text in request.models):
            return False
        if any(text.upper() in model for text in request.not_models):
            return False
        if request.mode not in ("", self.device.mode):
            return False
        return self.device.id in (request.ids or (self.device.id,)) and self.device.id not in request.not_ids

    def takes(self, request: c.DeviceRequest) -> bool:
        cores = sum(pod.cores for pod in self.pods)
        memory = sum(map(self.memory_of, self.pods))
        if not self.suits(request):
            return False
        if cores >= self.device.cores or (request.cores == 1000 and self.pods):
            return False
        if self.device.shares and len(self.pods) >= self.device.shares:
            return False
        return (
            cores + request.cores <= self.device.cores
            and memory + self.memory_of(request) <= self.device.memory
        )


def most(cards: Sequence[Card], *pod: c.DeviceRequest, left: Sequence[c.DeviceRequest] = ()) -> int:
    """Return how many such pods can be on these cards at most, by trying everything."""
    best = 0
    request, *rest = left or pod
    for chosen in combinations(range(len(cards)), request.count):
        if all(cards[at].takes(request) for at in chosen):
            for at in chosen:
                cards[at].pods.append(request)
            best = max(best, most(cards, *pod, left=rest) if rest else 1 + most(cards, *pod))
            for at in chosen:
                cards[at].pods.pop()
    return best


CARDS = st.lists(
    st.builds(
        c.Device,
        cores=st.sampled_from([1000, 1000, 0]),
        memory=st.sampled_from([8, 16]),
        shares=st.sampled_from([0, 2, 3]),
        model=st.sampled_from(["NVIDIA-A100", "NVIDIA-H100"]),
        id=st.sampled_from(["GPU-1", "GPU-2"]),
        mode=st.sampled_from(["", "hami-core"]),
    ),
    max_size=3,
)
REQUESTS = st.builds(
    c.DeviceRequest,
    count=st.integers(1, 3),
    cores=st.sampled_from([0, 400, 500, 1000]),
    memory=st.sampled_from([0, 4, 6]),
    memory_percent=st.sampled_from([0, 0, 0, 50, 100]),
    models=st.sampled_from([(), (), (), ("a100",)]),
    not_models=st.sampled_from([(), (), (), ("h100", "l4")]),
    ids=st.sampled_from([(), (), (), ("GPU-1",)]),
    not_ids=st.sampled_from([(), (), (), ("GPU-2",)]),
    mode=st.sampled_from(["", "", "", "hami-core"]),
).filter(lambda request: request.cores >= 400 or request.memory >= 4 or request.memory_percent)
PODS = st.lists(REQUESTS, min_size=1, max_size=2)


@settings(max_examples=200, deadline=None)
@given(
    nodes=st.lists(CARDS, min_size=1, max_size=3),
    requests=st.lists(REQUESTS, min_size=1, max_size=5),
    keep=st.booleans(),
)
def test_as_many_pods_fit_as_the_best_choice_of_devices_holds(nodes, requests, keep) -> None:
    model = Model()
    cards = {f"n{number}": [Card(device) for device in devices] for number, devices in enumerate(nodes)}
    for name, some in cards.items():
        model.apply_node(c.NodeState(name=name, devices=tuple(card.device for card in some)))
    for request in requests:
        shape = model.shapes.intern(c.Shape(devices=request))
        total = model.index(shape).total
        assert total == sum(most(some, request) for some in cards.values())
        if not total:
            continue
        with Plan(model).attempt() as trial:
            assert trial.place(shape, total)
            assert model.index(shape).total == 0
            ((_, taken),) = trial.since(0)
            for slot, placed in zip(taken.places(), taken.placed, strict=True):
                assert len(set(placed.on_devices)) == request.count
                for at in placed.on_devices:
                    card = cards[model.nodes.names[slot]][at]
                    assert card.takes(request)
                    card.pods.append(request)
            if keep:
                trial.commit()
        if not keep:
            assert model.index(shape).total == total
            for some in cards.values():
                for card in some:
                    card.pods = [pod for pod in card.pods if pod is not request]


@settings(max_examples=200, deadline=None)
@given(
    nodes=st.lists(CARDS, min_size=1, max_size=2),
    pods=st.lists(st.tuples(PODS, st.integers(1, 3)), min_size=1, max_size=6),
    spread=st.booleans(),
    broken=st.integers(0, 5),
)
def test_no_device_is_over_committed_whoever_comes_and_whatever_breaks(nodes, pods, spread, broken) -> None:
    model = Model(policy=Policy(scores=Scores(device_policy="spread" if spread else "", device_weight=1.0)))
    cards = {f"n{number}": [Card(device) for device in devices] for number, devices in enumerate(nodes)}
    _tell(model, cards)
    for number, (pod, wanted) in enumerate(pods):
        if number == broken and cards["n0"]:
            card = cards["n0"][0]
            card.device = card.device.model_copy(update={"cores": 0})
            _tell(model, cards)
        shape = model.shapes.intern(c.Shape(devices=pod[0], more_devices=tuple(pod[1:])))
        total = model.index(shape).total
        assert total <= sum(most(some, *pod) for some in cards.values())
        with Plan(model).attempt() as trial:
            if not total or not trial.place(shape, min(total, wanted)):
                continue
            ((_, taken),) = trial.since(0)
            for slot, placed in zip(taken.places(), taken.placed, strict=True):
                _put(cards[model.nodes.names[slot]], pod, placed.on_devices)
            trial.commit()
        assert model.index(shape).total == total - min(total, wanted)


def _tell(model: Model, cards: dict[str, list[Card]]) -> None:
    for name, some in cards.items():
        model.apply_node(c.NodeState(name=name, devices=tuple(card.device for card in some)))


def _put(cards: Sequence[Card], pod: Sequence[c.DeviceRequest], devices: tuple[int, ...]) -> None:
    """Put a pod's parts on the devices that were chosen: those of each container are different ones."""
    assert len(devices) == sum(request.count for request in pod)
    chosen = iter(devices)
    for request in pod:
        own = [next(chosen) for _ in range(request.count)]
        assert len(set(own)) == request.count
        for at in own:
            card = cards[at]
            card.pods.append(request)
            assert card.suits(request)
            assert sum(one.cores for one in card.pods) <= card.device.cores
            assert sum(map(card.memory_of, card.pods)) <= card.device.memory
            assert len(card.pods) <= (card.device.shares or len(card.pods))
    for card in cards:
        if any(one.cores == 1000 for one in card.pods):
            assert len(card.pods) == 1


@given(cards=CARDS, pod=PODS, spread=st.booleans())
def test_a_pod_that_fits_on_empty_devices_of_one_kind_finds_them(cards, pod, spread) -> None:
    model = Model(policy=Policy(scores=Scores(device_policy="spread" if spread else "")))
    alike = [Card(cards[0]) for _ in cards]
    _tell(model, {"n0": alike})
    shape = model.shapes.intern(c.Shape(devices=pod[0], more_devices=tuple(pod[1:])))
    assert (model.index(shape).total > 0) == (most(alike, *pod) > 0)


def _bound(
    name: str, request: c.DeviceRequest, devices: tuple[int, ...], node: str | None = "n"
) -> c.PodState:
    return c.PodState(
        namespace="x",
        name=name,
        uid=name,
        node=node,
        devices=devices,
        shape=c.Shape(devices=request),
        created_at="2026-01-01T00:00:00Z",
    )


def test_a_bound_pod_counts_on_the_devices_that_its_state_names_and_until_it_is_gone() -> None:
    model = Model()
    model.apply_node(c.NodeState(name="n", devices=(c.Device(), c.Device())))
    half, whole = (
        c.DeviceRequest(cores=500),
        model.shapes.intern(c.Shape(devices=c.DeviceRequest(cores=1000))),
    )
    model.apply_pod(_bound("a", half, (1,)))
    model.apply_pod(_bound("b", half, (1,)))
    assert model.index(whole).total == 1
    model.apply_pod(_bound("c", half, (0,)))
    assert model.index(whole).total == 0
    model.remove_pod("x", "a")
    model.remove_pod("x", "b")
    assert model.index(whole).total == 1
    assert [one.on_devices for one in model.index(whole).take(1).placed] == [(1,)]


def test_a_part_is_taken_of_the_device_that_it_fills_best() -> None:
    model = Model()
    model.apply_node(c.NodeState(name="n", devices=(c.Device(), c.Device(), c.Device())))
    model.apply_pod(_bound("a", c.DeviceRequest(cores=300), (2,)))
    shape = model.shapes.intern(c.Shape(devices=c.DeviceRequest(cores=600)))
    assert [one.on_devices for one in model.index(shape).take(3).placed] == [(2,), (0,), (1,)]


def test_a_node_without_devices_holds_no_pod_that_wants_a_part_of_one() -> None:
    model = Model()
    model.apply_node(c.NodeState(name="n", allocatable={"cpu": 8000}))
    assert model.index(model.shapes.intern(c.Shape(devices=c.DeviceRequest(cores=10)))).total == 0
    model.apply_node(c.NodeState(name="n", allocatable={"cpu": 8000}, devices=(c.Device(),)))
    assert model.index(model.shapes.intern(c.Shape(devices=c.DeviceRequest(cores=10)))).total == 100


def test_a_broken_device_takes_nobody_and_keeps_nobody_from_the_others() -> None:
    model = Model()
    model.apply_node(c.NodeState(name="n", devices=(c.Device(memory=8), c.Device(memory=8))))
    model.apply_pod(_bound("a", c.DeviceRequest(memory=4), (0,)))
    model.apply_node(c.NodeState(name="n", devices=(c.Device(cores=0, memory=8), c.Device(memory=8))))
    shape = model.shapes.intern(c.Shape(devices=c.DeviceRequest(memory=4)))
    assert [one.on_devices for one in model.index(shape).take(2).placed] == [(1,), (1,)]


def test_a_trial_without_some_pods_leaves_a_node_with_a_broken_device_open() -> None:
    model = Model()
    model.apply_node(c.NodeState(name="n", devices=(c.Device(memory=8), c.Device(memory=8))))
    model.apply_pod(_bound("a", c.DeviceRequest(memory=4), (0,)))
    model.apply_node(c.NodeState(name="n", devices=(c.Device(cores=0, memory=8), c.Device(memory=8))))
    shape = model.shapes.intern(c.Shape(devices=c.DeviceRequest(memory=4)))
    less = np.zeros_like(model.nodes.used)
    less[PODS_COLUMN] = model.nodes.exists
    with model.nodes.relieved(less):
        assert model.index(shape).total == 2
    assert model.index(shape).total == 2


def test_spreading_takes_of_the_device_with_the_fewest_parts_taken() -> None:
    model = Model(policy=Policy(scores=Scores(device_policy="spread")))
    model.apply_node(c.NodeState(name="n", devices=(c.Device(memory=8), c.Device(memory=8))))
    shape = model.shapes.intern(c.Shape(devices=c.DeviceRequest(memory=2)))
    assert [one.on_devices for one in model.index(shape).take(3).placed] == [(0,), (1,), (0,)]


@pytest.mark.parametrize(("policy", "node"), [("binpack", "used"), ("spread", "unused")])
def test_nodes_are_compared_by_their_devices(policy, node) -> None:
    model = Model(policy=Policy(scores=Scores(device_policy=policy, device_weight=10.0, fragmentation=None)))
    for name in ("unused", "used"):
        model.apply_node(c.NodeState(name=name, devices=(c.Device(memory=8),)))
    model.apply_pod(_bound("a", c.DeviceRequest(memory=2), (0,), "used"))
    shape = model.shapes.intern(c.Shape(devices=c.DeviceRequest(memory=2)))
    assert [model.nodes.names[slot] for slot in model.index(shape).take(1).slots] == [node]


def test_what_a_pod_has_by_its_binding_counts_and_not_what_it_would_get_today() -> None:
    model = Model()
    model.apply_node(c.NodeState(name="n", devices=(c.Device(memory=8), c.Device(memory=8))))
    state = _bound("a", c.DeviceRequest(memory=2), ())
    parts = (c.DevicePart(device=0, memory=8), c.DevicePart(device=1, memory=1))
    model.apply_pod(state.model_copy(update={"device_parts": parts}))
    shape = model.shapes.intern(c.Shape(devices=c.DeviceRequest(memory=1)))
    assert model.index(shape).total == 7


def test_a_pod_seen_with_what_was_decided_for_it_is_the_same_shape_as_in_flight() -> None:
    """So it lands where it flew, and nothing is counted twice or for a moment not at all."""
    model = Model()
    model.apply_node(c.NodeState(name="n", devices=(c.Device(memory=8), c.Device(memory=10))))
    request = c.DeviceRequest(count=2, memory_percent=25, cores=100)
    shape = model.shapes.intern(c.Shape(devices=request))
    (flying,) = model.index(shape).take(1).placed
    parts = tuple(c.DevicePart(device=at, cores=100, memory=2) for at in flying.on_devices)
    state = _bound("a", request, ()).model_copy(update={"device_parts": parts})
    model.apply_pod(state)
    assert model.pods["x", "a"].shape is flying
    assert model.devices.on(shape, model.devices.parts(shape, flying.on_devices, 0)) is flying
