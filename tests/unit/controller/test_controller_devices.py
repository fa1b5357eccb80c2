"""GPUs of nodes and parts of them: what device plugins and pods say, read and written."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from services.controller.core.devices import (
    device_annotations,
    device_requests,
    held_parts,
    node_devices,
    read_devices,
)
from services.controller.core.facts import node_state, pod_state
from services.controller.core.model import Priorities
from services.controller.core.shapes import shape_of
from shared.api.pods import PodSpec
from shared.events.contracts import Device, DevicePart, DeviceRequest, Shape

NOW = datetime(2026, 1, 1, tzinfo=UTC)
REGISTERED = (
    "GPU-a,10,16384,NVIDIA-Tesla V100,true,hami-core:"
    "GPU-b,10,16384,NVIDIA-Tesla V100,false,hami-core:"
    "GPU-c,10,40960,NVIDIA-A100,true,hami-core:"
)


def node(registered: str | None = REGISTERED, unhealthy: str = "", **capacity: str) -> dict:
    annotations = {} if registered is None else {"volcano.sh/node-vgpu-register": registered}
    if unhealthy:
        annotations["volcano.sh/gpu-unhealthy-ids"] = unhealthy
    named = {f"volcano.sh/{name.replace('_', '-')}": amount for name, amount in capacity.items()}
    return {"metadata": {"name": "n", "annotations": annotations}, "status": {"capacity": named}}


def vgpus(annotations: dict | None = None, *containers: dict) -> tuple[DeviceRequest, ...]:
    return device_requests(spec(*containers), annotations or {})


def spec(*containers: dict) -> PodSpec:
    limits = [{f"volcano.sh/{name}": amount for name, amount in one.items()} for one in containers]
    return PodSpec.model_validate({"containers": [{"name": "c", "resources": {"limits": o}} for o in limits]})


def shape(annotations: dict | None = None, *containers: dict) -> Shape:
    return shape_of(spec(*containers), annotations or {}, Priorities())


# ------------------------------------------------------------------------------------ nodes


def test_a_node_tells_of_its_virtual_gpus_in_the_order_of_their_numbers() -> None:
    first, broken, third = node_state(node()).devices
    assert (first.id, first.model, first.memory, first.shares) == ("GPU-a", "NVIDIA-Tesla V100", 16384, 10)
    assert [one.cores for one in (first, broken, third)] == [1000, 0, 1000]
    assert third.mode == "hami-core"


def test_gpus_that_are_only_counted_are_alike_and_the_unhealthy_are_named() -> None:
    devices = node_devices(node(None, "1,x", gpu_number="4", gpu_memory="32000"))
    assert [(one.memory, one.cores) for one in devices] == [
        (8000, 1000),
        (8000, 0),
        (8000, 1000),
        (8000, 1000),
    ]


@pytest.mark.parametrize(
    "registered",
    [
        pytest.param("GPU-a,10,16384,NVIDIA,true,mig:", id="whose slices are MIG's"),
        pytest.param("GPU-a,0,16384,NVIDIA,true,hami-core:", id="that nobody may share"),
    ],
)
def test_nobody_gets_parts_of_a_gpu(registered: str) -> None:
    assert [one.cores for one in node_devices(node(registered))] == [0]


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (node("GPU-a,ten,16384,NVIDIA,true,hami-core:"), "GPU-a,ten"),
        (node("GPU-a,10,NVIDIA:"), "GPU-a,10,NVIDIA"),
        (node(None, gpu_number="1000000"), "1000000 GPUs"),
        (node(None, gpu_number="-1"), "less than nothing"),
    ],
)
def test_what_a_device_plugin_says_that_cannot_be_read_is_named_and_the_node_stays(
    raw: dict, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        read_devices(raw)
    assert node_state(raw).name == "n"
    assert node_state(raw).devices == ()


# ------------------------------------------------------------------------------- what pods ask for


@pytest.mark.parametrize(
    ("limits", "request_"),
    [
        ({"vgpu-number": 1}, {"memory_percent": 100}),
        ({"vgpu-memory": 4096}, {"memory": 4096}),
        (
            {"vgpu-number": 2, "vgpu-memory": 4096, "vgpu-cores": 30},
            {"count": 2, "cores": 300, "memory": 4096},
        ),
        ({"vgpu-number": 1, "vgpu-memory-percentage": 50}, {"memory_percent": 50}),
        ({"vgpu-number": 1, "vgpu-memory": 9, "vgpu-memory-percentage": 50}, {"memory_percent": 50}),
        ({"vgpu-number": 1, "vgpu-cores": 100}, {"cores": 1000, "memory_percent": 100}),
        ({"gpu-memory": 1024}, {"memory": 1024}),
        ({"gpu-number": 3}, {"count": 3, "cores": 1000}),
    ],
)
def test_what_a_container_asks_for_as_volcano_reads_it(limits: dict, request_: dict) -> None:
    assert vgpus(None, limits) == (DeviceRequest(**request_),)


@pytest.mark.parametrize("limits", [{"vgpu-number": 0}, {"nvidia.com/gpu": 1}, {"vgpu-cores": 10}, {}])
def test_a_pod_without_parts_of_gpus_asks_for_no_devices(limits: dict) -> None:
    assert vgpus(None, limits) == ()


def test_each_container_asks_for_itself_and_a_percentage_is_no_resource_of_a_node() -> None:
    pod = shape(None, {}, {"vgpu-number": 1, "vgpu-memory-percentage": 25}, {"vgpu-memory": 8})
    assert pod.devices == DeviceRequest(memory_percent=25, container=1)
    assert pod.more_devices == (DeviceRequest(memory=8, container=2),)
    assert pod.requests == {"volcano.sh/vgpu-memory": 8, "volcano.sh/vgpu-number": 1}


def test_annotations_say_which_gpus_will_do() -> None:
    asked = {
        "nvidia.com/use-gputype": "A100, H100",
        "nvidia.com/nouse-gputype": "V100",
        "volcano.sh/vgpu-use-gpuuuid": "GPU-a",
        "volcano.sh/vgpu-nouse-gpuuuid": "GPU-b,",
        "volcano.sh/vgpu-mode": "hami-core",
    }
    (request,) = vgpus(asked, {"vgpu-memory": 8})
    assert (request.models, request.not_models) == (("A100", "H100"), ()), (
        "use wins over nouse, as in Volcano"
    )
    assert (request.ids, request.not_ids, request.mode) == (("GPU-a",), ("GPU-b",), "hami-core")


@pytest.mark.parametrize("name", ["vgpu-cores", "vgpu-memory-percentage"])
def test_more_than_all_of_a_gpu_cannot_be_had_and_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=rf"containers\[0\]: volcano.sh/{name}: 101 percent"):
        shape(None, {"vgpu-number": 1, name: 101})


# ------------------------------------------------------------------------------------ what pods have


def bound(**annotations: str) -> dict:
    named = {f"volcano.sh/{name.replace('_', '-')}": text for name, text in annotations.items()}
    meta = {"name": "p", "namespace": "x", "uid": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"metadata": {**meta, "annotations": named}, "spec": {"nodeName": "n"}}


def test_a_pod_has_what_is_written_on_it_whoever_bound_it() -> None:
    told = "GPU-c,NVIDIA,4096,30:GPU-a,NVIDIA,4096,30:;GPU-a[0-1],NVIDIA,5,0:;GPU-gone,NVIDIA,1,1:;nonsense"
    pod = shape(None, {"vgpu-number": 2, "vgpu-memory": 1}, {"vgpu-memory": 1})
    state = pod_state(bound(vgpu_ids_new=told), pod, frozenset(), devices=node_devices(node()))
    assert [(one.device, one.cores, one.memory) for one in state.device_parts] == [
        (2, 300, 4096),
        (0, 300, 4096),
        (0, 0, 5),
    ]


def test_gpus_that_are_only_counted_are_held_by_number() -> None:
    devices = node_devices(node(None, gpu_number="2", gpu_memory="200"))
    asked = device_requests(spec({"gpu-memory": 60}), {})
    assert held_parts(bound(gpu_index="1,7,x"), asked, devices) == (DevicePart(device=1, memory=60),)


def test_annotations_of_a_pod_that_asks_for_no_gpu_or_has_no_node_hold_nothing() -> None:
    pod = bound(vgpu_ids_new="GPU-a,NVIDIA,1,1:")
    assert held_parts(pod, (), node_devices(node())) == ()
    pod["spec"] = {}
    assert held_parts(pod, vgpus(None, {"vgpu-memory": 1}), node_devices(node())) == ()


# ------------------------------------------------------------------------------------ what pods are told


def test_what_is_written_is_what_is_read_again() -> None:
    pod = shape(
        None,
        {"vgpu-number": 2, "vgpu-memory-percentage": 25, "vgpu-cores": 30},
        {},
        {"vgpu-memory": 8},
    )
    told = device_annotations(pod, (2, 0, 2), node(), NOW)
    assert told["volcano.sh/vgpu-ids-new"] == "GPU-c,NVIDIA,10240,30:GPU-a,NVIDIA,4096,30:;;GPU-c,NVIDIA,8,0:"
    again = bound() | {"metadata": {**bound()["metadata"], "annotations": told}}
    assert held_parts(again, (pod.devices, *pod.more_devices), node_devices(node())) == (
        DevicePart(device=2, cores=300, memory=10240),
        DevicePart(device=0, cores=300, memory=4096),
        DevicePart(device=2, memory=8),
    )


def test_counted_gpus_are_told_by_number() -> None:
    raw = node(None, gpu_number="4", gpu_memory="32000")
    told = device_annotations(shape(None, {"gpu-number": 2}), (3, 1), raw, NOW)
    assert told == {
        "volcano.sh/gpu-index": "3,1",
        "volcano.sh/predicate-time": f"{int(NOW.timestamp())}000000000",
    }


def test_gpus_that_a_node_has_no_more_cannot_be_told() -> None:
    pod = shape(None, {"vgpu-memory": 1})
    for raw in (node("GPU-a,10,16384,NVIDIA,true,hami-core:"), node(None), None):
        with pytest.raises(ValueError, match="GPU 1 was chosen"):
            device_annotations(pod, (1,), raw, NOW)


def test_devices_have_the_same_numbers_for_the_scheduler_and_for_what_is_written() -> None:
    assert [type(one) for one in node_state(node()).devices] == [Device] * 3
    assert [one.id for one in node_state(node()).devices] == [one.id for one in read_devices(node())]
