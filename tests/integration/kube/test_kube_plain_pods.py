"""Plain pods, queues and times to live on a real API server with its controllers: what clients of Volcano do."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

import pytest

from shared.api import names
from shared.api import resources as r
from shared.kube.client import HttpCluster
from shared.kube.port import JSON, Resource
from tests.fixtures.kube import kubelets_of, until, until_gone
from tests.fixtures.kube_platform import KubePlatform, kube_platform
from tests.fixtures.waiting import eventually

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
STATEFULSETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
DAEMONSETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
BATCH_JOBS = Resource("batch", "v1", "jobs", "Job")
GPU = "nvidia.com/gpu"


def platform(kube: HttpCluster, nodes: str) -> AbstractAsyncContextManager[KubePlatform]:
    """Controller and scheduler, and simulated nodes."""
    return kube_platform(kube, nodes, empty_group_seconds=1)


def template(labels: dict[str, str], gpus: int, script: str = "sleep 1000", **spec: object) -> JSON:
    amounts = {"cpu": "1", GPU: str(gpus)}
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["sh", "-c", script],
        "resources": {"requests": amounts, "limits": amounts},
    }
    return {
        "metadata": {"labels": labels},
        "spec": {"schedulerName": "volcano", "containers": [container]} | spec,
    }


def workload(kind: Resource, name: str, replicas: int, *, gpus: int = 1, **annotations: str) -> JSON:
    labels = {"app": name}
    spec: JSON = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": template(labels, gpus),
    }
    if kind is STATEFULSETS:
        spec |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "annotations": annotations},
        "spec": spec,
    }


async def running(kube: HttpCluster, namespace: str, count: int, selector: str = "") -> list[JSON]:
    """Return the pods once so many of them run."""
    found: list[JSON] = []
    async with asyncio.timeout(60):
        while True:
            found = (await kube.list(r.PODS, namespace, labels=selector)).items
            if sum(pod["status"]["phase"] == "Running" for pod in found) == count:
                return found
            await asyncio.sleep(0.1)


async def groups(kube: HttpCluster, namespace: str) -> list[JSON]:
    return (await kube.list(r.PODGROUPS, namespace)).items


@pytest.mark.parametrize("kind", [DEPLOYMENTS, STATEFULSETS])
async def test_a_workload_with_our_scheduler_name_runs_scales_down_and_up(kube, namespace, kind):
    async with platform(kube, f"{kind.plural[:5]}=2x4"):
        await kube.create(kind, namespace, workload(kind, "web", 3))
        pods = await running(kube, namespace, 3)
        [group] = await groups(kube, namespace)
        name = group["metadata"]["name"]
        await until(kube, r.PODGROUPS, namespace, name, lambda one: one["status"].get("running") == 3)
        for pod in pods:
            await until(
                kube,
                r.PODS,
                namespace,
                pod["metadata"]["name"],
                lambda one: one["metadata"].get("annotations", {}).get(names.GROUP_NAME) == name,
            )
        conditions = {one["type"]: one["status"] for one in pods[0]["status"]["conditions"]}
        assert conditions["PodScheduled"] == "True"
        await kube.patch(kind, namespace, "web", {"spec": {"replicas": 0}})
        await until_gone(kube, r.PODGROUPS, namespace, name)
        await kube.patch(kind, namespace, "web", {"spec": {"replicas": 2}})
        await running(kube, namespace, 2)
        assert len(await groups(kube, namespace)) == 1


async def test_the_pods_of_a_daemon_set_go_to_the_nodes_that_they_are_made_for(kube, namespace):
    async with platform(kube, "each=3x4"):
        labels = {"app": "agent"}
        body = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "agent"},
            "spec": {"selector": {"matchLabels": labels}, "template": template(labels, 1)},
        }
        await kube.create(DAEMONSETS, namespace, body)
        pods = await running(kube, namespace, 3)
        assert {pod["spec"]["nodeName"] for pod in pods} == {"each-0", "each-1", "each-2"}
        assert len(await groups(kube, namespace)) == 1
        await kube.delete(DAEMONSETS, namespace, "agent")  # or it would want pods on the nodes of other tests


async def test_a_deployment_that_needs_all_its_pods_waits_for_a_node_and_says_so(kube, namespace):
    async with platform(kube, "small=1x2"):
        await kube.create(
            DEPLOYMENTS,
            namespace,
            workload(DEPLOYMENTS, "gang", 3, **{names.GROUP_MIN_MEMBER: "3"}),
        )

        async def pods() -> list[JSON]:
            return (await kube.list(r.PODS, namespace)).items

        made = await eventually(pods)
        waiting = await until(
            kube,
            r.PODS,
            namespace,
            made[0]["metadata"]["name"],
            lambda pod: any(
                (one["type"], one["status"], one.get("reason")) == ("PodScheduled", "False", "Unschedulable")
                for one in pod["status"].get("conditions", ())
            ),
        )
        assert "nodeName" not in waiting["spec"]
        [group] = await groups(kube, namespace)
        assert group["spec"]["minMember"] == 3
        async with kubelets_of(kube, "more=1x2"):
            pods = await running(kube, namespace, 3)
            assert {pod["spec"]["nodeName"] for pod in pods} == {"small-0", "more-0"}
            await kube.delete(DEPLOYMENTS, namespace, "gang")
            await until_gone(kube, r.PODGROUPS, namespace, group["metadata"]["name"])


async def test_a_batch_job_and_a_bare_pod_run_to_their_end(kube, namespace):
    async with platform(kube, "batch=1x4"):
        pod = template({}, 1, "exit 0", restartPolicy="Never")
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "pi"},
            "spec": {"completions": 3, "parallelism": 2, "template": pod},
        }
        bare = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare"}, "spec": pod["spec"]}
        await kube.create(BATCH_JOBS, namespace, job)
        await kube.create(r.PODS, namespace, bare)
        await until(kube, BATCH_JOBS, namespace, "pi", lambda one: one["status"].get("succeeded") == 3)
        await until(kube, r.PODS, namespace, "bare", lambda one: one["status"]["phase"] == "Succeeded")
        for group in await groups(kube, namespace):
            name = group["metadata"]["name"]
            await until(kube, r.PODGROUPS, namespace, name, lambda one: one["status"]["phase"] == "Completed")
        await kube.delete(r.PODS, namespace, "bare")
        await kube.delete(BATCH_JOBS, namespace, "pi")

        async def no_groups() -> bool:
            return not await groups(kube, namespace)

        await eventually(no_groups)


async def test_a_closed_queue_starts_nothing_until_it_is_opened(kube, namespace):
    name = f"team-{namespace}"
    async with platform(kube, "queued=1x4"):
        queue = {
            "apiVersion": r.QUEUES.api_version,
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": {"weight": 1},
        }
        await kube.create(r.QUEUES, None, queue)
        await until(kube, r.QUEUES, None, name, lambda one: one.get("status", {}).get("state") == "Open")
        await command(kube, namespace, "CloseQueue", name)
        closed = await until(kube, r.QUEUES, None, name, lambda one: one["status"]["state"] == "Closed")
        assert closed["spec"]["parent"] == "root"
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "late", "annotations": {names.GROUP_QUEUE_NAME: name}},
            "spec": template({}, 1)["spec"],
        }
        await kube.create(r.PODS, namespace, pod)
        await eventually(lambda: groups(kube, namespace))
        await asyncio.sleep(1)
        assert "nodeName" not in (await kube.get(r.PODS, namespace, "late"))["spec"]
        await command(kube, namespace, "OpenQueue", name)
        await running(kube, namespace, 1)
        await kube.delete(r.PODS, namespace, "late", grace_seconds=0)
    await kube.delete(r.QUEUES, None, name)


async def command(kube: HttpCluster, namespace: str, action: str, queue: str) -> None:
    body = {
        "apiVersion": r.COMMANDS.api_version,
        "kind": "Command",
        "metadata": {"generateName": "queue-"},
        "action": action,
        "target": {"apiVersion": r.QUEUES.api_version, "kind": "Queue", "name": queue, "uid": ""},
    }
    await kube.create(r.COMMANDS, namespace, body)


async def test_a_finished_job_goes_with_its_pods_when_its_time_to_live_is_over(kube, namespace):
    async with platform(kube, "ttl=1x4"):
        job = {
            "apiVersion": r.JOBS.api_version,
            "kind": "Job",
            "metadata": {"name": "short"},
            "spec": {
                "ttlSecondsAfterFinished": 2,
                "minAvailable": 1,
                "tasks": [
                    {"name": "t", "replicas": 1, "template": template({}, 1, "exit 0", restartPolicy="Never")}
                ],
            },
        }
        await kube.create(r.JOBS, namespace, job)
        await until(
            kube,
            r.JOBS,
            namespace,
            "short",
            lambda one: one.get("status", {}).get("state", {}).get("phase") == "Completed",
        )
        await until_gone(kube, r.JOBS, namespace, "short")
        await until_gone(kube, r.PODS, namespace, "short-t-0")


async def test_a_pod_whose_podgroup_comes_later_says_what_it_waits_for(kube, namespace):
    async with platform(kube, "late=1x4"):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "early", "annotations": {names.GROUP_NAME: "late"}},
            "spec": template({}, 1, "exit 0", restartPolicy="Never")["spec"],
        }
        await kube.create(r.PODS, namespace, pod)

        def says_so(pod: JSON) -> bool:
            conditions = (one for one in pod["status"].get("conditions", ()) if one["status"] == "False")
            return any(one.get("reason") == "SchedulerError" for one in conditions)

        await until(kube, r.PODS, namespace, "early", says_so)

        async def told() -> bool:
            events = (await kube.list(r.EVENTS, namespace)).items
            return any("there is no PodGroup late" in one["message"] for one in events)

        await eventually(told)
        group = {
            "apiVersion": r.PODGROUPS.api_version,
            "kind": "PodGroup",
            "metadata": {"name": "late"},
            "spec": {"minMember": 1, "queue": "default"},
        }
        await kube.create(r.PODGROUPS, namespace, group)
        await until(kube, r.PODS, namespace, "early", lambda one: one["status"]["phase"] == "Succeeded")


async def test_a_driver_starts_when_its_whole_application_has_room_and_its_executors_have_it_then(
    kube, namespace
):
    """As Spark submits one: a PodGroup of one with the application's resources, its driver, executors later."""
    async with platform(kube, f"spark-{namespace}=1x4"):
        group = {
            "apiVersion": r.PODGROUPS.api_version,
            "kind": "PodGroup",
            "metadata": {"name": "app"},
            "spec": {"minMember": 1, "queue": "default", "minResources": {GPU: "6", "cpu": "4"}},
        }
        await kube.create(r.PODGROUPS, namespace, group)

        async def create(name: str, gpus: int, **annotations: str) -> None:
            spec = template({}, gpus, restartPolicy="Never")["spec"]
            meta = {"name": name, "annotations": annotations}
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
            await kube.create(r.PODS, namespace, body)

        await create("driver", 1, **{names.GROUP_NAME: "app"})

        def says_why(one: JSON) -> bool:
            conditions = (one.get("status") or {}).get("conditions") or ()
            return any("it will need 6 nvidia.com/gpu in all" in c.get("message", "") for c in conditions)

        await until(kube, r.PODGROUPS, namespace, "app", says_why)
        async with kubelets_of(kube, f"more-{namespace}=1x4"):
            await until(kube, r.PODS, namespace, "driver", lambda one: one["status"]["phase"] == "Running")
            await create("other", 4)  # 7 are free, 5 of them promised
            await asyncio.sleep(1)
            for number in range(5):
                await create(f"exec-{number}", 1, **{names.GROUP_NAME: "app"})
            pods = {pod["metadata"]["name"] for pod in await running(kube, namespace, 6)}
            found = await kube.get(r.PODS, namespace, "other")
            assert pods - {"other"} == {"driver", *(f"exec-{number}" for number in range(5))}
            assert found["status"]["phase"] == "Pending"
            for name in pods:
                await kube.delete(r.PODS, namespace, name, grace_seconds=0)
        await kube.delete(r.PODGROUPS, namespace, "app")
