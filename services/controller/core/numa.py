"""CPUs by NUMA node: what a Numatopology tells of a node, what pods ask for, have, and are told.

The resource exporter on a node writes its Numatopology: policies of the kubelet, which CPU is of which NUMA
node, socket and core, which CPUs nobody has for himself (``numares``), and (newer ones) which pod has which.
CPU sets are kept as bits of a number: of a node with hundreds of CPUs that is what fits in memory.

What a pod has is what its node tells of it; until the node does, what was written on it when it was bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import orjson
import yaml

from services.controller.core.model import JSON
from shared.api import names, nodeinfo
from shared.api.batch import TopologyPolicy
from shared.api.pods import Container, PodSpec
from shared.api.quantity import Quantity
from shared.events.contracts import NumaCpus, NumaNode, NumaRequest, NumaTopology

NUMA_AWARE: Final = "numa-aware"
"""Volcano's plugin that heeds NUMA policies."""
_MOST_CPUS: Final = 8192
"""The most that Linux is built for."""
_MOST_NODES: Final = 64
"""NUMA nodes of a machine: more is a mistake, and each costs room in every table."""
_MILLIS: Final = 1000
_CPU: Final = "cpu"
_COUNTED: Final = (_CPU, "memory")
"""What makes a pod Guaranteed."""


@dataclass(frozen=True, slots=True)
class Numatopology:
    """What a node's object says, as read."""

    cpu_manager: str
    policy: str
    nodes: tuple[tuple[int, int], ...]
    """Number and CPUs of each NUMA node, by number."""
    reserved: int
    """CPUs that no pod gets for itself."""
    taken: int
    """CPUs that pods have for themselves."""
    pods: Mapping[tuple[str, ...], int] = field(default_factory=dict[tuple[str, ...], int])
    """CPUs by pod, as far as that is told: by its UID, or by namespace and name."""


# ------------------------------------------------------------------------------------- nodes


def read_numatopology(raw: JSON) -> Numatopology:
    """Read an object. Raises ValueError with what cannot be read."""
    spec = nodeinfo.Numatopology.model_validate(raw).spec
    places = {_cpu(text): (one.socket, one.core, one.numa) for text, one in spec.cpu_detail.items()}
    nodes: dict[int, int] = {}
    for cpu, (_, _, number) in places.items():
        if not 0 <= number < _MOST_NODES:
            raise ValueError(f"spec.cpuDetail[{cpu}].numa: {number} is not below {_MOST_NODES}")
        nodes[number] = nodes.get(number, 0) | 1 << cpu
    every = sum(nodes.values())
    free = parse_cpus(spec.numares[_CPU].allocatable) if _CPU in spec.numares else 0
    return Numatopology(
        cpu_manager=spec.policies.get("CPUManagerPolicy", ""),
        policy=spec.policies.get("TopologyManagerPolicy", ""),
        nodes=tuple(sorted(nodes.items())),
        reserved=_reserved(spec.res_reserved.get(_CPU, "") or "0", places),
        taken=every & ~free,
        pods=_pods(spec.pod_allocations),
    )


def parse_cpus(text: str) -> int:
    """Return a list of CPUs (``0-3,8``) as bits. Raises ValueError."""
    cpus = 0
    for part in filter(None, (one.strip() for one in text.split(","))):
        first, dash, last = part.partition("-")
        begin = _cpu(first)
        end = _cpu(last) if dash else begin
        if end < begin:
            raise ValueError(f'"{part[:40]}" is no range of CPUs')
        cpus |= (1 << end + 1) - (1 << begin)
    return cpus


def _cpu(text: str) -> int:
    digits = text.isascii() and text.isdecimal() and len(text) <= len(str(_MOST_CPUS))
    number = int(text) if digits else _MOST_CPUS
    if number >= _MOST_CPUS:
        raise ValueError(f'"{text[:40]}" is no number of a CPU')
    return number


