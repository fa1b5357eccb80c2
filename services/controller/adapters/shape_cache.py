"""Shapes of pods, made once for all pods of a template."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

import orjson

from services.controller.adapters.label_keys import LabelKeys
from services.controller.core.devices import MARKS
from services.controller.core.kin import chosen
from services.controller.core.model import JSON, Priorities
from services.controller.core.shapes import marks_of, shape_of
from shared.api import names
from shared.api.pods import PodSpec
from shared.events.contracts import Shape

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
)


class Shapes:
    """Shapes of pods, each made once: the pods of a job differ only in what a shape leaves out."""

    _LIMIT: Final = 4096

    def __init__(self, keys: LabelKeys) -> None:
        self._keys = keys
        self._known: dict[Hashable, Shape] = {}
        self._labelled: dict[Hashable, tuple[Shape, Shape]] = {}
        """By identity and labels: the shape without labels (which keeps its identity), and with them."""

    def labelled(self, pod: JSON, priorities: Priorities) -> Shape:
        """Return a pod's shape with the labels that placing depends on. Raises as :meth:`of`."""
        shape = self.of(pod, priorities)
        labels = chosen(pod["metadata"].get("labels") or {}, self._keys.known)
        if not labels:
            return shape
        key = (id(shape), tuple(labels.items()))
        known = self._labelled.get(key)
        if known is None or known[0] is not shape:
            if len(self._labelled) >= self._LIMIT:
                self._labelled.clear()
            known = self._labelled[key] = (shape, shape.model_copy(update={"labels": labels}))
        return known[1]

    def of(self, pod: JSON, priorities: Priorities) -> Shape:
        """Return a pod's shape. Raises ValueError for one that cannot be read."""
        spec: dict[str, Any] = pod.get("spec") or {}
        annotations = marks_of(pod)
        relevant = {name: spec[name] for name in _SHAPE_FIELDS if name in spec}
        relevant["containers"] = [placing(one) for one in spec.get("containers") or ()]
        priority = priorities.of(spec.get("priorityClassName") or "")
        said = tuple(annotations.get(name) for name in (names.PREEMPTABLE, names.REVOCABLE_ZONE, *MARKS))
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
    return {name: container[name] for name in ("resources", "ports", "restartPolicy") if name in container}
