"""Each service with its own service account on a real API server, and nothing more than it was granted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.admission.app import build as build_admission
from services.admission.settings import AdmissionSettings
from services.controller.app import build as build_controller
from services.controller.settings import ControllerSettings
from services.installer.adapters.cluster import install
from services.installer.core import rbac
from services.installer.core.objects import Wish, installation
from services.scheduler.app import build as build_scheduler
from services.scheduler.settings import SchedulerSettings
from services.workflows.app import build as build_workflows
from services.workflows.settings import WorkflowsSettings
from shared.api import resources as r
from shared.api.names import ADMISSION_SECRET
from shared.api.webhooks import CONFIGURATION
from shared.clock import SystemClock
from shared.errors import Refused
from shared.events.topics import SPECS
from shared.kube.client import connect
from shared.kube.port import JSON, Cluster, Resource
from shared.log.memory import MemoryLog
from shared.process import new_id
from shared.service import Service
from shared.telemetry.telemetry import Telemetry
from tests.fixtures.kube import kubelets_of, until
from tests.fixtures.volumes import provisioning
from tests.fixtures.waiting import eventually
from tests.integration.kube.test_kube_resource_claims import Devices
from tests.integration.kube.test_kube_resource_claims import pod as claiming_pod
from tools.kube import ControlPlane

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
NAMESPACE = "pumice-system"
TOKENS = Resource("", "v1", "serviceaccounts", "ServiceAccount")


class Noting:
    """A connection that notes what it was forbidden."""

    def __init__(self, cluster: Cluster, forbidden: list[str]) -> None:
        self._cluster = cluster
        self._forbidden = forbidden

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._cluster, name)
        if name == "watch":
            return self._watching(found)
        if not callable(found):
            return found

        async def call(*arguments: Any, **options: Any) -> Any:
            try:
                return await found(*arguments, **options)
            except Refused as error:
                self._note(error)
                raise

        return call

    def _watching(self, watch: Any) -> Any:
        async def stream(*arguments: Any, **options: Any) -> AsyncIterator[Any]:
            try:
                async for event in watch(*arguments, **options):
                    yield event
            except Refused as error:
                self._note(error)
                raise

        return stream

    def _note(self, error: Refused) -> None:
        if error.status == 403:
            self._forbidden.append(str(error))


async def kubeconfig_of(cluster: Cluster, plane: ControlPlane, account: str) -> dict[str, Any]:
    """Return the administrator's kubeconfig with an account's token in it instead."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = Resource("", "v1", f"serviceaccounts/{account}/token", "TokenRequest")
    answer = await cluster.create(path, NAMESPACE, request)
    config: dict[str, Any] = yaml.safe_load(plane.kubeconfig.read_text())
    config["users"] = [
        {"name": one["name"], "user": {"token": answer["status"]["token"]}} for one in config["users"]
    ]
    return config


@asynccontextmanager
async def services(cluster: Cluster, plane: ControlPlane, forbidden: list[str]) -> AsyncIterator[int]:
    """Run every service that speaks to Kubernetes as its own account; gives the webhooks' port."""
    clock = SystemClock()
    async with AsyncExitStack() as stack, MemoryLog(clock) as log:
        await log.create_topics(SPECS)

        async def as_account(service: str) -> Any:
            config = await kubeconfig_of(cluster, plane, f"pumice-{service}")
            connected = connect(config, clock=clock)
            stack.push_async_callback(connected.close)
            return Noting(connected, forbidden)

        common: dict[str, Any] = {"clock": clock, "log": log, "ids": new_id}
        admission = build_admission(
            AdmissionSettings(webhook_port=0, webhook_host="127.0.0.1", webhook_names=("127.0.0.1",)),
            cluster=await as_account("admission"),
            telemetry=Telemetry("admission"),
            **common,
        )
        running: list[Service] = [
            admission,
            build_controller(
                ControllerSettings(),
                cluster=await as_account("controller"),
                telemetry=Telemetry("controller"),
                **common,
            ),
            build_workflows(
                WorkflowsSettings(),
                cluster=await as_account("workflows"),
                telemetry=Telemetry("workflows"),
                **common,
            ),
            build_scheduler(SchedulerSettings(), telemetry=Telemetry("scheduler"), **common),
        ]
        async with asyncio.TaskGroup() as tasks:
            started = [tasks.create_task(service.run()) for service in running]
            await eventually(lambda: all(service.health.ready for service in running), what="every service")
            assert admission.webhook_port
            yield admission.webhook_port
            for task in started:
                task.cancel()


def job(name: str, **spec: Any) -> JSON:
    container = {"name": "main", "image": "busybox", "command": ["sh", "-c", "sleep 1"]}
    task = {
        "name": "worker",
        "replicas": 2,
        "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
    }
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minAvailable": 2, "tasks": [task], **spec},
    }


def phase_is(phase: str) -> Any:
    return lambda one: ((one.get("status") or {}).get("state") or {}).get("phase") == phase


