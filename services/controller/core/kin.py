"""Which labels of pods placing depends on: those that the affinity or spread of some pod asks for.

Most clusters have no such pods, and then no pod's labels are told. A key once asked for is told of every
pod from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

_AFFINITIES: Final = ("podAffinity", "podAntiAffinity")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_WITHOUT: Final = frozenset({"NotIn", "DoesNotExist"})
"""What labels that are absent fulfil."""
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


EVERY: Final = "*"
"""No key: it stands for pods without any label, which some selector finds."""


def asked_keys(extras: Mapping[str, Any]) -> frozenset[str]:
    """Return the keys of labels that the rest of a shape (``Shape.extras``) asks other pods for.

    With EVERY among them all pods are asked for, whatever their labels.
    """
    terms = [term for kind in _AFFINITIES for term in _terms(extras.get(kind) or {})]
    terms += extras.get("topologySpreadConstraints") or []
    return frozenset(key for term in terms for key in _keys(term))


def chosen(labels: Mapping[str, str], keys: Iterable[str]) -> dict[str, str]:
    """Return the labels with these keys, in order; with EVERY there is always one."""
    return {key: labels.get(key, "") for key in sorted(keys) if key in labels or key == EVERY}


def _terms(affinity: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    wishes = affinity.get(_PREFERRED) or []
    return [*(affinity.get(_REQUIRED) or []), *(wish.get("podAffinityTerm") or {} for wish in wishes)]


def _keys(term: Mapping[str, Any]) -> Iterator[str]:
    selector = term.get("labelSelector")
    if selector is None:
        return
    expressions = selector.get("matchExpressions") or ()
    if not selector.get("matchLabels") and all(one["operator"] in _WITHOUT for one in expressions):
        yield EVERY
    yield from selector.get("matchLabels") or ()
    for expression in expressions:
        yield expression["key"]
    yield from term.get("matchLabelKeys") or ()
    yield from term.get("mismatchLabelKeys") or ()
