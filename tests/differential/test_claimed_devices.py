"""Where a pod's claim gets devices, we say what kube-scheduler says: the same slices, classes and claims.

As in :mod:`test_predicates`, small worlds on a real control plane, and the same question to both: may this pod
run on this node? Some of the claims that got devices keep them, so that later questions find fewer.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from uuid import uuid4

import pytest

from services.controller.core.deviceclaims import Held, Kind, claimed, kinds_of
from services.controller.core.podclaims import claims_of_spec
from shared.api import resources as r
from shared.kube.port import JSON, Cluster, Resource
from tests.differential.test_predicates import pinned
from tests.fixtures.kube import take_away, until

TRIALS = 4
LARGE, SMALL = "80Gi", "24Gi"


@dataclass
class World:
    """What there is. It is a catalogue for our side, with objects as the API server has them."""

    namespace: str
    driver: str
    nodes: list[str] = field(default_factory=list)
    made: list[tuple[Resource, str]] = field(default_factory=list)
    """Objects of the cluster, to be taken away."""
    slices: dict[str, list[JSON]] = field(default_factory=dict)
    """By pool, which is named as its node."""
    classes: dict[str, JSON] = field(default_factory=dict)
    claims: dict[str, JSON] = field(default_factory=dict)

    def device_class(self, name: str) -> JSON | None:
        return self.classes.get(name)

    def device_claim(self, namespace: str, name: str) -> JSON | None:
        return self.claims.get(name)

    def claim_template(self, namespace: str, name: str) -> JSON | None:
        return None

    def avoided(self, namespace: str, name: str) -> tuple[str, ...]:
        return ()


def selector(dice: random.Random, driver: str) -> JSON:
    own, capacity = f"device.attributes['{driver}']", f"device.capacity['{driver}']"
    expression = dice.choice(
        [
            f"device.driver == '{driver}'",
            f"{own}.model == 'a'",
            f"{own}.index >= 2",
            f"{own}.model in ['a', 'b'] && {own}.linked",
            f"'board' in {own} && {own}.board == 'left'",
            f"{capacity}.memory.compareTo(quantity('40Gi')) >= 0",
            f"{capacity}.memory.isLessThan(quantity('30000Mi'))",
            f"{own}.firmware.isGreaterThan(semver('1.9.0'))",
            f"{own}.firmware.compareTo(semver('1.10.0')) < 0",
            f"{own}.model.matches('^[ab]$')",
        ]
    )
    return {"cel": {"expression": expression}}


def device(dice: random.Random, number: int) -> JSON:
    attributes: JSON = {
        "model": {"string": dice.choice("abc")},
        "index": {"int": number},
        "linked": {"bool": dice.random() < 0.7},
        "firmware": {"version": dice.choice(["1.9.0", "1.10.0-rc.1", "1.10.0", "2.0.0"])},
    }
    if dice.random() < 0.8:
        attributes["board"] = {"string": dice.choice(["left", "right"])}
    found: JSON = {
        "name": f"d{number}",
        "attributes": attributes,
        "capacity": {"memory": {"value": dice.choice([LARGE, SMALL])}},
    }
    if dice.random() < 0.15:
        found["taints"] = [{"key": "broken", "effect": dice.choice(["NoSchedule", "NoExecute"])}]
    return found


def pool(dice: random.Random, driver: str, node: str) -> list[JSON]:
    """Return the slices of a node: of one or two generations, and sometimes one is missing."""
    slices: list[JSON] = []
    for generation in range(1, dice.choice([1, 1, 2]) + 1):
        parts = dice.choice([1, 1, 2])
        devices = [device(dice, number) for number in range(dice.randint(2, 4))]
        shares = [devices[part::parts] for part in range(parts)]
        there = shares[: dice.choice([parts, parts, parts, 1])]
        for part, share in enumerate(there):
            spec = {
                "driver": driver,
                "nodeName": node,
                "pool": {"name": node, "generation": generation, "resourceSliceCount": parts},
                "devices": share,
            }
            slices.append(obj(r.RESOURCESLICES, f"{node}-{generation}-{part}", spec))
    return slices


def obj(resource: Resource, name: str, spec: JSON) -> JSON:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def claim_spec(dice: random.Random, world: World) -> JSON:
    requests: list[JSON] = []
    for number in range(dice.choice([1, 1, 2])):
        exactly: JSON = {
            "deviceClassName": dice.choice(sorted(world.classes)),
            "count": dice.choice([1, 1, 2]),
        }
        if dice.random() < 0.4:
            exactly["selectors"] = [selector(dice, world.driver)]
        requests.append({"name": f"r{number}", "exactly": exactly})
    devices: JSON = {"requests": requests}
    if dice.random() < 0.4:
        of = dice.choice([[], ["r0"]])
        devices["constraints"] = [
            {"matchAttribute": f"{world.driver}/{dice.choice(['board', 'model'])}", "requests": of}
        ]
    return {"devices": devices}


async def build(cluster: Cluster, dice: random.Random, world: World) -> None:
    """Make a world in the cluster."""

    async def make(resource: Resource, body: JSON) -> JSON:
        found = await cluster.create(resource, None, body)
        world.made.append((resource, found["metadata"]["name"]))
        return found

    for number in range(2):
        name = f"{world.namespace}-{number}"
        status = {
            "allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        await make(r.NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        await cluster.patch(r.NODES, None, name, {"spec": {"taints": None}})
        await cluster.patch(r.NODES, None, name, {"status": status}, subresource="status")
        world.nodes.append(name)
        world.slices[name] = [await make(r.RESOURCESLICES, one) for one in pool(dice, world.driver, name)]
    for number in range(3):
        name = f"{number}.{world.driver}"
        spec = {"selectors": [selector(dice, world.driver) for _ in range(dice.choice([0, 1, 1, 2]))]}
        # Whatever it selects: others' devices are none of ours.
        spec["selectors"].insert(0, {"cel": {"expression": f"device.driver == '{world.driver}'"}})
        world.classes[name] = await make(r.DEVICECLASSES, obj(r.DEVICECLASSES, name, spec))


def pod_of(world: World, claim: str) -> JSON:
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "x"}]}}
    spec = {
        "containers": [container],
        "resourceClaims": [{"name": "x", "resourceClaimName": claim}],
        "terminationGracePeriodSeconds": 0,
    }
    meta = {"name": claim, "namespace": world.namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


async def kube_scheduler_places(cluster: Cluster, pod: JSON) -> bool:
    """Say whether Kubernetes' scheduler finds a node for a pod, which stays."""
    meta = pod["metadata"]
    await cluster.create(r.PODS, meta["namespace"], pod)

    def judged(one: JSON) -> bool:
        conditions = (one.get("status") or {}).get("conditions") or ()
        return bool(one["spec"].get("nodeName")) or any(
            one["type"] == "PodScheduled" and one["status"] == "False" for one in conditions
        )

    found = await until(cluster, r.PODS, meta["namespace"], meta["name"], judged, seconds=20)
    return bool(found["spec"].get("nodeName"))


