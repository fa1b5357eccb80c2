"""Parts of devices: which of a node's devices a pod gets.

A device of a node is three columns of ``nodes``, as resources are: compute in thousandths, memory in MiB,
and places for pods. So what is used and what there is follow events, trials and flights with all the rest;
a pod that has devices is charged as its shape *on* them (``Shape.on``).

A pod that takes all of a device's compute takes one that nobody else uses; one that takes only memory goes
wherever compute is left. A part is taken of the device that it fills best, so that whole devices stay free;
a pod that wants several gets those which hold most of its like: then as many fit together as can.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from services.scheduler.core.columns import BoolArray, IntArray, SlotArray
from services.scheduler.core.nodes import Nodes
from services.scheduler.core.resources import UNLIMITED, Amounts, device_name
from services.scheduler.core.shapes import Shape
from shared.events.contracts import Device, DeviceRequest

WHOLE: Final = 1000
CORES, MEMORY, SHARES = range(3)
_MOST_PODS: Final = 1 << 16
"""On one device: more is taken for so many."""


def device_room(devices: tuple[Device, ...]) -> dict[str, int]:
    """Return what a node's devices have, by the names of their columns."""
    room: dict[str, int] = {}
    for at, device in enumerate(devices):
        amounts = (device.cores, device.memory, device.shares or UNLIMITED)
        room |= {device_name(at, part): amount for part, amount in enumerate(amounts) if device.cores}
    return room


class Devices:
    """The devices of all nodes."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._columns: npt.NDArray[np.intp] = np.zeros((0, 3), np.intp)

    @property
    def most(self) -> int:
        """Of the node that has the most."""
        return len(self.columns)

    @property
    def columns(self) -> npt.NDArray[np.intp]:
        """Columns of the nodes' tables: [device, part]."""
        known = self._nodes.resources.devices
        if len(self._columns) != known:
            column = self._nodes.resources.column
            rows = [[column(device_name(at, part)) for part in range(3)] for at in range(known)]
            self._columns = np.array(rows, np.intp).reshape(known, 3)
            self._nodes.fit_columns()
        return self._columns

    def on(self, shape: Shape, devices: tuple[int, ...]) -> Shape:
        """Return the shape as it is charged on these devices of a node."""
        request = shape.devices
        if request is None or not devices:
            return shape
        found = shape.placed.get(devices)
        if found is None:
            resources = self._nodes.resources
            parts = (request.cores, request.memory, 1)
            added = {device_name(at, part): amount for at in devices for part, amount in enumerate(parts)}
            charged: Amounts = (*shape.charged, *resources.amounts(added))
            self._nodes.fit_columns()
            found = shape.placed[devices] = shape.on(devices, charged)
        return found

    def free(self, slots: SlotArray) -> IntArray:
        """Return what is free: [part, device, node]."""
        columns = self.columns.T
        nodes = self._nodes
        return nodes.allocatable[columns][:, :, slots] - nodes.used[columns][:, :, slots]

    def unused(self, slots: SlotArray) -> BoolArray:
        """Return which devices nobody uses: [device, node]."""
        columns = self.columns[:, SHARES]
        unused: BoolArray = self._nodes.used[columns][:, slots] == 0
        return unused

    def fits(self, request: DeviceRequest, slots: SlotArray, *, empty: bool = False) -> IntArray:
        """Return how many pods' devices fit on each node (``empty``: if nothing were used)."""
        if empty:
            free = self._nodes.allocatable[self.columns.T][:, :, slots]
            each = _each(request, free, np.ones(free.shape[1:], np.bool_))
        else:
            each = _each(request, self.free(slots), self.unused(slots))
        if request.count == 1:
            fits: IntArray = each.sum(axis=0)
            return fits
        return _together(each, request.count)

    def choose(self, request: DeviceRequest, free: IntArray, unused: BoolArray) -> IntArray:
        """Return the devices that a pod gets on nodes where it fits: [count, node]."""
        each = _each(request, free, unused)
        left = (free[CORES] << 32) | np.minimum(free[MEMORY], (1 << 32) - 1)
        if request.count == 1:
            best: IntArray = np.where(each > 0, left, np.iinfo(np.int64).max).argmin(axis=0)
            return best[None, :]
        order: IntArray = np.lexsort((left, -each), axis=0)
        return order[: request.count]


def _each(request: DeviceRequest, free: IntArray, unused: BoolArray) -> IntArray:
    """Return how many such parts each device has room for: [device, node]."""
    each = np.minimum(free[SHARES], _MOST_PODS)
    if request.cores:
        each = np.minimum(each, free[CORES] // request.cores)
    if request.memory:
        each = np.minimum(each, free[MEMORY] // request.memory)
    usable = free[CORES] > 0
    if request.cores == WHOLE:
        usable &= unused
        each = np.minimum(each, 1)
    return np.where(usable, np.maximum(each, 0), 0)


def _together(each: IntArray, count: int) -> IntArray:
    """Return how many pods that want ``count`` different devices fit.

    It is p if the devices hold p·count parts when each may hold p at most.
    """
    fits = np.zeros(each.shape[1], np.int64)
    most = int(each.sum(axis=0).max(initial=0)) // count
    for pods in range(1, most + 1):
        enough = np.minimum(each, pods).sum(axis=0) >= pods * count
        if not enough.any():
            break
        fits[enough] = pods
    return fits
