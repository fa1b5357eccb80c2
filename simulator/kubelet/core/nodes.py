"""Which nodes to simulate, from one line of text for each group, and the Node objects they become.

Grammar of a line (see :func:`parse_nodes`)::

    [NAME=]COUNTxGPUS[,KEY=VALUE…]

    4x8                                   4 nodes node-0 … node-3 with 8 GPUs each
    a100=4x8,cpu=96,memory=1Ti            a100-0 … a100-3
    cpu=10x0,cpu=64,pods=250              10 nodes without GPUs
    h100=2x8,rdma/hca=4,label:zone=a,taint:team=ml:NoSchedule

``KEY`` is a resource (``cpu``, ``memory``, ``pods``, ``ephemeral-storage``, or one with a slash), or
``label:KEY`` with the label's value, or ``taint:KEY`` with ``VALUE:EFFECT`` or ``EFFECT``. What is not given
is as in :data:`DEFAULTS`. The pool of a group is its name, ``default`` for a group without one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from shared.api.podspec import resource_list
from shared.api.quantity import Quantity, QuantityError
from shared.errors import ConfigurationError
from shared.kube.port import JSON
from simulator.kubelet.core.times import stamp

NODE_GROUP: Final = "pumice.dev/node-group"
SIMULATED: Final = "pumice.dev/simulated"
GPU: Final = "nvidia.com/gpu"
DEFAULTS: Final = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "110"}

_HEAD: Final = re.compile(r"(?:([^=,]+)=)?(\d+)x(\d+)")
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?")
_QUALIFIED: Final = re.compile(
    r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_EFFECTS: Final = frozenset({"NoSchedule", "PreferNoSchedule", "NoExecute"})
_KUBELET_PORT: Final = 10250
_MAX_NODES: Final = 60_000
"""As many as there are addresses for; see :func:`host_ip`."""


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A node to simulate. ``allocatable`` is also its capacity: amounts as Kubernetes writes them."""

    name: str
    allocatable: Mapping[str, str]
    pool: str = "default"
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    taints: tuple[JSON, ...] = ()

    @property
    def amounts(self) -> dict[str, int]:
        """The allocatable amounts in base units."""
        return resource_list(dict(self.allocatable))

    @property
    def all_labels(self) -> dict[str, str]:
        """The labels, with those that every node has."""
        return {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            NODE_GROUP: self.pool,
            SIMULATED: "true",
            **self.labels,
        }


class Endpoint(NamedTuple):
    """Where nodes say that their kubelet's server is."""

    host: str
    port: int


def parse_nodes(*lines: str) -> list[NodeSpec]:
    """Read groups of nodes; see the module. Raises ConfigurationError that names what is wrong."""
    specs: list[NodeSpec] = []
    counted: dict[str, int] = {}
    for line in lines:
        head, *settings = line.strip().split(",")
        match = _HEAD.fullmatch(head.strip())
        if match is None:
            raise _wrong(line, "expected [NAME=]COUNTxGPUS, for example 4x8 or a100=4x8")
        name, count, gpus = match[1], int(match[2]), int(match[3])
        if name is not None and not _NAME.fullmatch(name):
            raise _wrong(line, f"{name!r} is not a name for nodes: small letters, digits and '-'")
        group = _group(line, name, gpus, settings)
        prefix = name or "node"
        first = counted.get(prefix, 0)
        counted[prefix] = first + count
        if sum(counted.values()) > _MAX_NODES:
            raise _wrong(line, f"more than {_MAX_NODES} nodes in all")
        specs += [
            NodeSpec(f"{prefix}-{number}", group.allocatable, group.pool, group.labels, group.taints)
            for number in range(first, first + count)
        ]
    return specs


