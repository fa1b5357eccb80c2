"""A pod goes to a node that has its images where kube-scheduler would have it go: all else is equal there.

As in :mod:`test_predicates`, small worlds on a real control plane, and the same question to both. Of nodes with the
same points kube-scheduler takes any, so its answer has to be one of those that have the most by our formula.
"""

from __future__ import annotations

import random
from uuid import uuid4

import numpy as np
import pytest

from services.controller.core.facts import node_state
from services.controller.core.model import Priorities
from services.controller.core.shapes import shape_of
from services.scheduler.core.model import Model
from services.scheduler.core.policy import Policy, Scores
from services.scheduler.core.scores import Score
from shared.api import resources as r
from shared.api.pods import PodSpec
from shared.kube.port import JSON, Cluster
from tests.fixtures.kube import until
from tests.fixtures.waiting import eventually

MB = 1 << 20
IMAGES = {"registry:5000/a": 60, "b:1": 400, "team/c:2": 900, "d@sha256:" + "0" * 64: 3000, "mark:1": 9000}
"""MiB, by the name that pods say."""
POLICY = Policy(scores=Scores(binpack_weight=0.0, image_weight=1.0))
TRIALS = 8


async def node(cluster: Cluster, name: str, images: list[str]) -> JSON:
    """Make a node that has these images."""
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    await cluster.create(r.NODES, None, body)
    await cluster.patch(r.NODES, None, name, {"spec": {"taints": []}})
    status = {
        "allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
        "images": [
            {"names": [f"{one}:latest" if one == "registry:5000/a" else one], "sizeBytes": IMAGES[one] * MB}
            for one in images
        ],
    }
    return await cluster.patch(r.NODES, None, name, {"status": status}, subresource="status")


def pod(namespace: str, images: list[str], first: list[str]) -> JSON:
    containers, begins = (
        [{"name": f"{kind}{number}", "image": image} for number, image in enumerate(some)]
        for kind, some in (("c", images), ("i", first))
    )
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"t-{uuid4().hex[:8]}", "namespace": namespace},
        "spec": {"containers": containers, "initContainers": begins, "terminationGracePeriodSeconds": 0},
    }


async def theirs(cluster: Cluster, question: JSON) -> str:
    """Return where kube-scheduler binds a pod; it is gone afterwards."""
    namespace = question["metadata"]["namespace"]
    name = f"t-{uuid4().hex[:8]}"
    made = await cluster.create(r.PODS, namespace, {**question, "metadata": {"name": name}})
    found = await until(
        cluster, r.PODS, namespace, name, lambda one: bool(one["spec"].get("nodeName")), seconds=20
    )
    await cluster.delete(r.PODS, namespace, name, uid=made["metadata"]["uid"])
    return str(found["spec"]["nodeName"])


def ours(nodes: list[JSON], question: JSON) -> set[str]:
    """Return the nodes that have the most points by our formula."""
    model = Model(policy=POLICY)
    for one in nodes:
        model.apply_node(node_state(one))
    shape = model.shapes.intern(shape_of(PodSpec.model_validate(question["spec"]), {}, Priorities()))
    score = Score(shape, model.nodes, POLICY.scores, model.typical)
    score.refresh()
    points = score.many(np.arange(len(nodes)))
    return {model.nodes.names[slot] for slot in np.flatnonzero(points == points.max()).tolist()}


@pytest.mark.parametrize("seed", range(6))
async def test_pods_go_to_a_node_with_the_most_points_by_our_formula(cluster: Cluster, seed: int) -> None:
    dice = random.Random(seed)
    namespace = f"images-{uuid4().hex[:6]}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    await cluster.create(r.NAMESPACES, None, body)
    await until(cluster, r.SERVICEACCOUNTS, namespace, "default")
    names = sorted(IMAGES.keys() - {"mark:1"})
    nodes = [
        await node(cluster, f"{namespace}-{number}", dice.sample(names, dice.randint(0, 3)))
        for number in range(4)
    ]
    # kube-scheduler's caches may lag behind what was just made: it has seen all when it has seen the last node,
    # which is the only one with the largest of all images.
    nodes.append(await node(cluster, f"{namespace}-last", ["mark:1"]))
    try:

        async def has_seen_all() -> bool:
            return await theirs(cluster, pod(namespace, ["mark:1"], [])) == f"{namespace}-last"

        await eventually(has_seen_all)
        for _ in range(TRIALS):
            question = pod(
                namespace,
                dice.choices(names, k=dice.randint(1, 3)),
                dice.choices(names, k=dice.randint(0, 1)),
            )
            assert await theirs(cluster, question) in ours(nodes, question), question
    finally:
        for one in nodes:
            await cluster.delete(r.NODES, None, one["metadata"]["name"])
