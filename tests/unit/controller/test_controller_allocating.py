"""Pods of decided gangs get the devices that they claim, or the decision is taken back with a reason."""

from __future__ import annotations

import asyncio

import pytest

from shared.api import resources as r
from shared.events.contracts import DecisionOutcome, PodGroupState
from tests.unit.controller.conftest import World, job

pytestmark = pytest.mark.looptime
GPU = "deviceclass/gpu"


def publish(w: World, node: str, *boards: str) -> None:
    devices = [{"name": f"g{at}", "attributes": {"board": {"string": one}}} for at, one in enumerate(boards)]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": node, "pool": pool, "devices": devices}
    w.cluster.put(r.RESOURCESLICES, {"metadata": {"name": node}, "spec": spec})


def asks(count: int, **more) -> dict:
    exactly = {"deviceClassName": "gpu", "count": count}
    return {"devices": {"requests": [{"name": "r", "exactly": exactly}], **more}}


def prepare(w: World, spec: dict) -> None:
    """Make a class of all devices, and a template of claims that ask for them."""
    w.cluster.put(r.DEVICECLASSES, {"metadata": {"name": "gpu"}, "spec": {}})
    template = {"metadata": {"name": "t", "namespace": "default"}, "spec": {"spec": spec}}
    w.cluster.put(r.RESOURCECLAIMTEMPLATES, template)


def claiming(replicas: int) -> dict:
    template = {
        "spec": {
            "containers": [{"name": "main", "image": "i"}],
            "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "t"}],
        }
    }
    tasks = [{"name": "w", "replicas": replicas, "template": template}]
    return job(tasks=tasks, minAvailable=replicas)


async def make_claims(w: World, count: int) -> None:
    """Do what Kubernetes' controller of claims does, once the pods are there."""
    await w.until(lambda: len(w.pods()) == count)
    for name, pod in w.pods().items():
        spec = w.cluster.one(r.RESOURCECLAIMTEMPLATES, "t")["spec"]["spec"]
        claim = f"{name}-gpus"
        if w.cluster.one(r.RESOURCECLAIMS, claim) is None:
            w.cluster.put(
                r.RESOURCECLAIMS, {"metadata": {"name": claim, "namespace": "default"}, "spec": spec}
            )
        made = {"resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": claim}]}
        w.cluster.change(r.PODS, "default", pod["metadata"]["name"], {"status": made}, subresource="status")


def devices(w: World, pod: str) -> list[tuple[str, str]]:
    claim = w.cluster.one(r.RESOURCECLAIMS, f"{pod}-gpus")
    given = (claim.get("status") or {}).get("allocation") or {}
    return [(one["pool"], one["device"]) for one in (given.get("devices") or {}).get("results", ())]


async def avoided(w: World) -> list[str]:
    """Return the nodes that the gang is told to avoid."""
    facts = (await w.state()).values()
    [gang] = [one.gang for one in facts if isinstance(one, PodGroupState) and one.gang]
    volumes = gang.tasks[0].shape.volumes
    return [name for terms in (volumes.reach if volumes else ()) for name in terms[0].fields[0].values]


async def test_pods_are_made_get_their_devices_and_are_bound(world):
    async with world() as w:
        prepare(w, asks(2))
        for node in ("node-0", "node-1"):
            publish(w, node, "a", "b", "c")
        await w.admit(claiming(2))
        [ready] = await w.ready()
        assert ready.gang.tasks[0].shape.requests == {GPU: 2}
        await w.decide(ready.gang)
        await make_claims(w, 2)
        [result] = await w.results()
        assert result.outcome is DecisionOutcome.APPLIED
        assert w.places() == {"train-w-0": "node-0", "train-w-1": "node-1"}
        assert devices(w, "train-w-0") == [("node-0", "g0"), ("node-0", "g1")]
        [user] = w.cluster.one(r.RESOURCECLAIMS, "train-w-0-gpus")["status"]["reservedFor"]
        assert user["uid"] == w.pods()["train-w-0"]["metadata"]["uid"]


async def test_where_one_pod_gets_no_devices_the_others_give_theirs_back_and_its_node_is_left_out(world):
    async with world() as w:
        # Both nodes have two devices; on node-1 they are not alike, which nobody can count.
        prepare(w, asks(2, constraints=[{"matchAttribute": "gpu.example.com/board"}]))
        publish(w, "node-0", "a", "a")
        publish(w, "node-1", "a", "b")
        await w.admit(claiming(2))
        [ready] = await w.ready()
        await w.decide(ready.gang)
        await make_claims(w, 2)
        await w.until(lambda: devices(w, "train-w-0"))
        begun = w.clock.monotonic()
        [result] = await w.results()
        assert w.clock.monotonic() - begun == pytest.approx(20, abs=2), "as long as devices may come back"
        assert result.outcome is DecisionOutcome.ROLLED_BACK
        assert "no free devices that go together" in result.failures[0].message
        assert (devices(w, "train-w-0"), devices(w, "train-w-1")) == ([], [])
        await asyncio.sleep(1)
        assert await avoided(w) == ["node-1"]
        await asyncio.sleep(130)
        assert await avoided(w) == [], "devices come and go"


async def test_devices_that_are_about_to_be_given_back_are_waited_for(world):
    async with world() as w:
        prepare(w, asks(1))
        publish(w, "node-0", "a")
        before = {
            "metadata": {"name": "before", "namespace": "default"},
            "spec": asks(1),
            "status": {
                "allocation": {
                    "devices": {
                        "results": [
                            {"request": "r", "driver": "gpu.example.com", "pool": "node-0", "device": "g0"}
                        ]
                    }
                },
                "reservedFor": [{"resource": "pods", "name": "gone", "uid": "gone"}],
            },
        }
        w.cluster.put(r.RESOURCECLAIMS, before)
        await w.admit(claiming(1))
        [ready] = await w.ready()
        await w.decide(ready.gang)
        await make_claims(w, 1)
        await asyncio.sleep(5)
        assert devices(w, "train-w-0") == []
        w.cluster.change(
            r.RESOURCECLAIMS,
            "default",
            "before",
            {"status": {"allocation": None, "reservedFor": None}},
            subresource="status",
        )
        [result] = await w.results()
        assert result.outcome is DecisionOutcome.APPLIED
        assert devices(w, "train-w-0") == [("node-0", "g0")]
