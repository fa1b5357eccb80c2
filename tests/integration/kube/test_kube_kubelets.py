"""The simulated nodes as a process on a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from shared.api.resources import NODES, PODS
from shared.clock import SystemClock
from shared.errors import NotFound, Unavailable
from shared.kube.client import HttpCluster, connect
from shared.kube.port import JSON, Cluster, Resource
from simulator.kubelet.core.nodes import is_ready
from tests.fixtures.kube import start_control_plane, until, until_gone
from tests.fixtures.kube_services import kubectl_of
from tests.fixtures.processes import Process
from tools.kube import ControlPlane

pytestmark = pytest.mark.kube
PDBS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")


def pod(name: str, script: str, node: str | None = None, **metadata) -> JSON:
    container = {"name": "main", "image": "busybox", "command": ["sh", "-c", script]}
    spec: JSON = {"restartPolicy": "Never", "containers": [container]}
    if node is not None:
        spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


async def ended(cluster: Cluster, namespace: str, name: str, phase: str) -> JSON:
    found = await until(cluster, PODS, namespace, name, lambda pod: pod["status"]["phase"] == phase)
    return found["status"]


@asynccontextmanager
async def kubelets(plane: ControlPlane, folder: Path, *words: str) -> AsyncIterator[Process]:
    process = Process(
        "kubelets",
        *("-m", "simulator.kubelet", "--kubeconfig", str(plane.kubeconfig), *words),
        directory=folder,
    )
    await process.start()
    try:
        async with asyncio.timeout(60):
            while "ready" not in process.output:
                assert process.running, process.output
                await asyncio.sleep(0.05)
        yield process
    finally:
        code = await process.stop() if process.running else 0
    assert code == 0
    assert process.unclean == []


async def test_pods_run_and_end_and_their_logs_are_read(
    control_plane: ControlPlane, kube: HttpCluster, namespace: str, tmp_path: Path
):
    async with kubelets(control_plane, tmp_path, "--nodes", "run=2x8", "--lease-seconds", "0"):
        for name in ("run-0", "run-1"):
            node = await kube.get(NODES, None, name)
            assert is_ready(node)
            assert not node["spec"].get("taints")
        await kube.create(PODS, namespace, pod("bound-later", "echo hello; sleep 0.5; echo bye"))
        await kube.create(PODS, namespace, pod("created-bound", "exit 3", node="run-1"))
        await kube.bind(namespace, "bound-later", "run-0")
        await ended(kube, namespace, "bound-later", "Running")
        assert (await ended(kube, namespace, "bound-later", "Succeeded"))["podIP"]
        failed = await ended(kube, namespace, "created-bound", "Failed")
        assert failed["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
        kubectl = kubectl_of(control_plane.kubeconfig)
        assert kubectl("-n", namespace, "logs", "bound-later") == "hello\nbye\n"
        assert kubectl("-n", namespace, "logs", "bound-later", "--tail=1") == "bye\n"
        await kube.create(PODS, namespace, pod("talks", "echo one; sleep 2; echo two", node="run-0"))
        await ended(kube, namespace, "talks", "Running")
        assert kubectl("-n", namespace, "logs", "-f", "talks") == "one\ntwo\n"
    for name in ("run-0", "run-1"):
        await kube.delete(NODES, None, name)


async def test_a_deleted_pod_has_its_grace_and_is_gone(
    control_plane: ControlPlane, kube: HttpCluster, namespace: str, tmp_path: Path
):
    async with kubelets(control_plane, tmp_path, "--nodes", "grace=1x8", "--lease-seconds", "0"):
        slow = pod("slow", "sleep 600", node="grace-0", annotations={"pumice.dev/sim-stop-seconds": "2"})
        slow["metadata"]["finalizers"] = ["pumice.dev/look"]
        await kube.create(PODS, namespace, slow)
        await ended(kube, namespace, "slow", "Running")
        await kube.delete(PODS, namespace, "slow")
        assert (await kube.get(PODS, namespace, "slow"))["status"]["phase"] == "Running"
        status = await ended(kube, namespace, "slow", "Failed")
        assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 143
        await kube.patch(PODS, namespace, "slow", {"metadata": {"finalizers": None}})
        await until_gone(kube, PODS, namespace, "slow")
    await kube.delete(NODES, None, "grace-0")


async def test_an_eviction_waits_for_the_disruption_budget(
    control_plane: ControlPlane, kube: HttpCluster, namespace: str, tmp_path: Path
):
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": spec,
    }
    await kube.create(PDBS, namespace, budget)
    async with kubelets(control_plane, tmp_path, "--nodes", "pdb=1x8", "--lease-seconds", "0"):
        for name in ("first", "second"):
            body = pod(name, "sleep 600", node="pdb-0", labels={"app": "guarded"})
            await kube.create(PODS, namespace, body)
        await until(kube, PDBS, namespace, "b", lambda b: b["status"].get("disruptionsAllowed") == 1)
        await kube.evict(namespace, "first")
        await until_gone(kube, PODS, namespace, "first")
        await until(kube, PDBS, namespace, "b", lambda b: b["status"].get("disruptionsAllowed") == 0)
        with pytest.raises(Unavailable, match="disruption budget"):
            await kube.evict(namespace, "second")
    await kube.delete(NODES, None, "pdb-0")


@pytest.fixture
async def watchful(tmp_path: Path) -> AsyncIterator[tuple[ControlPlane, HttpCluster]]:
    """A control plane that takes a node for lost after some seconds of silence."""
    plane = start_control_plane(
        tmp_path / "kube",
        controller_flags=("--node-monitor-grace-period=6s", "--node-monitor-period=1s"),
    )
    cluster = connect(str(plane.kubeconfig), clock=SystemClock())
    yield plane, cluster
    await cluster.close()
    plane.kill()


async def test_nodes_whose_kubelets_died_are_lost_and_come_back_with_their_pods(watchful, tmp_path: Path):
    plane, cluster = watchful
    words = ("--nodes", "n=2x8", "--lease-seconds", "1")

    def is_lost(node: JSON) -> bool:
        taints = {taint["key"] for taint in node["spec"].get("taints", ())}
        return not is_ready(node) and "node.kubernetes.io/unreachable" in taints

    async with kubelets(plane, tmp_path, *words) as process:
        await cluster.create(PODS, "default", pod("p", "sleep 600", node="n-0"))
        await ended(cluster, "default", "p", "Running")
        await asyncio.sleep(8)
        assert is_ready(await cluster.get(NODES, None, "n-0")), "leases are its signs of life"
        await process.kill()
        await until(cluster, NODES, None, "n-0", is_lost)
    async with kubelets(plane, tmp_path, *words):
        back = await until(cluster, NODES, None, "n-0", is_ready)
        await until(cluster, NODES, None, "n-0", lambda node: not node["spec"].get("taints"))
        assert back["metadata"]["name"] == "n-0"
        assert (await cluster.get(PODS, "default", "p"))["status"]["phase"] == "Running"


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_pods_of_a_removed_node_are_taken_away(watchful, tmp_path: Path):
    plane, cluster = watchful
    async with kubelets(plane, tmp_path, "--nodes", "n=2x8", "--lease-seconds", "1"):
        for number in range(2):
            await cluster.create(PODS, "default", pod(f"p{number}", "sleep 600", node=f"n-{number}"))
            await ended(cluster, "default", f"p{number}", "Running")
        await cluster.delete(NODES, None, "n-0")
        await until_gone(cluster, PODS, "default", "p0", seconds=120)  # the control plane makes sure for 40 s
        assert (await cluster.get(PODS, "default", "p1"))["status"]["phase"] == "Running"
        with pytest.raises(NotFound):
            await cluster.get(NODES, None, "n-0")


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        ((), 2, "--nodes is missing, for example --nodes 4x8"),
        (("--nodes", "many"), 2, "nodes 'many': expected [NAME=]COUNTxGPUS, for example 4x8 or a100=4x8"),
        (("--nodes", "1x1", "--lease-seconds", "-1"), 2, "argument --lease-seconds: '-1' is no number"),
        (("--nodes", "1x1", "--kubeconfig", "nowhere"), 2, "kubeconfig nowhere"),
    ],
)
async def test_a_wrong_use_of_the_kubelets_is_one_line(words, code: int, complaint: str, tmp_path: Path):
    process = Process("kubelets", "-m", "simulator.kubelet", *words, directory=tmp_path)
    await process.start()
    assert await process.wait() == code
    [line] = process.lines
    assert line.startswith("python -m simulator.kubelet: ")
    assert complaint in line
