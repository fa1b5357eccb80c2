"""GPUs of which pods take parts: what Volcano's device plugins say of nodes, and what they read of pods.

There are two plugins, each with its own resources and annotations. One shares GPUs as virtual ones
(``volcano.sh/vgpu-*``): a node's annotation lists its GPUs, a pod's says container by container which
GPU it has, how much of its memory and of its compute. The older one (``volcano.sh/gpu-memory``,
``gpu-number``) knows only how many GPUs a node has, all alike, and a pod's annotation says their numbers.

Nothing here goes by the clock or by what others remember: what a pod has is what is written on it, whoever
bound it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Final

from services.controller.core.model import JSON
from shared.api import names
from shared.api.pods import Container, PodSpec
from shared.api.podspec import base_units
from shared.api.quantity import Quantity
from shared.events.contracts import Device, DevicePart, DeviceRequest, Shape

Amounts = Mapping[str, str | float]
_MOST: Final = 256
"""GPUs of a node: more is a mistake, and each costs room in every table."""
_KEPT: Final = 1 << 14
"""Nodes whose GPUs are read once for all the pods on them, and for all that a node says beside."""
_FIELDS: Final = 5
_PERCENT: Final = 100
_KIND: Final = "NVIDIA"
"""What the device plugin looks for in an annotation: the kind of device, not its model."""
_SHARED: Final = "hami-core"
_ASKS: Final = (names.VGPU_NUMBER, names.VGPU_MEMORY)
MARKS: Final = (
    names.VGPU_MODE,
    names.VGPU_USE_UUID,
    names.VGPU_NO_USE_UUID,
    names.VGPU_USE_TYPE,
    names.VGPU_NO_USE_TYPE,
)
"""Annotations of pods that say which GPUs they may have parts of."""


# ------------------------------------------------------------------------------------ nodes


def node_devices(node: JSON) -> tuple[Device, ...]:
    """Return a node's GPUs, in the order of their numbers; none where they cannot be read."""
    try:
        return read_devices(node)
    except ValueError:
        return ()


def read_devices(node: JSON) -> tuple[Device, ...]:
    """Return a node's GPUs, in the order of their numbers. Raises ValueError with what cannot be read."""
    listed = (node["metadata"].get("annotations") or {}).get(names.VGPU_REGISTER)
    found = _numbered(node) if listed is None else _listed(listed)
    if len(found) > _MOST:
        raise ValueError(f"{len(found)} GPUs on one node: at most {_MOST} are looked at")
    return found


def device_ids(node: JSON) -> tuple[str, ...]:
    """Return what a node's GPUs are told apart by, in the order of their numbers."""
    return tuple(device.id for device in node_devices(node))


@lru_cache(_KEPT)
def _listed(text: str) -> tuple[Device, ...]:
    """Read ``UUID,shares,MiB,model,healthy,mode:…``."""
    return tuple(_device(entry) for entry in text.split(":") if "," in entry)


def _device(entry: str) -> Device:
    fields = entry.split(",")
    if len(fields) < _FIELDS or not (fields[1].isdecimal() and fields[2].isdecimal()):
        raise ValueError(
            f'{names.VGPU_REGISTER}: "{entry}" is not a UUID, how many may share it, its memory in MiB, its '
            "model, whether it is healthy, and its mode"
        )
    uuid, shares, memory, model, healthy, *more = fields
    mode = next(filter(None, more), _SHARED)
    # Of a GPU in MIG mode a pod would get one of its slices, which are not told here.
    usable = healthy in ("1", "t", "T", "true", "TRUE", "True") and int(shares) and mode != "mig"
    return Device(
        id=uuid,
        model=model,
        cores=1000 if usable else 0,
        memory=int(memory),
        shares=int(shares),
        mode=mode,
    )


