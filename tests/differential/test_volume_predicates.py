"""Where a pod with claims may go, we say what kube-scheduler says: the same volumes, classes and drivers.

As in :mod:`test_predicates`, small worlds on a real control plane, and the same question to both. Claims that
wait for their first pod are made for each question: kube-scheduler says yes by asking for a volume.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from services.controller.core.facts import node_state, pod_state
from services.controller.core.model import Priorities
from services.controller.core.shapes import shape_of
from services.scheduler.core.model import Model
from services.scheduler.core.plan import Plan
from services.simulation.core.store import Store
from services.simulation.core.timeline import Timeline
from services.simulation.core.volumes import Claims
from shared.api import resources as r
from shared.api.pods import PodSpec
from shared.errors import NotFound
from shared.events.contracts import Shape
from shared.kube.port import JSON, Cluster, Resource
from tests.differential.test_predicates import HOST, ZONE, pinned
from tests.fixtures.kube import take_away, until

DRIVER, SELECTED = "csi.example.org", "volume.kubernetes.io/selected-node"
REGION, OLD_ZONE = "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone"
TRIALS = 4


@dataclass
class World:
    """What there is. Claims that are bound are there from the beginning, the others while they are asked about."""

    namespace: str
    made: list[tuple[Resource, JSON]] = field(default_factory=list)
    bound: list[str] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    disks: list[JSON] = field(default_factory=list)
    """Local volumes, as they are made: one that was taken is made anew."""


def required(key: str, *values: str) -> JSON:
    expression = {"key": key, "operator": "In", "values": list(values)}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def node_of(dice: random.Random, name: str) -> JSON:
    labels = {HOST: name}
    if dice.random() < 0.8:
        labels[ZONE] = dice.choice("ab")
    if dice.random() < 0.5:
        labels[REGION] = "r"
    amounts = {"cpu": "8", "memory": "8Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def volume_of(dice: random.Random, name: str, namespace: str) -> JSON:
    """A volume that is bound to a claim of its name."""
    labels = dice.choice([{}, {}, {ZONE: "a"}, {ZONE: "a__b"}, {OLD_ZONE: "b"}, {ZONE: "b", REGION: "r"}])
    spec: JSON = {
        "accessModes": [dice.choice([*["ReadWriteOnce"] * 5, "ReadWriteOncePod"])],
        "capacity": {"storage": "1Gi"},
        "claimRef": {"namespace": namespace, "name": name},
        "csi": {"driver": DRIVER, "volumeHandle": name},
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "",
    }
    if dice.random() < 0.4:
        spec["nodeAffinity"] = required(ZONE, dice.choice("ab"))
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
    }


def disk_of(dice: random.Random, name: str, of: str, node: str) -> JSON:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": dice.choice(["1Gi", "3Gi"])},
        "local": {"path": "/disk"},
        "nodeAffinity": required(HOST, node),
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": of,
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def claim_of(name: str, namespace: str, of: str, size: str = "1Gi", **more: object) -> JSON:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        "storageClassName": of,
        **more,
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def pod_of(name: str, namespace: str, claims: list[str], node: str | None = None) -> JSON:
    volumes = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": one}} for i, one in enumerate(claims)]
    spec: JSON = {"containers": [{"name": "c", "image": "i"}], "volumes": volumes}
    if node is not None:
        spec["nodeName"] = node
    spec["terminationGracePeriodSeconds"] = 0
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


async def build(cluster: Cluster, dice: random.Random, world: World) -> None:
    space = world.namespace

    async def make(resource: Resource, body: JSON) -> JSON:
        made = await cluster.create(resource, space if resource.namespaced else None, body)
        world.made.append((resource, made))
        return made

    nodes = [f"{space}-{number}" for number in range(dice.randint(2, 4))]
    for name in nodes:
        body = node_of(dice, name)
        await make(r.NODES, body)
        await cluster.patch(r.NODES, None, name, {"spec": {"taints": []}})
        await cluster.patch(r.NODES, None, name, {"status": body["status"]}, subresource="status")
        if dice.random() < 0.7:
            driver: JSON = {"name": DRIVER, "nodeID": name, "topologyKeys": []}
            driver["allocatable"] = {"count": dice.choice([1, 2, 3])}
            spec = {"drivers": [driver]}
            await make(
                r.CSINODES,
                {
                    "apiVersion": "storage.k8s.io/v1",
                    "kind": "CSINode",
                    "metadata": {"name": name},
                    "spec": spec,
                },
            )
    for number in range(4):
        name = f"{space}-v{number}"
        volume = volume_of(dice, name, space)
        await make(r.PVS, volume)
        modes = volume["spec"]["accessModes"]
        await make(r.PVCS, claim_of(name, space, "", accessModes=modes, volumeName=name))
        world.bound.append(name)
    for number, provisioner in enumerate([DRIVER, "kubernetes.io/no-provisioner"]):
        body = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": f"{space}-c{number}"},
            "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        if not number and dice.random() < 0.6:
            values = [{"key": ZONE, "values": [dice.choice("ab")]}]
            body["allowedTopologies"] = [{"matchLabelExpressions": values}]
        await make(r.STORAGECLASSES, body)
        world.classes.append(body["metadata"]["name"])
    for number in range(dice.randint(0, 2)):
        world.disks.append(disk_of(dice, f"{space}-d{number}", world.classes[1], dice.choice(nodes)))
    for number in range(dice.randint(1, 3)):
        claims = dice.sample(world.bound, dice.randint(1, 2))
        await make(r.PODS, pod_of(f"p{number}", space, claims, dice.choice(nodes)))
    for name in world.bound:
        await until(cluster, r.PVCS, space, name, lambda one: one["status"].get("phase") == "Bound")


async def fresh_disks(cluster: Cluster, world: World) -> None:
    """Have all local volumes free."""
    for disk in world.disks:
        name = disk["metadata"]["name"]
        with suppress(NotFound):
            found = await cluster.get(r.PVS, None, name)
            if found["status"].get("phase") == "Available" and not found["spec"].get("claimRef"):
                continue
            await take_away(cluster, r.PVS, None, name)
        await cluster.create(r.PVS, None, disk)
        await until(cluster, r.PVS, None, name, lambda one: one["status"].get("phase") == "Available")


def question(dice: random.Random, world: World) -> tuple[list[str], list[JSON]]:
    """Claims that are bound and claims to be made, for one pod."""
    bound = dice.sample(world.bound, dice.choice([0, 1, 1, 2]))
    kind = dice.choice(["", "", "made", "disk", "absent"] if bound else ["made", "disk"])
    if kind == "absent":
        return [*bound, "absent"], []
    if not kind:
        return bound, []
    of = world.classes[kind == "disk"]
    return bound, [claim_of(f"q-{uuid4().hex[:6]}", world.namespace, of, dice.choice(["1Gi", "2Gi"]))]


async def kube_scheduler_says(cluster: Cluster, pod: JSON, claims: list[JSON], world: World) -> bool:
    """Say whether Kubernetes' scheduler finds a node, or asks for a volume for one; all is gone afterwards."""
    space = world.namespace
    await fresh_disks(cluster, world)
    for claim in claims:
        await cluster.create(r.PVCS, space, claim)
    await cluster.create(r.PODS, space, pod)
    name = pod["metadata"]["name"]
    try:
        async with asyncio.timeout(60):
            while True:
                if await _asks_for_volume(cluster, claims, world):
                    return True
                one = await cluster.get(r.PODS, space, name)
                if one["spec"].get("nodeName"):
                    return True
                conditions = (one.get("status") or {}).get("conditions") or ()
                if any(c["type"] == "PodScheduled" and c["status"] == "False" for c in conditions):
                    return await _asks_for_volume(cluster, claims, world)
                await asyncio.sleep(0.02)
    finally:
        await cluster.delete(r.PODS, space, name)
        for claim in claims:
            await take_away(cluster, r.PVCS, space, claim["metadata"]["name"])


