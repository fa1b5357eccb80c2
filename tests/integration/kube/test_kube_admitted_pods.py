"""Jobs on a real API server whose pods it changes or refuses: they are placed by what it makes of them."""

from __future__ import annotations

import asyncio
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
    await kube.create(r.LIMITRANGES, namespace, body)


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
        await kube.delete(r.LIMITRANGES, namespace, "most")
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
        await kube.create(r.SERVICEACCOUNTS, namespace, account)
        await running(kube, namespace, 2)
        for name in ("big", "nobody"):
            await until(kube, r.JOBS, namespace, name, lambda one: not says("spec.tasks")(one))
            await kube.delete(r.JOBS, namespace, name)


async def test_limits_and_quotas_that_come_while_gangs_wait_are_heeded_at_once(kube, namespace):
    """Not when the answer of before has become old, which takes minutes."""
    async with kube_platform(kube, f"{namespace}=1x0,cpu=2", dry_run_seconds=600):
        await kube.create(r.JOBS, namespace, job("large", 2, limits={"memory": "1Ei"}))

        async def shapes(text: str) -> bool:
            groups = (await kube.list(r.PODGROUPS, namespace)).items
            return any(text in one["metadata"]["annotations"].get(names.SHAPES, "") for one in groups)

        await eventually(lambda: shapes('"memory"'))
        await limit(kube, namespace, "defaults", defaultRequest={"cpu": "1500m"})
        await eventually(lambda: shapes('"cpu":1500'), seconds=20)

        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "none"},
            "spec": {"hard": {"pods": "0"}},
        }
        await kube.create(r.RESOURCEQUOTAS, namespace, quota)
        await until(
            kube,
            r.RESOURCEQUOTAS,
            namespace,
            "none",
            lambda one: (one.get("status") or {}).get("hard") == {"pods": "0"},
        )
        await kube.create(r.JOBS, namespace, job("small", 1))
        await until(kube, r.JOBS, namespace, "small", says("exceeded quota: none"))
        await asyncio.sleep(20)  # it is tried more and more seldom
        await kube.patch(r.RESOURCEQUOTAS, namespace, "none", {"spec": {"hard": {"pods": "5"}}})
        await until(kube, r.JOBS, namespace, "small", is_running, seconds=12)
        for name in ("large", "small"):
            await kube.delete(r.JOBS, namespace, name)


def is_running(one: JSON) -> bool:
    return bool(((one.get("status") or {}).get("state") or {}).get("phase") == "Running")
