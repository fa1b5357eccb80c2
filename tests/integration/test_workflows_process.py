"""The workflows service as a process of its own, beside a simulated API server; it needs no log."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from shared.api import resources as r
from shared.clock import SystemClock
from shared.kube.client import connect
from shared.kube.port import Cluster
from tests.fixtures.kube import until
from tests.fixtures.processes import Process
from tests.fixtures.services import free_port
from tests.fixtures.waiting import eventually

TASK = {"name": "main", "replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}


@pytest.fixture
async def kubeconfig(tmp_path: Path) -> AsyncIterator[Path]:
    path = tmp_path / "kubeconfig"
    words = ("-m", "simulator", "--port", "0", "--nodes", "1x8", "--kubeconfig", str(path))
    server = Process("simulator", *words, directory=tmp_path)
    await server.start()
    await eventually(path.exists, what="the simulator's kubeconfig")
    yield path
    await server.stop()


@pytest.fixture
async def cluster(kubeconfig: Path) -> AsyncIterator[Cluster]:
    made = connect(str(kubeconfig), clock=SystemClock())
    yield made
    await made.close()


def service(folder: Path, kubeconfig: Path, port: int) -> Process:
    env = {
        "PUMICE_KUBECONFIG": str(kubeconfig),
        "PUMICE_LOG": "kafka://127.0.0.1:1",  # nobody is there, and nobody is asked
        "PUMICE_OPERATIONS_HOST": "127.0.0.1",
        "PUMICE_OPERATIONS_PORT": str(port),
    }
    return Process("workflows", "-m", "services.workflows", directory=folder, env=env)


def body_of(resource, name: str, spec: dict) -> dict:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name},
        "spec": spec,
    }


async def test_it_goes_on_where_it_was_killed_and_stops_cleanly(
    tmp_path: Path, kubeconfig: Path, cluster: Cluster
):
    port = free_port()
    process = service(tmp_path, kubeconfig, port)
    await process.start()
    for name in ("a", "b"):
        await cluster.create(r.JOBTEMPLATES, "default", body_of(r.JOBTEMPLATES, name, {"tasks": [TASK]}))
    steps = [{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}}]
    await cluster.create(r.JOBFLOWS, "default", body_of(r.JOBFLOWS, "f", {"flows": steps}))
    await until(cluster, r.JOBS, "default", "f-a")
    async with httpx.AsyncClient() as http:
        ready = await http.get(f"http://127.0.0.1:{port}/readyz")
        assert (ready.status_code, json.loads(ready.text)["waiting"]) == (200, {})
        metrics = (await http.get(f"http://127.0.0.1:{port}/metrics")).text
    assert 'pumice_workflows_api_writes_total{kind="jobs",outcome="ok",verb="create"} 1.0' in metrics

    await process.kill()
    done = {"status": {"state": {"phase": "Completed", "lastTransitionTime": "2026-01-01T00:00:00Z"}}}
    await cluster.patch(r.JOBS, "default", "f-a", done, subresource="status")
    await process.start()
    await until(cluster, r.JOBS, "default", "f-b")
    flow = await until(
        cluster, r.JOBFLOWS, "default", "f", lambda one: one["status"].get("completedJobs") == ["f-a"]
    )
    assert flow["status"]["state"]["phase"] == "Running"
    assert await process.stop() == 0
    assert process.unclean == []


async def test_a_cluster_without_its_kinds_is_named_in_one_line(
    tmp_path: Path, kubeconfig: Path, cluster: Cluster
):
    await cluster.delete(r.CRDS, None, "cronjobs.batch.volcano.sh")
    process = service(tmp_path, kubeconfig, 0)
    await process.start()
    assert await process.wait(60) == 1
    [line] = [line for line in process.lines if line.strip()]
    assert "the cluster does not know cronjobs.batch.volcano.sh" in line
