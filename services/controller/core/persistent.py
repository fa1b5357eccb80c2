"""Persistent volumes: from where each is reached, and which suits a claim. The rules are kube-scheduler's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from itertools import product
from typing import Final

import orjson

from services.controller.core.model import JSON
from services.controller.core.shapes import node_term
from shared.api.matching import requirement
from shared.api.meta import LabelSelector
from shared.api.placement import NodeSelectorTerm
from shared.api.quantity import Quantity
from shared.events.contracts import NodeTerm, Requirement
from shared.hypernodes.membership import matches

HOSTNAME: Final = "kubernetes.io/hostname"
_OLD: Final = "failure-domain.beta.kubernetes.io/"
_NEW: Final = "topology.kubernetes.io/"
_ZONE_KEYS: Final = tuple(f"{prefix}{part}" for prefix in (_OLD, _NEW) for part in ("zone", "region"))

Terms = tuple[NodeTerm, ...]
"""Alternatives; of None, any node will do."""


def affinity_of(volume: JSON) -> Terms | None:
    """Return the nodes that a volume says it is reached from. Raises ValueError for what cannot be read."""
    required = ((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required")
    if required is None:
        return None
    terms = required.get("nodeSelectorTerms") or ()
    return tuple(node_term(NodeSelectorTerm.model_validate(one)) for one in terms)


def zones_of(volume: JSON) -> Terms | None:
    """Return the nodes of the zones and regions that a volume is labelled with.

    A node that has no such label at all is not asked for one.
    """
    labels = volume["metadata"].get("labels") or {}
    asked = {key: _several(labels[key]) for key in _ZONE_KEYS if key in labels}
    choices = [_in_zone(key, values) for key, values in asked.items() if values]
    if not choices:
        return None
    terms = [
        NodeTerm(expressions=tuple(one for some in chosen for one in some)) for chosen in product(*choices)
    ]
    nowhere = tuple(Requirement(key=key, operator="DoesNotExist") for key in _ZONE_KEYS)
    return (*terms, NodeTerm(expressions=nowhere))


def _several(text: str) -> tuple[str, ...]:
    """Return the values of a label; a volume that is in several zones has them with ``__`` between."""
    values = tuple(one.strip() for one in text.split("__"))
    return values if all(values) else ()


def _in_zone(key: str, values: tuple[str, ...]) -> list[tuple[Requirement, ...]]:
    """Return what a label asks: a node that lacks the old key may have the new one instead."""
    found: list[tuple[Requirement, ...]] = [(Requirement(key=key, operator="In", values=values),)]
    if key.startswith(_OLD):
        newer = Requirement(key=key.replace(_OLD, _NEW), operator="In", values=values)
        found.append((Requirement(key=key, operator="DoesNotExist"), newer))
    return found


def reaches(terms: Terms | None, labels: Mapping[str, str], name: str) -> bool:
    """Whether a node is one of those that alternatives name."""
    return terms is None or any(_matches(term, labels, name) for term in terms)


def _matches(term: NodeTerm, labels: Mapping[str, str], name: str) -> bool:
    fields = {"metadata.name": name}
    tests = [(one, labels) for one in term.expressions] + [(one, fields) for one in term.fields]
    return bool(tests) and all(
        requirement(one.operator, one.values)(held.get(one.key)) for one, held in tests
    )


def host_of(volume: JSON) -> str | None:
    """Return the hostname of the one node that has a volume; None for a volume of several nodes."""
    required = ((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required") or {}
    terms: list[JSON] = required.get("nodeSelectorTerms") or []
    expressions: list[JSON] = [one for term in terms for one in term.get("matchExpressions") or []]
    if len(terms) != 1 or len(expressions) != 1 or terms[0].get("matchFields"):
        return None
    only = expressions[0]
    values: list[str] = only.get("values") or []
    alone = only.get("key") == HOSTNAME and only.get("operator") == "In" and len(values) == 1
    return values[0] if alone else None


# ---------------------------------------------------------------------- volumes and claims


def is_for(volume: JSON, claim: JSON) -> bool:
    """Whether a volume is kept for this very claim, or bound to it."""
    ref = volume["spec"].get("claimRef")
    if not ref:
        return False
    meta = claim["metadata"]
    named = (ref.get("namespace"), ref.get("name")) == (meta["namespace"], meta["name"])
    return named and ref.get("uid") in (None, "", meta.get("uid"))


def suits(volume: JSON, claim: JSON) -> bool:
    """Whether a volume is free and has what a claim asks for, wherever it is. Raises ValueError."""
    spec, wanted = volume["spec"], claim.get("spec") or {}
    free = (volume.get("status") or {}).get("phase") == "Available" and not spec.get("claimRef")
    if not free or volume["metadata"].get("deletionTimestamp"):
        return False
    selector = wanted.get("selector")
    return (
        class_of(volume) == class_of(claim)
        and _mode(spec) == _mode(wanted)
        and (spec.get("volumeAttributesClassName") or "") == (wanted.get("volumeAttributesClassName") or "")
        and set(wanted.get("accessModes") or ()) <= set(spec.get("accessModes") or ())
        and size_of(volume) >= _asked(claim)
        and (selector is None or _selects(selector, volume["metadata"].get("labels") or {}))
    )


def smallest(volumes: Iterable[JSON], claim: JSON) -> JSON | None:
    """Return the volume that a claim gets: the smallest that suits it."""
    found = [one for one in volumes if suits(one, claim)]
    return min(found, key=lambda one: (size_of(one), one["metadata"]["name"]), default=None)


def volume_for(volumes: Iterable[JSON], claim: JSON, labels: Mapping[str, str], node: str) -> JSON | None:
    """Return the volume that a claim gets whose pod is on a node: one kept for it, else the smallest."""
    there = list(volumes)
    kept = [one for one in there if is_for(one, claim)]
    near = [one for one in kept or there if reaches(affinity_of(one), labels, node)]
    return next(iter(near), None) if kept else smallest(near, claim)


def kind_of(claim: JSON) -> str:
    """Return what volumes must have for a claim, as a name: that of equal claims is equal."""
    spec = claim.get("spec") or {}
    asked = [
        str(_asked(claim).nanos),
        sorted(spec.get("accessModes") or ()),
        _mode(spec),
        spec.get("selector"),
        spec.get("volumeAttributesClassName") or "",
    ]
    digest = blake2b(orjson.dumps(asked, option=orjson.OPT_SORT_KEYS), digest_size=6)
    return f"{class_of(claim)}/{digest.hexdigest()}"


def class_of(obj: JSON) -> str:
    """Return the storage class of a claim or volume; empty for none."""
    annotations = obj["metadata"].get("annotations") or {}
    old = annotations.get("volume.beta.kubernetes.io/storage-class")
    return str(old if old is not None else (obj.get("spec") or {}).get("storageClassName") or "")


def size_of(volume: JSON) -> Quantity:
    """Return how large a volume is."""
    return Quantity.parse((volume["spec"].get("capacity") or {}).get("storage") or "0")


def _asked(claim: JSON) -> Quantity:
    requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    return Quantity.parse(requests.get("storage") or "0")


def _mode(spec: JSON) -> str:
    return str(spec.get("volumeMode") or "Filesystem")


def _selects(selector: JSON, labels: Mapping[str, str]) -> bool:
    read = LabelSelector.model_validate(selector)
    return (not read.match_labels and not read.match_expressions) or matches(read, labels)
