"""Pods with claims: they wait for them, are told their volumes' whereabouts, and are bound after them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from services.scheduler.app import build as build_scheduler
from services.scheduler.settings import SchedulerSettings
from shared.api import resources as r
from shared.telemetry.telemetry import Telemetry
from tests.unit.controller.conftest import job
from tests.unit.controller.test_controller_plain_pods import plain_pod

pytestmark = pytest.mark.looptime

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
SELECTED = "volume.kubernetes.io/selected-node"


class VolumeWorld:
    """A controller and a scheduler, and whoever makes volumes played by the test."""

    def __init__(self, one) -> None:
        self.one = one
        self.cluster = one.cluster
        self.cluster.provisions = False

    def node(self, name, **labels) -> None:
        status = {
            "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"nvidia.com/gpu": "8", "cpu": "64", "pods": "110"},
        }
        meta = {"name": name, "labels": {HOST: name, **labels}}
        self.cluster.put(r.NODES, {"metadata": meta, "spec": {}, "status": status})

    def storage_class(self, name="late", mode="WaitForFirstConsumer", **more) -> None:
        body = {"provisioner": "csi.example.org", "volumeBindingMode": mode} | more
        self.cluster.put(r.STORAGECLASSES, {"metadata": {"name": name}} | body)

    def claim(self, name="data", of="late", size="1Gi", **more) -> None:
        spec = {
            "storageClassName": of,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
        }
        self.cluster.put(r.PVCS, {"metadata": {"name": name}, "spec": spec | more})

    def disk(self, name, node, size="1Gi", of="local") -> None:
        only = {"key": HOST, "operator": "In", "values": [node]}
        required = {"nodeSelectorTerms": [{"matchExpressions": [only]}]}
        spec = {
            "storageClassName": of,
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": size},
            "nodeAffinity": {"required": required},
        }
        self.cluster.put(r.PVS, {"metadata": {"name": name}, "spec": spec, "status": {"phase": "Available"}})

    def selected(self, name="data") -> str | None:
        return (self.cluster.one(r.PVCS, name)["metadata"].get("annotations") or {}).get(SELECTED)

    def kept_for(self, disk) -> str | None:
        return (self.cluster.one(r.PVS, disk)["spec"].get("claimRef") or {}).get("name")

    def settle(self, name, volume, of="default") -> None:
        """Bind a claim to a volume that is kept for it."""
        bound = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
        body = {"metadata": bound, "spec": {"volumeName": volume}, "status": {"phase": "Bound"}}
        self.cluster.change(r.PVCS, of, name, body)
        self.cluster.change(r.PVS, None, volume, {"status": {"phase": "Bound"}})

    def nodes(self) -> dict[str, str | None]:
        return {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in self.cluster.all(r.PODS)}

    def message(self, group=None) -> str:
        groups = [one for one in self.cluster.all(r.PODGROUPS) if group in (None, one["metadata"]["name"])]
        said = [c.get("message", "") for g in groups for c in (g.get("status") or {}).get("conditions") or ()]
        return " | ".join(said)

    async def until(self, condition, seconds=20.0):
        return await self.one.until(condition, seconds)


@pytest.fixture
def volumes(world):
    @asynccontextmanager
    async def make(**settings):
        async with world(started=False, **settings) as one:
            for name in [node["metadata"]["name"] for node in one.cluster.all(r.NODES)]:
                one.cluster.remove(r.NODES, None, name)
            scheduler = build_scheduler(
                SchedulerSettings(),
                clock=one.clock,
                log=one.log,
                ids=iter(map(str, range(10**6))).__next__,
                telemetry=Telemetry("scheduler"),
            )
            await one.start()
            task = asyncio.create_task(scheduler.run())
            try:
                yield VolumeWorld(one)
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    return make


def with_claim(*names, count=2, minimum=None, **more) -> dict:
    """A job of pods that all mount these claims."""
    volumes = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": one}} for i, one in enumerate(names)]
    container = {"name": "c", "image": "i", "resources": {"requests": {"nvidia.com/gpu": 1}}}
    template = {"spec": {"containers": [container], "volumes": volumes, "restartPolicy": "Never"}}
    task = {"name": "worker", "replicas": count, "template": template}
    return job(tasks=[task], minAvailable=minimum or count, **more)


async def test_a_bound_claims_volume_steers_a_gang(volumes):
    async with volumes() as w:
        w.node("a", **{ZONE: "a"})
        w.node("b", **{ZONE: "b"})
        w.claim()
        required = {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["b"]}]}]
        }
        w.cluster.bind_claim("data", nodeAffinity={"required": required})
        await w.one.admit(with_claim("data"))
        await w.until(lambda: set(w.nodes().values()) == {"b"} and len(w.nodes()) == 2)


async def test_a_gang_waits_for_a_claim_by_name_and_starts_when_it_is_bound(volumes):
    async with volumes() as w:
        w.node("a")
        w.storage_class("now", mode="Immediate")
        await w.one.admit(with_claim("data"))
        await w.until(lambda: "claim default/data is not there" in w.message())
        w.claim(of="now")
        await w.until(lambda: "claim default/data is not bound to a volume yet" in w.message(), 30)
        assert w.nodes() == {}
        w.cluster.bind_claim("data")
        await w.until(lambda: set(w.nodes().values()) == {"a"})


async def test_no_pod_is_made_before_its_claim_has_its_volume_on_the_chosen_node(volumes):
    async with volumes() as w:
        w.node("a")
        w.storage_class()
        w.claim()
        await w.one.admit(with_claim("data"))
        await w.until(lambda: w.selected() == "a")
        await w.one.clock.sleep(5)
        assert w.nodes() == {}
        w.cluster.bind_claim("data")
        await w.until(lambda: list(w.nodes().values()) == ["a", "a"])


async def test_where_provisioning_fails_the_whole_gang_is_tried_elsewhere(volumes):
    async with volumes() as w:
        w.node("a")
        w.node("b")
        w.storage_class()
        w.claim()
        await w.one.admit(with_claim("data"))
        first = await w.until(w.selected)
        w.cluster.change(r.PVCS, "default", "data", {"metadata": {"annotations": {SELECTED: None}}})
        second = await w.until(w.selected)
        assert {first, second} == {"a", "b"}
        assert w.nodes() == {}
        w.cluster.bind_claim("data")
        await w.until(lambda: list(w.nodes().values()) == [second, second])


async def test_a_node_is_tried_again_some_time_after_provisioning_failed_for_it(volumes):
    async with volumes() as w:
        w.node("a")
        w.storage_class()
        w.claim()
        await w.one.admit(with_claim("data"))
        await w.until(w.selected)
        w.cluster.change(r.PVCS, "default", "data", {"metadata": {"annotations": {SELECTED: None}}})
        await w.until(lambda: "1 does not reach its volumes" in w.message(), 60)
        await w.one.clock.sleep(120)
        await w.until(w.selected)


async def test_a_volume_that_takes_too_long_has_the_gang_decided_anew(volumes):
    async with volumes(volume_binding_seconds=30) as w:
        w.node("a")
        w.storage_class()
        w.claim()
        await w.one.admit(with_claim("data"))
        await w.until(lambda: "got no volume for node a within 30 s" in str(w.one.cluster.all(r.EVENTS)), 60)
        assert w.nodes() == {}
        w.cluster.bind_claim("data")
        await w.until(lambda: list(w.nodes().values()) == ["a", "a"], 60)


async def test_a_volume_that_comes_out_of_reach_of_some_pods_takes_the_gang_to_where_it_is(volumes):
    async with volumes() as w:
        w.node("a", **{ZONE: "a"})
        w.node("b", **{ZONE: "b"})
        w.storage_class()
        w.claim()
        await w.one.admit(with_claim("data", count=10))
        await w.until(w.selected)
        w.node("b2", **{ZONE: "b"})
        terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["b"]}]}]
        w.cluster.bind_claim("data", nodeAffinity={"required": {"nodeSelectorTerms": terms}})
        await w.until(lambda: len(w.nodes()) == 10 and set(w.nodes().values()) == {"b", "b2"}, 60)


async def test_a_job_that_is_deleted_is_not_waited_for(volumes):
    async with volumes() as w:
        w.node("a")
        w.storage_class()
        w.claim()
        await w.one.admit(with_claim("data"))
        await w.until(w.selected)
        w.cluster.remove(r.JOBS, "default", "train")
        await w.until(lambda: not w.one.service.consuming._tasks, 5)


async def test_claims_of_local_volumes_get_the_smallest_that_suit_one_from_each_node(volumes):
    async with volumes() as w:
        for name in ("a", "b", "c"):
            w.node(name)
        w.storage_class("local", provisioner="kubernetes.io/no-provisioner")
        w.disk("a-large", "a", "9Gi")
        w.disk("a-right", "a", "2Gi")
        w.disk("b-small", "b", "1Gi")
        w.disk("c-right", "c", "2Gi")
        for name in ("one", "two", "three"):
            w.claim(name, of="local", size="2Gi")
        for index, name in enumerate(("one", "two", "three")):
            mounts = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
            w.cluster.put(r.PODS, plain_pod(f"db-{index}", volumes=mounts))
        disks = ("a-large", "a-right", "c-right")
        await w.until(lambda: all(w.kept_for(disk) for disk in disks))
        for disk in disks:
            w.settle(w.kept_for(disk), disk)
        await w.until(lambda: sorted(filter(None, w.nodes().values())) == ["a", "a", "c"])
        assert w.kept_for("b-small") is None


async def test_a_claim_that_no_local_volume_suits_waits_until_one_does(volumes):
    async with volumes() as w:
        w.node("a")
        w.storage_class("local", provisioner="kubernetes.io/no-provisioner")
        w.disk("small", "a", "1Gi")
        w.claim(of="local", size="2Gi")
        await w.one.admit(with_claim("data", count=1))
        await w.until(lambda: "no volume of class local is free that suits it" in w.message())
        w.disk("large", "a", "3Gi")
        await w.until(lambda: w.kept_for("large") == "data")
        w.settle("data", "large")
        await w.until(lambda: w.nodes() == {"train-worker-0": "a"})
        assert w.kept_for("small") is None


async def test_a_class_allows_only_some_topologies(volumes):
    async with volumes() as w:
        w.node("a", **{ZONE: "a"})
        w.node("b", **{ZONE: "b"})
        allowed = [{"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}]
        w.storage_class(allowedTopologies=allowed)
        w.claim()
        await w.one.admit(with_claim("data"))
        await w.until(lambda: w.selected() == "b")


async def test_a_driver_limits_the_volumes_of_a_node(volumes):
    async with volumes() as w:
        w.node("a")
        w.node("b")
        for name in "ab":
            drivers = [{"name": "csi.example.org", "nodeID": name, "allocatable": {"count": 1}}]
            w.cluster.put(r.CSINODES, {"metadata": {"name": name}, "spec": {"drivers": drivers}})
        for name in ("one", "two", "three"):
            w.claim(name)
            w.cluster.bind_claim(name, csi={"driver": "csi.example.org", "volumeHandle": name})
            mounts = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
            w.cluster.put(r.PODS, plain_pod(f"p-{name}", volumes=mounts))
        await w.until(lambda: sorted(filter(None, w.nodes().values())) == ["a", "b"])
        await w.until(lambda: "0 of 2 nodes have place for its volumes" in w.message())


async def test_pods_with_claims_of_their_own_are_made_first_and_bound_when_these_have_volumes(volumes):
    async with volumes() as w:
        w.node("a")
        w.storage_class()
        spec = {
            "storageClassName": "late",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
        own = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]
        body = with_claim()
        body["spec"]["tasks"][0]["template"]["spec"]["volumes"] = own
        await w.one.admit(body)
        await w.until(lambda: list(w.nodes().values()) == [None, None])
        for pod in w.nodes():
            w.cluster.put(r.PVCS, {"metadata": {"name": f"{pod}-scratch"}, "spec": spec})
        names = [f"{pod}-scratch" for pod in w.nodes()]
        await w.until(lambda: all(w.selected(name) == "a" for name in names))
        for name in names:
            w.cluster.bind_claim(name)
        await w.until(lambda: list(w.nodes().values()) == ["a", "a"])


async def test_a_claim_for_one_pod_alone_is_for_one_pod_at_a_time(volumes):
    async with volumes() as w:
        w.node("a")
        w.claim(accessModes=["ReadWriteOncePod"])
        w.cluster.bind_claim("data")
        mounts = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
        for name in ("one", "two"):
            w.cluster.put(r.PODS, plain_pod(name, volumes=mounts))
        await w.until(lambda: sorted(map(str, w.nodes().values())) == ["None", "a"])
        await w.until(lambda: "claim default/data is ReadWriteOncePod" in w.message())
        [first] = [name for name, node in w.nodes().items() if node]
        w.cluster.run_pods()
        w.cluster.end_pods(first)
        [second] = {"one", "two"} - {first}
        await w.until(lambda: w.nodes()[second] == "a")
