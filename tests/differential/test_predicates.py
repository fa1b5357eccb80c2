"""Where a pod may go, we say what kube-scheduler says: the same nodes and pods, the same question to both.

Small worlds are made on a real control plane with Kubernetes' own scheduler. Each trial pod is asked about for each
node alone (its affinity names that node) and for all together; kube-scheduler binds it or says that it
cannot, and our core is asked about the same objects as the controller reads them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pytest

from services.controller.core.facts import node_state, pod_state
from services.controller.core.kin import asked_keys, chosen
from services.controller.core.model import Priorities
from services.controller.core.shapes import shape_of
from services.scheduler.core.model import Model
from services.scheduler.core.plan import Plan
from shared.api import resources as r
from shared.api.pods import PodSpec
from shared.events.contracts import Shape
from shared.kube.port import JSON, Cluster
from tests.fixtures.kube import until

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
TRIALS = 5


# ---------------------------------------------------------------------- worlds


@dataclass
class World:
    """What there is, as the API server has it, and pods to ask about."""

    nodes: list[JSON] = field(default_factory=list)
    pods: list[JSON] = field(default_factory=list)
    trials: list[JSON] = field(default_factory=list)


def selector(dice: random.Random) -> JSON:
    app = dice.choice(["x", "y"])
    return dice.choice(
        [
            {"matchLabels": {"app": app}},
            {"matchExpressions": [{"key": "app", "operator": "In", "values": [app, "z"]}]},
            {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [app]}]},
            {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
            {},
        ]
    )


def term(dice: random.Random, far: str) -> JSON:
    found: JSON = {"labelSelector": selector(dice), "topologyKey": dice.choice([HOST, ZONE, "absent"])}
    if dice.random() < 0.2:
        found["namespaces"] = [far]
    elif dice.random() < 0.2:
        found["namespaceSelector"] = {}
    return found


def pod_spec(dice: random.Random, far: str) -> JSON:
    """Some of all that a pod can ask for."""
    amounts = {"cpu": dice.choice(["100m", "1", "3"]), "memory": dice.choice(["1Gi", "3Gi"])}
    container: JSON = {"name": "c", "image": "i", "resources": {"requests": amounts}}
    if dice.random() < 0.25:
        port: JSON = {"containerPort": 80, "hostPort": dice.choice([8080, 8081])}
        port |= dice.choice([{}, {"protocol": "UDP"}, {"hostIP": "10.0.0.1"}])
        container["ports"] = [port]
    spec: JSON = {"containers": [container], "terminationGracePeriodSeconds": 0}
    if dice.random() < 0.3:
        spec["nodeSelector"] = {"disk": dice.choice(["ssd", "hdd"])}
    if dice.random() < 0.4:
        spec["tolerations"] = [
            dice.choice(
                [
                    {"key": "team", "operator": "Exists"},
                    {"key": "team", "value": "a", "effect": "NoSchedule"},
                    {"operator": "Exists"},
                    {"key": "old", "operator": "Equal", "value": "yes"},
                ]
            )
        ]
    affinity: JSON = {}
    if dice.random() < 0.3:
        affinity["nodeAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [node_expression(dice)]}]
            }
        }
    for kind, odds in (("podAffinity", 0.25), ("podAntiAffinity", 0.35)):
        if dice.random() < odds:
            affinity[kind] = {"requiredDuringSchedulingIgnoredDuringExecution": [term(dice, far)]}
    if affinity:
        spec["affinity"] = affinity
    if dice.random() < 0.3:
        constraint: JSON = {
            "maxSkew": dice.choice([1, 2]),
            "topologyKey": dice.choice([HOST, ZONE]),
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selector(dice),
        }
        constraint |= dice.choice([{}, {"minDomains": 3}, {"nodeTaintsPolicy": "Honor"}])
        constraint |= dice.choice([{}, {"nodeAffinityPolicy": "Ignore"}, {"matchLabelKeys": ["rev"]}])
        spec["topologySpreadConstraints"] = [constraint]
    return spec


def node_expression(dice: random.Random) -> JSON:
    return dice.choice(
        [
            {"key": "disk", "operator": "In", "values": ["ssd"]},
            {"key": "disk", "operator": "NotIn", "values": ["ssd"]},
            {"key": "disk", "operator": "DoesNotExist"},
            {"key": "rank", "operator": "Gt", "values": ["2"]},
            {"key": "rank", "operator": "Lt", "values": ["3"]},
        ]
    )


def node_of(dice: random.Random, name: str) -> JSON:
    labels = {HOST: name, "rank": str(dice.randint(1, 4))}
    if dice.random() < 0.8:
        labels[ZONE] = dice.choice(["a", "b"])
    if dice.random() < 0.7:
        labels["disk"] = dice.choice(["ssd", "hdd"])
    taints = dice.choice(
        [
            [],
            [],
            [{"key": "team", "value": "a", "effect": "NoSchedule"}],
            [{"key": "old", "value": "yes", "effect": "NoExecute"}],
            [{"key": "old", "value": "yes", "effect": "PreferNoSchedule"}],
        ]
    )
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints, "unschedulable": dice.random() < 0.1},
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": dice.choice(["2", "110"])},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def labels_of(dice: random.Random) -> dict[str, str]:
    found = {"app": dice.choice(["x", "y", "z"]), "rev": dice.choice(["1", "2"])}
    return {key: value for key, value in found.items() if dice.random() < 0.8}


# ---------------------------------------------------------------------- both schedulers


async def build(cluster: Cluster, dice: random.Random, near: str, far: str) -> World:
    """Make a world in the cluster."""
    world = World()
    for number in range(dice.randint(3, 5)):
        body = node_of(dice, f"{near}-{number}")
        made = await cluster.create(r.NODES, None, body)
        # The API server taints each new node as not ready, until somebody looks at it.
        await cluster.patch(
            r.NODES, None, made["metadata"]["name"], {"spec": {"taints": body["spec"]["taints"]}}
        )
        world.nodes.append(
            await cluster.patch(
                r.NODES, None, made["metadata"]["name"], {"status": body["status"]}, subresource="status"
            )
        )
    for number in range(dice.randint(2, 6)):
        namespace = near if dice.random() < 0.8 else far
        spec = {**pod_spec(dice, far), "nodeName": dice.choice(world.nodes)["metadata"]["name"]}
        meta = {"name": f"p{number}", "namespace": namespace, "labels": labels_of(dice)}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        world.pods.append(await cluster.create(r.PODS, namespace, body))
    for number in range(TRIALS):
        meta = {"name": f"t{number}", "namespace": near, "labels": labels_of(dice)}
        world.trials.append(
            {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod_spec(dice, far)}
        )
    return world


async def tear_down(cluster: Cluster, world: World) -> None:
    for pod in world.pods:
        meta = pod["metadata"]
        await cluster.delete(r.PODS, meta["namespace"], meta["name"], uid=meta["uid"])
    for node in world.nodes:
        await cluster.delete(r.NODES, None, node["metadata"]["name"])


def pinned(pod: JSON, node: str) -> JSON:
    """The pod, for this node only."""
    spec = pod["spec"]
    affinity: JSON = dict(spec.get("affinity") or {})
    only = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = ((affinity.get("nodeAffinity") or {}).get(required) or {}).get("nodeSelectorTerms") or [{}]
    affinity["nodeAffinity"] = {
        required: {"nodeSelectorTerms": [{**one, "matchFields": [only]} for one in terms]}
    }
    return {**pod, "spec": {**spec, "affinity": affinity}}


async def kube_scheduler_places(cluster: Cluster, pod: JSON) -> bool:
    """Say whether Kubernetes' scheduler finds a node; the pod is gone afterwards."""
    name = f"{pod['metadata']['name']}-{uuid4().hex[:8]}"
    namespace = pod["metadata"]["namespace"]
    made = await cluster.create(r.PODS, namespace, {**pod, "metadata": {**pod["metadata"], "name": name}})

    def judged(one: JSON) -> bool:
        conditions = (one.get("status") or {}).get("conditions") or ()
        return bool(one["spec"].get("nodeName")) or any(
            one["type"] == "PodScheduled" and one["status"] == "False" for one in conditions
        )

    found = await until(cluster, r.PODS, namespace, name, judged, seconds=20)
    await cluster.delete(r.PODS, namespace, name, uid=made["metadata"]["uid"])
    return bool(found["spec"].get("nodeName"))


