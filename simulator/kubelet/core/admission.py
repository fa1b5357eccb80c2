"""Whether a node takes a pod which was bound to it, with the real kubelet's reasons and words.

The order of the checks is the real one: number of pods, CPU, memory, ephemeral storage, other resources,
node selector and affinity, then taints with effect NoExecute. One difference: an extended resource that the
node does not have at all counts as capacity 0 here, while the real kubelet overlooks it; a scheduler's
mistake shall show.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from shared.api.matching import requirement
from shared.kube.port import JSON

_FIRST: Final = ("pods", "cpu", "memory", "ephemeral-storage")
_NO_AFFINITY: Final = "node(s) didn't match Pod's node affinity/selector"
_NO_TOLERATION: Final = "node(s) had taints that the pod didn't tolerate"


class Rejection(NamedTuple):
    """Why a node does not take a pod: ``status.reason`` and the message, without its prefix."""

    reason: str
    message: str


class NodeLedger:
    """What a node has and who uses it, in base units (milli-CPU, bytes, counts)."""

    def __init__(self, allocatable: Mapping[str, int]) -> None:
        self._allocatable = dict(allocatable)
        self._used: dict[str, int] = {}
        self._held: dict[str, dict[str, int]] = {}

    def check(self, requests: Mapping[str, int]) -> Rejection | None:
        """Return why these requests do not fit beside the pods that are here; None if they do."""
        wanted = {**requests, "pods": 1}
        rest = sorted(wanted.keys() - set(_FIRST))
        for name in (*_FIRST, *rest):
            amount, used = wanted.get(name, 0), self._used.get(name, 0)
            capacity = self._allocatable.get(name, 0)
            if amount > 0 and amount > capacity - used:
                return Rejection(
                    f"OutOf{name}",
                    f"Node didn't have enough resource: {name}, "
                    f"requested: {amount}, used: {used}, capacity: {capacity}",
                )
        return None

    def hold(self, uid: str, requests: Mapping[str, int]) -> None:
        """Count a pod in; the second time changes nothing."""
        if uid not in self._held:
            self._held[uid] = {**requests, "pods": 1}
            self._add(self._held[uid], 1)

    def release(self, uid: str) -> None:
        """Count a pod out, if it is counted."""
        self._add(self._held.pop(uid, {}), -1)

    def _add(self, amounts: Mapping[str, int], sign: int) -> None:
        for name, amount in amounts.items():
            self._used[name] = self._used.get(name, 0) + sign * amount


def check_placement(
    spec: JSON, name: str, labels: Mapping[str, str], taints: Iterable[JSON]
) -> Rejection | None:
    """Return why a pod may not be on this node: its selector, its required affinity, the node's taints."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    selector = spec.get("nodeSelector") or {}
    fits = all(labels.get(key) == value for key, value in selector.items())
    if required is not None:
        fits = fits and any(_matches(term, name, labels) for term in required.get("nodeSelectorTerms") or ())
    if not fits:
        return Rejection("NodeAffinity", f"Predicate NodeAffinity failed: {_NO_AFFINITY}")
    tolerations = spec.get("tolerations") or ()
    for taint in taints:
        if taint["effect"] == "NoExecute" and not any(_tolerates(one, taint) for one in tolerations):
            return Rejection("TaintToleration", f"Predicate TaintToleration failed: {_NO_TOLERATION}")
    return None


def _matches(term: JSON, name: str, labels: Mapping[str, str]) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    return bool(expressions or fields) and (
        all(_holds(one, labels) for one in expressions)
        and all(_holds(one, {"metadata.name": name}) for one in fields)
    )


def _holds(one: JSON, labels: Mapping[str, str]) -> bool:
    return requirement(one["operator"], one.get("values") or ())(labels.get(one["key"]))


def _tolerates(toleration: JSON, taint: JSON) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    key, operator = toleration.get("key") or "", toleration.get("operator") or "Equal"
    if operator == "Exists":
        return key in ("", taint["key"])
    return key == taint["key"] and (toleration.get("value") or "") == (taint.get("value") or "")
