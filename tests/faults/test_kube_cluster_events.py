"""What others do to a cluster under a gang, on a real API server: no job is lost, no part of a gang stays."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from shared.api import resources as r
from shared.clock import SystemClock
from shared.events import topics
from shared.events.codec import decode
from shared.events.contracts import GangDecided
from shared.kube.client import HttpCluster, connect
from shared.kube.port import JSON, Cluster, Resource
from tests.fixtures.kube import install_crds, kubelets_of, until, until_gone
from tests.fixtures.kube_platform import KubePlatform, kube_platform
from tests.fixtures.platform import gang
from tests.fixtures.services import PodWatch
from tests.fixtures.waiting import eventually
from tools.kube import ControlPlane

Look = Callable[[], Awaitable[Any]]
GPUS = 4
"""Of each node, and of each pod unless told otherwise: a node has room for one pod."""


def job(name: str, *, pods: int = 4, gpus: int = 1, evicted: str = "", **spec: Any) -> JSON:
    """One master, the rest workers, that run until somebody ends them; all or none."""
    body = gang(name, workers=pods - 1, gpus=gpus, command="sleep 1000")
    policies = [{"event": "PodEvicted", "action": evicted}] if evicted else []
    body["spec"] |= {"policies": policies, **spec}
    return body


def template(body: JSON, **spec: Any) -> JSON:
    """Add to the pod templates of a job."""
    for task in body["spec"]["tasks"]:
        task["template"]["spec"] |= spec
    return body


def phase(one: JSON) -> str:
    return str(one.get("status", {}).get("state", {}).get("phase", ""))


async def running(kube: Cluster, namespace: str, name: str, *, pods: int = 4, retries: int = 0) -> JSON:
    """Return a job once so many pods of it run, none is on its way, and it was restarted so often."""

    def is_so(one: JSON) -> bool:
        status = one.get("status", {})
        counts = [status.get(key, 0) for key in ("running", "pending", "terminating", "retryCount")]
        return phase(one) == "Running" and counts == [pods, 0, 0, retries]

    return await until(kube, r.JOBS, namespace, name, is_so, seconds=60)


async def pods_of(kube: Cluster, namespace: str, name: str) -> dict[str, JSON]:
    """Return a job's pods by what follows the job's name."""
    found = (await kube.list(r.PODS, namespace, labels=f"volcano.sh/job-name={name}")).items
    return {pod["metadata"]["name"].removeprefix(f"{name}-"): pod for pod in found}


async def uids_of(kube: Cluster, namespace: str, name: str) -> dict[str, str]:
    return {short: pod["metadata"]["uid"] for short, pod in (await pods_of(kube, namespace, name)).items()}


def nodes_of(pods: dict[str, JSON]) -> set[str]:
    return {pod["spec"]["nodeName"] for pod in pods.values()}


async def group_of(kube: Cluster, namespace: str, name: str) -> JSON:
    """Return a job's PodGroup, once it has one."""

    async def look() -> JSON | None:
        groups = (await kube.list(r.PODGROUPS, namespace)).items
        return next((one for one in groups if one["metadata"]["name"].startswith(f"{name}-")), None)

    return await eventually(look, f"the podgroup of {name}")


async def waits(kube: Cluster, namespace: str, name: str, why: str) -> None:
    """Return once a job's PodGroup says why it waits."""

    async def look() -> bool:
        group = await group_of(kube, namespace, name)
        return any(why in one.get("message", "") for one in group["status"].get("conditions", ()))

    await eventually(look, f"{name} waits because of: {why}")


async def told(kube: Cluster, namespace: str, name: str, text: str) -> None:
    """Return once an event on a job says something."""

    async def look() -> bool:
        events = (await kube.list(r.EVENTS, namespace)).items
        return any(one["involvedObject"]["name"] == name and text in one["message"] for one in events)

    await eventually(look, f"an event on {name}: {text}")


async def decided(platform: KubePlatform, namespace: str) -> None:
    """Return once the scheduler has decided about a gang of the namespace."""
    reader = await platform.log.read([topics.BIND_DECISIONS])

    async def look() -> bool:
        found = [decode(record).data for record in await reader.poll(timeout=1)]
        return any(isinstance(one, GangDecided) and one.gang.namespace == namespace for one in found)

    await eventually(look, f"a decision about {namespace}")


