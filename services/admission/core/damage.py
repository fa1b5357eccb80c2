"""Which verdicts hold although parts of the object could not be read.

A value of a wrong type is read as if it said nothing (:mod:`services.admission.core.reading`). A rule that
looked at it may then complain of what the user did not do. What such a rule found is left out; all other
rules are believed, so that one wrong type hides nothing but what depends on it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from services.admission.core.violations import Violation

_TASK_NAMES: Final = "spec.tasks[*].name"
_SIBLING: Final = "@"
"""Begins the path of a field beside the one that a violation is about."""
LOOKS_AT: Final[Mapping[str, tuple[str, ...]]] = {
    "cyclic-dependency": (_TASK_NAMES,),
    "min-available-above-replicas": ("spec.tasks[*].replicas",),
    "mpi-master-not-found": (_TASK_NAMES,),
    "partition-min-available-mismatch": ("@.partitionPolicy",),
    "partition-size-mismatch": ("@.replicas",),
    "task-min-available-above-replicas": ("@.replicas",),
    "unknown-dependency": (_TASK_NAMES,),
    "unknown-target": ("spec.flows[*].name",),
}
"""By code, the fields that a rule looks at besides the one it complains of and what is in that."""
_VOLUME_MOUNT: Final = re.compile(r"^(.*\.spec)\.(?:initC|c)ontainers\[\d+]\.volume")
"""A mount: whether its volume exists is seen in the pod's volumes."""

_RESOURCES: Final = ".resources."


def standing(found: Iterable[Violation], damaged: Collection[str]) -> Iterator[Violation]:
    """Yield the violations that hold whatever the values at the damaged paths were meant to be."""
    for violation in found:
        if not any(_touches(place, seen) for place in damaged for seen in _seen(violation)):
            yield violation


def _seen(violation: Violation) -> Iterator[str]:
    yield violation.path
    for field in LOOKS_AT.get(violation.code, ()):
        yield field.replace(_SIBLING, violation.path.rpartition(".")[0])
    if violation.code == "not-found" and (mount := _VOLUME_MOUNT.match(violation.path)):
        yield f"{mount[1]}.volumes"
    if _RESOURCES in violation.path:  # requests and limits are judged by each other
        yield violation.path.partition(_RESOURCES)[0] + _RESOURCES.rstrip(".")


def _touches(damaged: str, seen: str) -> bool:
    """Say whether one of two paths is, contains or lies in the other; ``[*]`` is any entry."""
    ours, theirs = _steps(damaged), _steps(seen)
    return all(a == b or "[*]" in (a, b) for a, b in zip(ours, theirs, strict=False))


def _steps(path: str) -> list[str]:
    return re.findall(r"\[[^\]]*]|[^.\[]+", path)
