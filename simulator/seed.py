"""The objects that every cluster has from its start."""

from __future__ import annotations

from typing import Any

JSON = dict[str, Any]

_CLUSTER_CRITICAL = (
    "Used for system critical pods that must run in the cluster, but can be moved to another node if "
    "necessary."
)


def objects() -> list[JSON]:
    """Return the system namespaces and priority classes."""
    namespaces: list[JSON] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for name in ("default", "kube-node-lease", "kube-public", "kube-system")
    ]
    classes: list[JSON] = [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "description": description,
        }
        for name, value, description in (
            (
                "system-cluster-critical",
                2_000_000_000,
                _CLUSTER_CRITICAL,
            ),
            (
                "system-node-critical",
                2_000_001_000,
                "Used for system critical pods that must not be moved from their current node.",
            ),
        )
    ]
    return namespaces + classes