def ours_places(world: World, claim: JSON, node: str) -> bool:
    """Say whether the counts of the node are enough, and there are devices to choose."""
    held = Held(world)
    for name, slices in world.slices.items():
        held.put_pool((world.driver, name), slices)
    for one in world.claims.values():
        held.put_claim(None, one)
    name = claim["metadata"]["name"]
    asked = claims_of_spec(pod_of(world, name)["spec"])
    world.claims[name] = claim
    found = claimed(world.namespace, asked, world, held)
    del world.claims[name]
    assert found.waits_for == ""
    kinds = {Kind(one) for one in world.classes} | kinds_of(claim["spec"])
    counts = held.counts(node, kinds)
    taken = {
        resource: sum(held.amounts_of(one)[resource] for one in world.claims.values() if is_on(one, node))
        for resource, _ in found.amounts
    }
    fits = all(counts.get(what, 0) - taken[what] >= amount for what, amount in found.amounts)
    return fits and not isinstance(held.choose(claim, node, kinds), str)


def is_on(claim: JSON, node: str) -> bool:
    return all(one["pool"] == node for one in claim["status"]["allocation"]["devices"]["results"])


@pytest.mark.parametrize("seed", range(12))
async def test_a_claim_gets_devices_of_a_node_where_kube_scheduler_gives_it_some(
    cluster: Cluster, seed: int
) -> None:
    dice = random.Random(seed)
    namespace = f"dra-{uuid4().hex[:6]}"
    await cluster.create(
        r.NAMESPACES, None, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    )
    await until(cluster, r.SERVICEACCOUNTS, namespace, "default")
    world = World(namespace, f"{namespace}.example.com")
    try:
        await build(cluster, dice, world)
        for number in range(TRIALS):
            spec = claim_spec(dice, world)
            for node in world.nodes:
                name = f"{number}-{node}"
                claim = await cluster.create(r.RESOURCECLAIMS, namespace, obj(r.RESOURCECLAIMS, name, spec))
                theirs = await kube_scheduler_places(cluster, pinned(pod_of(world, name), node))
                assert ours_places(world, claim, node) is theirs, (spec, world.slices[node], theirs)
                if theirs and dice.random() < 0.4:
                    world.claims[name] = await cluster.get(r.RESOURCECLAIMS, namespace, name)
                else:
                    await take_away(cluster, r.PODS, namespace, name)
                    await take_away(cluster, r.RESOURCECLAIMS, namespace, name)
    finally:
        for pod in (await cluster.list(r.PODS, namespace)).items:
            await take_away(cluster, r.PODS, namespace, pod["metadata"]["name"])
        for resource, name in reversed(world.made):
            await take_away(cluster, resource, None, name)
