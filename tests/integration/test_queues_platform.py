"""Queues and plain pods on a whole platform with a simulated cluster, as clients use them."""

from __future__ import annotations

import pytest

from pumice import Conflict, Rejected
from services.standalone.options import Options
from shared.api import names
from shared.api import resources as r
from shared.errors import NotFound
from shared.kube.port import JSON, Resource
from tests.fixtures.platform import GPU, Platform, a_platform, gang
from tests.fixtures.waiting import eventually

REPLICASETS = Resource("apps", "v1", "replicasets", "ReplicaSet")


async def state_of(platform: Platform, name: str) -> str:
    queue = await platform.cluster.get(r.QUEUES, None, name)
    return str((queue.get("status") or {}).get("state", ""))


def queue(name: str, parent: str = "root") -> JSON:
    return {
        "apiVersion": r.QUEUES.api_version,
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1, "parent": parent},
    }


def pod(name: str, owner: JSON | None = None, *, gpus: int = 1, script: str = "sleep 1000") -> JSON:
    amounts = {"cpu": "1", GPU: str(gpus)}
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["sh", "-c", script],
        "resources": {"requests": amounts, "limits": amounts},
    }
    metadata: JSON = {"name": name}
    if owner is not None:
        identity = {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "controller": True}
        metadata["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", **identity}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"schedulerName": "volcano", "restartPolicy": "Never", "containers": [container]},
    }


async def test_a_closed_queue_refuses_jobs_and_opens_again_with_what_is_below_it():
    async with a_platform(Options(nodes=("4x8",), port=0)) as platform:
        client, cluster = platform.client, platform.cluster
        for name, parent in (("division", "root"), ("team", "division")):
            await cluster.create(r.QUEUES, None, queue(name, parent))
            await eventually(lambda name=name: _is(platform, name, "Open"))
        await client.submit(gang("first", queue="team", command="sleep 3"), wait="running", timeout=30)
        await eventually(lambda: _shown(platform, "division", "Open"))
        closed = await client.close_queue("division", wait=True, timeout=30)
        assert (closed.done, closed.state) in {(True, "Closing"), (True, "Closed")}
        await eventually(lambda: _is(platform, "team", "Closing"))
        await eventually(lambda: _shown(platform, "team", "Closing"))
        with pytest.raises(Rejected) as refused:
            await client.submit(gang("second", queue="team"), wait="admitted", timeout=30)
        assert [one.code for one in refused.value.violations] == ["queue-not-open"]
        with pytest.raises(Conflict):
            await client.open_queue("team")
        job = await client.wait_until("first", "finished", timeout=30)
        assert job.phase == "Completed"
        await eventually(lambda: _is(platform, "team", "Closed"))
        assert (await client.open_queue("division", wait=True, timeout=30)).state == "Open"
        await eventually(lambda: _is(platform, "team", "Open"))
        await eventually(lambda: _shown(platform, "team", "Open"))
        assert (
            await client.submit(gang("third", queue="team"), wait="finished", timeout=30)
        ).phase == "Completed"


async def _is(platform: Platform, name: str, state: str) -> bool:
    return await state_of(platform, name) == state


async def _shown(platform: Platform, name: str, state: str) -> bool:
    return any((one.name, one.state) == (name, state) for one in await platform.client.queues())


async def test_plain_pods_of_an_owner_start_together_and_are_charged_to_their_queue():
    async with a_platform(Options(nodes=("2x4",), port=0)) as platform:
        cluster = platform.cluster
        await cluster.create(r.QUEUES, None, queue("team"))
        labels = {"app": "web"}
        body = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": "web",
                "annotations": {names.GROUP_MIN_MEMBER: "3", names.GROUP_QUEUE_NAME: "team"},
            },
            "spec": {
                "replicas": 3,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": pod("x")["spec"] | {"restartPolicy": "Always"},
                },
            },
        }
        owner = await cluster.create(REPLICASETS, "default", body)
        for number in range(3):
            await cluster.create(r.PODS, "default", pod(f"web-{number}", owner, gpus=2))
        await cluster.create(r.PODS, "default", pod("bare", script="exit 0"))

        async def running() -> bool:
            phases = {one["metadata"]["name"]: one["status"]["phase"] for one in await platform.pods()}
            return phases == {"web-0": "Running", "web-1": "Running", "web-2": "Running", "bare": "Succeeded"}

        await eventually(running)

        async def charged() -> bool:
            return any(
                one.name == "team" and one.allocated.get(GPU) == 6 for one in await platform.client.queues()
            )

        await eventually(charged)
        await cluster.delete(REPLICASETS, "default", "web")
        await cluster.delete(r.PODS, "default", "bare")

        async def gone() -> bool:
            return not (await cluster.list(r.PODGROUPS)).items and not await platform.pods()

        await eventually(gone)


async def test_a_job_goes_with_all_that_is_its_when_its_time_to_live_is_over():
    async with a_platform(Options(nodes=("4x8",), port=0)) as platform:
        body = gang("short")
        body["spec"]["ttlSecondsAfterFinished"] = 1
        await platform.client.submit(body, wait="finished", timeout=30)

        async def gone() -> bool:
            try:
                await platform.cluster.get(r.JOBS, "default", "short")
            except NotFound:
                return not await platform.pods() and not (await platform.cluster.list(r.PODGROUPS)).items
            return False

        await eventually(gone)
        assert (await platform.client.get("short")).phase == "Completed"
