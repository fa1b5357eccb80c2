"""CPUs by NUMA node: which nodes align pods as they ask, and of which NUMA nodes a pod gets its CPUs.

A NUMA node is a column of ``nodes``, of the CPUs that pods have for themselves; so what is used of it follows
events, trials and flights with all the rest, and a pod with such CPUs is charged as its shape *on* them. Only
Guaranteed pods that ask for whole CPUs have any, and only on nodes whose CPU manager is ``static`` and whose
topology manager aligns; pods on other nodes are charged nothing here.

A container's CPUs are of as few NUMA nodes as have so many free, of equals those with the lowest numbers, as
kubelet's topology manager has it. By ``best-effort`` that is all; by ``restricted`` it must be as few as
would do if nothing were used; by ``single-numa-node`` it must be one. Containers are served one by one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import numpy as np

from services.scheduler.core.columns import BoolArray, CodeArray, IntArray, SlotArray
from services.scheduler.core.numafit import (
    BEST_EFFORT,
    MOST_PODS,
    RESTRICTED,
    SINGLE,
    Machines,
    count_pods,
    serve,
    take,
)
from services.scheduler.core.resources import UNLIMITED, numa_name
from shared.events.contracts import NumaCpus, NumaTopology

if TYPE_CHECKING:
    from services.scheduler.core.nodes import Nodes
    from services.scheduler.core.shapes import Shape

_CODES: Final = {"best-effort": BEST_EFFORT, "restricted": RESTRICTED, "single-numa-node": SINGLE}
_STATIC: Final = "static"
_NONE: Final = -1

Cells = tuple[tuple[int, int], ...]
"""CPUs that a pod has for itself: the number of a NUMA node, and how many."""


def numa_room(topology: NumaTopology | None) -> dict[str, int]:
    """Return what a node's NUMA nodes have for pods, by the names of their columns."""
    return {} if topology is None else {numa_name(one.number): one.usable for one in topology.nodes}


def cells_of(cpus: Iterable[NumaCpus]) -> Cells:
    """Return CPUs as the core has them, in order; those of one NUMA node once."""
    sums: dict[int, int] = {}
    for one in cpus:
        sums[one.node] = sums.get(one.node, 0) + one.cpus
    return tuple(sorted(sums.items()))


def numa_cpus(cells: Cells) -> tuple[NumaCpus, ...]:
    """Return CPUs as events have them; they are ours, and not validated again."""
    if not cells:
        return ()
    return tuple(NumaCpus.model_construct(node=number, cpus=cpus) for number, cpus in cells)


def policy_code(policy: str) -> int:
    """Return the code of a policy that pods ask for; of one that no kubelet has, a code that no node has."""
    return _CODES.get(policy, _NONE)


class NumaOnNodes:
    """By slot: how its kubelet aligns pods, and how many CPUs its NUMA nodes have in all."""

    def __init__(self) -> None:
        self.heeded = False
        """The policy says so."""
        self.told: dict[int, NumaTopology] = {}
        """By slot of nodes whose topology is known."""
        self.codes: CodeArray = np.zeros(0, np.int32)
        """How pods are aligned; 0: not at all. Nodes behind the end are of that kind."""
        self.cpus: dict[int, IntArray] = {}
        """How many CPUs NUMA nodes have in all, by their number; as long as ``codes``."""
        self.aligning = 0
        """How many nodes align pods."""

    @property
    def active(self) -> bool:
        """Whether some node aligns pods, and that counts."""
        return self.heeded and self.aligning > 0

    def set(self, slot: int, topology: NumaTopology | None) -> bool:
        """Take in what a node tells; say whether that is new."""
        if self.told.get(slot) == topology:
            return False
        if topology is None:
            del self.told[slot]
        else:
            self.told[slot] = topology
        aligns = topology is not None and topology.cpu_manager == _STATIC
        code = _CODES.get(topology.policy, 0) if topology is not None and aligns else 0
        if slot >= self.codes.size:
            self._grow(max(2 * self.codes.size, slot + 1) - self.codes.size)
        self.aligning += bool(code) - bool(self.codes[slot])
        self.codes[slot] = code
        for row in self.cpus.values():
            row[slot] = 0
        for one in topology.nodes if topology is not None else ():
            row = self.cpus.setdefault(one.number, np.zeros(self.codes.size, np.int64))
            row[slot] = one.cpus
        return True

    def _grow(self, extra: int) -> None:
        self.codes = np.pad(self.codes, (0, extra))
        self.cpus = {number: np.pad(row, (0, extra)) for number, row in self.cpus.items()}

    def code_of(self, slots: SlotArray) -> CodeArray:
        """Return the codes of nodes."""
        if not self.codes.size:
            return np.zeros(slots.size, np.int32)
        there = slots < self.codes.size
        return np.where(there, self.codes[np.where(there, slots, 0)], 0)

    def most_of(self, slots: SlotArray) -> int:
        """Return how many NUMA nodes one of these nodes has at most."""
        inside = slots[slots < self.codes.size]
        some = [row[inside] > 0 for row in self.cpus.values()]
        return int(np.sum(some, axis=0).max(initial=0)) if some else 0

    def aligns(self, slot: int) -> bool:
        """Whether a node aligns pods."""
        return slot < self.codes.size and self.codes.item(slot) > 0

    def passes(self, policy: str, slots: SlotArray) -> BoolArray:
        """Return on which nodes pods of a policy may run at all."""
        if not self.heeded or not policy:
            return np.ones(slots.size, np.bool_)
        return np.asarray(self.code_of(slots) == policy_code(policy))


