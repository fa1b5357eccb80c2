"""Jobs on a real API server whose pods it changes or refuses: they are placed by what it makes of them."""

from __future__ import annotations

from typing import Any

import pytest

from shared.api import names
from shared.api import resources as r
from shared.kube.client import HttpCluster
from shared.kube.port import JSON, Resource
from tests.fixtures.kube import until
from tests.fixtures.kube_platform import kube_platform
from tests.fixtures.waiting import eventually
from tests.integration.kube.test_kube_plain_pods import running

LIMITS = Resource("", "v1", "limitranges", "LimitRange")
RUNTIMES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)


def job(name: str, replicas: int, *, limits: JSON | None = None, **spec: Any) -> JSON:
    """A gang of pods that say nothing of what they need, unless told."""
    container = {"name": "main", "image": "busybox", "command": ["sleep", "1000"]}
    container |= {"resources": {"limits": limits or {}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container], **spec}}
    task = {"name": "t", "replicas": replicas, "template": template}
    return {
        "apiVersion": r.JOBS.api_version,
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"minAvailable": replicas, "queue": "default", "schedulerName": "volcano", "tasks": [task]},
    }


async def limit(kube: HttpCluster, namespace: str, name: str, **limits: JSON) -> None:
    item = {"type": "Container", **limits}
    body = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": name},
        "spec": {"limits": [item]},
    }
    await kube.create(LIMITS, namespace, body)


async def runtime(kube: HttpCluster, name: str) -> None:
    body = {
        "apiVersion": RUNTIMES.api_version,
        "kind": "RuntimeClass",
        "metadata": {"name": name},
        "handler": "heavy",
        "overhead": {"podFixed": {"cpu": "1"}},
    }
    await kube.create(RUNTIMES, None, body)


def says(text: str) -> Any:
    """Return a condition: the job's status has a text in its message."""
    return lambda one: text in ((one.get("status") or {}).get("state") or {}).get("message", "")


@pytest.mark.parametrize("born_bound", [True, False])
async def test_a_gang_is_placed_by_the_namespaces_defaults_and_the_runtimes_overhead(
    kube, namespace, born_bound
):
    """Two pods of 2 + 1 CPUs on nodes with 5: by their templates both would go to one node, and one be rejected."""
    await limit(kube, namespace, "defaults", defaultRequest={"cpu": "2"})
    await runtime(kube, f"heavy-{namespace}")
    nodes = f"{namespace}=2x0,cpu=5"
    async with kube_platform(kube, nodes, born_bound=born_bound):
        await kube.create(r.JOBS, namespace, job("train", 2, runtimeClassName=f"heavy-{namespace}"))
        pods = await running(kube, namespace, 2)
        assert {pod["spec"]["nodeName"] for pod in pods} == {f"{namespace}-0", f"{namespace}-1"}
        for pod in pods:
            conditions = {one["type"]: one["status"] for one in pod["status"]["conditions"]}
            assert conditions["PodScheduled"] == "True"
        [group] = (await kube.list(r.PODGROUPS, namespace)).items
        assert '"cpu":3000' in group["metadata"]["annotations"][names.SHAPES]
        await kube.delete(r.JOBS, namespace, "train")
    await kube.delete(RUNTIMES, None, f"heavy-{namespace}")


async def test_a_job_whose_pods_would_be_refused_waits_with_the_reason_until_they_would_not(kube, namespace):
    await limit(kube, namespace, "most", max={"cpu": "1"})
    async with kube_platform(kube, f"{namespace}=1x0"):
        await kube.create(r.JOBS, namespace, job("big", 1, limits={"cpu": "2"}))
        await kube.create(r.JOBS, namespace, job("nobody", 1, serviceAccountName="robot"))
        waiting = await until(kube, r.JOBS, namespace, "big", says("maximum cpu usage per Container is 1"))
        assert waiting["status"]["state"]["phase"] == "Pending"
        await until(kube, r.JOBS, namespace, "nobody", says('serviceaccount "robot" not found'))
        assert (await kube.list(r.PODGROUPS, namespace)).items == []

        async def told() -> bool:
            found = (await kube.list(r.EVENTS, namespace, fields="reason=FailedCreate")).items
            return {one["involvedObject"]["name"] for one in found} == {"big", "nobody"}

        await eventually(told)
        await kube.delete(LIMITS, namespace, "most")
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
        await kube.create(r.SERVICEACCOUNTS, namespace, account)
        await running(kube, namespace, 2)
        for name in ("big", "nobody"):
            await until(kube, r.JOBS, namespace, name, lambda one: not says("spec.tasks")(one))
            await kube.delete(r.JOBS, namespace, name)
