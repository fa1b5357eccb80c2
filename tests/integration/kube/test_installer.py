"""``pumice install`` and ``uninstall`` on a real API server, and taking over from Volcano."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from services.standalone.options import Options
from services.standalone.platform import run_platform
from shared.api.resources import (
    CRDS,
    JOBS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PODGROUPS,
    PODS,
    QUEUES,
    SERVICEACCOUNTS,
    VALIDATING_WEBHOOKS,
)
from shared.clock import SystemClock
from shared.errors import NotFound
from shared.kube.client import connect
from shared.kube.port import JSON, Cluster, Resource
from shared.process import new_id
from tests.fixtures.kube import CRD_FILES, kubelets_of, start_control_plane, until, until_gone
from tools.kube import ControlPlane

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of these tests alone: definitions and webhooks concern everybody."""
    made = start_control_plane(tmp_path_factory.mktemp("kube"), node_lifecycle=False)
    yield made
    made.kill()


@pytest.fixture
async def cluster(plane: ControlPlane) -> AsyncIterator[Cluster]:
    connected = connect(str(plane.kubeconfig), clock=SystemClock())
    yield connected
    await connected.close()


async def pumice(plane: ControlPlane, *arguments: str, code: int = 0) -> str:
    """Run a command on the cluster; return what it said."""
    command = [sys.executable, "-m", "pumice", *arguments, "--kubeconfig", str(plane.kubeconfig)]
    ran = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    assert ran.returncode == code, ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr
    return ran.stdout + ran.stderr


async def names(cluster: Cluster, resource: Resource) -> set[str]:
    found = (await cluster.list(resource)).items
    return {one["metadata"]["name"] for one in found}


async def test_install_and_uninstall_can_be_run_again_and_say_what_they_do(plane, cluster):
    first = await pumice(plane, "install")
    assert await pumice(plane, "install") == first
    assert {"root", "default"} <= await names(cluster, QUEUES)
    assert {"pumice-controller", "pumice-admission"} <= await names(cluster, SERVICEACCOUNTS)
    for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        assert await names(cluster, resource) == {"pumice"}

    said = await pumice(plane, "uninstall")
    assert f"left: {len(CRD_FILES)} definitions with 2 queues" in said
    assert "left: namespace pumice-system" in said
    assert await names(cluster, MUTATING_WEBHOOKS) | await names(cluster, VALIDATING_WEBHOOKS) == set()
    assert not {name for name in await names(cluster, SERVICEACCOUNTS) if name.startswith("pumice")}
    await pumice(plane, "uninstall")

    await pumice(plane, "install")
    await pumice(plane, "install", "--no-webhooks")
    assert await names(cluster, MUTATING_WEBHOOKS) == set()
    said = await pumice(plane, "uninstall", "--crds")
    assert "their objects: 2 queues" in said
    for crd in await names(cluster, CRDS):
        await until_gone(cluster, CRDS, None, crd)


async def test_a_queue_that_somebody_changed_stays_as_it_is(plane, cluster):
    await pumice(plane, "install", "--no-webhooks")
    await cluster.patch(QUEUES, None, "default", {"spec": {"weight": 7}})
    await pumice(plane, "install", "--no-webhooks")
    assert (await cluster.get(QUEUES, None, "default"))["spec"]["weight"] == 7


def deployment(name: str, labels: dict[str, str]) -> JSON:
    container = {"name": "main", "image": "volcano"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "volcano-system", "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
        },
    }


def webhook_of_volcano() -> JSON:
    service = {"namespace": "volcano-system", "name": "volcano-admission-service", "path": "/jobs/validate"}
    rule = {
        "apiGroups": ["batch.volcano.sh"],
        "apiVersions": ["v1alpha1"],
        "operations": ["CREATE"],
        "resources": ["jobs"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "volcano-admission-service-jobs-validate"},
        "webhooks": [
            {
                "name": "validatejob.volcano.sh",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "NoneOnDryRun",
                "clientConfig": {"service": service},
                "failurePolicy": "Fail",
                "rules": [rule],
            }
        ],
    }


def job_of_volcano(name: str, queue: str) -> JSON:
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["sh", "-c", "sleep 3"],
        "resources": {"requests": {"cpu": "1"}},
    }
    task = {
        "name": "worker",
        "replicas": 2,
        "minAvailable": 2,
        "maxRetry": 3,
        "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
    }
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "minAvailable": 2,
            "schedulerName": "volcano",
            "queue": queue,
            "maxRetry": 3,
            "tasks": [task],
        },
    }