async def _asks_for_volume(cluster: Cluster, claims: list[JSON], world: World) -> bool:
    for claim in claims:
        found = await cluster.get(r.PVCS, world.namespace, claim["metadata"]["name"])
        if SELECTED in (found["metadata"].get("annotations") or {}) or found["spec"].get("volumeName"):
            return True
    kept = [await cluster.get(r.PVS, None, disk["metadata"]["name"]) for disk in world.disks]
    return bool(claims) and any(one["spec"].get("claimRef") for one in kept)


class Ours:
    """Our core, told of a world as the controller tells it."""

    def __init__(self, objects: list[tuple[Resource, JSON]], claims: list[JSON]) -> None:
        self._store = Store()
        for resource, one in objects:
            self._store.put(resource, one)
        for claim in claims:
            self._store.create(r.PVCS, claim, datetime.now(UTC))
        self._claims = Claims(self._store, Timeline())
        self.model = Model()
        for node in self._store.all(r.NODES).values():
            self.model.apply_node(self._claims.of_node(node_state(node)))
        for pod in self._store.all(r.PODS).values():
            self.model.apply_pod(pod_state(pod, self._shape(pod), frozenset()))

    def places(self, pod: JSON) -> bool:
        shape = self._shape(pod)
        if shape.volumes is not None and shape.volumes.waits_for:
            return False
        found = self.model.shapes.intern(shape, pod["metadata"]["namespace"])
        with Plan(self.model).attempt() as trial:
            return trial.place(found, 1)

    def _shape(self, pod: JSON) -> Shape:
        plain = shape_of(PodSpec.model_validate(pod["spec"]), {}, Priorities())
        volumes = self._claims.of_shape(pod["metadata"]["namespace"], plain.extras)
        return plain.model_copy(update={"volumes": volumes})


