"""A node is drained with kubectl under gangs that run."""

from __future__ import annotations

import asyncio

import pytest

from shared.api import resources as r
from shared.kube.client import HttpCluster
from tests.faults.test_kube_cluster_events import job, nodes_of, pods_of, running
from tests.fixtures.kube_platform import kube_platform
from tests.fixtures.kube_services import kubectl_of
from tests.fixtures.services import PodWatch
from tools.kube import ControlPlane

pytestmark = pytest.mark.kubectl

GPUS = 4


@pytest.mark.parametrize(("action", "retries"), [("", 0), ("RestartJob", 1)])
async def test_a_gang_whose_node_is_drained_goes_on_elsewhere_as_its_policy_says(
    control_plane: ControlPlane, kube: HttpCluster, namespace: str, action: str, retries: int
):
    """Four pods on two of three nodes, two a node: the evictions of one drain are one restart."""
    kubectl = kubectl_of(control_plane.kubeconfig)
    name = f"drain{retries}"
    async with kube_platform(kube, f"{name}=3x{GPUS}"), PodWatch(kube) as seen:
        await kube.create(r.JOBS, namespace, job(name, gpus=GPUS // 2, evicted=action))
        await running(kube, namespace, name)
        before = await pods_of(kube, namespace, name)
        drained = min(nodes_of(before))
        words = ("drain", drained, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=50s")
        printed = await asyncio.to_thread(kubectl, *words)
        assert printed.count(" evicted") == 2
        await running(kube, namespace, name, retries=retries)
        after = await pods_of(kube, namespace, name)
        assert after.keys() == before.keys()
        assert drained not in nodes_of(after)
        kept = {short for short, pod in before.items() if pod["spec"]["nodeName"] != drained}
        same = {
            short for short in after if after[short]["metadata"]["uid"] == before[short]["metadata"]["uid"]
        }
        assert same == (set() if action else kept)
        again = {full.removeprefix(f"{name}-"): len(uids) for full, uids in seen.twice(f"{name}-").items()}
        assert again == dict.fromkeys(after.keys() - same, 2), "what was lost is made again, once"
        await kube.delete(r.JOBS, namespace, name)