class Ours:
    """Our core, told of a world."""

    def __init__(self, world: World) -> None:
        self.model = Model()
        everything = [*world.pods, *world.trials]
        self._keys = frozenset(key for pod in everything for key in asked_keys(self._plain(pod).extras))
        for node in world.nodes:
            self.model.apply_node(node_state(node))
        for pod in world.pods:
            self.model.apply_pod(pod_state(pod, self._shape(pod), frozenset()))

    def places(self, pod: JSON) -> bool:
        shape = self.model.shapes.intern(self._shape(pod), pod["metadata"]["namespace"])
        with Plan(self.model).attempt() as trial:
            return trial.place(shape, 1)

    def _shape(self, pod: JSON) -> Shape:
        labels = chosen(pod["metadata"].get("labels") or {}, self._keys)
        return self._plain(pod).model_copy(update={"labels": labels})

    @staticmethod
    def _plain(pod: JSON) -> Shape:
        return shape_of(PodSpec.model_validate(pod["spec"]), {}, Priorities())


@pytest.mark.parametrize("seed", range(20))
async def test_our_core_finds_a_node_where_kube_scheduler_does(cluster: Cluster, seed: int) -> None:
    dice = random.Random(seed)
    near, far = f"near-{uuid4().hex[:6]}", f"far-{uuid4().hex[:6]}"
    for name in (near, far):
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await cluster.create(r.NAMESPACES, None, body)
        await until(cluster, r.SERVICEACCOUNTS, name, "default")
    world = await build(cluster, dice, near, far)
    try:
        ours = Ours(world)
        names = [node["metadata"]["name"] for node in world.nodes]
        for trial in world.trials:
            for question in [trial, *(pinned(trial, name) for name in names)]:
                theirs = await kube_scheduler_places(cluster, question)
                assert ours.places(question) is theirs, (question, theirs)
    finally:
        await tear_down(cluster, world)
