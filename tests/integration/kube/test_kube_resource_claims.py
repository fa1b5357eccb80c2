"""Claims on devices (dynamic resource allocation) on a real API server, with Kubernetes' controller of claims."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from shared.api import resources as r
from shared.kube.client import HttpCluster
from shared.kube.port import JSON
from tests.fixtures.kube import take_away, until, until_gone
from tests.fixtures.kube_platform import kube_platform
from tests.integration.kube.test_kube_plain_pods import running


class Devices:
    """A driver of a test's own, its class, and what it publishes."""

    def __init__(self, kube: HttpCluster, namespace: str) -> None:
        self._kube = kube
        self.namespace = namespace
        self.driver = f"{namespace}.example.com"
        self._slices: list[str] = []

    async def appear(self) -> None:
        expression = f"device.driver == '{self.driver}'"
        spec = {"selectors": [{"cel": {"expression": expression}}]}
        await self._kube.create(r.DEVICECLASSES, None, self._object(r.DEVICECLASSES.kind, self.driver, spec))

    async def publish(self, node: str, *boards: str) -> None:
        """Publish a device for each board that is named."""
        devices = [
            {"name": f"gpu-{number}", "attributes": {"board": {"string": board}}}
            for number, board in enumerate(boards)
        ]
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": self.driver, "nodeName": node, "pool": pool, "devices": devices}
        await self._kube.create(r.RESOURCESLICES, None, self._object(r.RESOURCESLICES.kind, node, spec))
        self._slices.append(node)

    async def template(self, name: str, count: int, **more: Any) -> None:
        spec = {"spec": self.asks(count, **more)}
        body = self._object(r.RESOURCECLAIMTEMPLATES.kind, name, spec)
        await self._kube.create(r.RESOURCECLAIMTEMPLATES, self.namespace, body)

    async def claim(self, name: str, count: int, **more: Any) -> None:
        body = self._object(r.RESOURCECLAIMS.kind, name, self.asks(count, **more))
        await self._kube.create(r.RESOURCECLAIMS, self.namespace, body)

    def asks(self, count: int, **more: Any) -> JSON:
        exactly = {"deviceClassName": self.driver, "count": count}
        return {"devices": {"requests": [{"name": "gpus", "exactly": exactly}], **more}}

    async def claims(self) -> list[JSON]:
        return (await self._kube.list(r.RESOURCECLAIMS, self.namespace)).items

    async def vanish(self) -> None:
        for name in self._slices:
            await take_away(self._kube, r.RESOURCESLICES, None, name)
        await take_away(self._kube, r.DEVICECLASSES, None, self.driver)

    @staticmethod
    def _object(kind: str, name: str, spec: JSON) -> JSON:
        api = r.DEVICECLASSES.api_version
        return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec}


@pytest.fixture
async def devices(kube: HttpCluster, namespace: str) -> AsyncIterator[Devices]:
    found = Devices(kube, namespace)
    await found.appear()
    yield found
    await found.vanish()


def pod_spec(**source: str) -> JSON:
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["sleep", "1000"],
        "resources": {"requests": {"cpu": "1"}, "claims": [{"name": "gpus"}]},
    }
    return {"containers": [container], "resourceClaims": [{"name": "gpus", **source}]}


def job(name: str, replicas: int, **source: str) -> JSON:
    task = {"name": "worker", "replicas": replicas, "template": {"spec": pod_spec(**source)}}
    return {
        "apiVersion": r.JOBS.api_version,
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"schedulerName": "volcano", "minAvailable": replicas, "tasks": [task]},
    }