async def knows(
    platform: KubePlatform, resource: Resource, name: str, is_so: Callable[[JSON | None], bool]
) -> None:
    """Return once the controller has seen a change of an object without a namespace."""

    async def look() -> bool:
        return is_so(platform.controller.hands.views.get(resource, "", name))

    await eventually(look, f"the controller knows {name}")


class Halting:
    """A connection on which pods of some names are not created until that is allowed."""

    def __init__(self, cluster: Cluster, *pods: str) -> None:
        self._cluster = cluster
        self._pods = pods
        self.reached = asyncio.Event()
        self.go = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    async def create(self, resource: Resource, namespace: str | None, body: JSON, **options: Any) -> JSON:
        if resource is r.PODS and body["metadata"]["name"] in self._pods:
            self.reached.set()
            await self.go.wait()
        return await self._cluster.create(resource, namespace, body, **options)


# ------------------------------------------------------------------------------------------ pods
@pytest.mark.parametrize(("action", "retries"), [("", 0), ("RestartJob", 1)])
async def test_a_pod_deleted_while_the_rest_of_its_gang_is_being_made(
    kube: HttpCluster, namespace: str, action: str, retries: int
):
    name = f"half{retries}"
    halting = Halting(kube, f"{name}-worker-1", f"{name}-worker-2")
    async with kube_platform(kube, f"{name}=2x{GPUS}", cluster=halting), PodWatch(kube) as seen:
        await kube.create(r.JOBS, namespace, job(name, evicted=action))
        await halting.reached.wait()
        await until(kube, r.PODS, namespace, f"{name}-worker-0")
        await kube.delete(r.PODS, namespace, f"{name}-worker-0", grace_seconds=0)
        await until_gone(kube, r.PODS, namespace, f"{name}-worker-0")
        halting.go.set()
        await running(kube, namespace, name, retries=retries)
        others = {f"{name}-{short}" for short in ("master-0", "worker-1", "worker-2")}
        assert seen.twice(name).keys() == {f"{name}-worker-0"} | (others if action else set())
        assert {len(uids) for uids in seen.uids.values() if name in uids} <= {1, 2}


async def test_a_pod_deleted_from_a_running_gang_is_made_good_as_its_policy_says(
    kube: HttpCluster, namespace: str
):
    async with kube_platform(kube, f"evict=2x{2 * GPUS}"):
        retries = {"alone": 0, "task": 1, "whole": 1}
        actions = {"alone": "", "task": "RestartTask", "whole": "RestartJob"}
        for name, action in actions.items():
            await kube.create(r.JOBS, namespace, job(name, evicted=action))
        for name in actions:
            await running(kube, namespace, name)
        ended = job("ended", evicted="RestartJob")
        ended["spec"]["tasks"][1]["template"]["spec"]["containers"][0]["command"] = ["sh", "-c", "exit 0"]
        await kube.create(r.JOBS, namespace, ended)
        await until(kube, r.JOBS, namespace, "ended", lambda one: one.get("status", {}).get("succeeded") == 3)
        before = {name: await uids_of(kube, namespace, name) for name in actions}
        for name in actions:
            await kube.delete(r.PODS, namespace, f"{name}-worker-1")
            await until(
                kube,
                r.PODS,
                namespace,
                f"{name}-worker-1",
                lambda pod, old=before[name]["worker-1"]: pod["metadata"]["uid"] != old,
            )
        new: dict[str, set[str]] = {}
        for name in actions:
            await running(kube, namespace, name, retries=retries[name])
            after = await uids_of(kube, namespace, name)
            assert after.keys() == before[name].keys()
            new[name] = {short for short, uid in after.items() if uid != before[name][short]}
        # What is taken away after its end goes by itself; times are whole seconds.
        old = (await uids_of(kube, namespace, "ended"))["worker-1"]
        await kube.delete(r.PODS, namespace, "ended-worker-1")
        again = await until(
            kube, r.PODS, namespace, "ended-worker-1", lambda pod: pod["metadata"]["uid"] != old
        )
        assert again["metadata"]["annotations"]["volcano.sh/job-retry-count"] == "0"
        workers = {"worker-0", "worker-1", "worker-2"}
        assert new == {"alone": {"worker-1"}, "task": workers, "whole": {"master-0", *workers}}