def _numbered(node: JSON) -> tuple[Device, ...]:
    """Return GPUs that are all alike: the node says how many, and how much memory they have together."""
    status = node.get("status") or {}
    there = status.get("capacity") or status.get("allocatable") or {}
    count, memory = (_amount(there, name) for name in (names.GPU_NUMBER, names.GPU_MEMORY))
    if not count:
        return ()
    if count > _MOST:
        raise ValueError(f"{names.GPU_NUMBER}: {count} GPUs on one node: at most {_MOST} are looked at")
    annotations = node["metadata"].get("annotations") or {}
    return _alike(count, memory // count, annotations.get(names.GPU_UNHEALTHY_IDS, ""))


@lru_cache(_KEPT)
def _alike(count: int, memory: int, unhealthy: str) -> tuple[Device, ...]:
    broken = {text.strip() for text in unhealthy.split(",")}
    return tuple(Device(cores=0 if str(number) in broken else 1000, memory=memory) for number in range(count))


# ------------------------------------------------------------------------------------- what pods ask for


def device_requests(spec: PodSpec, annotations: Mapping[str, str]) -> tuple[DeviceRequest, ...]:
    """Return the parts of GPUs that a pod asks for. Raises ValueError with what cannot be had."""
    resources = [_resources(container) for container in spec.containers]
    asked = [
        request
        for number, amounts in enumerate(resources)
        if (request := _virtual(number, amounts, annotations)) is not None
    ]
    if asked:
        return tuple(asked)
    before = [_resources(container) for container in spec.init_containers]
    memory, count = (_largest(name, resources, before) for name in (names.GPU_MEMORY, names.GPU_NUMBER))
    if memory:
        return (DeviceRequest(memory=memory),)
    return (DeviceRequest(count=count, cores=1000),) if count else ()


def _virtual(number: int, amounts: Amounts, annotations: Mapping[str, str]) -> DeviceRequest | None:
    """Return what a container asks for of virtual GPUs. Memory alone is that of one GPU; no memory, all."""
    if not any(name in amounts for name in _ASKS):
        return None
    count = _amount(amounts, names.VGPU_NUMBER) if names.VGPU_NUMBER in amounts else 1
    if not count:
        return None
    memory, percent, cores = (
        _amount(amounts, name) for name in (names.VGPU_MEMORY, names.VGPU_MEMORY_PERCENTAGE, names.VGPU_CORES)
    )
    for name, amount in ((names.VGPU_MEMORY_PERCENTAGE, percent), (names.VGPU_CORES, cores)):
        if amount > _PERCENT:
            raise ValueError(f"containers[{number}]: {name}: {amount} percent of a GPU cannot be had")
    return DeviceRequest(
        count=count,
        cores=cores * 10,
        memory=0 if percent else memory,
        memory_percent=percent or (0 if memory else _PERCENT),
        models=_texts(annotations, names.VGPU_USE_TYPE),
        not_models=_texts(annotations, names.VGPU_NO_USE_TYPE)
        if names.VGPU_USE_TYPE not in annotations
        else (),
        ids=_texts(annotations, names.VGPU_USE_UUID),
        not_ids=_texts(annotations, names.VGPU_NO_USE_UUID),
        mode=annotations.get(names.VGPU_MODE, ""),
        container=number,
    )


def _largest(name: str, containers: Sequence[Amounts], before: Sequence[Amounts]) -> int:
    together = sum(_amount(one, name) for one in containers)
    return max([together, *(_amount(one, name) for one in before)])


def _resources(container: Container) -> Amounts:
    return {**container.resources.limits, **container.resources.requests}


def _amount(amounts: Amounts, name: str) -> int:
    amount = base_units(name, Quantity.parse(amounts[name])) if name in amounts else 0
    if amount < 0:
        raise ValueError(f"{name}: {amounts[name]} is less than nothing")
    return amount


def _texts(annotations: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(text.strip() for text in annotations.get(name, "").split(",") if text.strip())


def requests_of(shape: Shape) -> tuple[DeviceRequest, ...]:
    """Return the parts of devices that a shape asks for, container by container."""
    return () if shape.devices is None else (shape.devices, *shape.more_devices)


# ------------------------------------------------------------------------------------- what pods have


def held_parts(
    pod: JSON, asked: Sequence[DeviceRequest], devices: Sequence[Device]
) -> tuple[DevicePart, ...]:
    """Return what a pod on a node has of the node's GPUs, as is written on it; of GPUs gone, nothing."""
    annotations = pod["metadata"].get("annotations") or {}
    if not asked or not (pod.get("spec") or {}).get("nodeName"):
        return ()
    if names.VGPU_IDS in annotations:
        numbers = {device.id: number for number, device in enumerate(devices)}
        return tuple(
            DevicePart(device=numbers[uuid], cores=cores * 10, memory=memory)
            for uuid, memory, cores in _written(annotations[names.VGPU_IDS])
            if uuid in numbers
        )
    return tuple(
        DevicePart(device=number, cores=asked[0].cores, memory=asked[0].memory)
        for text in annotations.get(names.GPU_INDEX, "").split(",")
        if (number := _number(text)) < len(devices)
    )


def _written(text: str) -> Iterator[tuple[str, int, int]]:
    """Read ``UUID,kind,MiB,percent:…;…`` as the device plugin does: what is no such entry is passed over."""
    for entry in text.replace(";", ":").split(":"):
        fields = entry.split(",")
        if len(fields) > 3 and fields[2].isdecimal() and fields[3].isdecimal():  # noqa: PLR2004 - as it is read
            # Of a GPU in MIG mode, the number of the slice follows the UUID.
            yield fields[0].partition("[")[0], int(fields[2]), int(fields[3])


def _number(text: str) -> int:
    return int(text) if text.strip().isdecimal() else _MOST


# ------------------------------------------------------------------------------------- what pods are told


def device_annotations(
    shape: Shape, chosen: Sequence[int], node: JSON | None, now: datetime
) -> dict[str, str]:
    """Return what a pod's binding to a node says of the GPUs chosen for it, in the order of its requests.

    Raises ValueError when the node does not have them any more.
    """
    if not chosen:
        return {}
    devices = () if node is None else node_devices(node)
    if max(chosen) >= len(devices):
        raise ValueError(f"GPU {max(chosen)} was chosen, and the node has {len(devices)} GPUs now")
    if not any(name in shape.requests for name in _ASKS):
        return {
            names.PREDICATE_TIME: str(int(now.timestamp() * 1_000_000) * 1000),
            names.GPU_INDEX: ",".join(map(str, chosen)),
        }
    asked = requests_of(shape)
    told = [""] * (max(request.container for request in asked) + 1)
    left = iter(chosen)
    for request in asked:
        own = [devices[next(left)] for _ in range(request.count)]
        told[request.container] = "".join(_entry(device, request) for device in own)
    ids, seconds = ";".join(told), str(int(now.timestamp()))
    return {
        names.VGPU_NODE: "" if node is None else node["metadata"]["name"],
        names.VGPU_TIME: seconds,
        names.VGPU_IDS: ids,
        names.VGPU_TO_ALLOCATE: ids,
        names.BIND_PHASE: "allocating",
        names.BIND_TIME: seconds,
    }


def _entry(device: Device, request: DeviceRequest) -> str:
    memory = device.memory * request.memory_percent // _PERCENT or request.memory
    return f"{device.id},{_KIND},{memory},{request.cores // 10}:"
