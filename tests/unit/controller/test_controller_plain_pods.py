"""Plain pods with our scheduler name: they get a PodGroup, are decided by the scheduler, and are bound."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import asynccontextmanager

import pytest

from services.scheduler.app import build as build_scheduler
from services.scheduler.settings import SchedulerSettings
from shared.api import names
from shared.api import resources as r
from shared.errors import Conflict, Refused, Unavailable
from shared.events import topics
from shared.events.contracts import Binding, GangDecided, GangRef
from shared.log.core.state import record_size, too_large
from shared.telemetry.telemetry import Telemetry
from tests.unit.controller.conftest import Life, Mortal

pytestmark = pytest.mark.looptime

GPU = "nvidia.com/gpu"


def plain_pod(name: str, *, gpus: int = 1, owner: dict | None = None, group: str = "", **spec) -> dict:
    amounts = {"cpu": "1", GPU: str(gpus)}
    container = {"name": "main", "image": "busybox", "resources": {"requests": amounts, "limits": amounts}}
    meta: dict = {"name": name, "namespace": "default", "annotations": {}}
    if owner is not None:
        meta["ownerReferences"] = [reference(owner)]
    if group:
        meta["annotations"][names.GROUP_NAME] = group
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"schedulerName": "volcano", "containers": [container]} | spec,
    }


def reference(owner: dict) -> dict:
    meta = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }


REPLICASETS = r.Resource("apps", "v1", "replicasets", "ReplicaSet")


class PlainWorld:
    """The controller, the real scheduler and kubelets that run what is bound, in virtual time."""

    def __init__(self, one) -> None:
        self.one = one
        self.cluster = one.cluster

    def node(self, name: str, gpus: int = 8) -> None:
        allocatable = {"cpu": "64", "memory": "64Gi", "pods": "110", GPU: str(gpus)}
        status = {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}
        self.cluster.put(r.NODES, node)

    def replica_set(self, name: str = "web-7d9", **annotations) -> dict:
        body = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": name, "namespace": "default", "annotations": annotations},
            "spec": {},
        }
        return self.cluster.put(REPLICASETS, body)

    def pod_group(self, name: str, minimum: int, **spec) -> dict:
        body = {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"minMember": minimum, "queue": "default"} | spec,
        }
        return self.cluster.put(r.PODGROUPS, body)

    def put(self, pod: dict) -> None:
        self.cluster.put(r.PODS, pod)

    def group(self, name: str) -> dict:
        return self.cluster.one(r.PODGROUPS, name) or {}

    def status(self, name: str) -> dict:
        return self.group(name).get("status") or {}

    def nodes_of(self, *pods: str) -> list[str | None]:
        return [(self.cluster.one(r.PODS, pod) or {"spec": {}})["spec"].get("nodeName") for pod in pods]

    async def all_bound(self, *pods: str) -> None:
        await self.one.until(lambda: all(self.nodes_of(*pods)))


@pytest.fixture
def plain(world):
    @asynccontextmanager
    async def make(*, run=True, started=True, **settings):
        async with world(started=False, **settings) as one:
            them = PlainWorld(one)
            scheduler = build_scheduler(
                SchedulerSettings(), clock=one.clock, log=one.log, ids=lambda: "id", telemetry=Telemetry("s")
            )

            async def kubelets() -> None:
                while True:
                    one.cluster.stop_pods()
                    if run:
                        one.cluster.run_pods()
                    await asyncio.sleep(0.1)

            if started:
                await one.start()
            tasks = [asyncio.create_task(scheduler.run()), asyncio.create_task(kubelets())]
            try:
                yield them
            finally:
                for task in tasks:
                    task.cancel()
                for task in tasks:
                    with contextlib.suppress(asyncio.CancelledError):
                        await task

    return make


async def test_a_bare_pod_gets_its_own_podgroup_and_runs(plain):
    async with plain() as w:
        w.node("n1")
        w.put(plain_pod("alone"))
        await w.all_bound("alone")
        pod = w.cluster.one(r.PODS, "alone")
        name = f"podgroup-{pod['metadata']['uid']}"
        await w.one.until(lambda: w.status(name).get("running") == 1)
        group = w.group(name)
        assert group["status"]["phase"] == "Running"
        assert group["spec"]["minMember"] == 1
        assert group["spec"]["minResources"][GPU] == "1"
        assert [one["uid"] for one in group["metadata"]["ownerReferences"]] == [pod["metadata"]["uid"]]
        await w.one.until(
            lambda: w.cluster.one(r.PODS, "alone")["metadata"]["annotations"].get(names.GROUP_NAME) == name
        )
        w.cluster.end_pods("alone")
        await w.one.until(lambda: w.status(name)["phase"] == "Completed" and w.status(name)["succeeded"] == 1)


async def test_the_claim_of_a_plain_pod_that_waits_for_it_is_told_its_node(plain):
    async with plain() as w:
        w.node("n1")
        storage = {
            "metadata": {"name": "late"},
            "provisioner": "x",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        w.cluster.put(r.STORAGECLASSES, storage)
        claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data"}}
        w.cluster.put(r.PVCS, claim | {"spec": {"storageClassName": "late"}})
        volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
        w.put(plain_pod("alone", volumes=volumes))
        await w.all_bound("alone")
        annotations = w.cluster.one(r.PVCS, "data")["metadata"]["annotations"]
        assert annotations["volume.kubernetes.io/selected-node"] == "n1"


async def test_the_pods_of_a_replica_set_share_the_podgroup_that_its_annotations_describe(plain):
    async with plain() as w:
        w.node("n1")
        owner = w.replica_set(
            **{names.GROUP_MIN_MEMBER: "3", names.GROUP_QUEUE_NAME: "default", names.PREEMPTABLE: "false"}
        )
        pods = [f"web-{number}" for number in range(3)]
        for pod in pods[:2]:
            w.put(plain_pod(pod, owner=owner))
        name = f"podgroup-{owner['metadata']['uid']}"
        await w.one.until(lambda: w.group(name))
        await asyncio.sleep(2)
        assert w.nodes_of(*pods) == [None, None, None]  # two of at least three
        assert w.status(name)["phase"] == "Pending"
        assert w.status(name)["conditions"][0]["reason"] == "NotEnoughTasks"
        w.put(plain_pod(pods[2], owner=owner))
        await w.all_bound(*pods)
        await w.one.until(lambda: w.status(name).get("running") == 3)
        assert w.status(name)["phase"] == "Running"
        assert w.group(name)["metadata"]["annotations"][names.PREEMPTABLE] == "false"
        assert w.group(name)["metadata"]["ownerReferences"] == [reference(owner)]
        assert len(w.cluster.all(r.PODGROUPS)) == 1


async def test_a_gang_that_an_integration_made_starts_whole_or_not_at_all_and_says_why_it_waits(plain):
    async with plain() as w:
        w.node("n1", gpus=2)
        w.pod_group("spark-pg", 4)
        await w.one.until(lambda: w.status("spark-pg").get("phase") == "Inqueue")  # its pods may be made
        pods = [f"exec-{number}" for number in range(4)]
        for pod in pods:
            w.put(plain_pod(pod, group="spark-pg"))
        await w.one.until(lambda: all(_unschedulable(w.cluster.one(r.PODS, pod)) for pod in pods))
        assert w.nodes_of(*pods) == [None] * 4
        why = await w.one.until(lambda: w.status("spark-pg").get("conditions"))
        assert [(one["type"], one["reason"]) for one in why] == [("Unschedulable", "NotEnoughResources")]
        await w.one.until(lambda: all(len(_events(w, pod)) == 1 for pod in pods))
        assert _events(w, pods[0])[0].startswith("FailedScheduling: needs ")
        w.node("n2", gpus=2)
        await w.all_bound(*pods)
        await w.one.until(lambda: w.status("spark-pg").get("running") == 4)
        assert [one["type"] for one in w.status("spark-pg")["conditions"]] == ["Scheduled"]
        await w.one.until(lambda: "Scheduled: pod group is ready" in _events(w, "spark-pg"))
        await asyncio.sleep(5)
        told = [event.partition(":")[0] for event in _events(w, "spark-pg")]
        assert sorted(told) == ["Scheduled", "Unschedulable"]


def _unschedulable(pod: dict) -> bool:
    return _why(pod)[0] == "Unschedulable"


def _why(pod: dict) -> tuple[str, str]:
    """Return reason and message of a pod's condition PodScheduled=False."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    found = next((one for one in conditions if one["type"] == "PodScheduled"), {"status": ""})
    return (found["reason"], found["message"]) if found["status"] == "False" else ("", "")


