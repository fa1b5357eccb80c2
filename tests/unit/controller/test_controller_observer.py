"""Facts on ``cluster-state``: trimmed, only when changed, in order, ended by tombstones."""

from __future__ import annotations

import asyncio

import pytest

from services.controller.adapters.label_keys import LabelKeys
from services.controller.adapters.shape_cache import Shapes
from services.controller.core import facts
from services.controller.core.claiming import NONE
from services.controller.core.model import Priorities
from shared.api import resources as r
from shared.events import topics
from shared.events.codec import decode
from shared.events.contracts import NodeGroups, PodState
from tests.unit.controller.conftest import job

pytestmark = pytest.mark.looptime


def node(name="n1", **spec) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"zone": "a"}},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": "64", "memory": "1Gi", "nvidia.com/gpu": "8", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


async def test_a_node_is_told_in_base_units_and_again_only_when_something_that_matters_changes(world):
    async with world() as w:
        body = w.cluster.put(r.NODES, node(taints=[{"key": "t", "effect": "NoSchedule"}]))
        fact = await w.until(lambda: _fact(w, "node//n1"))
        assert fact.allocatable == {"cpu": 64000, "memory": 2**30, "nvidia.com/gpu": 8, "pods": 110}
        assert (fact.ready, fact.pool, fact.taints[0].key) == (True, "default", "t")
        count = len(await w.events(topics.CLUSTER_STATE))
        heartbeat = {**body["status"], "images": [{"names": ["small:1"], "sizeBytes": 1 << 20}]}
        w.cluster.set_status(r.NODES, w.cluster.one(r.NODES, "n1"), heartbeat)
        await asyncio.sleep(1)
        assert len(await w.events(topics.CLUSTER_STATE)) == count
        lost = {**body["status"], "conditions": [{"type": "Ready", "status": "Unknown"}]}
        w.cluster.set_status(r.NODES, w.cluster.one(r.NODES, "n1"), lost)

        async def not_ready():
            return not (await w.state())["node//n1"].ready

        await w.until(not_ready)
        w.cluster.remove(r.NODES, None, "n1")

        async def gone():
            return "node//n1" not in await w.state()

        await w.until(gone)


async def test_a_node_that_cannot_be_read_is_left_out_and_said_once(world):
    async with world() as w:
        bad = node("bad")
        bad["status"]["allocatable"]["cpu"] = "many"
        w.cluster.put(r.NODES, bad)
        w.cluster.put(r.NODES, node("good"))
        await w.until(lambda: _fact(w, "node//good"))
        [event] = await w.until(lambda: [e for e in w.cluster.all(r.EVENTS) if e["reason"] == "Unreadable"])
        assert "many" in event["message"]
        counted = 'left_out_objects_total{kind="node",why="unreadable"} 1.0'
        assert counted in w.telemetry.exposition()
        w.cluster.set_status(r.NODES, w.cluster.one(r.NODES, "bad"), {**bad["status"], "images": []})
        await asyncio.sleep(2)
        assert counted in w.telemetry.exposition()
        assert "node//bad" not in await w.state()
        w.cluster.set_status(r.NODES, w.cluster.one(r.NODES, "bad"), node()["status"])
        await w.until(lambda: _fact(w, "node//bad"))


async def test_a_pod_of_somebody_else_takes_room(world):
    async with world() as w:
        container = {"name": "c", "resources": {"requests": {"cpu": "500m"}}}
        body = {"metadata": {"name": "other"}, "spec": {"nodeName": "n1", "containers": [container]}}
        w.cluster.put(r.PODS, body, "kube-system")
        fact = await w.until(lambda: _fact(w, "pod/kube-system/other"))
        assert (fact.ours, fact.gang, fact.node, fact.shape.requests) == (False, None, "n1", {"cpu": 500})


async def test_a_pods_facts_come_in_order_and_end_with_a_tombstone(world):
    async with world() as w:
        await w.admit(job())
        await w.run_gang()
        await asyncio.sleep(1)
        w.cluster.end_pods()
        await w.until(lambda: w.phase() == "Completed")
        await asyncio.sleep(1)
        assert await _phases(w, b"pod/default/train-worker-0") == ["Pending", "Running", "Succeeded", None]


@pytest.mark.parametrize(("end", "phase"), [("gone", "Failed"), ("ended", "Succeeded")])
async def test_a_pod_that_held_room_for_less_than_a_burst_is_told_as_ended(world, end, phase):
    async with world(observe_delay_seconds=0.5) as w:
        await asyncio.sleep(2)
        body = {"metadata": {"name": "short"}, "spec": {"nodeName": "n1", "containers": [{"name": "c"}]}}
        pod = w.cluster.put(r.PODS, body, "default")
        await asyncio.sleep(0.1)
        if end == "gone":
            w.cluster.remove(r.PODS, "default", "short", graceful=False)
        else:
            w.cluster.set_status(r.PODS, pod, {"phase": "Succeeded"})
        await asyncio.sleep(2)
        assert await _phases(w, b"pod/default/short") == [phase, None]


