"""Whether decided pods keep to what they ask of others, and others of them; slow, and obviously right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.events import contracts as c

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True)
class There:
    """A pod on a node."""

    name: str
    namespace: str
    node: str
    shape: c.Shape
    decided: bool = False
    """It is one of those to be checked."""
    flight: str = ""
    """The decision that is on its way with it; two may be with pods of one name, of two generations."""


def check_among(pods: Sequence[There], nodes: Mapping[str, c.NodeState]) -> None:
    """Check the decided ones among all pods that are, or soon are, on nodes."""
    for one in pods:
        if not one.decided:
            continue
        others = [other for other in pods if other is not one]
        for term in _terms(one, "podAntiAffinity"):
            assert not [o for o in others if _meets(one, term, o, nodes)], (one.name, term)
        for other in others:
            for term in _terms(other, "podAntiAffinity"):
                assert not _meets(other, term, one, nodes), (one.name, other.name, term)
        for term in _terms(one, "podAffinity"):
            beside = [o for o in others if _meets(one, term, o, nodes)]
            before = [o for o in others if not o.decided and _matches(one, term, o) and o.node in nodes]
            assert beside or (_matches(one, term, one) and not before), (one.name, term)


def _terms(pod: There, kind: str) -> list[dict[str, Any]]:
    return (pod.shape.extras.get(kind) or {}).get(_REQUIRED) or []


def _matches(asking: There, term: Mapping[str, Any], other: There) -> bool:
    wanted = term["labelSelector"]["matchLabels"]
    return other.namespace == asking.namespace and all(
        other.shape.labels.get(key) == value for key, value in wanted.items()
    )


def _meets(asking: There, term: Mapping[str, Any], other: There, nodes: Mapping[str, c.NodeState]) -> bool:
    """Whether the other pod is asked for, and in the same domain."""
    here, there = nodes.get(asking.node), nodes.get(other.node)
    if here is None or there is None or not _matches(asking, term, other):
        return False
    key = term["topologyKey"]
    return key in here.labels and here.labels[key] == there.labels.get(key)