async def test_pods_join_a_running_group_one_by_one_and_a_lost_one_is_placed_again(plain):
    async with plain() as w:
        w.node("n1")
        owner = w.replica_set()
        for number in range(3):
            w.put(plain_pod(f"web-{number}", owner=owner))
            await asyncio.sleep(0.3)
        await w.all_bound("web-0", "web-1", "web-2")
        w.cluster.remove(r.PODS, "default", "web-1")
        await w.one.until(lambda: w.cluster.one(r.PODS, "web-1") is None)
        w.put(plain_pod("web-3", owner=owner))
        await w.all_bound("web-3")
        name = f"podgroup-{owner['metadata']['uid']}"
        await w.one.until(lambda: w.status(name).get("running") == 3)
        assert len(w.cluster.all(r.PODGROUPS)) == 1


async def test_a_podgroup_made_for_an_owner_goes_when_its_pods_are_gone_and_comes_again_with_new_ones(plain):
    async with plain(empty_group_seconds=5) as w:
        w.node("n1")
        owner = w.replica_set()
        w.put(plain_pod("web-0", owner=owner))
        await w.all_bound("web-0")
        name = f"podgroup-{owner['metadata']['uid']}"
        w.cluster.remove(r.PODS, "default", "web-0", graceful=False)
        await asyncio.sleep(4)
        assert w.group(name)
        await w.one.until(lambda: not w.group(name))
        w.put(plain_pod("web-1", owner=owner))
        await w.all_bound("web-1")


