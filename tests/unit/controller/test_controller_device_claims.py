"""Claims on devices: what pods count, what nodes tell, and which devices are chosen."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.controller.core.deviceclaims import (
    Claimed,
    Held,
    Kind,
    allocation,
    claimed,
    devices_held,
    kinds_of,
    reservation,
)
from services.controller.core.podclaims import PodClaim

JSON = dict[str, Any]
OF = "device.attributes['gpu.example.com']"
CLASSES = {
    "gpu": ["device.driver == 'gpu.example.com'"],
    "large": [f"{OF}.size == 'large'"],
    "any": [],
}
RED = f"{OF}.colour == 'red'"


class World:
    """Classes, claims and templates, as an API server has them."""

    def __init__(self) -> None:
        self.claims: dict[str, JSON] = {}
        self.templates: dict[str, JSON] = {}
        self.not_on: tuple[str, ...] = ()

    def device_class(self, name: str) -> JSON | None:
        if name not in CLASSES:
            return None
        selectors = [{"cel": {"expression": one}} for one in CLASSES[name]]
        config = [{"opaque": {"driver": "gpu.example.com", "parameters": {"class": name}}}]
        return {"metadata": {"name": name}, "spec": {"selectors": selectors, "config": config}}

    def device_claim(self, namespace: str, name: str) -> JSON | None:
        return self.claims.get(name)

    def claim_template(self, namespace: str, name: str) -> JSON | None:
        return self.templates.get(name)

    def avoided(self, namespace: str, name: str) -> tuple[str, ...]:
        return self.not_on


def asks(device_class: str = "gpu", count: int = 1, *selectors: str, name: str = "r") -> JSON:
    exactly: JSON = {"deviceClassName": device_class, "count": count}
    if selectors:
        exactly["selectors"] = [{"cel": {"expression": one}} for one in selectors]
    return {"name": name, "exactly": exactly}


def claim(*requests: JSON, name: str = "c", **more: Any) -> JSON:
    spec = {"devices": {"requests": list(requests), **more}}
    return {"metadata": {"namespace": "d", "name": name}, "spec": spec}


def gpus(node: str, *devices: tuple[str, str], name: str = "", **pool: int) -> JSON:
    """Return a slice of a node's pool with devices by size and colour."""
    listed = [
        {
            "name": f"{name}gpu-{number}",
            "attributes": {"size": {"string": size}, "colour": {"string": colour}},
        }
        for number, (size, colour) in enumerate(devices)
    ]
    part = {"generation": 1, "resourceSliceCount": 1, **pool}
    spec = {"driver": "gpu.example.com", "nodeName": node, "pool": {"name": node, **part}, "devices": listed}
    return {"metadata": {"name": f"{name}{node}"}, "spec": spec}


def held(world: World, *slices: JSON) -> Held:
    found = Held(world)
    for node in {one["spec"]["nodeName"] for one in slices}:
        own = [one for one in slices if one["spec"]["nodeName"] == node]
        found.put_pool(("gpu.example.com", node), own)
    return found


def given_to(world: World, there: Held, asked: JSON, node: str, *uids: str) -> JSON:
    """Return a claim with devices of a node, for some pods."""
    results = there.choose(asked, node, [Kind(name) for name in CLASSES])
    assert not isinstance(results, str), results
    status = {
        "allocation": allocation(asked, results, node, world),
        "reservedFor": [reservation(f"pod-{uid}", uid) for uid in uids],
    }
    new = {**asked, "status": status}
    there.put_claim(asked, new)
    world.claims[asked["metadata"]["name"]] = new
    return new


def of_claim(world: World, there: Held, uid: str = "") -> Claimed:
    pod = {"metadata": {"uid": uid}} if uid else None
    return claimed("d", [PodClaim("x", claim="c")], world, there, pod)


# ---------------------------------------------------------------------- what is asked for


def test_a_request_counts_as_its_class_and_one_that_selects_also_as_what_it_selects() -> None:
    world = World()
    world.claims["c"] = claim(asks("gpu", 2), asks("gpu", 1, RED, name="s"))
    red = Kind("gpu", (RED,)).resource
    assert red.startswith("deviceclass/gpu/")
    assert of_claim(world, held(world)).amounts == (("deviceclass/gpu", 3), (red, 1))