def pod(name: str, **source: str) -> JSON:
    spec = {"schedulerName": "volcano", **pod_spec(**source)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def devices_of(claim: JSON) -> list[tuple[str, str]]:
    """Return a claim's devices: the node's pool and the name of each."""
    results = claim["status"]["allocation"]["devices"]["results"]
    return [(one["pool"], one["device"]) for one in results]


async def waits(kube: HttpCluster, namespace: str, name: str, *words: str) -> None:
    """Wait until a job's PodGroup says why its gang waits, in these words."""
    uid = (await kube.get(r.JOBS, namespace, name))["metadata"]["uid"]

    def says_so(group: JSON) -> bool:
        told = [one.get("message", "") for one in (group.get("status") or {}).get("conditions") or ()]
        return any(all(word in text for word in words) for text in told)

    await until(kube, r.PODGROUPS, namespace, f"{name}-{uid}", says_so)


async def test_each_pod_of_a_gang_gets_devices_of_its_own_and_the_next_gang_waits_for_them(
    kube, namespace, devices
):
    nodes = [f"{namespace}-{number}" for number in range(2)]
    async with kube_platform(kube, f"{namespace}=2x0,cpu=9"):
        await devices.template("two", 2)
        await devices.publish(nodes[0], "a", "a", "b", "b")
        await kube.create(r.JOBS, namespace, job("first", 3, resourceClaimTemplateName="two"))
        await waits(kube, namespace, "first", f"deviceclass/{devices.driver}")
        assert (await kube.list(r.PODS, namespace)).items == [], "none of a gang is made before all fit"
        await devices.publish(nodes[1], "a", "a")
        pods = {one["metadata"]["uid"]: one for one in await running(kube, namespace, 3)}
        claims = await devices.claims()
        held = [device for claim in claims for device in devices_of(claim)]
        assert sorted(held) == sorted(
            (node, f"gpu-{n}") for node, many in zip(nodes, (4, 2), strict=True) for n in range(many)
        )
        for claim in claims:
            [user] = claim["status"]["reservedFor"]
            assert {node for node, _ in devices_of(claim)} == {pods[user["uid"]]["spec"]["nodeName"]}
            assert "resource.kubernetes.io/delete-protection" in claim["metadata"]["finalizers"]
        await kube.create(r.JOBS, namespace, job("second", 2, resourceClaimTemplateName="two"))
        await waits(kube, namespace, "second", f"deviceclass/{devices.driver}")
        await kube.delete(r.JOBS, namespace, "first")
        for name in ("second-worker-0", "second-worker-1"):
            await until(kube, r.PODS, namespace, name, lambda one: one["status"]["phase"] == "Running", 60)
        await kube.delete(r.JOBS, namespace, "second")
        for claim in await devices.claims():
            await until_gone(kube, r.RESOURCECLAIMS, namespace, claim["metadata"]["name"])


async def test_pods_that_share_a_claim_run_where_its_devices_are(kube, namespace, devices):
    nodes = [f"{namespace}-{number}" for number in range(3)]
    async with kube_platform(kube, f"{namespace}=3x0,cpu=9"):
        for node in nodes:
            await devices.publish(node, "a")
        await devices.claim("shared", 1)
        await kube.create(r.PODS, namespace, pod("one", resourceClaimName="shared"))
        [first] = await running(kube, namespace, 1)
        for name in ("two", "three"):
            await kube.create(r.PODS, namespace, pod(name, resourceClaimName="shared"))
        pods = await running(kube, namespace, 3)
        assert {one["spec"]["nodeName"] for one in pods} == {first["spec"]["nodeName"]}
        [claim] = await devices.claims()
        assert {one["name"] for one in claim["status"]["reservedFor"]} == {"one", "two", "three"}
        # It counts once: the devices of the two other nodes are free.
        await devices.template("own", 1)
        await kube.create(r.JOBS, namespace, job("rest", 2, resourceClaimTemplateName="own"))
        rest = [one for one in await running(kube, namespace, 5) if "rest" in one["metadata"]["name"]]
        assert {one["spec"]["nodeName"] for one in rest} == set(nodes) - {first["spec"]["nodeName"]}
        await kube.delete(r.JOBS, namespace, "rest")


async def test_devices_of_a_claim_are_alike_where_it_asks_for_that(kube, namespace, devices):
    async with kube_platform(kube, f"{namespace}=1x0,cpu=9"):
        await devices.publish(f"{namespace}-0", "a", "b", "a", "b", "b")
        alike = [{"matchAttribute": f"{devices.driver}/board"}]
        await devices.claim("three", 3, constraints=alike)
        await devices.claim("two", 2, constraints=alike)
        for name in ("three", "two"):
            await kube.create(r.PODS, namespace, pod(name, resourceClaimName=name))
        await running(kube, namespace, 2)
        found = {
            one["metadata"]["name"]: sorted(name for _, name in devices_of(one))
            for one in await devices.claims()
        }
        assert found == {"three": ["gpu-1", "gpu-3", "gpu-4"], "two": ["gpu-0", "gpu-2"]}


async def test_a_claim_that_is_not_supported_holds_its_pods_and_says_why(kube, namespace, devices):
    async with kube_platform(kube, f"{namespace}=1x0,cpu=9"):
        await devices.publish(f"{namespace}-0", "a", "b")
        every = {"deviceClassName": devices.driver, "allocationMode": "All"}
        spec = {"spec": {"devices": {"requests": [{"name": "gpus", "exactly": every}]}}}
        body = {"apiVersion": r.DEVICECLASSES.api_version, "kind": r.RESOURCECLAIMTEMPLATES.kind}
        await kube.create(
            r.RESOURCECLAIMTEMPLATES, namespace, {**body, "metadata": {"name": "all"}, "spec": spec}
        )
        await kube.create(r.JOBS, namespace, job("whole", 1, resourceClaimTemplateName="all"))
        await waits(kube, namespace, "whole", "template", "allocationMode All is not supported")
        await kube.delete(r.JOBS, namespace, "whole")
