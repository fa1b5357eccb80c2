"""Gangs with claims on a real control plane: Kubernetes binds, the test plays the provisioner, we place."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from shared.api import resources as r
from shared.kube.port import JSON, Cluster
from tests.e2e.test_kube_dependents import phase, plane, platform_on  # noqa: F401 - a fixture
from tests.fixtures.kube import until
from tests.fixtures.volumes import ZONE, provisioning, zonal
from tools.kube import ControlPlane


def job_of(name: str, claim: str, count: int = 2) -> JSON:
    container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
    template = {"spec": {"containers": [container], "volumes": volumes, "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "minAvailable": count,
            "queue": "default",
            "schedulerName": "volcano",
            "tasks": [{"name": "worker", "replicas": count, "template": template}],
        },
    }


def claim_of(name: str, **spec: object) -> JSON:
    resources = {"requests": {"storage": "1Gi"}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources, **spec},
    }


async def zones(cluster: Cluster) -> dict[str, str]:
    """Put the nodes in zones, half of them in each; return these by node."""
    names = sorted(node["metadata"]["name"] for node in (await cluster.list(r.NODES)).items)
    found = {name: "ab"[number % 2] for number, name in enumerate(names)}
    for name, zone in found.items():
        await cluster.patch(r.NODES, None, name, {"metadata": {"labels": {ZONE: zone}}})
    return found


async def nodes_of(cluster: Cluster, job: str, count: int = 2) -> list[str]:
    pods = [await cluster.get(r.PODS, "default", f"{job}-worker-{number}") for number in range(count)]
    return [pod["spec"]["nodeName"] for pod in pods]


@pytest.mark.parametrize("zone", ["a", "b"])
async def test_a_gang_starts_in_the_zone_of_its_volume(
    plane: ControlPlane,  # noqa: F811 - a fixture
    tmp_path: Path,
    zone: str,
) -> None:
    async with platform_on(plane, tmp_path) as platform:
        cluster, name = platform.cluster, f"data-{uuid4().hex[:6]}"
        of = await zones(cluster)
        await cluster.create(r.PVS, None, zonal(name, zone, storageClassName=""))
        await cluster.create(r.PVCS, "default", claim_of(name, storageClassName="", volumeName=name))
        await cluster.create(r.JOBS, "default", job_of(name, name))
        await until(cluster, r.JOBS, "default", name, phase("Running"))
        assert {of[node] for node in await nodes_of(cluster, name)} == {zone}
        await cluster.delete(r.JOBS, "default", name)


async def test_a_claim_that_waits_for_its_first_pod_is_provisioned_where_the_gang_is(
    plane: ControlPlane,  # noqa: F811 - a fixture
    tmp_path: Path,
) -> None:
    async with platform_on(plane, tmp_path) as platform:
        cluster, name = platform.cluster, f"late-{uuid4().hex[:6]}"
        of = await zones(cluster)
        late = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": "storage.example.org",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}],
        }
        await cluster.create(r.STORAGECLASSES, None, late)
        await cluster.create(r.PVCS, "default", claim_of(name, storageClassName=name))
        await cluster.create(r.JOBS, "default", job_of(name, name))
        async with provisioning(cluster) as selected:
            await until(cluster, r.JOBS, "default", name, phase("Running"))
        placed = await nodes_of(cluster, name)
        assert {of[node] for node in placed} == {"b"}
        assert selected[name] in placed
        claim = await cluster.get(r.PVCS, "default", name)
        assert claim["status"]["phase"] == "Bound"
        await cluster.delete(r.JOBS, "default", name)


async def test_a_local_disk_is_bound_to_the_claim_whose_pod_goes_to_its_node(
    plane: ControlPlane,  # noqa: F811 - a fixture
    tmp_path: Path,
) -> None:
    async with platform_on(plane, tmp_path) as platform:
        cluster, name = platform.cluster, f"disk-{uuid4().hex[:6]}"
        node = sorted(await zones(cluster))[1]
        host = (await cluster.get(r.NODES, None, node))["metadata"]["labels"]["kubernetes.io/hostname"]
        disks = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        await cluster.create(r.STORAGECLASSES, None, disks)
        only = {"key": "kubernetes.io/hostname", "operator": "In", "values": [host]}
        terms = {"required": {"nodeSelectorTerms": [{"matchExpressions": [only]}]}}
        disk = zonal(name, None, storageClassName=name, nodeAffinity=terms, local={"path": "/disk"})
        del disk["spec"]["csi"]
        await cluster.create(r.PVS, None, disk)
        await cluster.create(r.PVCS, "default", claim_of(name, storageClassName=name))
        await cluster.create(r.JOBS, "default", job_of(name, name))
        await until(cluster, r.JOBS, "default", name, phase("Running"))
        assert await nodes_of(cluster, name) == [node, node]
        claim = await cluster.get(r.PVCS, "default", name)
        assert claim["spec"]["volumeName"] == name
        await cluster.delete(r.JOBS, "default", name)