# ----------------------------------------------------------------------------------------- nodes
@pytest.mark.parametrize("event", ["deleted", "cordoned"])
async def test_a_node_lost_between_decision_and_creation_gets_no_pod_and_the_gang_goes_elsewhere(
    kube: HttpCluster, namespace: str, event: str
):
    name, lost = f"late-{event}", f"late-{event}-1"
    async with kube_platform(kube, f"{name}=2x{GPUS}") as platform, PodWatch(kube) as seen:
        platform.decisions.shut()
        await kube.create(r.JOBS, namespace, job(name, pods=2, gpus=GPUS))
        await decided(platform, namespace)
        if event == "deleted":
            await kube.delete(r.NODES, None, lost)
        else:
            await kube.patch(r.NODES, None, lost, {"spec": {"unschedulable": True}})
        await knows(
            platform, r.NODES, lost, lambda node: node is None or node["spec"].get("unschedulable", False)
        )
        platform.decisions.open()
        await told(kube, namespace, name, f"node {lost} is {'gone' if event == 'deleted' else 'cordoned'}")
        await waits(kube, namespace, name, "nvidia.com/gpu")
        assert seen.pods(f"{name}-") == []
        async with kubelets_of(kube, f"spare-{event}=1x{GPUS}"):
            await running(kube, namespace, name, pods=2)
            assert nodes_of(await pods_of(kube, namespace, name)) == {f"{name}-0", f"spare-{event}-0"}
            assert seen.twice(f"{name}-") == {}


@pytest.mark.parametrize(("action", "retries"), [("", 0), ("RestartJob", 1)])
async def test_a_node_deleted_under_a_running_gang(
    kube: HttpCluster, namespace: str, action: str, retries: int
):
    name = f"under{retries}"
    async with kube_platform(kube, f"{name}=2x{GPUS}"):
        await kube.create(r.JOBS, namespace, job(name, pods=2, gpus=GPUS, evicted=action))
        await running(kube, namespace, name, pods=2)
        before = await pods_of(kube, namespace, name)
        [victim] = [short for short, pod in before.items() if pod["spec"]["nodeName"] == f"{name}-1"]
        await kube.delete(r.NODES, None, f"{name}-1")
        # What is on a node that is gone is taken away by the control plane, which makes sure for 40 s.
        await kube.delete(r.PODS, namespace, f"{name}-{victim}", grace_seconds=0)
        await waits(kube, namespace, name, "nvidia.com/gpu")
        async with kubelets_of(kube, f"new{retries}=1x{GPUS}"):
            await running(kube, namespace, name, pods=2, retries=retries)
            after = await pods_of(kube, namespace, name)
            assert nodes_of(after) == {f"{name}-0", f"new{retries}-0"}
            same = {short for short in after if _uid(after[short]) == _uid(before[short])}
            assert same == (set() if action else before.keys() - {victim})


async def test_a_node_that_is_not_ready_gets_no_gang_and_its_pods_are_made_good_once_they_are_gone(
    kube: HttpCluster, namespace: str
):
    at_once = [
        {
            "key": f"node.kubernetes.io/{key}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 0,
        }
        for key in ("unreachable", "not-ready")
    ]
    async with kube_platform(kube, f"silent=2x{GPUS}") as platform:
        body = template(job("silent", pods=2, gpus=GPUS), tolerations=at_once)
        await kube.create(r.JOBS, namespace, body)
        await running(kube, namespace, "silent", pods=2)
        before = await pods_of(kube, namespace, "silent")
        [victim] = [short for short, pod in before.items() if pod["spec"]["nodeName"] == "silent-1"]
        await platform.kubelets.stop_node("silent-1")
        # The control plane evicts the pod; nobody ends it, as its kubelet does not answer.
        await until(kube, r.JOBS, namespace, "silent", lambda one: one["status"].get("terminating") == 1)
        await kube.create(r.JOBS, namespace, job("other", pods=1, gpus=1))
        await waits(kube, namespace, "other", "nvidia.com/gpu")
        async with kubelets_of(kube, f"ready=1x{GPUS}"):
            await kube.delete(r.JOBS, namespace, "other")
            await kube.delete(r.PODS, namespace, f"silent-{victim}", grace_seconds=0)
            await running(kube, namespace, "silent", pods=2)
            after = await pods_of(kube, namespace, "silent")
            assert after[victim]["spec"]["nodeName"] == "ready-0"
            [other] = before.keys() - {victim}
            assert _uid(after[other]) == _uid(before[other])


def _uid(pod: JSON) -> str:
    return str(pod["metadata"]["uid"])


# ---------------------------------------------------------------------------------------- queues
def queue(name: str) -> JSON:
    return {
        "apiVersion": r.QUEUES.api_version,
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1},
    }


