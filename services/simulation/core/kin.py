"""Which labels of pods count in a scenario: those that some pod of it asks for, from the beginning.

(In a cluster they count from the moment at which such a pod appears; what is decided is the same.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from services.controller.core.kin import asked_keys
from services.controller.core.model import Priorities
from services.controller.core.shapes import shape_of
from shared.api.base import JSON
from shared.api.pods import PodSpec


def label_keys(objects: Iterable[JSON]) -> frozenset[str]:
    """Return the keys of labels that the pods and templates among some objects ask other pods for."""
    shapes = (shape_of(PodSpec.model_validate(spec), {}, Priorities()) for spec in _specs(objects))
    return frozenset(key for shape in shapes for key in asked_keys(shape.extras))


def _specs(objects: Iterable[JSON]) -> Iterator[JSON]:
    for one in objects:
        spec = one.get("spec") or {}
        if one.get("kind") == "Pod":
            yield spec
        elif one.get("kind") == "Job":
            for task in spec.get("tasks") or ():
                yield (task.get("template") or {}).get("spec") or {}