class Numa:
    """Where pods with CPUs of their own fit, and which they get."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def on(self, shape: Shape, cells: Cells) -> Shape:
        """Return the shape as it is charged with these CPUs of a node."""
        if not cells:
            return shape
        found = shape.placed.get(cells)
        if found is None:
            resources = self._nodes.resources
            added = resources.amounts({numa_name(number): cpus for number, cpus in cells})
            self._nodes.fit_columns()
            found = shape.placed[cells] = shape.on(added, cells=cells)
        return found

    def fits(
        self, cpus: tuple[int, ...], slots: SlotArray, *, empty: bool = False, most: IntArray | None = None
    ) -> IntArray:
        """Return how many pods fit on each node, up to ``most``; ``empty``: if nothing were used.

        A node that does not align takes any number.
        """
        fits = np.full(slots.size, UNLIMITED, np.int64)
        where = np.flatnonzero(self._nodes.numa.code_of(slots))
        if where.size:
            limit = np.full(where.size, MOST_PODS) if most is None else np.minimum(most[where], MOST_PODS)
            fits[where] = count_pods(self._machines(slots[where], empty=empty), cpus, limit)
        return fits

    def choose(self, cpus: tuple[int, ...], slot: int) -> Cells:
        """Return the CPUs that a pod gets on a node where it fits; none where pods are not aligned."""
        if not self._nodes.numa.aligns(slot):
            return ()
        nodes, numbers = self._nodes, self._numbers()
        columns = [nodes.resources.numa[number] for number in numbers]
        there, used = nodes.allocatable_rows, nodes.used_rows
        taken = take([max(0, there[column][slot] - used[column][slot]) for column in columns], cpus)
        return tuple((number, count) for number, count in zip(numbers, taken, strict=True) if count)

    def spans(self, cpus: tuple[int, ...], slots: SlotArray) -> IntArray:
        """Return of how many NUMA nodes one more pod would have CPUs on each node."""
        spans = np.zeros(slots.size, np.int64)
        where = np.flatnonzero(self._nodes.numa.code_of(slots))
        if where.size:
            spans[where] = (serve(self._machines(slots[where]), cpus)[1] > 0).sum(axis=0)
        return spans

    def most_free(self, slots: SlotArray, *, empty: bool = False) -> int:
        """Return how many CPUs are free at most of one NUMA node of these nodes."""
        where = slots[self._nodes.numa.code_of(slots) > 0]
        return int(self._machines(where, empty=empty).free.max(initial=0))

    def _numbers(self) -> list[int]:
        return sorted(self._nodes.resources.numa)

    def _machines(self, slots: SlotArray, *, empty: bool = False) -> Machines:
        """Return what is free on nodes that align, or what would be if nothing were used."""
        nodes, numbers = self._nodes, self._numbers()
        columns = [nodes.resources.numa[number] for number in numbers]
        nodes.fit_columns()
        room: IntArray = nodes.allocatable[columns][:, slots]
        free = room if empty else np.maximum(room - nodes.used[columns][:, slots], 0)
        there = np.zeros_like(free)
        for at, number in enumerate(numbers):
            if number in nodes.numa.cpus:
                there[at] = nodes.numa.cpus[number][slots]
        return Machines(nodes.numa.code_of(slots), free, there)
