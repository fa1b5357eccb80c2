"""Fragments: how much of a node's free devices a typical pod could not use.

The method is that of "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
Descent" (USENIX ATC 2023). A node's *fragments* for a shape are all of its free devices if a pod of the
shape does not fit there, and otherwise the free parts of those devices that are too small for it; over the
shapes of the present workload the mean is taken, by their number of pods. A pod is put where that mean
grows the least (or falls the most).

The paper's measure knows only what fits now. A second one looks ahead: the CPU that is left beside each
free device. Where it runs low, devices will be stranded; so a pod rather goes where it lowers that ratio
the least, and pods without devices rather to nodes without. Beyond ``enough`` more CPU is not better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from services.scheduler.core.columns import BoolArray, FloatArray, IntArray, SlotArray
from services.scheduler.core.devices import CORES, MEMORY, SHARES, WHOLE, Devices
from services.scheduler.core.devices import Free as FreeDevices
from services.scheduler.core.nodes import Nodes
from services.scheduler.core.resources import CPU
from services.scheduler.core.resources import MEMORY as RAM
from services.scheduler.core.shapes import Asked, Shape, Shapes
from services.scheduler.core.terms import Term
from services.scheduler.core.workload import Workload
from shared.events.contracts import DeviceRequest

if TYPE_CHECKING:
    from services.scheduler.core.policy import Fragmentation

_POINTS: Final = 100.0


@dataclass(slots=True)
class _Free:
    """What is free on nodes: of each device, and beside them."""

    devices: FreeDevices
    cpu: IntArray
    ram: IntArray

    def at(self, where: SlotArray) -> _Free:
        """Return it of some of the nodes, by their places here."""
        return _Free(self.devices.at(where), self.cpu[where], self.ram[where])


_Now = tuple[_Free, FloatArray]


class Typical:
    """The shapes that fragments are measured for: the present workload's, or given ones."""

    def __init__(
        self,
        nodes: Nodes,
        shapes: Shapes,
        workload: Workload,
        policy: Fragmentation | None,
        *,
        spread: bool = False,
    ) -> None:
        self._nodes = nodes
        self._workload = workload
        self.devices = Devices(nodes, spread=spread)
        self._given = [(shapes.intern(one.shape), one.weight) for one in policy.typical] if policy else []
        self._version = -1
        self._take(self._given)

    def refresh(self) -> int:
        """Follow the workload; return a number that rises when the shapes or their weights changed."""
        if not self._given and self._version != self._workload.version:
            self._version = self._workload.version
            self._take(self._workload.shapes())
        for rules in self._rules:
            rules.refresh()
        return self._version

    def _take(self, weighed: Sequence[tuple[Shape, int]]) -> None:
        self._known: IntArray = np.zeros(0, np.int64)
        """Versions of the nodes for which fragments are known."""
        self._fragments: FloatArray = np.zeros(0)
        asked = [(shape, weight, _main(shape.devices)) for shape, weight in weighed if shape.devices]
        kinds = list(dict.fromkeys(_size(one) for _, _, one in asked))
        self._kinds = [
            DeviceRequest(cores=cores, memory=memory, memory_percent=percent)
            for cores, memory, percent in kinds
        ]
        self._rules = list(dict.fromkeys(shape.rules for shape, _, _ in asked))
        self._kind = np.array([kinds.index(_size(one)) for _, _, one in asked], np.intp)
        self._rule = np.array([self._rules.index(shape.rules) for shape, _, _ in asked], np.intp)
        self._count = np.array([[one.count] for _, _, one in asked], np.int64).reshape(-1, 1)
        amounts = [dict(shape.amounts) for shape, _, _ in asked]
        self._cpu = np.array([[one.get(CPU, 0)] for one in amounts], np.int64).reshape(-1, 1)
        self._ram = np.array([[one.get(RAM, 0)] for one in amounts], np.int64).reshape(-1, 1)
        self._weights = np.array([[weight] for _, weight, _ in asked], np.int64).reshape(-1, 1)
        self._total = int(self._weights.sum())

    def now(self, slots: SlotArray) -> _Now:
        """Return what is free on nodes, and its fragments, of which those of unchanged nodes are known."""
        nodes = self._nodes
        cpu, ram = (nodes.allocatable[column][slots] - nodes.used[column][slots] for column in (CPU, RAM))
        free = _Free(self.devices.free(slots), cpu, ram)
        if self._known.size != nodes.exists.size:
            self._known = np.full(nodes.exists.size, -1, np.int64)
            self._fragments = np.zeros(nodes.exists.size)
        versions = np.array([nodes.version[slot] for slot in slots.tolist()], np.int64)
        stale = np.flatnonzero(self._known[slots] != versions)
        if stale.size:
            self._fragments[slots[stale]] = self.fragments(free.at(stale), slots[stale])
            self._known[slots[stale]] = versions[stale]
        return free, self._fragments[slots]

    def fragments(self, free: _Free, slots: SlotArray) -> FloatArray:
        """Return, in devices, what a typical pod could not use of what is free: [node]."""
        if not self._total:
            return np.zeros(slots.size)
        parts = self.parts(free, slots)
        fitting = np.empty((len(self._kinds), slots.size), np.int64)
        usable = np.empty((len(self._kinds), slots.size), np.int64)
        for number, kind in enumerate(self._kinds):
            fits = _holds(kind, self.devices.memory(kind, slots), free.devices)
            fitting[number] = fits.sum(axis=0)
            usable[number] = (parts * fits).sum(axis=0)
        allowed = np.stack([rules.allowed[slots] for rules in self._rules])[self._rule]
        runs = (
            allowed & (fitting[self._kind] >= self._count) & (free.cpu >= self._cpu) & (free.ram >= self._ram)
        )
        used = (self._weights * runs * usable[self._kind]).sum(axis=0)
        lost: FloatArray = (parts.sum(axis=0) - used / self._total) / WHOLE
        return lost

    def parts(self, free: _Free, slots: SlotArray) -> IntArray:
        """Return the free thousandths of each device: the scarcer of its compute and memory.

        Whole numbers, so that sums do not depend on the order.
        """
        memory = self._nodes.allocatable[self.devices.columns[:, MEMORY]][:, slots]
        of_memory = np.where(memory > 0, free.devices.parts[MEMORY] * WHOLE // np.maximum(memory, 1), WHOLE)
        part = np.minimum(free.devices.parts[CORES], of_memory)
        return np.where((free.devices.parts[SHARES] > 0) & (part > 0), part, 0)


def _main(asked: Asked) -> DeviceRequest:
    """Return the request that stands for a pod's: its largest part, of the most devices it asks for."""
    main = max(asked, key=_size)
    return main if len(asked) == 1 else main.model_copy(update={"count": max(one.count for one in asked)})


def _size(request: DeviceRequest) -> tuple[int, int, int]:
    return request.cores, request.memory, request.memory_percent


def _holds(kind: DeviceRequest, needed: int | IntArray, free: FreeDevices) -> BoolArray:
    """Return which devices have room for such a part: [device, node]."""
    cores, memory, shares = free.parts
    holds: BoolArray = (cores >= max(kind.cores, 1)) & (memory >= needed) & (shares > 0)
    return holds & (free.taken == 0) if kind.cores == WHOLE else holds


class Gradient(Term):
    """How much a pod would lessen fragments, and CPU beside free devices: points for each device."""

    def __init__(self, shape: Shape, nodes: Nodes, typical: Typical, policy: Fragmentation) -> None:
        amounts = dict(shape.amounts)
        self._shape = shape
        self._nodes = nodes
        self._typical = typical
        self._policy = policy
        self._cpu, self._ram = amounts.get(CPU, 0), amounts.get(RAM, 0)

    def refresh(self) -> int:
        """Follow the workload."""
        return self._typical.refresh()

    def many(self, slots: SlotArray) -> FloatArray:
        """Return the points of nodes that have room for one more pod."""
        if not slots.size:
            return np.zeros(0)
        typical, policy = self._typical, self._policy
        before, fragments = typical.now(slots)
        beside = self._beside(before, slots)
        after = self._after(before)
        lessened = fragments - typical.fragments(after, slots)
        spared = self._beside(after, slots) - beside
        return _POINTS * (policy.weight * lessened + policy.cpu_weight * spared)

    def _after(self, free: _Free) -> _Free:
        """Take one more pod's part off what is free."""
        free.cpu -= self._cpu
        free.ram -= self._ram
        if self._shape.devices:
            self._typical.devices.take(self._shape.devices, free.devices)
        return free

    def _beside(self, free: _Free, slots: SlotArray) -> FloatArray:
        """Return the cores of CPU beside each free device, up to what is enough.

        Where none is free none lacks any: to fill a node's last device must not look like a loss.
        """
        devices = self._typical.parts(free, slots).sum(axis=0)
        ratio = np.minimum(np.maximum(free.cpu, 0) / np.maximum(devices, 1), self._policy.enough_cpu)
        return np.where(devices > 0, ratio, self._policy.enough_cpu)
