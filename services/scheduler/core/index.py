"""For one shape: how many of its pods fit on each node, their sum, and the best nodes in order.

Order. Better score first, then the node's name: a total order that does not depend on when nodes
arrived. Pods are placed one after the other, each on the node that is the best then. Scores that rise
(or stay) with every pod put on a node, as Volcano's binpack, need not be looked at after each pod: the node
that got one stays the best until it is full, so filling whole nodes in this order gives exactly the same
(rounding keeps the order too, since every step of the formulas is monotone). With any other scores the
node is scored anew after each pod.

Repair. The index is built by one pass over all nodes, and keeps the best ``_AHEAD`` of them, sorted:
the *row*. A node changed since (its version is newer than the build) is stale in the row and, if it is
good enough to belong there, is pushed on a *heap*; an entry of the heap is stale when the node's
version is not the entry's. Nodes behind the row's *end* are left alone: when row and heap are used up,
the next pass finds them. So a placement costs what it uses, and a change of a node costs one entry.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final, NamedTuple

import numpy as np

from services.scheduler.core.between import Between
from services.scheduler.core.columns import FloatArray, IntArray, SlotArray
from services.scheduler.core.devices import Devices
from services.scheduler.core.fragments import Typical
from services.scheduler.core.nodes import Nodes
from services.scheduler.core.numa import Numa
from services.scheduler.core.policy import Scores
from services.scheduler.core.proportions import most_pods
from services.scheduler.core.resources import UNLIMITED
from services.scheduler.core.scores import Score
from services.scheduler.core.shapes import Shape
from services.scheduler.core.work import Work

_AHEAD: Final = 1024
"""Length of the row: long enough that passes are rare, short enough to be sorted in microseconds."""
_SMALL: Final = 12
"""Up to so many changed nodes, scalars are faster than arrays (measured)."""


class Taken(NamedTuple):
    """Slots, and how many pods on each; distinct but where it is told of each pod alone."""

    slots: list[int]
    counts: list[int]
    placed: Sequence[Shape] = ()
    """Of pods that take parts of devices, or CPUs for themselves: the shape with them of each pod, slot after
    slot."""

    def places(self) -> list[int]:
        """Return each pod's slot."""
        return [slot for slot, count in zip(self.slots, self.counts, strict=True) for _ in range(count)]

    def shapes(self, shape: Shape) -> Sequence[Shape]:
        """Return each pod's shape as its node is charged for it."""
        return self.placed or [shape] * sum(self.counts)