def test_a_pod_that_is_not_made_yet_counts_what_its_template_will_ask_for() -> None:
    world = World()
    world.templates["t"] = {"spec": {"spec": claim(asks("large", 3))["spec"]}}
    found = claimed("d", [PodClaim("x", template="t")], world, held(world))
    assert found == Claimed("", (), (("deviceclass/large", 3),))


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (None, "resource claim d/c is not there"),
        (claim(asks("tpu")), "there is no device class tpu"),
        (claim({"name": "r", "firstAvailable": []}), "request r: firstAvailable is not supported"),
        (
            claim({"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}),
            "request r: allocationMode All is not supported",
        ),
        (
            claim({"name": "r", "exactly": {"deviceClassName": "gpu", "adminAccess": True}}),
            "request r: adminAccess is not supported",
        ),
        (
            claim({"name": "r", "exactly": {"deviceClassName": "gpu", "capacity": {"requests": {"m": "1"}}}}),
            "request r: capacity is not supported",
        ),
        (claim(asks(), constraints=[{"distinctAttribute": "a/b"}]), "constraints other than matchAttribute"),
        (claim(asks("gpu", 1, "((")), "request r: its selector cannot be read"),
    ],
)
def test_a_claim_that_cannot_be_placed_by_says_why(found: JSON | None, why: str) -> None:
    world = World()
    if found is not None:
        world.claims["c"] = found
    asked = of_claim(world, held(world))
    assert why in asked.waits_for
    assert asked.amounts == ()


def test_nodes_where_a_claim_got_nothing_are_left_out() -> None:
    world = World()
    world.claims["c"], world.not_on = claim(asks()), ("n1",)
    [[term]] = of_claim(world, held(world)).reach
    [only] = term.fields
    assert (only.key, only.operator, only.values) == ("metadata.name", "NotIn", ("n1",))


def test_a_claim_with_devices_is_counted_by_the_first_of_its_pods_and_holds_the_others_on_its_node() -> None:
    world = World()
    there = held(world, gpus("n1", ("small", "red"), ("small", "red")))
    given_to(world, there, claim(asks("gpu", 2)), "n1", "a", "b")
    assert of_claim(world, there, "a").amounts == (("deviceclass/gpu", 2),)
    for other in ("b", "c", ""):
        found = of_claim(world, there, other)
        assert found.amounts == ()
        assert [one.values for terms in found.reach for term in terms for one in term.fields] == [("n1",)]


def test_a_claim_for_one_pod_that_has_no_node_may_be_satisfied_elsewhere() -> None:
    world = World()
    there = held(world, gpus("n1", ("small", "red")))
    given_to(world, there, claim(asks()), "n1", "a")
    assert of_claim(world, there, "a") == Claimed("", (), (("deviceclass/gpu", 1),))


# ---------------------------------------------------------------------- what nodes have


def test_devices_that_nobody_counts_are_not_told() -> None:
    world = World()
    there = held(world, gpus("n1", ("large", "red"), ("large", "red"), ("small", "red")))
    kinds = (Kind("gpu"), Kind("large"), Kind("any"))
    assert there.counts("n1", kinds) == {
        "deviceclass/any": 3,
        "deviceclass/gpu": 3,
        "deviceclass/large": 2,
    }
    # The pod counts it as large: who asks for any GPU finds two.
    given_to(world, there, claim(asks("large"), name="one"), "n1", "a")
    assert there.counts("n1", kinds) == {
        "deviceclass/any": 2,
        "deviceclass/gpu": 2,
        "deviceclass/large": 2,
    }
    # Its pod has gone, and nobody counts it.
    kept = world.claims["one"]
    there.put_claim(kept, {**kept, "status": {**kept["status"], "reservedFor": []}})
    assert there.counts("n1", kinds)["deviceclass/large"] == 1
    # Its devices are given back.
    there.put_claim({**kept, "status": {**kept["status"], "reservedFor": []}}, {**kept, "status": {}})
    assert there.counts("n1", kinds)["deviceclass/gpu"] == 3


def test_only_the_newest_generation_of_a_pool_counts_and_only_when_all_of_it_is_there() -> None:
    world, kind = World(), [Kind("gpu")]
    old = gpus("n1", ("small", "red"))
    first = gpus("n1", ("small", "red"), name="a", generation=2, resourceSliceCount=2)
    second = gpus("n1", ("small", "red"), name="b", generation=2, resourceSliceCount=2)
    assert held(world, old).counts("n1", kind) == {"deviceclass/gpu": 1}
    assert held(world, old, first).counts("n1", kind) == {}
    there = held(world, old, first, second)
    assert there.counts("n1", kind) == {"deviceclass/gpu": 2}
    assert there.put_pool(("gpu.example.com", "n1"), []) == {"n1"}
    assert there.counts("n1", kind) == {}


@pytest.mark.parametrize(
    "mark",
    [
        {"taints": [{"key": "broken", "effect": "NoSchedule"}]},
        {"consumesCounters": [{"counterSet": "s", "counters": {}}]},
        {"allowMultipleAllocations": True},
        {"bindingConditions": ["ready"]},
    ],
)
def test_a_device_that_cannot_be_counted_is_left_out(mark: JSON) -> None:
    world = World()
    pool = gpus("n1", ("small", "red"), ("small", "red"))
    pool["spec"]["devices"][0] |= mark
    assert held(world, pool).counts("n1", [Kind("gpu")]) == {"deviceclass/gpu": 1}


# ---------------------------------------------------------------------- which are chosen


