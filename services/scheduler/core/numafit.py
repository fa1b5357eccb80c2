"""Which CPUs of NUMA nodes containers get, and how many pods fit: formulas over amounts of many machines.

Kubelet's topology manager looks at all sets of NUMA nodes that have as many CPUs free as a container asks
for. It takes the narrowest, of equals that with the lowest numbers, and refuses it where it is wider than its
policy lets it be. All sets need not be looked at for that: the largest amounts say how narrow it can be, and
a NUMA node of a high number belongs to it only if those below it do not have enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from services.scheduler.core.columns import BoolArray, CodeArray, IntArray, SlotArray

BEST_EFFORT, RESTRICTED, SINGLE = 1, 2, 3
"""How a machine aligns."""
MOST_PODS: Final = 1 << 16
"""On one node: more is taken for so many."""
_LAST: Final = np.iinfo(np.int64).max


@dataclass(slots=True)
class Machines:
    """Some nodes that align: the caller's own, to take from."""

    codes: CodeArray
    free: IntArray
    """[NUMA node, node]"""
    there: IntArray
    """CPUs in all: [NUMA node, node]"""

    def at(self, where: SlotArray | BoolArray) -> Machines:
        """Return some of them, by their places here."""
        return Machines(self.codes[where], self.free[:, where], self.there[:, where])


def count_pods(machines: Machines, cpus: tuple[int, ...], limit: IntArray) -> IntArray:
    """Return how many pods fit on each of some nodes that align, up to a limit for each."""
    total = machines.free.sum(axis=0) // sum(cpus)
    fits: IntArray = np.minimum(total, limit)
    inside = np.zeros(fits.size, np.bool_)
    if len(cpus) == 1:
        # Containers that must have the CPUs of one NUMA node: it matters to nobody which.
        inside = machines.codes == SINGLE
        inside |= (machines.codes == RESTRICTED) & (_narrowest(machines.there, cpus[0]) == 1)
        fits[inside] = np.minimum(fits, (machines.free // cpus[0]).sum(axis=0))[inside]
    by_trial = np.flatnonzero((machines.codes != BEST_EFFORT) & ~inside & (fits > 0))
    if by_trial.size:
        fits[by_trial] = _one_by_one(machines.at(by_trial), cpus, fits[by_trial])
    return fits


def _one_by_one(machines: Machines, cpus: tuple[int, ...], limit: IntArray) -> IntArray:
    """Return how many pods fit, by placing one on every node until no node takes another."""
    fits = np.zeros(limit.size, np.int64)
    where = np.arange(limit.size)
    while where.size:
        fitted, taken = serve(machines, cpus)
        machines.free -= taken
        fits[where[fitted]] += 1
        again = fitted & (fits[where] < limit[where])
        where, machines = where[again], machines.at(again)
    return fits


def serve(machines: Machines, cpus: tuple[int, ...]) -> tuple[BoolArray, IntArray]:
    """Return on which nodes one pod fits, and what it takes there: [NUMA node, node]."""
    fitted = np.ones(machines.codes.size, np.bool_)
    taken = np.zeros_like(machines.free)
    for count in cpus:
        free = machines.free - taken
        size = _narrowest(free, count)
        least = np.where(machines.codes == RESTRICTED, _narrowest(machines.there, count), len(free))
        fitted &= size <= np.where(machines.codes == SINGLE, 1, np.minimum(least, len(free)))
        taken += _split(free, count, size)
    return fitted, np.where(fitted, taken, 0)


def _narrowest(amounts: IntArray, count: int) -> IntArray:
    """Return how many NUMA nodes it takes at least to have so many CPUs; one more than all: too few."""
    largest_first = -np.sort(-amounts, axis=0)
    size: IntArray = (np.cumsum(largest_first, axis=0) < count).sum(axis=0) + 1
    return size


def _split(free: IntArray, count: int, size: IntArray) -> IntArray:
    """Return what a container takes of each NUMA node: of the lowest that have so many, ``size`` of them.

    Those with the least free are taken whole, so that what is left is of one.
    """
    chosen, left, need = np.zeros(free.shape, np.bool_), size.copy(), np.full(size.size, count)
    for at in range(len(free) - 1, -1, -1):
        below = np.cumsum(-np.sort(-free[:at], axis=0), axis=0) if at else np.zeros((1, size.size), np.int64)
        most = below[np.clip(left - 1, 0, len(below) - 1), np.arange(size.size)]
        chosen[at] = (left > 0) & (most < need)
        left = left - chosen[at]
        need = need - np.where(chosen[at], free[at], 0)
    order = np.where(chosen, free, _LAST).argsort(axis=0, kind="stable")
    there = np.take_along_axis(np.where(chosen, free, 0), order, axis=0)
    before = np.cumsum(there, axis=0) - there
    taken = np.zeros_like(free)
    np.put_along_axis(taken, order, np.clip(count - before, 0, there), axis=0)
    return taken


def take(free: list[int], cpus: tuple[int, ...]) -> list[int]:
    """Return what a pod takes of each NUMA node of one machine where it fits: as serve, and faster."""
    taken = [0] * len(free)
    for count in cpus:
        left = count
        for at in sorted(_chosen(free, count), key=free.__getitem__):
            some = min(left, free[at])
            free[at] -= some
            taken[at] += some
            left -= some
    return taken


def _chosen(free: list[int], count: int) -> list[int]:
    """Return the fewest NUMA nodes that have so many CPUs, of equals the lowest, in their order."""
    left, largest = 0, sorted(free, reverse=True)
    while left < len(largest) and sum(largest[:left]) < count:
        left += 1
    chosen: list[int] = []
    for at in range(len(free) - 1, -1, -1):
        if left and sum(sorted(free[:at], reverse=True)[:left]) < count:
            chosen.append(at)
            count -= free[at]
            left -= 1
    return chosen[::-1]