async def test_a_decision_that_reaches_too_few_pods_leaves_none_of_the_gang_bound(plain):
    async with plain() as w:
        w.node("n1")
        owner = w.replica_set(**{names.GROUP_MIN_MEMBER: "2"})
        broken = {"web-1"}

        async def before(verb, resource, name):
            if verb == "bind" and name in broken:
                raise Refused("a webhook says no", status=403)

        w.cluster.before = before
        for number in range(2):
            w.put(plain_pod(f"web-{number}", owner=owner))
        results = await w.one.results()
        assert results[0].outcome == "rolled-back"
        await w.one.until(lambda: (w.cluster.one(r.PODS, "web-0") or {"metadata": {}})["metadata"] == {})
        group = w.group(f"podgroup-{owner['metadata']['uid']}")
        assert group["status"]["phase"] == "Pending"
        broken.clear()
        w.put(plain_pod("web-2", owner=owner))  # as its owner does
        await w.all_bound("web-1", "web-2")


async def test_a_decision_that_counts_on_pods_which_are_gone_is_taken_back_untried(plain):
    async with plain() as w:
        w.node("n1")
        group = w.pod_group("pair", 2)
        w.put(plain_pod("a", group="pair"))
        await asyncio.sleep(1)
        gang = GangRef(namespace="default", name="pair", uid=group["metadata"]["uid"])
        decided = GangDecided(
            decision="half",
            pool="default",
            gang=gang,
            enqueue=True,
            bindings=(Binding(pod="a", task="", node="n1"),),
            minimum=1,
            decided_at=w.one.clock.now(),
        )
        await w.one.send(topics.BIND_DECISIONS, b"default", decided, event_id="half")
        [result] = await w.one.results()
        assert (result.outcome, result.bound) == ("rolled-back", ())
        assert w.nodes_of("a") == [None]
        w.put(plain_pod("b", group="pair"))
        await w.all_bound("a", "b")


