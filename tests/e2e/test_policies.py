"""The scheduler's policies on a whole platform: who leaves for whom, and who is beside whom."""

from __future__ import annotations

from typing import Any

from services.standalone.options import Options
from shared.api import resources as r
from tests.fixtures.platform import GPU, Platform, a_platform, gang
from tests.fixtures.waiting import eventually


async def places(platform: Platform, job: str) -> dict[str, str]:
    """Return the nodes of a job's pods that run or are about to, by pod."""
    found = (await platform.cluster.list(r.PODS, "default", labels=f"volcano.sh/job-name={job}")).items
    return {
        pod["metadata"]["name"]: pod["spec"]["nodeName"]
        for pod in found
        if pod["spec"].get("nodeName") and not pod["metadata"].get("deletionTimestamp")
    }


async def priority_class(platform: Platform, name: str, value: int, policy: str = "") -> None:
    body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
    more = {"preemptionPolicy": policy} if policy else {}
    await platform.cluster.create(r.PRIORITYCLASSES, None, {**body, "value": value, **more})


def prior(body: dict[str, Any], name: str) -> dict[str, Any]:
    body["spec"]["priorityClassName"] = name
    for task in body["spec"]["tasks"]:
        task["template"]["spec"]["priorityClassName"] = name
    return body


async def test_an_urgent_gang_takes_the_place_of_another_which_comes_back_after_it():
    async with a_platform(Options(nodes=("2x8",), port=0)) as platform:
        await priority_class(platform, "urgent", 1000)
        slow = gang("slow", workers=1, command="sleep 600")
        slow["spec"]["policies"] = [{"event": "PodEvicted", "action": "RestartJob"}]
        await platform.client.submit(slow, wait="running", timeout=30)
        urgent = await platform.client.submit(
            prior(gang("urgent", workers=1, command="sleep 1"), "urgent"), wait="finished", timeout=60
        )
        assert urgent.phase == "Completed"
        again = await platform.client.wait_until("slow", "running", timeout=60)
        assert again.retry_count == 1
        events = (await platform.cluster.list(r.EVENTS, "default")).items
        said = {(one["reason"], one["involvedObject"]["kind"]) for one in events}
        assert ("Evict", "Pod") in said
        evicted = [one["message"] for one in events if one["reason"] == "Evict"]
        assert all("urgent" in message for message in evicted), evicted


async def test_a_gang_that_may_not_preempt_waits():
    async with a_platform(Options(nodes=("1x8",), port=0)) as platform:
        await priority_class(platform, "polite", 1000, "Never")
        await platform.client.submit(
            gang("first", workers=0, command="sleep 600"), wait="running", timeout=30
        )
        await platform.client.submit(
            prior(gang("second", workers=0, command="sleep 1"), "polite"), wait="admitted"
        )

        async def says_why() -> str | None:
            job = await platform.client.get("second")
            return job.waiting.reason.code if job.waiting else None

        assert await eventually(says_why, seconds=30) == "no-room"
        assert len(await places(platform, "first")) == 1


async def test_a_queue_takes_back_what_it_deserves_from_one_that_borrowed():
    async with a_platform(Options(nodes=("2x8",), port=0)) as platform:
        for name in ("lender", "borrower"):
            body = {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "Queue",
                "metadata": {"name": name},
                "spec": {"deserved": {GPU: 8, "cpu": 8, "memory": "64Gi"}, "reclaimable": True},
            }
            await platform.cluster.create(r.QUEUES, None, body)
        for number in range(4):
            borrowing = gang(f"borrowed-{number}", workers=0, gpus=4, command="sleep 600", queue="borrower")
            await platform.client.submit(borrowing, wait="running", timeout=30)
        mine = gang("mine", workers=1, gpus=4, command="sleep 600", queue="lender")
        await platform.client.submit(mine, wait="running", timeout=60)

        async def settled() -> bool:
            running = [len(await places(platform, f"borrowed-{number}")) for number in range(4)]
            return sum(running) == 2

        assert await eventually(settled, seconds=30)
        assert len(await places(platform, "mine")) == 2


async def test_pods_that_keep_apart_are_on_different_nodes_and_those_that_follow_are_beside_them():
    async with a_platform(Options(nodes=("3x8",), port=0)) as platform:
        apart = gang("apart", workers=2, gpus=1, command="sleep 600")
        term = {
            "labelSelector": {"matchLabels": {"volcano.sh/job-name": "apart"}},
            "topologyKey": "kubernetes.io/hostname",
        }
        kinds = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        for task in apart["spec"]["tasks"]:
            task["template"]["spec"]["affinity"] = {"podAntiAffinity": kinds}
        await platform.client.submit(apart, wait="running", timeout=30)
        assert len(set((await places(platform, "apart")).values())) == 3
        fourth = gang("fourth", workers=0, gpus=1)
        fourth["spec"]["tasks"][0]["template"]["spec"]["affinity"] = {"podAntiAffinity": kinds}
        await platform.client.submit(fourth, wait="admitted")

        async def says_why() -> str | None:
            job = await platform.client.get("fourth")
            return job.waiting.reason.code if job.waiting else None

        assert await eventually(says_why, seconds=30) == "no-room-among-pods"


async def test_a_gang_that_must_be_near_is_inside_one_rack():
    async with a_platform(Options(nodes=("a=2x8", "b=2x8"), port=0)) as platform:
        nodes = sorted(one["metadata"]["name"] for one in (await platform.cluster.list(r.NODES)).items)
        for rack, own in (("rack-a", nodes[:2]), ("rack-b", nodes[2:])):
            members = [{"type": "Node", "selector": {"exactMatch": {"name": name}}} for name in own]
            body = {
                "apiVersion": "topology.volcano.sh/v1alpha1",
                "kind": "HyperNode",
                "metadata": {"name": rack},
                "spec": {"tier": 1, "members": members},
            }
            await platform.cluster.create(r.HYPERNODES, None, body)
        await platform.client.submit(
            gang("small", workers=0, gpus=4, command="sleep 600"), wait="running", timeout=30
        )
        near = gang("near", workers=1, gpus=8, command="sleep 600")
        near["spec"]["networkTopology"] = {"mode": "hard", "highestTierAllowed": 1}
        await platform.client.submit(near, wait="running", timeout=30)
        used = set((await places(platform, "near")).values())
        taken = set((await places(platform, "small")).values())
        assert used in ({*nodes[:2]}, {*nodes[2:]})
        assert not used & taken
        large = gang("large", workers=2, gpus=1)
        large["spec"]["networkTopology"] = {"mode": "hard", "highestTierAllowed": 0}
        await platform.client.submit(large, wait="admitted")

        async def says_why() -> str | None:
            job = await platform.client.get("large")
            return job.waiting.reason.code if job.waiting else None

        assert await eventually(says_why, seconds=30) == "domain-too-small"
