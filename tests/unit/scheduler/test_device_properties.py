"""Parts of devices against a reference that tries every choice of devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from services.scheduler.core.model import Model
from services.scheduler.core.plan import Plan
from shared.events import contracts as c


@dataclass
class Card:
    """A device as the reference keeps it."""

    device: c.Device
    pods: list[c.DeviceRequest] = field(default_factory=list)

    def takes(self, request: c.DeviceRequest) -> bool:
        cores = sum(pod.cores for pod in self.pods)
        memory = sum(pod.memory for pod in self.pods)
        if cores >= self.device.cores or (request.cores == 1000 and self.pods):
            return False
        if self.device.shares and len(self.pods) >= self.device.shares:
            return False
        return cores + request.cores <= self.device.cores and memory + request.memory <= self.device.memory


def most(cards: Sequence[Card], request: c.DeviceRequest) -> int:
    """Return how many such pods can be on these cards at most, by trying everything."""
    best = 0
    for chosen in combinations(range(len(cards)), request.count):
        if all(cards[at].takes(request) for at in chosen):
            for at in chosen:
                cards[at].pods.append(request)
            best = max(best, 1 + most(cards, request))
            for at in chosen:
                cards[at].pods.pop()
    return best


CARDS = st.lists(
    st.builds(
        c.Device,
        cores=st.sampled_from([1000, 1000, 0]),
        memory=st.sampled_from([8, 16]),
        shares=st.sampled_from([0, 2, 3]),
    ),
    max_size=3,
)
REQUESTS = st.builds(
    c.DeviceRequest,
    count=st.integers(1, 3),
    cores=st.sampled_from([0, 400, 500, 1000]),
    memory=st.sampled_from([0, 4, 6]),
).filter(lambda request: request.cores >= 400 or request.memory >= 4)


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