async def test_pods_of_one_name_that_follow_each_other_within_a_burst_are_all_told_as_far_as_they_held_room(
    world,
):
    async with world(observe_delay_seconds=0.5) as w:
        waits = {"metadata": {"name": "short"}, "spec": {"containers": [{"name": "c"}]}}
        holds = {**waits, "spec": {**waits["spec"], "nodeName": "n1"}}
        w.cluster.put(r.PODS, waits, "default")
        await asyncio.sleep(2)
        told = len(await _phases(w, b"pod/default/short"))
        for body in (holds, holds, waits, holds):
            w.cluster.remove(r.PODS, "default", "short", graceful=False)
            w.cluster.put(r.PODS, body, "default")
            await asyncio.sleep(0.1)
        await asyncio.sleep(2)
        assert told == 1
        assert await _phases(w, b"pod/default/short") == ["Pending", "Failed", "Failed", "Pending"]


async def test_a_pod_that_never_held_room_goes_untold(world):
    async with world(observe_delay_seconds=0.5) as w:
        await asyncio.sleep(2)
        w.cluster.put(
            r.PODS, {"metadata": {"name": "unbound"}, "spec": {"containers": [{"name": "c"}]}}, "default"
        )
        await asyncio.sleep(0.1)
        w.cluster.remove(r.PODS, "default", "unbound")
        await asyncio.sleep(2)
        told = [one for one in await w.events(topics.CLUSTER_STATE) if one is not None]
        assert not any(isinstance(one.data, PodState) for one in told)


async def test_a_burst_of_changes_is_told_once(world):
    async with world(observe_delay_seconds=0.1) as w:
        w.cluster.put(r.NODES, node())
        await w.until(lambda: _fact(w, "node//n1"))
        count = len(await w.events(topics.CLUSTER_STATE))
        for number in range(20):
            labels = {"metadata": {"labels": {"number": str(number)}}}
            w.cluster.change(r.NODES, None, "n1", labels)
        await asyncio.sleep(1)
        assert len(await w.events(topics.CLUSTER_STATE)) - count == 1
        assert (await w.state())["node//n1"].labels["number"] == "19"


async def test_the_podgroups_fact_holds_the_gang_as_long_as_the_job_wants_pods(world):
    async with world() as w:
        await w.admit(job())
        gang = (await w.ready())[0].gang
        fact = await w.until(lambda: _fact(w, f"podgroup/default/{gang.name}"))
        assert fact.gang == gang
        await w.run_gang()
        w.cluster.end_pods()
        await w.until(lambda: w.phase() == "Completed")

        async def without_gang():
            return (await w.state())[f"podgroup/default/{gang.name}"].gang is None

        await w.until(without_gang)


async def test_a_jobs_fact_tells_its_state_and_its_requests(world):
    async with world() as w:
        await w.admit(job())
        await w.run_gang()

        async def running():
            fact = (await w.state()).get("job/default/train")
            return fact if fact and fact.phase == "Running" else None

        fact = await w.until(running)
        assert fact.requests == {"cpu": 8000, "nvidia.com/gpu": 32}
        assert (fact.replicas, fact.pods.running, fact.submission, fact.submitted_by) == (
            4,
            4,
            "sub-1",
            "alice",
        )


def test_pods_of_one_template_share_a_shape_and_others_do_not():
    shapes = Shapes(LabelKeys(), lambda _namespace, _extras, *, pod: NONE)
    one = {
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "x", "image": "1", "resources": {"requests": {"cpu": 1}}}]},
    }
    two = {
        "metadata": {"name": "b"},
        "spec": {
            "nodeName": "n",
            "containers": [{"name": "y", "image": "1", "args": ["2"], "resources": {"requests": {"cpu": 1}}}],
        },
    }
    assert shapes.of(one, Priorities()) is shapes.of(two, Priorities())
    for image, cpu in (("1", 2), ("2", 1)):
        container = {"image": image, "resources": {"requests": {"cpu": cpu}}}
        other = {"metadata": {"name": "c"}, "spec": {"containers": [container]}}
        assert shapes.of(other, Priorities()) != shapes.of(one, Priorities())