async def as_told(cluster: Cluster, world: World) -> list[tuple[Resource, JSON]]:
    """Return the world's objects as they are now."""
    await fresh_disks(cluster, world)
    named = [(resource, one["metadata"]["name"]) for resource, one in world.made]
    named += [(r.PVS, one["metadata"]["name"]) for one in world.disks]
    return [
        (resource, await cluster.get(resource, world.namespace if resource.namespaced else None, name))
        for resource, name in named
    ]


async def tear_down(cluster: Cluster, world: World) -> None:
    for resource, one in reversed(world.made):
        meta = one["metadata"]
        space = meta.get("namespace") if resource.namespaced else None
        if resource in (r.PVCS, r.PVS):
            await take_away(cluster, resource, space, meta["name"])
            continue
        with suppress(NotFound):
            await cluster.delete(resource, space, meta["name"])
    for disk in world.disks:
        await take_away(cluster, r.PVS, None, disk["metadata"]["name"])


async def answers(
    cluster: Cluster, world: World, bound: list[str], made: list[JSON], node: str | None
) -> tuple[bool, bool]:
    """Say whether our core finds a node, and kube-scheduler, for a pod with claims that are made for it."""
    fresh = [{**one, "metadata": {**one["metadata"], "name": f"q-{uuid4().hex[:6]}"}} for one in made]
    names = [*bound, *(one["metadata"]["name"] for one in fresh)]
    pod = pod_of(f"t-{uuid4().hex[:6]}", world.namespace, names)
    pod = pod if node is None else pinned(pod, node)
    ours = Ours(await as_told(cluster, world), fresh).places(pod)
    return ours, await kube_scheduler_says(cluster, pod, fresh, world)


@pytest.mark.parametrize("seed", range(12))
async def test_our_core_finds_a_node_for_volumes_where_kube_scheduler_does(
    cluster: Cluster, seed: int
) -> None:
    dice = random.Random(seed)
    world = World(f"vol-{uuid4().hex[:6]}")
    body: JSON = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": world.namespace}}
    await cluster.create(r.NAMESPACES, None, body)
    await until(cluster, r.SERVICEACCOUNTS, world.namespace, "default")
    try:
        await build(cluster, dice, world)
        nodes = [one["metadata"]["name"] for resource, one in world.made if resource is r.NODES]
        for _ in range(TRIALS):
            bound, made = question(dice, world)
            for node in [None, *nodes]:
                ours, theirs = await answers(cluster, world, bound, made, node)
                if ours is not theirs:  # its caches may not have what was made last
                    ours, theirs = await answers(cluster, world, bound, made, node)
                assert ours is theirs, (bound, made, node, theirs)
    finally:
        await tear_down(cluster, world)