async def close(kube: Cluster, namespace: str, name: str, action: str = "CloseQueue") -> None:
    body = {
        "apiVersion": r.COMMANDS.api_version,
        "kind": "Command",
        "metadata": {"generateName": "queue-"},
        "action": action,
        "target": {"apiVersion": r.QUEUES.api_version, "kind": "Queue", "name": name, "uid": ""},
    }
    await kube.create(r.COMMANDS, namespace, body)


async def test_the_jobs_of_a_deleted_or_closed_queue_run_on_and_those_that_wait_say_why_and_start_when_it_is_back(
    kube: HttpCluster, namespace: str
):
    team = f"team-{namespace}"
    async with kube_platform(kube, f"queued=1x{GPUS}"), PodWatch(kube) as seen:
        await kube.create(r.QUEUES, None, queue(team))
        await kube.create(r.JOBS, namespace, job("runs", pods=2, gpus=2, queue=team))
        await running(kube, namespace, "runs", pods=2)
        await kube.create(r.JOBS, namespace, job("waits", pods=2, gpus=2, queue=team))
        await waits(kube, namespace, "waits", "nvidia.com/gpu")

        await kube.delete(r.QUEUES, None, team)
        await waits(kube, namespace, "waits", f"queue {team} does not exist")
        await kube.create(r.JOBS, namespace, job("comes", pods=1, gpus=1, queue=team))
        await until(
            kube,
            r.JOBS,
            namespace,
            "comes",
            lambda one: f"no queue {team}" in one.get("status", {}).get("state", {}).get("message", ""),
        )
        assert (await running(kube, namespace, "runs", pods=2))["status"]["running"] == 2

        await kube.create(r.QUEUES, None, queue(team))
        await waits(kube, namespace, "waits", "nvidia.com/gpu")
        await close(kube, namespace, team)
        await until(kube, r.QUEUES, None, team, lambda one: one["status"].get("state") == "Closing")
        await kube.delete(r.JOBS, namespace, "runs")
        await waits(kube, namespace, "waits", f"queue {team} is Closing and takes no new gangs")
        assert not seen.pods("waits-")

        await close(kube, namespace, team, "OpenQueue")
        await running(kube, namespace, "waits", pods=2)
        assert seen.twice("waits-") == seen.twice("runs-") == {}
        for name in ("waits", "comes"):
            await kube.delete(r.JOBS, namespace, name)
    await kube.delete(r.QUEUES, None, team)


async def test_the_first_queues_are_made_again_and_their_jobs_go_on(kube: HttpCluster, namespace: str):
    async with kube_platform(kube, f"first=1x{GPUS}"), PodWatch(kube) as seen:
        await kube.create(r.JOBS, namespace, job("holds", pods=1, gpus=GPUS))
        await running(kube, namespace, "holds", pods=1)
        await kube.create(r.JOBS, namespace, job("next", pods=1, gpus=GPUS))
        await waits(kube, namespace, "next", "nvidia.com/gpu")
        for name in ("default", "root"):
            old = (await kube.get(r.QUEUES, None, name))["metadata"]["uid"]
            await kube.delete(r.QUEUES, None, name)
            await until(
                kube,
                r.QUEUES,
                None,
                name,
                lambda one, old=old: (
                    one["metadata"]["uid"] != old and one.get("status", {}).get("state") == "Open"
                ),
            )
        assert phase(await kube.get(r.JOBS, namespace, "holds")) == "Running"
        await kube.delete(r.JOBS, namespace, "holds")
        await running(kube, namespace, "next", pods=1)
        assert seen.twice("holds-") == seen.twice("next-") == {}


# ------------------------------------------------------------------------------------ namespaces
async def make_namespace(kube: Cluster, name: str) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await kube.create(r.NAMESPACES, None, body)
    await until(kube, r.SERVICEACCOUNTS, name, "default")


def writes_of(platform: KubePlatform) -> float:
    """Return how often the controller has written to the API server, with success or without."""
    return sum(
        sample.value
        for metric in platform.telemetry.registry.collect()
        for sample in metric.samples
        if sample.name == "pumice_controller_api_writes_total"
    )


async def facts_of(platform: KubePlatform, namespace: str) -> set[str]:
    """Return the keys of what the scheduler is told about a namespace."""
    reader = await platform.log.read([topics.CLUSTER_STATE])
    found: dict[str, bool] = {}
    while not await reader.caught_up():
        for record in await reader.poll(timeout=1):
            found[(record.key or b"").decode()] = record.value is not None
    await reader.close()
    return {key for key, there in found.items() if there and f"/{namespace}/" in key}