def test_devices_that_fewer_kinds_mean_are_taken_first() -> None:
    world = World()
    there = held(world, gpus("n1", ("large", "red"), ("small", "red")))
    [chosen] = there.choose(claim(asks("gpu")), "n1", [Kind(name) for name in CLASSES])
    assert chosen == {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-1"}


def test_too_few_devices_are_said_with_their_number() -> None:
    world = World()
    there = held(world, gpus("n1", ("large", "red"), ("small", "red")))
    found = there.choose(claim(asks("large", 2)), "n1", [])
    assert found == "node n1 has 1 free of the 2 deviceclass/large of request r"


def test_an_allocation_names_its_node_and_the_settings_of_class_and_claim() -> None:
    world = World()
    own = {"opaque": {"driver": "gpu.example.com", "parameters": {"own": True}}}
    asked = claim(asks("gpu"), config=[own])
    there = held(world, gpus("n1", ("small", "red")))
    results = there.choose(asked, "n1", [])
    assert not isinstance(results, str)
    found = allocation(asked, results, "n1", world)
    assert [(one["source"], one["opaque"]["parameters"]) for one in found["devices"]["config"]] == [
        ("FromClass", {"class": "gpu"}),
        ("FromClaim", {"own": True}),
    ]
    fields = [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]
    assert found["nodeSelector"] == {"nodeSelectorTerms": [{"matchFields": fields}]}


SIZES, COLOURS = st.sampled_from(["small", "large"]), st.sampled_from(["red", "blue", "green"])
DEVICES = st.lists(st.tuples(SIZES, COLOURS), min_size=1, max_size=6)
REQUESTS = st.builds(
    lambda name, count, red: asks(name, count, *([RED] if red else [])),
    st.sampled_from(sorted(CLASSES)),
    st.integers(1, 3),
    st.booleans(),
)


@given(DEVICES, st.lists(REQUESTS, min_size=1, max_size=3), st.booleans())
def test_devices_are_chosen_exactly_when_there_is_a_choice(
    devices: list[tuple[str, str]], requests: list[JSON], alike: bool
) -> None:
    world = World()
    there = held(world, gpus("n1", *devices))
    named = [{**one, "name": f"r{number}"} for number, one in enumerate(requests)]
    constraints = [{"matchAttribute": "gpu.example.com/colour"}] if alike else []
    asked = claim(*named, constraints=constraints)
    found = there.choose(asked, "n1", [Kind(name) for name in CLASSES])

    def suits(request: JSON, device: tuple[str, str]) -> bool:
        size, colour = device
        right = request["exactly"]["deviceClassName"] != "large" or size == "large"
        return right and ("selectors" not in request["exactly"] or colour == "red")

    def is_right(choice: tuple[int, ...]) -> bool:
        colours = {devices[one][1] for one in choice}
        return (
            len(set(choice)) == len(choice)
            and all(suits(request, devices[one]) for request, one in zip(slots, choice, strict=True))
            and (not alike or len(colours) <= 1)
        )

    slots = [one for one in named for _ in range(one["exactly"]["count"])]
    possible = len(slots) <= len(devices) and any(
        map(is_right, product(range(len(devices)), repeat=len(slots)))
    )
    if isinstance(found, str):
        assert not possible
    else:
        assert [one["request"] for one in found] == [one["name"] for one in slots]
        assert is_right(tuple(int(one["device"].removeprefix("gpu-")) for one in found))


@given(DEVICES, st.lists(st.tuples(REQUESTS, st.sampled_from(["keep", "leave", "end"])), max_size=5))
def test_what_nodes_tell_without_what_pods_count_is_what_is_free(
    devices: list[tuple[str, str]], history: list[tuple[JSON, str]]
) -> None:
    """Whatever claims get and give back: the scheduler sees of each kind the devices that are free."""
    world = World()
    there = held(world, gpus("n1", *devices))
    kinds = {Kind(name) for name in CLASSES} | {
        kind for request, _ in history for kind in kinds_of(claim(request)["spec"])
    }
    free, counted = set(range(len(devices))), Counter[str]()
    for number, (request, fate) in enumerate(history):
        asked = claim(request, name=f"c{number}")
        if isinstance(there.choose(asked, "n1", kinds), str):
            continue
        uid = f"u{number}"
        new = given_to(world, there, asked, "n1", uid)
        mine = {int(device[2].removeprefix("gpu-")) for device, _ in devices_held(new)}
        amounts = there.amounts_of(new)
        if fate == "leave":  # its pod is gone, its devices are not given back yet
            there.put_claim(new, {**new, "status": {**new["status"], "reservedFor": []}})
            free -= mine
        elif fate == "end":
            there.put_claim(new, {**new, "status": {}})
        else:
            counted += amounts
            free -= mine
    told = there.counts("n1", kinds)
    for kind in kinds:
        number = sum(
            there.is_of(there.on_node["n1"][device], kind) for device in _ids(there) if _at(device) in free
        )
        assert told.get(kind.resource, 0) - counted[kind.resource] == number, kind


def _ids(there: Held) -> list[tuple[str, str, str]]:
    return list(there.on_node["n1"])


def _at(device: tuple[str, str, str]) -> int:
    return int(device[2].removeprefix("gpu-"))
