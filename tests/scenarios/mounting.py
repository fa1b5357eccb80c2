"""Whether decided pods find place for their volumes; slow, and obviously right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shared.events import contracts as c
from tests.scenarios.among_pods import There

Volumes = dict[tuple[str, str], list[str]]
"""By kind (``driver`` or ``free``, and its name): the volumes of a node, each once."""


def mounts_of(pod: There) -> tuple[c.Mount, ...]:
    return () if pod.shape.volumes is None else pod.shape.volumes.mounts


def volumes_on(node: str, pods: Sequence[There]) -> Volumes:
    """Return what is mounted on a node; a volume that each pod has for itself goes by its pod's name."""
    found: Volumes = {}
    for pod in pods:
        for number, one in enumerate(mounts_of(pod) if pod.node == node else ()):
            name = one.volume or f"{pod.namespace}/{pod.name}/{pod.flight}/{number}"
            for kind in (("driver", one.driver), ("free", one.free)):
                if kind[1] and name not in found.setdefault(kind, []):
                    found[kind].append(name)
    return found


def check_volumes(pods: Sequence[There], nodes: Mapping[str, c.NodeState]) -> None:
    """Check the decided ones among all pods that are, or soon are, on nodes."""
    decided = [pod for pod in pods if pod.decided]
    for node in {pod.node for pod in decided}:
        before = volumes_on(node, [pod for pod in pods if not pod.decided])
        state = nodes[node]
        for kind, volumes in volumes_on(node, pods).items():
            limit = state.volume_limits.get(kind[1], 1 << 40)
            limit = limit if kind[0] == "driver" else state.free_volumes.get(kind[1], 0)
            assert len(volumes) <= max(limit, len(before.get(kind, []))), (node, kind, volumes)
    for pod in decided:
        for one in mounts_of(pod):
            users = [other for other in pods if other is not pod and one in mounts_of(other)]
            assert not (one.exclusive and users), (pod.name, one, users)
