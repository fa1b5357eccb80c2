"""Parts of devices: which of a node's devices a pod gets.

A device of a node is three columns of ``nodes``, as resources are: compute in thousandths, memory in MiB,
and places for containers. So what is used and what there is follow events, trials and flights with all the
rest; a pod that has devices is charged as its shape *on* them (``Shape.on``).

Who takes all of a device's compute takes one that nobody else uses; who takes only memory goes wherever
compute is left. A part is taken of the device that it fills best, so that whole devices stay free (or, to
spread, of the device with the fewest parts taken); a container that wants several gets those which hold most
of its like: then as many fit together as can. Where several containers of a pod ask, they are served one
after the other, the largest part first, and how many such pods fit is found by placing them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from services.scheduler.core.columns import BoolArray, IntArray, SlotArray
from services.scheduler.core.eligible import Eligible
from services.scheduler.core.nodes import Nodes
from services.scheduler.core.resources import UNLIMITED, device_name
from services.scheduler.core.shapes import Asked, Part, Shape
from shared.events.contracts import Device, DeviceRequest

WHOLE: Final = 1000
CORES, MEMORY, SHARES = range(3)
_MOST_PODS: Final = 1 << 16
"""On one device: more is taken for so many."""
_LAST: Final = np.iinfo(np.int64).max


def device_room(devices: tuple[Device, ...]) -> dict[str, int]:
    """Return what a node's devices have, by the names of their columns."""
    room: dict[str, int] = {}
    for at, device in enumerate(devices):
        amounts = (device.cores, device.memory, device.shares or UNLIMITED)
        room |= {device_name(at, part): amount for part, amount in enumerate(amounts) if device.cores}
    return room


@dataclass(slots=True)
class Free:
    """What is free of the devices of some nodes: the caller's own, to take from."""

    slots: SlotArray
    parts: IntArray
    """[part, device, node]"""
    taken: IntArray
    """How many parts are taken of each device: [device, node]"""

    def at(self, where: SlotArray | BoolArray) -> Free:
        """Return it of some of the nodes, by their places here."""
        return Free(self.slots[where], self.parts[:, :, where], self.taken[:, where])