async def test_a_deleted_namespace_takes_all_with_it_and_frees_its_room_at_once(
    kube: HttpCluster, namespace: str
):
    doomed = f"{namespace}-doomed"
    async with kube_platform(kube, f"doomed=2x{GPUS}") as platform, PodWatch(kube) as seen:
        await make_namespace(kube, doomed)
        plugins = {"svc": [], "ssh": []}
        await kube.create(r.JOBS, doomed, job("gone", pods=2, gpus=GPUS, plugins=plugins))
        await running(kube, doomed, "gone", pods=2)
        await kube.create(r.JOBS, doomed, job("never", pods=2, gpus=GPUS, plugins=plugins))
        await waits(kube, doomed, "never", "nvidia.com/gpu")
        await kube.create(r.JOBS, namespace, job("heir", pods=2, gpus=GPUS))
        await waits(kube, namespace, "heir", "nvidia.com/gpu")

        await kube.delete(r.NAMESPACES, None, doomed)
        await running(kube, namespace, "heir", pods=2)
        await until_gone(kube, r.NAMESPACES, None, doomed)
        assert seen.pods("never-") == []
        assert seen.twice("gone-") == seen.twice("heir-") == {}

        async def forgotten() -> bool:
            return not await facts_of(platform, doomed)

        await eventually(forgotten, "the scheduler is told that all is gone")

        async def quiet() -> bool:
            before = writes_of(platform)
            await asyncio.sleep(1.5)
            return writes_of(platform) == before

        await eventually(quiet, "the controller writes no more")


async def test_a_namespace_made_again_at_once_runs_a_job_of_the_same_name(kube: HttpCluster, namespace: str):
    again = f"{namespace}-again"
    async with kube_platform(kube, f"again=2x{GPUS}"), PodWatch(kube) as seen:
        for _ in range(2):
            await make_namespace(kube, again)
            await kube.create(r.JOBS, again, job("again", pods=2, gpus=GPUS, plugins={"svc": []}))
            made = await running(kube, again, "again", pods=2)
            assert made["status"].get("version", 0) == 0
            owners = {
                reference["uid"]
                for pod in (await pods_of(kube, again, "again")).values()
                for reference in pod["metadata"]["ownerReferences"]
            }
            assert owners == {made["metadata"]["uid"]}
            await kube.delete(r.NAMESPACES, None, again)
            await until_gone(kube, r.NAMESPACES, None, again)
        assert {name: len(uids) for name, uids in seen.uids.items() if name.startswith("again-")} == {
            "again-master-0": 2,
            "again-worker-0": 2,
        }


# ----------------------------------------------------------------------------- what belongs to a job
async def test_what_belongs_to_a_running_job_is_made_again_and_its_pods_run_on(
    kube: HttpCluster, namespace: str
):
    async with kube_platform(kube, f"owns=1x{GPUS}"), PodWatch(kube) as seen:
        await kube.create(r.JOBS, namespace, job("owns", plugins={"svc": [], "ssh": []}))
        await running(kube, namespace, "owns")
        await kube.create(r.JOBS, namespace, job("later", pods=1, gpus=GPUS))
        await waits(kube, namespace, "later", "nvidia.com/gpu")
        names = [
            (r.PODGROUPS, (await group_of(kube, namespace, "owns"))["metadata"]["name"]),
            (r.PODGROUPS, (await group_of(kube, namespace, "later"))["metadata"]["name"]),
            (r.SERVICES, "owns"),
            (r.CONFIGMAPS, "owns-svc"),
            (r.SECRETS, "owns-ssh"),
            (r.NETWORKPOLICIES, "owns"),
        ]
        for resource, name in names:
            old = (await kube.get(resource, namespace, name))["metadata"]["uid"]
            await kube.delete(resource, namespace, name)
            await until(kube, resource, namespace, name, lambda one, old=old: one["metadata"]["uid"] != old)
        await until(
            kube,
            *(r.PODGROUPS, namespace, names[0][1]),
            lambda one: (one["status"]["phase"], one["status"].get("running")) == ("Running", 4),
        )
        assert (await running(kube, namespace, "owns"))["status"].get("version", 0) == 0
        await kube.delete(r.JOBS, namespace, "owns")
        await running(kube, namespace, "later", pods=1)
        assert seen.twice("owns-") == seen.twice("later-") == {}