def _group(line: str, name: str | None, gpus: int, settings: list[str]) -> NodeSpec:
    amounts = dict(DEFAULTS)
    if gpus:
        amounts[GPU] = str(gpus)
    labels: dict[str, str] = {}
    taints: list[JSON] = []
    for setting in settings:
        key, equals, value = setting.strip().partition("=")
        if not equals:
            raise _wrong(line, f"{setting.strip()!r} is not KEY=VALUE")
        kind, _, rest = key.partition(":")
        if kind == "label" and rest:
            labels[rest] = _label(line, rest, value)
        elif kind == "taint" and rest:
            taints.append(_taint(line, rest, value))
        elif key in DEFAULTS or "/" in key:
            amounts[key] = _amount(line, key, value)
        else:
            known = ", ".join(DEFAULTS)
            raise _wrong(line, f"{key!r} is not a resource ({known}, or one with a slash), label: or taint:")
    return NodeSpec("", amounts, name or "default", labels, tuple(taints))


def _amount(line: str, key: str, value: str) -> str:
    if not _QUALIFIED.fullmatch(key):
        raise _wrong(line, f"{key!r} is not the name of a resource")
    try:
        quantity = Quantity.parse(value)
    except QuantityError as error:
        raise _wrong(line, f"{key}={value!r} is not an amount") from error
    if quantity < Quantity(0):
        raise _wrong(line, f"{key}={value} is negative")
    return value.strip()


def _label(line: str, key: str, value: str) -> str:
    if not _QUALIFIED.fullmatch(key):
        raise _wrong(line, f"{key!r} is not a label's key")
    if not _LABEL_VALUE.fullmatch(value):
        raise _wrong(line, f"{value!r} is not a label's value")
    return value


def _taint(line: str, key: str, text: str) -> JSON:
    value, _, effect = text.rpartition(":")
    if effect not in _EFFECTS:
        raise _wrong(line, f"taint {key}={text!r}: expected VALUE:EFFECT with {', '.join(sorted(_EFFECTS))}")
    _label(line, key, value)
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def _wrong(line: str, complaint: str) -> ConfigurationError:
    return ConfigurationError(f"nodes {line!r}: {complaint}")


def host_ip(index: int) -> str:
    """Return the address of the node with this index."""
    return f"10.0.{(index + 1) >> 8}.{(index + 1) & 255}"


def node_object(
    spec: NodeSpec, index: int, boot_id: str, now: datetime, endpoint: Endpoint | None = None
) -> JSON:
    """Return the Node as its kubelet registers it; ``endpoint`` is the kubelet's server, if it has one."""
    host, port = endpoint or ("", _KUBELET_PORT)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": spec.name, "labels": spec.all_labels},
        "spec": {"taints": list(spec.taints)} if spec.taints else {},
        "status": {
            "capacity": dict(spec.allocatable),
            "allocatable": dict(spec.allocatable),
            "conditions": ready_conditions(now),
            "addresses": [
                {"type": "InternalIP", "address": host_ip(index)},
                {"type": "Hostname", "address": spec.name},
                *([{"type": "ExternalIP", "address": host}] if host else ()),
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": boot_id,
                "containerRuntimeVersion": "pumice://simulated",
                "kernelVersion": "simulated",
                "kubeProxyVersion": "",
                "kubeletVersion": "v1.34.0-pumice",
                "machineID": spec.name,
                "operatingSystem": "linux",
                "osImage": "simulated",
                "systemUUID": spec.name,
            },
        },
    }


def is_ready(node: JSON) -> bool:
    """Say whether a Node is known to be ready."""
    conditions = node.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def ready_conditions(now: datetime) -> list[JSON]:
    """Return the conditions of a healthy node."""
    healthy = [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ]
    return [_node_condition(*condition, now) for condition in healthy]


def lost_conditions(now: datetime) -> list[JSON]:
    """Return the conditions of a node whose kubelet is silent, in the node lifecycle controller's words."""
    return [
        _node_condition(
            condition["type"], "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.", now
        )
        for condition in ready_conditions(now)
    ]


def lost_taints(now: datetime) -> list[JSON]:
    """Return the taints of a node whose kubelet is silent."""
    key = "node.kubernetes.io/unreachable"
    return [{"key": key, "effect": effect, "timeAdded": stamp(now)} for effect in ("NoSchedule", "NoExecute")]


def _node_condition(kind: str, status: str, reason: str, message: str, now: datetime) -> JSON:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": stamp(now),
        "lastTransitionTime": stamp(now),
    }