async def test_every_service_works_as_its_own_account(own_control_plane: ControlPlane, tmp_path: Path):
    cluster = connect(str(own_control_plane.kubeconfig), clock=SystemClock())
    forbidden: list[str] = []
    wanted = installation(Wish())
    await install(cluster, wanted, take_over=False, clock=SystemClock(), say=lambda _: None)
    for resource in (r.MUTATING_WEBHOOKS, r.VALIDATING_WEBHOOKS):
        await cluster.delete(resource, None, CONFIGURATION)
    async with (
        services(cluster, own_control_plane, forbidden) as port,
        kubelets_of(cluster, "n=2x8"),
        provisioning(cluster),
    ):
        await cluster.create(r.STORAGECLASSES, None, LATE)
        outside = installation(Wish(webhook_url=f"https://127.0.0.1:{port}"))
        await install(cluster, outside, take_over=False, clock=SystemClock(), say=lambda _: None)
        for resource in (r.MUTATING_WEBHOOKS, r.VALIDATING_WEBHOOKS):
            await until(
                cluster,
                resource,
                None,
                CONFIGURATION,
                lambda one: all(hook["clientConfig"].get("caBundle") for hook in one["webhooks"]),
            )

        with pytest.raises(Refused, match="minAvailable"):
            await cluster.create(r.JOBS, "default", job("wrong", minAvailable=9))
        await cluster.create(
            r.JOBS,
            "default",
            {
                **job(
                    "whole",
                    plugins={"ssh": [], "svc": [], "env": []},
                    ttlSecondsAfterFinished=3600,
                    volumes=[
                        {
                            "mountPath": "/data",
                            "volumeClaim": {
                                "accessModes": ["ReadWriteOnce"],
                                "storageClassName": "late",
                                "resources": {"requests": {"storage": "1Gi"}},
                            },
                        }
                    ],
                ),
            }
            | {
                "metadata": {
                    "name": "whole",
                    "namespace": "default",
                    "annotations": {"pumice.dev/expose": "web:80"},
                }
            },
        )
        await until(cluster, r.JOBS, "default", "whole", phase_is("Completed"), 60)

        template = {
            "apiVersion": "flow.volcano.sh/v1alpha1",
            "kind": "JobTemplate",
            "metadata": {"name": "step", "namespace": "default"},
            "spec": job("step")["spec"],
        }
        flow = {
            "apiVersion": "flow.volcano.sh/v1alpha1",
            "kind": "JobFlow",
            "metadata": {"name": "flow", "namespace": "default"},
            "spec": {"jobRetainPolicy": "delete", "flows": [{"name": "step"}]},
        }
        await cluster.create(r.JOBTEMPLATES, "default", template)
        await cluster.create(r.JOBFLOWS, "default", flow)
        await until(cluster, r.JOBFLOWS, "default", "flow", phase_is("Succeed"), 60)

        plain = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "plain", "namespace": "default"},
            "spec": {"schedulerName": "volcano", "containers": [{"name": "main", "image": "server"}]},
        }
        await until(cluster, r.SERVICEACCOUNTS, "default", "default")
        await cluster.create(r.PODS, "default", plain)
        await until(
            cluster, r.PODS, "default", "plain", lambda pod: pod.get("status", {}).get("phase") == "Running"
        )
        devices = Devices(cluster, "default")
        await devices.appear()
        await devices.publish("n-0", "board")
        await devices.claim("gpu", 1)
        await cluster.create(r.PODS, "default", claiming_pod("trainer", resourceClaimName="gpu"))
        await until(
            cluster, r.PODS, "default", "trainer", lambda pod: pod.get("status", {}).get("phase") == "Running"
        )
        close = {
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": {"generateName": "close-", "namespace": "default"},
            "action": "CloseQueue",
            "target": {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "Queue",
                "name": "default",
                "uid": (await cluster.get(r.QUEUES, None, "default"))["metadata"]["uid"],
            },
        }
        await cluster.create(r.COMMANDS, "default", close)
        await until(
            cluster,
            r.QUEUES,
            None,
            "default",
            lambda queue: (queue.get("status") or {}).get("state") in ("Closed", "Closing"),
        )
        await cluster.delete(r.PODS, "default", "plain")
        await cluster.delete(r.JOBS, "default", "whole")
    await cluster.close()
    assert forbidden == []


LATE = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "late"},
    "provisioner": "storage.example.org",
    "volumeBindingMode": "WaitForFirstConsumer",
}


@pytest.mark.parametrize("service", ["gateway", "scheduler"])
async def test_who_speaks_to_the_log_only_may_do_nothing(service: str):
    accounts = rbac.accounts(webhook_configuration=CONFIGURATION, webhook_secret=ADMISSION_SECRET)
    (account,) = [one for one in accounts if one.service == service]
    assert rbac.manifests(account, NAMESPACE, {}) == [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": account.name, "labels": {}, "namespace": NAMESPACE},
        }
    ]