async def test_a_pod_that_nobody_would_make_again_is_not_taken_back(plain):
    async with plain() as w:
        w.node("n1")
        w.pod_group("pair", 2)

        async def before(verb, resource, name):
            if verb == "bind" and name == "b":
                raise Refused("a webhook says no", status=403)

        w.cluster.before = before
        for pod in ("a", "b"):
            w.put(plain_pod(pod, group="pair"))
        assert (await w.one.results())[0].outcome == "rolled-back"
        await asyncio.sleep(1)
        assert w.nodes_of("a") == ["n1"]


async def test_pods_of_other_schedulers_are_left_alone(plain):
    async with plain() as w:
        w.node("n1")
        w.put(plain_pod("other", schedulerName="default-scheduler"))
        await asyncio.sleep(2)
        assert w.cluster.all(r.PODGROUPS) == []
        assert w.nodes_of("other") == [None]


async def test_a_gated_pod_waits_for_its_gates(plain):
    async with plain() as w:
        w.node("n1")
        w.put(plain_pod("gated", schedulingGates=[{"name": "example.com/wait"}]))
        await asyncio.sleep(2)
        assert w.nodes_of("gated") == [None]
        assert not _unschedulable(w.cluster.one(r.PODS, "gated"))
        w.cluster.change(r.PODS, "default", "gated", {"spec": {"schedulingGates": None}})
        await w.all_bound("gated")


async def test_the_pods_of_a_group_are_charged_to_its_queue(plain):
    async with plain() as w:
        w.node("n1")
        w.cluster.put(
            r.QUEUES,
            {
                "apiVersion": r.QUEUES.api_version,
                "kind": "Queue",
                "metadata": {"name": "small"},
                "spec": {"weight": 1, "capability": {GPU: "2"}},
            },
        )
        owner = w.replica_set(**{names.GROUP_QUEUE_NAME: "small"})
        for number in range(3):
            w.put(plain_pod(f"web-{number}", owner=owner))
        await w.one.until(
            lambda: sum(node is not None for node in w.nodes_of("web-0", "web-1", "web-2")) == 2
        )
        await asyncio.sleep(3)
        assert sum(node is not None for node in w.nodes_of("web-0", "web-1", "web-2")) == 2
        facts = await w.one.state()
        assert {fact.queue for key, fact in facts.items() if key.startswith("pod/")} == {"small"}


async def test_a_closed_queue_takes_no_new_group_and_lets_it_in_when_it_opens(plain):
    async with plain() as w:
        w.node("n1")
        await w.one.until(lambda: (w.cluster.one(r.QUEUES, "default") or {}).get("status", {}).get("state"))
        queue = w.cluster.one(r.QUEUES, "default")
        w.cluster.set_status(r.QUEUES, queue, {"state": "Closed"})
        await asyncio.sleep(1)
        w.put(plain_pod("late"))
        w.pod_group("later", 1)
        await asyncio.sleep(3)
        assert w.nodes_of("late") == [None]
        assert w.status("later").get("phase") in (None, "Pending")
        w.cluster.set_status(r.QUEUES, w.cluster.one(r.QUEUES, "default"), {"state": "Open"})
        await w.all_bound("late")
        await w.one.until(lambda: w.status("later").get("phase") == "Inqueue")


async def test_a_controller_that_starts_again_goes_on_where_it_was(plain):
    async with plain() as w:
        w.node("n1", gpus=1)
        owner = w.replica_set(**{names.GROUP_MIN_MEMBER: "2"})
        for number in range(2):
            w.put(plain_pod(f"web-{number}", owner=owner))
        await w.one.until(lambda: w.group(f"podgroup-{owner['metadata']['uid']}"))
        await w.one.stop()
        w.node("n2", gpus=1)
        await w.one.start()
        await w.all_bound("web-0", "web-1")
        keys = [key for key in await w.one.state() if key.startswith("podgroup/")]
        assert len(keys) == 1


