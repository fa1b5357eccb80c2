"""Gangs that take parts of GPUs on a real API server: what is written on pods is what device plugins read."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import pytest

from shared.api import resources as r
from shared.kube.client import HttpCluster
from shared.kube.port import JSON
from tests.fixtures.kube_platform import kube_platform
from tests.integration.kube.test_kube_admitted_pods import job
from tests.integration.kube.test_kube_plain_pods import running

VGPUS = "volcano.sh/vgpu-number=20,volcano.sh/vgpu-memory=32768,volcano.sh/vgpu-cores=200"


class Given(NamedTuple):
    """What the device plugin gives a container of a GPU."""

    uuid: str
    memory: int
    cores: int


def allocated(pod: JSON, node: str, container: int, amount: int) -> list[Given]:
    """Return what the plugin's Allocate hands out when kubelet asks for ``amount`` devices of a container.

    It takes the oldest pod with the node's name and as many devices left in all, and of these the first
    container's that has any of the kind NVIDIA.
    """
    told = pod["metadata"]["annotations"]
    assert told["volcano.sh/vgpu-node"] == node
    assert 0 < int(told["volcano.sh/vgpu-time"]) < 1 << 64
    assert told["volcano.sh/bind-phase"] == "allocating"
    devices = [
        [entry.split(",") for entry in one.split(":") if "," in entry]
        for one in told["volcano.sh/devices-to-allocate"].split(";")
    ]
    assert sum(map(len, devices)) == amount
    first = next(number for number, some in enumerate(devices) if some)
    assert first == container
    assert {kind for _, kind, _, _ in devices[first]} == {"NVIDIA"}
    return [Given(uuid, int(memory), int(cores)) for uuid, _, memory, cores in devices[first]]


async def registers(kube: HttpCluster, node: str, *uuids: str) -> None:
    """Do what the device plugin does when it comes up."""
    text = "".join(f"{uuid},10,16384,NVIDIA-T4,true,hami-core:" for uuid in uuids)
    await kube.patch(
        r.NODES, None, node, {"metadata": {"annotations": {"volcano.sh/node-vgpu-register": text}}}
    )


def asks(number: int, memory: int, cores: int = 0) -> JSON:
    amounts = {"vgpu-number": number, "vgpu-memory": memory, "vgpu-cores": cores}
    return {f"volcano.sh/{name}": str(amount) for name, amount in amounts.items() if amount}


def pod(name: str, limits: JSON, annotations: JSON | None = None, **spec: Any) -> JSON:
    container = {"name": "main", "image": "busybox", "command": ["sleep", "1000"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"containers": [container | {"resources": {"limits": limits}}], **spec},
    }


@pytest.mark.parametrize("born_bound", [True, False])
async def test_a_gang_gets_parts_of_gpus_beside_what_others_have_and_they_are_written_on_it(
    kube, namespace, born_bound
):
    node = f"{namespace}-0"
    async with kube_platform(kube, f"{namespace}=1x0,cpu=9,{VGPUS}", born_bound=born_bound):
        await registers(kube, node, "GPU-0", "GPU-1")
        ids = "GPU-1,NVIDIA,12288,50:"
        earlier = pod("earlier", asks(1, 12288, 50), {"volcano.sh/vgpu-ids-new": ids}, nodeName=node)
        await kube.create(r.PODS, namespace, earlier)
        await running(kube, namespace, 1)
        await kube.create(r.JOBS, namespace, job("train", 4, limits=asks(1, 4096, 20)))
        pods = await running(kube, namespace, 5)
        given = [allocated(one, node, 0, 1) for one in pods if one["metadata"]["name"].startswith("train")]
        assert {(one.memory, one.cores) for some in given for one in some} == {(4096, 20)}
        # Of GPU-1 there is room for one more: 12 of its 16 GiB are held by a pod that Volcano bound.
        assert Counter(one.uuid for some in given for one in some) in (
            {"GPU-0": 4},
            {"GPU-0": 3, "GPU-1": 1},
        )
        await kube.delete(r.JOBS, namespace, "train")


async def test_a_plain_pod_is_told_by_its_binding_which_gpus_each_of_its_containers_has(kube, namespace):
    node = f"{namespace}-0"
    async with kube_platform(kube, f"{namespace}=1x0,cpu=9,{VGPUS}"):
        await registers(kube, node, "GPU-0", "GPU-1")
        body = pod("pair", asks(2, 8192), schedulerName="volcano")
        main = body["spec"]["containers"]
        body["spec"]["containers"] = [
            {"name": "aside", "image": "busybox", "command": ["sleep", "1000"]},
            *main,
        ]
        await kube.create(r.PODS, namespace, body)
        [one] = await running(kube, namespace, 1)
        given = allocated(one, node, 1, 2)
        assert sorted(given) == [("GPU-0", 8192, 0), ("GPU-1", 8192, 0)]
        assert (
            one["metadata"]["annotations"]["volcano.sh/vgpu-ids-new"]
            == (one["metadata"]["annotations"]["volcano.sh/devices-to-allocate"])
        )


async def test_gpus_that_are_only_counted_are_told_by_their_numbers(kube, namespace):
    nodes = f"{namespace}=1x0,cpu=9,volcano.sh/gpu-number=2,volcano.sh/gpu-memory=32000"
    async with kube_platform(kube, nodes):
        await kube.create(
            r.JOBS, namespace, job("train", 3, limits={"volcano.sh/gpu-memory": "8000", "cpu": "1"})
        )
        told = [one["metadata"]["annotations"] for one in await running(kube, namespace, 3)]
        assert Counter(one["volcano.sh/gpu-index"] for one in told) == {"0": 2, "1": 1}
        assert all(int(one["volcano.sh/predicate-time"]) > 0 for one in told)
        await kube.delete(r.JOBS, namespace, "train")