async def test_pods_orphaned_by_their_jobs_deletion_run_on_and_a_new_job_of_that_name_waits_for_their_names(
    kube: HttpCluster, namespace: str
):
    async with kube_platform(kube, f"orphan=1x{2 * GPUS}"), PodWatch(kube) as seen:
        await kube.create(r.JOBS, namespace, job("orphan", pods=2))
        await running(kube, namespace, "orphan", pods=2)
        before = await uids_of(kube, namespace, "orphan")
        await kube.delete(r.JOBS, namespace, "orphan", propagation="Orphan")
        await until_gone(kube, r.JOBS, namespace, "orphan")
        await kube.create(r.JOBS, namespace, job("orphan", pods=2))
        await told(kube, namespace, "orphan", "a pod of this name belongs to somebody else")
        assert await uids_of(kube, namespace, "orphan") == before
        for short in before:
            await kube.delete(r.PODS, namespace, f"orphan-{short}")
        await running(kube, namespace, "orphan", pods=2)
        assert {len(uids) for name, uids in seen.uids.items() if name.startswith("orphan-")} == {2}


async def test_a_job_that_somebodys_finalizer_keeps_is_left_alone_until_it_goes(
    kube: HttpCluster, namespace: str
):
    async with kube_platform(kube, f"kept=1x{GPUS}") as platform, PodWatch(kube) as seen:
        body = job("kept", pods=2)
        body["metadata"]["finalizers"] = ["example.org/audit"]
        await kube.create(r.JOBS, namespace, body)
        await running(kube, namespace, "kept", pods=2)
        await kube.delete(r.JOBS, namespace, "kept", grace_seconds=0)
        await until(kube, r.JOBS, namespace, "kept", lambda one: "deletionTimestamp" in one["metadata"])
        await kube.delete(r.PODS, namespace, "kept-worker-0")
        await until_gone(kube, r.PODS, namespace, "kept-worker-0")
        await kube.patch(r.JOBS, namespace, "kept", {"metadata": {"finalizers": None}})
        await until_gone(kube, r.PODS, namespace, "kept-master-0")

        async def forgotten() -> bool:
            return not await facts_of(platform, namespace)

        await eventually(forgotten, "nothing of the job is left")
        assert seen.twice("kept-") == {}


# -------------------------------------------------------------------------------------- admission
async def test_a_quota_that_refuses_the_third_of_four_pods_holds_the_whole_gang_until_it_is_raised(
    kube: HttpCluster, namespace: str
):
    async with kube_platform(kube, f"quota=1x{GPUS}"):
        quota: JSON = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "two"},
            "spec": {"hard": {"pods": "2"}},
        }
        await kube.create(r.RESOURCEQUOTAS, namespace, quota)
        await until(
            kube,
            r.RESOURCEQUOTAS,
            namespace,
            "two",
            lambda one: one.get("status", {}).get("hard") == {"pods": "2"},
        )
        await kube.create(r.JOBS, namespace, job("quota"))
        await told(kube, namespace, "quota", "exceeded quota: two")

        async def none_left() -> bool:
            return not await pods_of(kube, namespace, "quota")

        await eventually(none_left, "no part of the gang stays")
        await until(kube, r.JOBS, namespace, "quota", lambda one: phase(one) == "Pending")
        await kube.patch(r.RESOURCEQUOTAS, namespace, "two", {"spec": {"hard": {"pods": "4"}}})
        await running(kube, namespace, "quota")


# ---------------------------------------------------------------------------------------- kinds
@pytest.mark.slow
async def test_a_definition_that_is_taken_away_and_put_back_is_waited_for(
    own_control_plane: ControlPlane, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    kube = connect(str(own_control_plane.kubeconfig), clock=SystemClock())
    async with kube_platform(kube, f"kinds=1x{2 * GPUS}") as platform:
        await kube.create(r.JOBS, "default", job("before"))
        await running(kube, "default", "before")
        await kube.delete(r.CRDS, None, "jobs.batch.volcano.sh")
        await until_gone(kube, r.CRDS, None, "jobs.batch.volcano.sh")

        async def missed() -> bool:
            return platform.controller.hands.views.waiting == "jobs"

        await eventually(missed, "the controller waits for the kind")
        await install_crds(kube)
        await kube.create(r.JOBS, "default", job("after"))
        await running(kube, "default", "after")
    await kube.close()
    said = [text for text in caplog.messages if text.startswith("jobs: ")]
    assert [text.partition(": GET")[0] for text in said] == [
        "jobs: API server does not know this kind, waiting for it",
        "jobs: API server is back",
    ]
