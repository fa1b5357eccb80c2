"""Whether a node still takes pods that were decided for it: much may happen to it in between.

Pods that are created bound to a node that is gone, or is about to go, would hold their gang up until somebody
takes them away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from services.controller.core.model import JSON
from shared.api.matching import UNSCHEDULABLE, Tolerating, tolerated

Nodes = Mapping[tuple[str, str], JSON]
"""All nodes, by ("", name)."""


def closed(nodes: Nodes, name: str, tolerations: Iterable[Tolerating]) -> str:
    """Return why a node takes no new pods with these tolerations; empty: it does."""
    node = nodes.get(("", name))
    if node is None:
        return f"node {name} is gone"
    if node["metadata"].get("deletionTimestamp"):
        return f"node {name} is being deleted"
    if (node.get("spec") or {}).get("unschedulable") and not tolerated(UNSCHEDULABLE, tolerations):
        return f"node {name} is cordoned"
    conditions = (node.get("status") or {}).get("conditions") or ()
    if not any((one.get("type"), one.get("status")) == ("Ready", "True") for one in conditions):
        return f"node {name} is not ready"
    return ""