def test_a_queues_fact_keeps_no_limit_apart_from_a_limit_of_zero():
    queue = {
        "metadata": {"name": "q", "uid": "u", "creationTimestamp": "2026-03-01T12:00:00Z"},
        "spec": {"capability": {"nvidia.com/gpu": 0}, "guarantee": {"resource": {"cpu": "1"}}},
    }
    fact = facts.queue_state(queue)
    assert fact.capability == {"nvidia.com/gpu": 0}
    assert (fact.deserved, fact.guarantee, fact.parent, fact.weight) == (None, {"cpu": 1000}, "root", 1)


def test_a_queues_fact_has_the_groups_of_nodes_that_it_asks_for_and_avoids():
    def fact(**spec):
        meta = {"name": "q", "uid": "u", "creationTimestamp": "2026-03-01T12:00:00Z"}
        return facts.queue_state({"metadata": meta, "spec": spec}).node_groups

    must, should = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))
    affinity = {
        "nodeGroupAffinity": {must: ["a"], should: ["c", "b"]},
        "nodeGroupAntiAffinity": {must: ["d"], should: ["e"]},
    }
    assert fact(affinity=affinity) == NodeGroups(
        required=("a",), preferred=("c", "b"), not_required=("d",), not_preferred=("e",)
    )
    assert fact(affinity={}) == NodeGroups()
    assert fact() is None


LIMITS = "volcano.sh/nodegroup-resource-limits"


@pytest.mark.parametrize(
    ("text", "limits", "fault"),
    [
        (None, None, ""),
        ("", None, ""),
        ("{}", None, ""),
        (
            '{"a": {"cpu": "1.5", "memory": "1Gi", "x.io/y": 2}}',
            {"a": {"cpu": 1500, "memory": 1 << 30, "x.io/y": 2}},
            "",
        ),
        ('{"a": {"cpu": 0}, "b": null, "c": {}}', {"a": {"cpu": 0}, "b": {}, "c": {}}, ""),
        ("a: {cpu: 1}", None, f"{LIMITS} is no JSON: "),
        ("[1]", None, f"{LIMITS}: it must be an object of JSON, not [1]"),
        ('{"a": "1"}', None, f'{LIMITS}: a must be an object of JSON, not "1"'),
        ('{"a": {"cpu": "many"}}', None, f"{LIMITS}: a.cpu: "),
        ('{"a": {"cpu": true}}', None, f"{LIMITS}: a.cpu: "),
        ('{"a": {"cpu": [1]}}', None, f"{LIMITS}: a.cpu: "),
        ('{"a": {"cpu": "-1"}}', None, f"{LIMITS}: a.cpu: must not be negative"),
    ],
)
def test_a_queues_fact_has_its_limits_of_groups_of_nodes_or_what_is_wrong_with_them(text, limits, fault):
    annotations = {} if text is None else {LIMITS: text}
    meta = {"name": "q", "uid": "u", "creationTimestamp": "2026-03-01T12:00:00Z", "annotations": annotations}
    found = facts.queue_state({"metadata": meta, "spec": {}})
    assert found.node_group_limits == limits
    assert found.node_group_fault.startswith(fault)
    assert bool(found.node_group_fault) == bool(fault)


async def _fact(w, key):
    return (await w.state()).get(key)


async def _phases(w, pod: bytes) -> list[str | None]:
    """Return what was told of a pod, in order; None: it is gone."""
    reader = await w.log.read([topics.CLUSTER_STATE])
    found = []
    while not await reader.caught_up():
        found += await reader.poll(timeout=0.01)
    return [decode(one).data.phase if one.value else None for one in found if one.key == pod]


async def test_of_pods_that_differ_in_names_and_tokens_only_one_shape_and_one_spec_is_kept(world):
    def pod(name: str) -> dict:
        token = {"name": f"kube-api-access-{name}", "projected": {"sources": []}}
        data = {"name": "data", "persistentVolumeClaim": {"claimName": "shared"}}
        container = {"name": "main", "image": "i", "command": ["run", name]}
        spec = {"containers": [container], "volumes": [token, data], "nodeName": "node-0"}
        return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}

    async with world() as w:
        for name in ("a", "bb"):
            w.cluster.put(r.PODS, pod(name))
        views = w.service.hands.views
        one, two = await w.until(lambda: len(views.store(r.PODS)) == 2 and list(views.store(r.PODS).values()))
        shapes = Shapes(LabelKeys(), lambda _namespace, _extras, *, pod: NONE)
        assert shapes.of(one, Priorities()) is shapes.of(two, Priorities())
        assert shapes.of(one, Priorities()).extras == {"claims": ["shared"]}
        for part in ("containers", "volumes"):
            assert one["spec"][part] is two["spec"][part]
