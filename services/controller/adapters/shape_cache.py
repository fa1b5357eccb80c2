"""Shapes of pods, made once for all pods of a template."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Final, Protocol

import orjson

from services.controller.adapters.label_keys import LabelKeys
from services.controller.core.claiming import NONE, Claims, completed
from services.controller.core.devices import MARKS
from services.controller.core.kin import chosen
from services.controller.core.model import JSON, Priorities
from services.controller.core.shapes import marks_of, shape_of
from shared.api import names
from shared.api.pods import PodSpec
from shared.events.contracts import Shape, Volumes

_SHAPE_FIELDS: Final = (
    "containers",
    "initContainers",
    "resources",
    "overhead",
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "priority",
    "priorityClassName",
    "schedulingGates",
    "hostNetwork",
    "volumes",
    "resourceClaims",
)
_ANNOTATIONS: Final = (names.PREEMPTABLE, names.REVOCABLE_ZONE, names.NUMA_TOPOLOGY_POLICY, *MARKS)
"""Annotations that a shape depends on."""
_PLACING: Final = ("image", "resources", "ports", "restartPolicy")


class ClaimsOfPod(Protocol):
    """Says what the claims of a pod come to that its shape (its ``extras``) names."""

    def __call__(self, namespace: str, extras: Mapping[str, Any], *, pod: JSON | None) -> Claims:
        """Return what they come to."""
        ...


class Shapes:
    """Shapes of pods, each made once: the pods of a job differ only in what a shape leaves out."""

    _LIMIT: Final = 4096

    def __init__(self, keys: LabelKeys, claims_of: ClaimsOfPod) -> None:
        self._keys = keys
        self._claims_of = claims_of
        self._known: dict[Hashable, Shape] = {}
        self._completed: dict[Hashable, tuple[Shape, Volumes | None, Shape]] = {}
        """By identity, labels and claims: the shape by itself and the volumes (which keep their identities),
        and the shape with them."""

    def completed(self, pod: JSON, priorities: Priorities) -> Shape:
        """Return a pod's shape with labels that count and what its claims come to. Raises as :meth:`of`."""
        shape = self.of(pod, priorities)
        meta = pod["metadata"]
        labels = chosen(meta.get("labels") or {}, self._keys.known)
        claims = self._claims_of(meta["namespace"], shape.extras, pod=pod) if shape.extras else NONE
        if not labels and claims == NONE:
            return shape
        volumes = claims.volumes
        key = (id(shape), tuple(labels.items()), id(volumes), claims.devices)
        known = self._completed.get(key)
        if known is None or known[0] is not shape or known[1] is not volumes:
            if len(self._completed) >= self._LIMIT:
                self._completed.clear()
            known = self._completed[key] = (shape, volumes, completed(shape, labels, claims))
        return known[2]

    def of(self, pod: JSON, priorities: Priorities) -> Shape:
        """Return a pod's shape. Raises ValueError for one that cannot be read."""
        spec: dict[str, Any] = pod.get("spec") or {}
        annotations = marks_of(pod)
        relevant = {name: spec[name] for name in _SHAPE_FIELDS if name in spec}
        relevant["containers"] = [placing(one) for one in spec.get("containers") or ()]
        priority = priorities.of(spec.get("priorityClassName") or "")
        said = tuple(map(annotations.get, _ANNOTATIONS))
        key = (orjson.dumps(relevant), said, priority)
        shape = self._known.get(key)
        if shape is None:
            if len(self._known) >= self._LIMIT:
                self._known.clear()
            shape = shape_of(PodSpec.model_validate(relevant), annotations, priorities)
            self._known[key] = shape
            self._keys.learn(shape)
        return shape


def placing(container: JSON) -> JSON:
    """Return the part of a container that placement depends on."""
    return {name: container[name] for name in _PLACING if name in container}
