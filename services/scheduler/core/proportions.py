"""What pods that need no scarce resource leave free beside it: ``proportional`` of ``resource-strategy-fit``.

For each unit of a scarce resource that is idle on a node, so much CPU and memory stays free there for the
pods that will use it. What is in use keeps nothing: a pod that takes scarce resources makes room for others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from services.scheduler.core.columns import FloatArray, IntArray
from services.scheduler.core.policy import Proportion
from services.scheduler.core.resources import CPU, MEMORY, UNLIMITED, Amounts, Resources


@dataclass(frozen=True, slots=True)
class Leaves:
    """So much of ``column`` stays free for each idle unit of ``scarce``."""

    scarce: int
    column: int
    each: float


def leaves_of(
    proportions: tuple[Proportion, ...], amounts: Amounts, resources: Resources
) -> tuple[Leaves, ...]:
    """Return what pods with these requests have to leave; nothing if they ask for something scarce."""
    asked = {column for column, _ in amounts}
    found: list[Leaves] = []
    for one in proportions:
        scarce = resources.column(one.resource)
        if scarce in asked:
            return ()
        found += [
            Leaves(scarce, column, each) for column, each in ((CPU, one.cpu), (MEMORY, one.memory)) if each
        ]
    return tuple(found)


def kept(leaves: tuple[Leaves, ...], column: int, free: Callable[[int], IntArray]) -> FloatArray | float:
    """Return how much of a column stays free on nodes with so much free of each."""
    most: FloatArray | float = 0.0
    for one in leaves:
        if one.column == column:
            most = np.maximum(most, one.each * np.maximum(free(one.scarce), 0))
    return most


def most_pods(
    leaves: tuple[Leaves, ...], amounts: Amounts, free: Callable[[int], IntArray]
) -> IntArray | int:
    """Return how many pods may be placed on nodes with so much free: 0 where too little is left already."""
    asked = dict(amounts)
    fits: IntArray | int = UNLIMITED
    for column in dict.fromkeys(one.column for one in leaves):
        spare = free(column) - kept(leaves, column, free)
        amount = asked.get(column, 0)
        room = np.floor(spare / amount) if amount else np.where(spare >= 0, UNLIMITED, 0)
        fits = np.minimum(fits, np.maximum(room, 0).astype(np.int64))
    return fits