async def test_a_plain_pod_costs_two_writes_and_its_group_at_most_four(plain):
    async with plain() as w:
        w.node("n1")
        await w.one.until(lambda: w.cluster.one(r.QUEUES, "default"))
        await asyncio.sleep(1)
        w.cluster.writes.clear()
        owner = w.replica_set()
        for number in range(8):
            w.put(plain_pod(f"web-{number}", owner=owner))
        await w.all_bound(*(f"web-{number}" for number in range(8)))
        await asyncio.sleep(3)
        assert w.cluster.writes["bind", "pods"] == 8
        assert w.cluster.writes["patch", "pods"] == 8  # the annotation that others look for
        assert w.cluster.writes["create", "podgroups"] == 1
        assert w.cluster.writes["patch", "podgroups"] <= 3


async def test_a_ready_gang_of_plain_pods_is_told_on_its_topic_once(plain):
    async with plain() as w:
        w.node("n1")
        owner = w.replica_set()
        for number in range(3):
            w.put(plain_pod(f"web-{number}", owner=owner))
            await asyncio.sleep(0.5)
        await w.all_bound("web-0", "web-1", "web-2")
        ready = [envelope.data.gang for envelope in await w.one.events(topics.PODGROUP_READY)]
        assert [(gang.job, gang.name) for gang in ready] == [(None, f"podgroup-{owner['metadata']['uid']}")]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", range(1, 13))
async def test_killed_at_any_write_the_gang_starts_whole_and_no_pod_is_taken_away(plain, number, when):
    async with plain(started=False, settle_seconds=1.0) as w:
        life = Life(number, when)
        await w.one.start(cluster=Mortal(w.cluster, life), log=Mortal(w.one.log, life))
        w.node("n1")
        owner = w.replica_set(**{names.GROUP_MIN_MEMBER: "3"})
        pods = [f"web-{index}" for index in range(3)]
        for pod in pods:
            w.put(plain_pod(pod, owner=owner))
        with contextlib.suppress(TimeoutError):  # later writes are not needed
            await asyncio.wait_for(life.dead.wait(), 10)
        for one in life.opened:
            await one.close()
        w.one.task.cancel()
        with contextlib.suppress(BaseException):
            await w.one.task
        w.one.task = None
        await w.one.start()
        name = f"podgroup-{owner['metadata']['uid']}"
        await w.one.until(lambda: all(w.nodes_of(*pods)) and w.status(name).get("running") == 3)
        await w.one.until(
            lambda: all(
                names.GROUP_NAME in w.cluster.one(r.PODS, pod)["metadata"]["annotations"] for pod in pods
            )
        )
        assert len(w.cluster.all(r.PODGROUPS)) == 1
        assert not any(line.startswith("delete pods") for line in w.cluster.log)


@pytest.mark.parametrize(("when", "error"), [("before", Conflict), ("after", Unavailable)])
async def test_a_gang_starts_whole_though_each_first_write_conflicts_or_its_answer_is_lost(
    plain, when, error
):
    async with plain(started=False) as w:
        seen = set()

        async def hook(verb, resource, name):
            key = (verb, resource.plural, name)
            if key not in seen:
                seen.add(key)
                raise error(f"{verb} {resource.plural} {name}")

        setattr(w.cluster, when, hook)
        await w.one.start()
        w.node("n1")
        owner = w.replica_set(**{names.GROUP_MIN_MEMBER: "3"})
        pods = [f"web-{index}" for index in range(3)]
        for pod in pods:
            w.put(plain_pod(pod, owner=owner))
        name = f"podgroup-{owner['metadata']['uid']}"
        await w.one.until(lambda: all(w.nodes_of(*pods)) and w.status(name).get("running") == 3)
        await w.one.until(
            lambda: all(
                names.GROUP_NAME in w.cluster.one(r.PODS, pod)["metadata"]["annotations"] for pod in pods
            )
        )
        assert not any(line.startswith("delete pods") for line in w.cluster.log)