class ShapeIndex:
    """Fit and order of nodes for one shape, kept up to date from the log of changes."""

    def __init__(self, shape: Shape, nodes: Nodes, scores: Scores, typical: Typical, work: Work) -> None:
        self.shape = shape
        self.total = 0
        """How many pods of this shape fit now, over all nodes."""
        self._nodes = nodes
        self._work = work
        self._score = Score(shape, nodes, scores, typical)
        self._scarcest_first = shape.limited[::-1]
        """What it takes of a node, in the order in which that is likely to be used up."""
        self._likes = scores.pod_affinity_weight, scores.pod_spread_weight
        self.placed = 0
        """How many pods the last trial placed that failed for what they ask of other pods."""
        self._devices = Devices(nodes, spread=scores.spreads)
        self._numa = Numa(nodes)
        self._singly = shape.apart or not self._score.rising
        self._fit: IntArray = np.zeros(0, np.int64)
        self._row: list[int] = []
        self._row_scores: list[float] = []
        self._position = 0
        self._complete = True
        self._end = (0.0, "")
        self._heap: list[tuple[float, str, int, int]] = []
        self._built = 0
        self._seen = -1
        self._epoch = -1
        self._potential = 0
        self._potentials: IntArray = np.zeros(0, np.int64)
        self._potential_of = -1

    def refresh(self) -> None:
        """Take in what changed since the last call."""
        nodes = self._nodes
        end = nodes.log.end
        if self._seen == end and self._epoch == self._score.refresh():
            return
        self.shape.rules.refresh()
        changed = nodes.log.since(self._seen) if self._seen >= 0 else None
        if changed is None or self._epoch != self._score.refresh() or self._fit.size != nodes.exists.size:
            self._build()
            return
        slots = set(changed) if len(changed) > 1 else changed
        if len(slots) * 4 > nodes.count + 256 or len(self._heap) > 4 * _AHEAD:
            self._build()
        elif len(slots) <= _SMALL:
            self._repair(slots)
        else:
            self._repair_many(list(slots))
        self._seen = end

    def fit_on(self, slot: int) -> int:
        """Return how many pods fit on a node, as of the last refresh."""
        return self._fit.item(slot)

    @property
    def fits(self) -> IntArray:
        """How many pods fit on each node, by slot, as of the last refresh."""
        return self._fit

    def potential(self) -> int:
        """Return how many pods the nodes would hold if they were empty."""
        self.potentials()
        return self._potential

    def potentials(self) -> IntArray:
        """Return how many pods each node would hold if it were empty, by slot."""
        nodes = self._nodes
        if self._potential_of != nodes.capacity_version:
            slots = np.flatnonzero(self.shape.rules.allowed)
            fits = [nodes.allocatable[column][slots] // amount for column, amount in self.shape.limited]
            self._potentials = np.zeros(nodes.exists.size, np.int64)
            if self.shape.mounts is not None:
                fits.append(nodes.volumes.fits(self.shape.mounts, slots, empty=True))
            room: IntArray = np.minimum.reduce(fits)
            if self.shape.devices:
                parts = self._devices.fits(self.shape.devices, slots, empty=True, most=room)
                room = np.minimum(room, parts)
            if self.shape.aligned:
                room = np.minimum(room, self._numa.fits(self.shape.aligned, slots, empty=True, most=room))
            self._potentials[slots] = room
            self._potential = int(self._potentials.sum())
            self._potential_of = nodes.capacity_version
            self._work.passes += 1
        return self._potentials

    def take(self, need: int) -> Taken:
        """Choose room for ``need`` pods (at most ``total``) and charge it. The index stays refreshed."""
        if self._singly:
            return self._take_singly(need)
        slots: list[int] = []
        counts: list[int] = []
        while need > 0:
            first = len(slots)
            left = self._walk(need, slots, counts)
            self._charge(slots[first:], counts[first:])
            need = left
            if need:
                self._build()
        return Taken(slots, counts)

    def take_among(self, slots: SlotArray, need: int) -> Taken | None:
        """Choose room among some nodes, given in order of their names, and charge it; None: too little.

        The index has to be refreshed afterwards.
        """
        room = slots[self._fit[slots] > 0]
        fits = self._fit[room]
        self.placed = int(fits.sum())
        if self.placed < need:
            return None
        if self.shape.between is not None:
            return self._take_between(self.shape.between, room, fits, need)
        if self._singly:
            return self._take_among_singly(room, fits, need)
        order = np.argsort(-self._score.many(room), kind="stable")
        filled = np.cumsum(fits[order])
        last = int(np.searchsorted(filled, need))
        chosen, counts = room[order[: last + 1]].tolist(), fits[order[: last + 1]].tolist()
        counts[-1] -= int(filled[last]) - need
        self._work.nodes += len(chosen)
        self._nodes.place(self.shape.charged, chosen, counts, self.shape.mounts)
        return Taken(chosen, counts)

    def take_liked(self, slots: SlotArray, likes: FloatArray | None) -> Taken | None:
        """Choose room for one pod by the scores and by how much it likes each node (by slot), and charge it.

        The slots are given in order of their names. The index has to be refreshed afterwards.
        """
        room = slots[self._fit[slots] > 0]
        between = self.shape.between
        if between is not None:
            room = room[between.open(room)]
        if not room.size:
            return None
        scores = self._score.many(room)
        if likes is not None:
            scores += likes[room]
        if between is not None:
            scores += between.scores(room, *self._likes)
        self._work.nodes += room.size
        slot = int(room[np.argmax(scores)])
        return self._of({slot: [self._place(slot)]})

    # ------------------------------------------------------------------ choosing

    def _take_singly(self, need: int) -> Taken:
        """Take one place after the other, the best at each time."""
        taken: dict[int, list[Shape]] = {}
        while need > 0:
            slots: list[int] = []
            if self._walk(1, slots, []):
                self._build()
                continue
            slot = slots[0]
            taken.setdefault(slot, []).append(self._place(slot))
            need -= 1
            self.total -= 1
            self._fit[slot] -= 1
            self._seen = self._nodes.log.end
            if self._fit[slot]:
                self._push(slot, self._score.one(slot))
        return self._of(taken)

    def _take_among_singly(self, room: SlotArray, fits: IntArray, need: int) -> Taken:
        """Take one place after the other among nodes given in order of their names."""
        slots, left = room.tolist(), fits.tolist()
        taken: dict[int, list[Shape]] = {}
        heap = [(-score, at) for at, score in enumerate(self._score.many(room).tolist())]
        heapify(heap)
        for _ in range(need):
            at = heap[0][1]
            slot = slots[at]
            taken.setdefault(slot, []).append(self._place(slot))
            left[at] -= 1
            if left[at]:
                heapreplace(heap, (-self._score.one(slot), at))
            else:
                heappop(heap)
        self._work.nodes += need
        return self._of(taken)

    def _take_between(self, between: Between, room: SlotArray, fits: IntArray, need: int) -> Taken | None:
        """Take one place after the other where the pods placed so far leave one open; None: too few are."""
        if need > 1:
            wide = between.wide(room, fits, need)
            room, fits = room[wide], fits[wide]
        left, scores = fits.copy(), self._score.many(room)
        taken: dict[int, list[Shape]] = {}
        for number in range(need):
            open_now = np.flatnonzero(between.open(room) & (left > 0))
            self._work.nodes += room.size
            if not open_now.size:
                self._give_back(taken)
                self.placed = number
                return None
            liked = scores[open_now] + between.scores(room[open_now], *self._likes)
            at = int(open_now[np.argmax(liked)])
            slot = int(room[at])
            taken.setdefault(slot, []).append(self._place(slot))
            left[at] -= 1
            scores[at] = self._score.one(slot) if left[at] else 0.0
        return self._of(taken)

    def _give_back(self, taken: dict[int, list[Shape]]) -> None:
        for slot, some in taken.items():
            for placed in some:
                self._nodes.take_back(placed.charged, [slot], [1], placed.mounts)

    def _place(self, slot: int) -> Shape:
        """Charge one pod to a node; return its shape, with the parts of the node that it takes."""
        placed = self.shape
        if placed.devices:
            chosen = self._devices.choose(placed.devices, self._devices.free(np.array([slot], np.intp)))
            parts = self._devices.parts(placed, tuple(chosen[:, 0].tolist()), slot)
            placed = self._devices.on(placed, parts)
        if self.shape.aligned:
            placed = self._numa.on(placed, self._numa.choose(self.shape.aligned, slot))
        self._nodes.place(placed.charged, [slot], [1], placed.mounts)
        return placed

    def _of(self, taken: dict[int, list[Shape]]) -> Taken:
        placed = [one for some in taken.values() for one in some] if self.shape.apart else ()
        return Taken(list(taken), [len(some) for some in taken.values()], placed)

    def _walk(self, need: int, slots: list[int], counts: list[int]) -> int:
        """Take from row and heap in order; return what is left to take when both are used up."""
        version, names, fit = self._nodes.version, self._nodes.names, self._fit
        row, scores, heap, built = self._row, self._row_scores, self._heap, self._built
        position, length = self._position, len(self._row)
        while need > 0:
            while position < length and version[row[position]] > built:
                position += 1
            while heap and version[heap[0][2]] != heap[0][3]:
                heappop(heap)
            if position < length:
                slot = row[position]
                if heap and heap[0][:2] < (-scores[position], names[slot]):
                    slot = heappop(heap)[2]
                else:
                    position += 1
            elif heap:
                slot = heappop(heap)[2]
            else:
                break
            count = min(fit.item(slot), need)
            slots.append(slot)
            counts.append(count)
            need -= count
        self._position = position
        self._work.nodes += len(slots)
        return need

    def _charge(self, slots: list[int], counts: list[int]) -> None:
        """Charge the nodes and repair this index at once: all but the last node are full now."""
        if not slots:
            return
        nodes = self._nodes
        nodes.place(self.shape.charged, slots, counts, self.shape.mounts)
        last = slots[-1]
        left = self._fit.item(last) - counts[-1]
        self.total -= sum(counts)
        if len(slots) <= _SMALL:
            for slot in slots:
                self._fit[slot] = 0
        else:
            self._fit[slots] = 0
        self._seen = nodes.log.end
        if left:
            self._fit[last] = left
            self._push(last, self._score.one(last))

    # ------------------------------------------------------------------ repairing

    def _repair(self, slots: Collection[int]) -> None:
        self._work.nodes += len(slots)
        fit = self._fit.data
        for slot in slots:
            before, fits = fit[slot], self._fit_on(slot)
            if fits != before:
                self.total += fits - before
                fit[slot] = fits
            if fits:
                self._push(slot, self._score.one(slot))

    def _repair_many(self, slots: list[int]) -> None:
        self._work.nodes += len(slots)
        where = np.array(slots, np.intp)
        fits = self._fits(where)
        self.total += int((fits - self._fit[where]).sum())
        self._fit[where] = fits
        room = where[fits > 0]
        for slot, score in zip(room.tolist(), self._score.many(room).tolist(), strict=True):
            self._push(slot, score)

    def _push(self, slot: int, score: float) -> None:
        """Put a changed node on the heap unless it belongs behind the row's end."""
        name = self._nodes.names[slot]
        if self._complete or (-score, name) <= self._end:
            heappush(self._heap, (-score, name, slot, self._nodes.version[slot]))

    def _build(self) -> None:
        """Look at every node once."""
        nodes = self._nodes
        self.shape.rules.refresh()
        self._epoch = self._score.refresh()
        self._work.passes += 1
        order = nodes.by_name()
        candidates = order[self.shape.rules.allowed[order]]
        fits = self._fits(candidates)
        self._fit = np.zeros(nodes.exists.size, np.int64)
        self._fit[candidates] = fits
        self.total = int(fits.sum())
        room = candidates[fits > 0]
        self._set_row(room, self._score.many(room))
        self._heap = []
        self._position = 0
        self._built = self._seen = nodes.log.end

    def _set_row(self, room: SlotArray, scores: FloatArray) -> None:
        """Sort the best nodes; ``room`` is in order of names, so a stable sort breaks ties by name."""
        self._complete = room.size <= _AHEAD
        if not self._complete:
            bound = np.partition(scores, room.size - _AHEAD)[room.size - _AHEAD]
            best = np.flatnonzero(scores > bound)
            ties = np.flatnonzero(scores == bound)[: _AHEAD - best.size]
            kept = np.concatenate((best[np.argsort(-scores[best], kind="stable")], ties))
        else:
            kept = np.argsort(-scores, kind="stable")
        self._row = room[kept].tolist()
        self._row_scores = scores[kept].tolist()
        if not self._complete:
            self._end = (-self._row_scores[-1], self._nodes.names[self._row[-1]])

    # ------------------------------------------------------------------ formulas, scalar and vector

    def _fit_on(self, slot: int) -> int:
        nodes = self._nodes
        if nodes.over_row[slot] or not self.shape.rules.allowed.item(slot):
            return 0
        allocatable, used = nodes.allocatable_rows, nodes.used_rows
        fits = UNLIMITED
        for column, amount in self._scarcest_first:
            here = (allocatable[column][slot] - used[column][slot]) // amount
            if here <= 0:
                return 0
            fits = min(fits, here)
        if self.shape.leaves or self.shape.mounts is not None or self.shape.apart:
            fits = self._bounded(np.array([slot], np.intp), np.array([fits], np.int64)).item()
        return fits

    def _bounded(self, slots: SlotArray, fits: IntArray) -> IntArray:
        """Return how many of as many pods as amounts allow fit by all else that nodes count."""
        if self.shape.leaves:
            fits = np.minimum(fits, self._leaving(slots))
        if self.shape.mounts is not None:
            fits = np.minimum(fits, self._nodes.volumes.fits(self.shape.mounts, slots))
        if self.shape.devices:
            fits = np.minimum(fits, self._devices.fits(self.shape.devices, slots, most=fits))
        if self.shape.aligned:
            fits = np.minimum(fits, self._numa.fits(self.shape.aligned, slots, most=fits))
        return fits

    def _leaving(self, slots: SlotArray) -> IntArray:
        """Return how many pods leave enough beside scarce resources."""
        nodes = self._nodes

        def free(column: int) -> IntArray:
            room: IntArray = nodes.allocatable[column][slots] - nodes.used[column][slots]
            return room

        return np.asarray(most_pods(self.shape.leaves, self.shape.amounts, free))

    def _fits(self, slots: SlotArray) -> IntArray:
        nodes = self._nodes
        fits: IntArray | None = None
        for column, amount in self.shape.limited:
            room = (nodes.allocatable[column][slots] - nodes.used[column][slots]) // amount
            fits = room if fits is None else np.minimum(fits, room, out=fits)
        assert fits is not None  # noqa: S101 - every shape takes the place of one pod
        fits = self._bounded(slots, fits)
        np.maximum(fits, 0, out=fits)
        fits[nodes.over[slots] | ~self.shape.rules.allowed[slots]] = 0
        return fits