async def left_running_by_volcano(cluster: Cluster, name: str, queue: str, node: str) -> JSON:
    """Make a job as Volcano leaves one that runs: its group, its bound pods, its status."""
    job = await cluster.create(JOBS, "default", job_of_volcano(name, queue))
    uid = job["metadata"]["uid"]
    group = f"{name}-{uid}"
    owner = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata: dict[str, Any] = {"name": group, "namespace": "default", "ownerReferences": [owner]}
    await cluster.create(
        PODGROUPS,
        "default",
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": metadata,
            "spec": {"minMember": 2, "minTaskMember": {"worker": 2}, "queue": queue},
            "status": {"phase": "Running", "running": 2},
        },
    )
    for index in range(2):
        marks = {
            "volcano.sh/job-name": name,
            "volcano.sh/task-spec": "worker",
            "volcano.sh/task-index": str(index),
            "volcano.sh/queue-name": queue,
        }
        await cluster.create(
            PODS,
            "default",
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{name}-worker-{index}",
                    "namespace": "default",
                    "ownerReferences": [owner],
                    "labels": {**marks, "volcano.sh/job-namespace": "default"},
                    "annotations": {
                        **marks,
                        "scheduling.k8s.io/group-name": group,
                        "volcano.sh/job-version": "0",
                        "volcano.sh/job-retry-count": "0",
                        "volcano.sh/template-uid": f"{name}-worker",
                    },
                },
                "spec": {
                    **job_of_volcano(name, queue)["spec"]["tasks"][0]["template"]["spec"],
                    "schedulerName": "volcano",
                    "nodeName": node,
                },
            },
        )
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = {
        "state": {"phase": "Running", "lastTransitionTime": now},
        "minAvailable": 2,
        "running": 2,
        "taskStatusCount": {"worker": {"phase": {"Running": 2}}},
        "conditions": [{"status": phase, "lastTransitionTime": now} for phase in ("Pending", "Running")],
        "controlledResources": {"volume-emptyDir-0": "volume-emptyDir-0"},
    }
    return await cluster.patch(JOBS, "default", name, {"status": status}, subresource="status")


@asynccontextmanager
async def platform(kubeconfig: Path) -> AsyncIterator[str]:
    """Run all services against a cluster; gives the gateway's address."""
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    options = Options(kubeconfig=kubeconfig, port=0)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(
            run_platform(
                options, clock=SystemClock(), ids=new_id, on_ready=lambda one: ready.set_result(one.gateway)
            )
        )
        yield await asyncio.wait_for(ready, 30)
        running.cancel()


async def test_what_volcano_left_goes_on(plane, cluster):
    await pumice(plane, "install", "--no-webhooks")
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "volcano-system"}}
    await cluster.create(NAMESPACES, None, space)
    await cluster.create(
        DEPLOYMENTS, "volcano-system", deployment("volcano-scheduler", {"app": "volcano-scheduler"})
    )
    await cluster.create(DEPLOYMENTS, "volcano-system", deployment("volcano-controllers", {}))
    await cluster.create(DEPLOYMENTS, "volcano-system", deployment("something-else", {}))
    await cluster.create(VALIDATING_WEBHOOKS, None, webhook_of_volcano())

    said = await pumice(plane, "install", "--no-webhooks", code=1)
    assert said.count("\n") == 1
    assert "volcano-system/volcano-controllers, volcano-system/volcano-scheduler" in said
    await pumice(plane, "install", "--no-webhooks", "--take-over")
    assert "volcano-admission-service-jobs-validate" not in await names(cluster, VALIDATING_WEBHOOKS)
    replicas = {
        one["metadata"]["name"]: one["spec"]["replicas"]
        for one in (await cluster.list(DEPLOYMENTS, "volcano-system")).items
    }
    assert replicas == {"volcano-scheduler": 0, "volcano-controllers": 0, "something-else": 1}

    team = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "team"},
        "spec": {"weight": 2},
        "status": {"state": "Open"},
    }
    await cluster.create(QUEUES, None, team)
    async with kubelets_of(cluster, "taken=1x8"):
        node = "taken-0"
        running = await left_running_by_volcano(cluster, "running", "team", node)
        await cluster.create(JOBS, "default", job_of_volcano("waiting", "team"))
        before = {one["metadata"]["uid"] for one in (await cluster.list(PODS, "default")).items}
        async with platform(plane.kubeconfig):
            for name in ("running", "waiting"):
                await until(
                    cluster,
                    JOBS,
                    "default",
                    name,
                    lambda job: job.get("status", {}).get("state", {}).get("phase") == "Completed",
                    60,
                )
            ended = await cluster.get(JOBS, "default", "running")
            assert ended["metadata"]["uid"] == running["metadata"]["uid"]
            assert ended["status"].get("retryCount", 0) == 0
            mine = [
                one
                for one in (await cluster.list(PODS, "default")).items
                if one["metadata"]["name"].startswith("running-")
            ]
            assert {one["metadata"]["uid"] for one in mine} == before
            group = await cluster.get(PODGROUPS, "default", f"running-{running['metadata']['uid']}")
            assert group["status"]["phase"] == "Completed"
    with pytest.raises(NotFound):
        await cluster.get(VALIDATING_WEBHOOKS, None, "volcano-admission-service-jobs-validate")