async def test_a_gang_bound_in_part_whose_decision_is_lost_gives_its_room_back(plain):
    async with plain(started=False, partial_grace_seconds=5.0) as w:
        owner = w.replica_set(**{names.GROUP_MIN_MEMBER: "2"})
        name = f"podgroup-{owner['metadata']['uid']}"
        w.pod_group(name, 2)
        w.cluster.change(r.PODGROUPS, "default", name, {"status": {"phase": "Inqueue"}})
        w.node("n1", gpus=1)
        for pod in ("web-0", "web-1"):
            w.put(plain_pod(pod, owner=owner, group=name))
        await w.cluster.bind("default", "web-0", "n1")
        await w.one.start()
        await asyncio.sleep(3)
        assert w.nodes_of("web-0") == ["n1"]
        await w.one.until(lambda: w.cluster.one(r.PODS, "web-0") is None)
        assert w.status(name)["phase"] == "Pending"


async def test_the_pods_and_podgroups_of_a_cluster_that_ran_volcano_go_on(plain):
    async with plain(started=False) as w:
        w.node("n1")
        owner = w.replica_set()
        name = f"podgroup-{owner['metadata']['uid']}"
        w.pod_group(name, 1)
        w.cluster.change(r.PODGROUPS, "default", name, {"status": {"phase": "Running", "running": 1}})
        w.put(plain_pod("web-0", owner=owner, group=name))
        await w.cluster.bind("default", "web-0", "n1")
        w.put(plain_pod("web-1", owner=owner, group=name))
        await w.one.start()
        await w.all_bound("web-1")
        await w.one.until(lambda: w.status(name).get("running") == 2)
        assert w.status(name)["phase"] == "Running"


async def test_each_role_of_an_integrations_gang_has_its_own_minimum(plain):
    async with plain() as w:
        w.node("n1")
        w.pod_group("roles", 2, minTaskMember={"driver": 1, "executor": 1})

        def role(name: str, task: str) -> dict:
            pod = plain_pod(name, group="roles")
            pod["metadata"]["annotations"][names.TASK_SPEC] = task
            return pod

        w.put(role("exec-0", "executor"))
        w.put(role("exec-1", "executor"))
        await asyncio.sleep(3)
        assert w.nodes_of("exec-0", "exec-1") == [None, None]  # two pods, but no driver
        w.put(role("driver", "driver"))
        await w.all_bound("driver", "exec-0", "exec-1")


async def test_a_new_number_on_the_owner_counts_from_its_next_pods_on(plain):
    async with plain() as w:
        w.node("n1")
        owner = w.replica_set()
        name = f"podgroup-{owner['metadata']['uid']}"
        w.put(plain_pod("web-0", owner=owner))
        await w.all_bound("web-0")
        annotations = {names.GROUP_MIN_MEMBER: "4"}
        w.cluster.change(REPLICASETS, "default", "web-7d9", {"metadata": {"annotations": annotations}})
        await asyncio.sleep(6)
        w.put(plain_pod("web-1", owner=owner))
        await w.one.until(lambda: w.group(name)["spec"]["minMember"] == 4)
        assert w.group(name)["spec"]["minResources"]["pods"] == "4"


async def test_pods_of_one_group_that_ask_for_different_amounts_each_get_their_own(plain):
    """A driver and its executors name no task: on the driver's amounts all three would fit on one node."""
    async with plain() as w:
        w.node("small", gpus=1)
        w.node("large", gpus=4)
        w.node("other", gpus=4)
        w.pod_group("mixed", 3)
        w.put(plain_pod("driver", gpus=1, group="mixed"))
        for number in range(2):
            w.put(plain_pod(f"exec-{number}", gpus=4, group="mixed"))
        await w.all_bound("driver", "exec-0", "exec-1")
        assert w.nodes_of("driver") == ["small"]
        assert set(w.nodes_of("exec-0", "exec-1")) == {"large", "other"}