def _reserved(text: str, places: Mapping[int, tuple[int, int, int]]) -> int:
    """Return the CPUs that kubelet keeps back: the first by socket and core; a part of one is all of it."""
    count = -(-Quantity.parse(text).milli_value() // _MILLIS)
    order = sorted(places, key=lambda cpu: (*places[cpu][:2], cpu))
    return sum(1 << cpu for cpu in order[: max(0, count)])


def _pods(allocations: Iterable[nodeinfo.PodAllocation]) -> dict[tuple[str, ...], int]:
    found: dict[tuple[str, ...], int] = {}
    for pod in allocations:
        cpus = 0
        for container in pod.container_allocations:
            cpus |= parse_cpus(container.allocations.get(_CPU, ""))
        # Some exporters know a pod by its UID only, some by its name only.
        key = (pod.uid,) if pod.uid else (pod.namespace, pod.name)
        found[key] = found.get(key, 0) | cpus
    return found


def numa_topology(read: Numatopology, held: Mapping[int, int]) -> NumaTopology:
    """Return what scheduling needs of a node's NUMA nodes.

    ``held``: by NUMA node, how many CPUs running pods have by their bindings. It counts where the exporter
    does not tell which pods have the CPUs that are taken.
    """
    unknown = read.taken
    for cpus in read.pods.values():
        unknown &= ~cpus
    return NumaTopology(
        cpu_manager=read.cpu_manager,
        policy=read.policy,
        nodes=tuple(_node(number, cpus, unknown, read, held) for number, cpus in read.nodes),
    )


def _node(number: int, cpus: int, unknown: int, read: Numatopology, held: Mapping[int, int]) -> NumaNode:
    room = cpus & ~read.reserved
    others = (room & unknown).bit_count() - (0 if read.pods else held.get(number, 0))
    return NumaNode(number=number, cpus=cpus.bit_count(), usable=max(0, room.bit_count() - max(0, others)))


# ------------------------------------------------------------------------------------- what pods ask for


def numa_request(spec: PodSpec, annotations: Mapping[str, str]) -> NumaRequest | None:
    """Return how a pod asks for CPUs of its own; None where it is not Guaranteed, or asks for none.

    Raises ValueError for a request that cannot be read.
    """
    if not _guaranteed(spec):
        return None
    policy = annotations.get(names.NUMA_TOPOLOGY_POLICY, "")
    policy = "" if policy == TopologyPolicy.NONE else policy
    counts = (_asked(container, _CPU) for container in spec.containers)
    cpus = tuple(millis // _MILLIS for millis in counts if millis and not millis % _MILLIS)
    return NumaRequest(policy=policy, cpus=cpus) if policy or cpus else None


def _guaranteed(spec: PodSpec) -> bool:
    """Whether all containers may use of CPU and memory what they ask for, and no more.

    (Of a pod that asks as a whole kubelet's CPU manager gives no container CPUs of its own.)
    """
    if spec.resources is not None and (spec.resources.requests or spec.resources.limits):
        return False
    containers = (*spec.containers, *spec.init_containers)
    return bool(containers) and all(
        0 < _limit(container, name) == _asked(container, name)
        for container in containers
        for name in _COUNTED
    )


def _limit(container: Container, name: str) -> int:
    return Quantity.parse(container.resources.limits.get(name, "0")).milli_value()


def _asked(container: Container, name: str) -> int:
    """Return how much a container asks for: where it does not say, as much as it may use."""
    resources = container.resources
    return Quantity.parse(resources.requests.get(name, resources.limits.get(name, "0"))).milli_value()


# ------------------------------------------------------------------------------------- what pods have


def held_cpus(pod: JSON, read: Numatopology | None) -> tuple[NumaCpus, ...]:
    """Return the CPUs that a pod on a node has for itself: as its node tells, else as is written on it."""
    if not (pod.get("spec") or {}).get("nodeName"):
        return ()
    reported = None if read is None else _reported(pod, read)
    if read is None or reported is None:
        return decided_cpus(pod)
    counts = ((number, (cpus & reported).bit_count()) for number, cpus in read.nodes)
    return tuple(NumaCpus(node=number, cpus=count) for number, count in counts if count)


def _reported(pod: JSON, read: Numatopology) -> int | None:
    meta = pod["metadata"]
    by_uid = read.pods.get((meta["uid"],))
    return read.pods.get((meta["namespace"], meta["name"])) if by_uid is None else by_uid


def decided_cpus(pod: JSON) -> tuple[NumaCpus, ...]:
    """Return the CPUs that a pod's binding says it would have; what cannot be read says nothing."""
    text = (pod["metadata"].get("annotations") or {}).get(names.TOPOLOGY_DECISION)
    if not text:
        return ()
    try:
        by_node = orjson.loads(text)["numa"]
        counts = (
            (int(number), Quantity.parse(one.get(_CPU, "0")).value()) for number, one in by_node.items()
        )
        return tuple(
            NumaCpus(node=number, cpus=count)
            for number, count in sorted(counts)
            if 0 <= number < _MOST_NODES and 0 < count <= _MOST_CPUS
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return ()


def is_there(pod: JSON) -> bool:
    """Whether the node's kubelet has taken a pod in."""
    return (pod.get("status") or {}).get("phase") == "Running"


def told_pods(old: Numatopology | None, new: Numatopology | None) -> frozenset[tuple[str, ...]]:
    """Return the pods (by UID, or namespace and name) of which a node tells something else than before."""
    before, now = ({} if one is None else one.pods for one in (old, new))
    moved = old is None or new is None or old.nodes != new.nodes
    return frozenset(key for key in (*before, *now) if moved or before.get(key) != now.get(key))


# ------------------------------------------------------------------------------------- what pods are told


def numa_annotations(cpus: tuple[NumaCpus, ...]) -> dict[str, str]:
    """Return what a pod's binding says of the CPUs that it will have, by NUMA node, as Volcano writes it."""
    if not cpus:
        return {}
    by_node = {str(one.node): {_CPU: str(one.cpus)} for one in cpus}
    return {names.TOPOLOGY_DECISION: orjson.dumps({"numa": by_node}).decode()}


# ------------------------------------------------------------------------------------- who heeds it


@lru_cache(1)
def may_heed(policy: str) -> bool:
    """Whether a policy's text names the plugin, or cannot be read: the scheduler then keeps another one."""
    try:
        document = yaml.load(policy, yaml.CSafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return True
    tiers = document.get("tiers") if isinstance(document, dict) else None
    plugins = (plugin for tier in _maps(tiers) for plugin in _maps(tier.get("plugins")))
    return any(plugin.get("name") == NUMA_AWARE for plugin in plugins)


def _maps(value: object) -> list[JSON]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
