"""What pods have of shared GPUs by what decisions say, beside the requests of their shapes."""

from __future__ import annotations

from collections.abc import Iterable

from shared.events import contracts as c

PARTS = ("cores", "memory", "containers")


def asked_of(shape: c.Shape, devices: tuple[int, ...], node: c.NodeState | None) -> dict[str, int]:
    """Return a pod's requests, and what it has of the devices that were chosen for it."""
    found = {**shape.requests, "pods": 1}
    if shape.devices is None or not devices:
        return found
    requests = (shape.devices, *shape.more_devices)
    parts = [request for request in requests for _ in range(request.count)]
    for at, request in zip(devices, parts, strict=True):
        memory = request.memory
        if request.memory_percent:
            memory = (0 if node is None else node.devices[at].memory) * request.memory_percent // 100
        for part, amount in enumerate((request.cores, memory, 1)):
            if amount:
                found[f"device/{at}/{part}"] = found.get(f"device/{at}/{part}", 0) + amount
    return found


def room_of(node: c.NodeState) -> dict[str, int]:
    """Return what a node has, and what each of its devices that work."""
    found = dict(node.allocatable)
    for at, device in enumerate(node.devices):
        if device.cores:
            amounts = device.cores, device.memory, device.shares or 1 << 40
            found |= {f"device/{at}/{part}": amount for part, amount in enumerate(amounts)}
    return found


def counts(name: str, room: dict[str, int]) -> bool:
    """Whether a resource is bounded there: what is used of a broken device bounds nobody."""
    return not name.startswith("device/") or name in room


def check_alone(pods: Iterable[tuple[c.Shape, tuple[int, ...]]]) -> None:
    """Check pods of one node: whoever has the whole compute of a device is alone on it."""
    on: dict[int, list[int]] = {}
    for shape, devices in pods:
        requests = () if shape.devices is None else (shape.devices, *shape.more_devices)
        parts = [request.cores for request in requests for _ in range(request.count)]
        for at, cores in zip(devices, parts, strict=False):
            on.setdefault(at, []).append(cores)
    for at, cores in on.items():
        assert max(cores) < 1000 or len(cores) == 1, (at, cores)