async def test_a_group_that_a_webhook_refuses_for_a_closed_queue_is_made_when_the_queue_opens(plain):
    async with plain() as w:
        w.node("n1")
        state = {"open": False}

        async def before(verb, resource, name):
            if verb == "create" and resource is r.PODGROUPS and not state["open"]:
                raise Refused("queue default is closed", status=403)

        w.cluster.before = before
        w.put(plain_pod("late"))
        await asyncio.sleep(100)  # by now it is tried every half a minute
        told = [one for one in w.cluster.all(r.EVENTS) if one["reason"] == "PodGroupError"]
        assert [one["involvedObject"]["name"] for one in told] == ["late"]
        state["open"] = True
        w.cluster.set_status(r.QUEUES, w.cluster.one(r.QUEUES, "default"), {"state": "Closed"})
        w.cluster.set_status(r.QUEUES, w.cluster.one(r.QUEUES, "default"), {"state": "Open"})
        before_opening = w.one.clock.monotonic()
        await w.all_bound("late")
        assert w.one.clock.monotonic() - before_opening < 2


def _events(w: PlainWorld, name: str) -> list[str]:
    return [
        f"{one['reason']}: {one['message']}"
        for one in w.cluster.all(r.EVENTS)
        if one["involvedObject"]["name"] == name
    ]


async def test_a_pod_that_names_a_podgroup_which_is_not_there_says_so_once_and_goes_on_when_it_comes(plain):
    async with plain() as w:
        w.node("n1")
        w.put(plain_pod("early", group="late"))
        reason, message = await w.one.until(
            lambda: _why(w.cluster.one(r.PODS, "early"))[0] and _why(w.cluster.one(r.PODS, "early"))
        )
        assert reason == "SchedulerError"
        assert "there is no PodGroup late in namespace default" in message
        assert _events(w, "early") == [f"FailedScheduling: {message}"]
        writes = w.cluster.writes["patch", "pods"]
        for number in range(3):  # looked at again, and nothing written
            w.cluster.change(r.PODS, "default", "early", {"metadata": {"labels": {"n": str(number)}}})
            await asyncio.sleep(30)
        assert w.cluster.writes["patch", "pods"] == writes
        assert len(_events(w, "early")) == 1
        w.pod_group("late", 1)
        await w.all_bound("early")


async def test_a_pod_made_just_before_its_podgroup_says_nothing(plain):
    async with plain() as w:
        w.node("n1")
        w.put(plain_pod("first", group="soon"))
        await asyncio.sleep(1)
        w.pod_group("soon", 1)
        await w.all_bound("first")
        await asyncio.sleep(30)
        assert _why(w.cluster.one(r.PODS, "first")) == ("", "")


async def test_a_podgroup_that_no_queue_lets_in_says_so_before_it_has_pods(plain):
    async with plain() as w:
        w.node("n1")
        w.pod_group("early", 1, queue="team")
        [why] = await w.one.until(lambda: w.status("early").get("conditions"))
        assert (why["type"], why["message"]) == ("Unschedulable", "queue team does not exist")
        assert _events(w, "early") == ["Unschedulable: queue team does not exist"]
        w.cluster.put(r.QUEUES, {"metadata": {"name": "team"}, "spec": {"weight": 1}})
        await w.one.until(lambda: w.status("early").get("phase") == "Inqueue")
        w.put(plain_pod("now", group="early"))
        await w.all_bound("now")


