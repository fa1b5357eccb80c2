"""A new user's way on a real cluster: CRDs by kubectl, nodes, `pumice up --kubeconfig`, a job."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import yaml

from pumice import AsyncClient, NotFound
from shared.api.resources import PODS
from shared.clock import SystemClock
from shared.kube.client import connect
from tests.fixtures.kube import start_control_plane
from tests.fixtures.kube_services import kubectl_of
from tests.fixtures.platform import gang
from tests.fixtures.processes import ROOT, Process
from tests.fixtures.services import PodWatch, ended
from tests.fixtures.waiting import eventually
from tools.kube import ControlPlane

pytestmark = [pytest.mark.kube, pytest.mark.kubectl]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with our kinds, taken by kubectl as the README says."""
    plane = start_control_plane(tmp_path_factory.mktemp("kube"))
    kubectl_of(plane.kubeconfig)("apply", "-f", str(ROOT / "deploy" / "crds"))
    yield plane
    plane.kill()


@asynccontextmanager
async def a_process(name: str, folder: Path, *words: str, ready: str) -> AsyncIterator[Process]:
    process = Process(name, *words, directory=folder)
    await process.start()
    try:
        await eventually(lambda: ready in process.output or not process.running, what=f"{name}: {ready}")
        assert process.running, process.output
        yield process
    finally:
        code = await process.stop()
    assert code == 0
    assert process.unclean == []


@asynccontextmanager
async def pumice_up(plane: ControlPlane, folder: Path, *options: str) -> AsyncIterator[AsyncClient]:
    ready = folder / "ready.json"
    ready.unlink(missing_ok=True)
    words = ("-m", "pumice", "up", "--kubeconfig", str(plane.kubeconfig), "--port", "0", *options)
    process = Process("pumice", *words, "--ready-file", str(ready), directory=folder)
    await process.start()
    try:
        await eventually(lambda: ready.exists() or not process.running, what="pumice up")
        assert process.running, process.output
        async with AsyncClient(json.loads(ready.read_text())["gateway"]) as client:
            yield client
    finally:
        code = await process.stop()
    assert code == 0
    assert process.unclean == []


@asynccontextmanager
async def nodes(plane: ControlPlane, folder: Path) -> AsyncIterator[None]:
    words = ("-m", "simulator.kubelet", "--nodes", "4x8", "--kubeconfig", str(plane.kubeconfig))
    async with a_process("kubelets", folder, *words, ready="4 nodes are ready"):
        yield


async def test_the_main_job_goes_to_completed_on_a_real_cluster(plane: ControlPlane, tmp_path: Path):
    kubectl = kubectl_of(plane.kubeconfig)
    cluster = connect(str(plane.kubeconfig), clock=SystemClock())
    async with nodes(plane, tmp_path), pumice_up(plane, tmp_path) as client, PodWatch(cluster) as seen:
        job = await client.submit(gang("train", command="echo step; sleep 1"), wait="finished", timeout=60)
        assert (job.phase, job.pods.succeeded) == ("Completed", 4)
        pods = (await cluster.list(PODS, "default")).items
        assert len({pod["spec"]["nodeName"] for pod in pods}) == 4
        assert seen.twice("train") == {}

        head, row = kubectl("get", "vcjob").splitlines()
        assert head.split() == ["NAME", "STATUS", "MINAVAILABLE", "RUNNINGS", "AGE"]
        assert row.split()[:3] == ["train", "Completed", "4"]
        head, row = kubectl("get", "podgroup").splitlines()
        assert head.split()[:3] == ["NAME", "STATUS", "MINMEMBER"]
        assert row.split()[1:3] == ["Completed", "4"]
        assert kubectl("get", "pods", "--no-headers").count("Completed") == 4
        assert kubectl("logs", "train-master-0") == "step\n"
        assert {line.split()[0] for line in kubectl("get", "queue", "--no-headers").splitlines()} >= {
            "root",
            "default",
        }
    await cluster.close()


async def test_a_job_applied_by_kubectl_waits_whole_and_goes_with_all_it_owns(
    plane: ControlPlane, tmp_path: Path
):
    kubectl = kubectl_of(plane.kubeconfig)
    async with nodes(plane, tmp_path), pumice_up(plane, tmp_path) as client:
        kubectl("create", "namespace", "team")
        kubectl("apply", "-n", "team", "-f", "-", given=yaml.safe_dump(gang("holds", command="sleep 600")))
        kubectl("wait", "-n", "team", "vcjob/holds", "--for=jsonpath={.status.state.phase}=Running")
        kubectl("apply", "-f", "-", given=yaml.safe_dump(gang("waits", workers=1)))
        assert "nvidia.com/gpu" in await reason_to_wait(client, "waits")
        selector = "volcano.sh/job-name=waits"
        assert kubectl("get", "pods", "-l", selector, "-o", "name") == ""
        kubectl("delete", "-n", "team", "vcjob/holds", "--wait=true")
        assert (await ended(client, "waits")).phase == "Completed"
        kubectl("wait", "-n", "team", "pods", "--all", "--for=delete", "--timeout=30s")
        assert kubectl("get", "-n", "team", "podgroup,pods", "-o", "name") == ""
        kubectl("delete", "namespace", "team", "--timeout=30s")


async def reason_to_wait(client: AsyncClient, name: str) -> str:
    """Return why a job waits, also one that nobody has heard of yet."""
    async with asyncio.timeout(60):
        while True:
            with suppress(NotFound):
                if (waiting := (await client.get(name)).waiting) is not None:
                    return waiting.reason.message
            await asyncio.sleep(0.1)