class Devices:
    """The devices of all nodes. ``spread``: a part is taken of the device with the fewest parts taken."""

    def __init__(self, nodes: Nodes, *, spread: bool = False) -> None:
        self._nodes = nodes
        self._spread = spread
        self._columns: npt.NDArray[np.intp] = np.zeros((0, 3), np.intp)
        self._eligible: dict[DeviceRequest, Eligible] = {}

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

    # ------------------------------------------------------------------ what a pod has

    def parts(self, shape: Shape, devices: tuple[int, ...], slot: int) -> tuple[Part, ...]:
        """Return what a pod has on these devices of a node, given in the order in which it asks for them."""
        requests = [request for request in shape.devices for _ in range(request.count)]
        return tuple(
            (at, request.cores, self._memory_on(request, at, slot))
            for at, request in zip(devices, requests, strict=False)
        )

    def on(self, shape: Shape, parts: tuple[Part, ...]) -> Shape:
        """Return the shape as it is charged with these parts of a node's devices."""
        if not shape.devices or not parts:
            return shape
        found = shape.placed.get(parts)
        if found is None:
            resources = self._nodes.resources
            added: dict[str, int] = {}
            for at, cores, memory in parts:
                for part, amount in enumerate((cores, memory, 1)):
                    name = device_name(at, part)
                    added[name] = added.get(name, 0) + amount
            amounts = resources.amounts(added)
            self._nodes.fit_columns()
            found = shape.placed[parts] = shape.on(amounts, devices=tuple(at for at, _, _ in parts))
        return found

    def like(self, shape: Shape, bare: Shape) -> Shape:
        """Return a shape with the same parts of devices as another one that asks for the same."""
        if not shape.on_devices:
            return bare
        parts = next(parts for parts, one in shape.bare.placed.items() if one is shape)
        return self.on(bare, cast("tuple[Part, ...]", parts))

    def _memory_on(self, request: DeviceRequest, at: int, slot: int) -> int:
        if not request.memory_percent:
            return request.memory
        column = self.columns[at, MEMORY] if at < self.most else None
        there = 0 if column is None else self._nodes.allocatable.item(column, slot)
        return there * request.memory_percent // 100

    # ------------------------------------------------------------------ what is free

    def free(self, slots: SlotArray) -> Free:
        """Return what is free on nodes."""
        columns, nodes = self.columns.T, self._nodes
        used = nodes.used[columns][:, :, slots]
        return Free(slots, nodes.allocatable[columns][:, :, slots] - used, used[SHARES])

    def _empty(self, slots: SlotArray) -> Free:
        """Return what would be free on nodes if nothing were used."""
        there = self._nodes.allocatable[self.columns.T][:, :, slots]
        return Free(slots, there, np.zeros(there.shape[1:], np.int64))

    def memory(self, request: DeviceRequest, slots: SlotArray) -> int | IntArray:
        """Return how much memory a part has: on any device, or [device, node]."""
        if not request.memory_percent:
            return request.memory
        there: IntArray = self._nodes.allocatable[self.columns[:, MEMORY]][:, slots]
        return there * request.memory_percent // 100

    def usable(self, request: DeviceRequest, slots: SlotArray) -> BoolArray | None:
        """Return which devices a part may be of by what the device is: [device, node]; None: any."""
        if not Eligible.matters(request):
            return None
        known = self._eligible.get(request)
        if known is None:
            known = self._eligible[request] = Eligible(self._nodes, request)
        return known.at(slots, self.most)

    # ------------------------------------------------------------------ how many fit, and where

    def fits(
        self, asked: Asked, slots: SlotArray, *, empty: bool = False, most: IntArray | None = None
    ) -> IntArray:
        """Return how many pods' devices fit on each node, up to ``most``; ``empty``: if nothing were used."""
        if not self.most:
            return np.zeros(slots.size, np.int64)
        free = self._empty(slots) if empty else self.free(slots)
        request = asked[0]
        if len(asked) > 1 or (self._spread and request.count > 1):
            return self._one_by_one(asked, free, most)
        each = self._each(request, self.memory(request, slots), free)
        if request.count == 1:
            fits: IntArray = each.sum(axis=0)
            return fits
        return _together(each, request.count, _MOST_PODS if most is None else int(most.max(initial=0)))

    def holding(self, asked: Asked, slots: SlotArray, *, empty: bool = False) -> IntArray:
        """Return how many devices of each node hold the largest part that is asked for: [node]."""
        if not self.most:
            return np.zeros(slots.size, np.int64)
        free = self._empty(slots) if empty else self.free(slots)
        request = asked[_largest_first(asked)[0]]
        holds: IntArray = (self._each(request, self.memory(request, slots), free) > 0).sum(axis=0)
        return holds

    def choose(self, asked: Asked, free: Free) -> IntArray:
        """Return the devices of each part that a pod gets on nodes where it fits: [part, node]."""
        if len(asked) == 1:
            request = asked[0]
            return self._pick(request, self._each(request, self.memory(request, free.slots), free), free)
        return self.take(asked, free)

    def take(self, asked: Asked, free: Free) -> IntArray:
        """Take a pod's parts off what is free; return their devices: [part, node]."""
        if len(asked) == 1:
            return self._serve(asked[0], free)[1]
        chosen = {at: self._serve(asked[at], free)[1] for at in _largest_first(asked)}
        return np.concatenate([chosen[at] for at in range(len(asked))])

    def _serve(self, request: DeviceRequest, free: Free) -> tuple[IntArray, IntArray]:
        """Take a container's parts; return how many each device had room for, and the devices chosen."""
        memory = self.memory(request, free.slots)
        each = self._each(request, memory, free)
        some, nodes = self._pick(request, each, free), np.arange(free.slots.size)
        free.parts[CORES][some, nodes] -= request.cores
        free.parts[MEMORY][some, nodes] -= memory if isinstance(memory, int) else memory[some, nodes]
        free.parts[SHARES][some, nodes] -= 1
        free.taken[some, nodes] += 1
        return each, some

    def _one_by_one(self, asked: Asked, free: Free, most: IntArray | None) -> IntArray:
        """Return how many pods fit, by placing one on every node until no node takes another."""
        limit = np.full(free.slots.size, _MOST_PODS) if most is None else np.minimum(most, _MOST_PODS)
        order = [asked[at] for at in _largest_first(asked)]
        fits = np.zeros(free.slots.size, np.int64)
        where = np.flatnonzero(limit > 0)
        free = free.at(where)
        while where.size:
            fitted = np.ones(where.size, np.bool_)
            for request in order:
                fitted &= (self._serve(request, free)[0] > 0).sum(axis=0) >= request.count
            fits[where[fitted]] += 1
            again = fitted & (fits[where] < limit[where])
            where, free = where[again], free.at(again)
        return fits

    def _each(self, request: DeviceRequest, memory: int | IntArray, free: Free) -> IntArray:
        """Return how many such parts each device has room for: [device, node]."""
        each = np.minimum(free.parts[SHARES], _MOST_PODS)
        if request.cores:
            each = np.minimum(each, free.parts[CORES] // request.cores)
        if isinstance(memory, int):
            if memory:
                each = np.minimum(each, free.parts[MEMORY] // memory)
        else:
            room = np.where(memory > 0, free.parts[MEMORY] // np.maximum(memory, 1), _MOST_PODS)
            each = np.minimum(each, room)
        usable = free.parts[CORES] > 0
        if request.cores == WHOLE:
            usable &= free.taken == 0
            each = np.minimum(each, 1)
        some = self.usable(request, free.slots)
        if some is not None:
            usable &= some
        return np.where(usable, np.maximum(each, 0), 0)

    def _pick(self, request: DeviceRequest, each: IntArray, free: Free) -> IntArray:
        """Return the devices that a part is taken of on nodes where it fits: [count, node]."""
        if self._spread:
            order = np.where(each > 0, free.taken, _LAST).argsort(axis=0, kind="stable")
            return order[: request.count]
        left = (free.parts[CORES] << 32) | np.minimum(free.parts[MEMORY], (1 << 32) - 1)
        if request.count == 1:
            best: IntArray = np.where(each > 0, left, _LAST).argmin(axis=0)
            return best[None, :]
        ranked: IntArray = np.lexsort((left, -each), axis=0)
        return ranked[: request.count]


def _largest_first(asked: Asked) -> list[int]:
    """Return the places of requests in the order in which they are served."""
    if len(asked) == 1:
        return [0]
    size = [(one.cores, one.memory_percent, one.memory, one.count) for one in asked]
    return sorted(range(len(asked)), key=size.__getitem__, reverse=True)


def _together(each: IntArray, count: int, limit: int) -> IntArray:
    """Return how many pods that want ``count`` different devices fit, up to ``limit``.

    It is p if the devices hold p·count parts when each may hold p at most.
    """
    fits = np.zeros(each.shape[1], np.int64)
    most = min(int(each.sum(axis=0).max(initial=0)) // count, limit)
    for pods in range(1, most + 1):
        enough = np.minimum(each, pods).sum(axis=0) >= pods * count
        if not enough.any():
            break
        fits[enough] = pods
    return fits