def unreadable_pod(name: str, **more) -> dict:
    body = plain_pod(name, **more)
    body["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "one"
    return body


async def test_a_gang_short_of_a_pod_that_cannot_be_read_says_which_and_starts_when_another_comes(plain):
    async with plain() as w:
        w.node("n1")
        w.pod_group("pair", 2)
        w.put(plain_pod("good", group="pair"))
        w.put(unreadable_pod("bad", group="pair"))
        w.put(plain_pod("other"))
        await w.all_bound("other")
        for pod in ("good", "bad"):
            await w.one.until(lambda pod=pod: "pod bad cannot be read" in _why(w.cluster.one(r.PODS, pod))[1])
        assert any("pod bad cannot be read" in text for text in _events(w, "bad"))
        assert any("pod bad cannot be read" in text for text in _events(w, "pair"))
        [why] = await w.one.until(lambda: w.status("pair").get("conditions"))
        assert (why["type"], why["reason"]) == ("Unschedulable", "NotEnoughTasks")
        assert "pod bad cannot be read" in why["message"]
        assert 'held_podgroups_total{reason="pod-unreadable"} 1.0' in w.one.telemetry.exposition()
        assert w.nodes_of("good") == [None]
        w.cluster.remove(r.PODS, "default", "bad")
        w.put(plain_pod("better", group="pair"))
        await w.all_bound("good", "better")


async def test_a_pod_that_cannot_be_read_stops_no_gang_that_has_its_minimum_without_it(plain):
    async with plain() as w:
        w.node("n1")
        owner = w.replica_set()
        w.put(plain_pod("web-0", owner=owner))
        await w.all_bound("web-0")
        w.put(unreadable_pod("web-1", owner=owner))
        w.put(unreadable_pod("alone"))
        w.put(plain_pod("web-2", owner=owner))
        await w.all_bound("web-2")
        for pod in ("web-1", "alone"):
            await w.one.until(lambda pod=pod: "cannot be read" in _why(w.cluster.one(r.PODS, pod))[1])
        assert _why(w.cluster.one(r.PODS, "web-1"))[0] == "SchedulerError"


class SmallLog:
    """A log that takes records up to so many bytes."""

    def __init__(self, log, limit: int) -> None:
        self._log = log
        self.limit = limit

    def __getattr__(self, name):
        return getattr(self._log, name)

    @property
    def producer(self):
        return self

    async def send(self, record):
        return (await self.send_many([record]))[0]

    async def send_many(self, records):
        for record in records:
            if record_size(record) > self.limit:
                raise too_large(record, record_size(record), self.limit)
        return await self._log.producer.send_many(records)


async def test_a_gang_too_large_for_the_log_waits_with_its_size_and_the_limit_and_stops_nobody(plain):
    async with plain(started=False) as w:
        await w.one.start(log=SmallLog(w.one.log, 2000))
        w.node("n1", gpus=100)
        w.pod_group("huge", 60)
        pods = [f"a-rather-long-name-of-a-pod-{number}" for number in range(60)]
        for pod in pods:
            w.put(plain_pod(pod, group="huge"))
        [why] = await w.one.until(lambda: w.status("huge").get("conditions"))
        assert why["type"] == "Unschedulable"
        assert "the gang of 60 pods has" in why["message"]
        assert "a record of the log at most 2000" in why["message"]
        assert f"Unschedulable: {why['message']}" in _events(w, "huge")
        await w.one.until(lambda: _why(w.cluster.one(r.PODS, pods[0])) == ("SchedulerError", why["message"]))
        w.put(plain_pod("other"))
        await w.all_bound("other")
        assert (await w.one.state())["podgroup/default/huge"].gang is None
        for pod in pods[10:]:
            w.cluster.remove(r.PODS, "default", pod)
        w.cluster.change(r.PODGROUPS, "default", "huge", {"spec": {"minMember": 10}})
        await w.all_bound(*pods[:10])


async def test_what_the_api_server_says_about_each_of_many_pods_stops_no_result(plain):
    async with plain(started=False) as w:
        await w.one.start(log=SmallLog(w.one.log, 27_000))
        w.node("n1", gpus=100)
        owner = w.replica_set(**{names.GROUP_MIN_MEMBER: "30"})

        async def before(verb, resource, name):
            if verb == "bind":
                raise Refused("no, because " + 1000 * "x", status=403)

        w.cluster.before = before
        for number in range(30):
            w.put(plain_pod(f"web-{number}", owner=owner))
        result = (await w.one.results())[0]
        assert result.outcome == "rolled-back"
        assert len(result.failures) == 30
        assert result.failures[0].message.startswith("no, because")
