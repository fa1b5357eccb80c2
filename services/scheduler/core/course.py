"""What becomes free as pods end, and what gangs that start then take of it.

A course is one reading of the run times. Gangs are added to it in the order in which they come: each finds
its room beside those before it, as if their room had been theirs already, and holds it until it ends itself.
Pods of which nobody knows when they end never do. So a start that is found is one that can be told.

Where amounts alone say where a gang goes, only they are looked at; any other is placed for trial by the
search that places every gang.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from math import inf

import numpy as np

from services.scheduler.core import filling
from services.scheduler.core.columns import BoolArray, FloatArray, IntArray, SlotArray
from services.scheduler.core.earmarks import Place, by_slot
from services.scheduler.core.gangs import Key
from services.scheduler.core.lanes import Lane
from services.scheduler.core.model import Model
from services.scheduler.core.queues import Queue
from services.scheduler.core.shapes import Shape
from services.scheduler.core.starts import PodsThere, land


@dataclass(frozen=True, slots=True)
class Found:
    """When a gang's room is free (POSIX seconds), where, and the gangs that end last before that."""

    at: float
    places: tuple[Place, ...]
    after: tuple[Key, ...]


class Course:
    """Pods in the order in which they end, and gangs that are to start."""

    def __init__(self, model: Model, now: datetime, there: PodsThere, ends: FloatArray) -> None:
        nodes = model.nodes
        nodes.fit_columns()
        self._model = model
        self._now = now.timestamp()
        self._free: IntArray = nodes.future() + nodes.kept
        """By column and slot, before anybody ends."""
        self._shut: BoolArray = nodes.lacking(self._free)
        self._held: dict[tuple[Queue, int], int] = {}
        """By level and column: what the gangs that were added will hold."""
        known = np.flatnonzero(ends < inf)
        known = known[np.argsort(ends[known], kind="stable")]
        self._ends: FloatArray = np.maximum(ends[known], self._now)
        self._slots: SlotArray = there.slots[known]
        self._kinds = list(model.shapes.by_number)
        """Shapes by number, and after them shapes on devices."""
        self._number_of = {shape: number for number, shape in enumerate(self._kinds)}
        numbers = there.shapes.copy()
        for at, shape in there.placed:
            numbers[at] = self._number(shape)
        self._shapes: IntArray = numbers[known]
        self._queues: IntArray = there.queues[known]
        self._counts: IntArray = np.ones(known.size, np.int64)
        first_flying = ends.size - len(there.flying)
        flying = known >= first_flying
        self._who: IntArray = np.where(flying, first_flying - known - 1, there.rows[known])
        """A pod's row among the victims; of others -1 - their gang's place in ``_gangs``."""
        self._pods = list(model.victims.keys)
        self._gangs: list[Key] = list(there.flying)

    @property
    def is_current(self) -> bool:
        """Whether it knows all resources, and all nodes, that there are by now."""
        return self._free.shape == self._model.nodes.used.shape

    @property
    def size(self) -> int:
        """Pods and nodes that a search looks at."""
        return len(self._ends) + self._shut.size

    def soonest(self, lane: Lane, places: tuple[Place, ...] | None = None) -> Found | None:
        """Return when a gang of a lane finds room, on ``places`` if they are chosen already; None: never."""
        columns = self._columns(lane)
        bounds = self._bounds()
        low = self._quota(lane, bounds)
        if low is None:
            return None
        found = self._search(lane, places, columns, bounds, low)
        if found is None:
            return None
        number, where = found
        at = self._now if number == 0 else self._ends.item(bounds.item(number) - 1)
        return Found(at, where, self._after(bounds, number, where, lane.queue))

    def add(self, key: Key, queue: Queue, places: Iterable[Place], until: float) -> None:
        """Let a gang hold its room from now on, and until it ends (POSIX seconds)."""
        number = self._model.victims.queue_number(queue.name)
        gang = -1 - len(self._gangs)
        self._gangs.append(key)
        for shape, slots, counts in places:
            where, pods = np.array(slots, np.intp), np.array(counts, np.int64)
            for column, amount in shape.charged:
                self._free[column, where] -= amount * pods
            for column, amount in shape.amounts:
                for level in queue.chain:
                    held = self._held.get((level, column), 0)
                    self._held[level, column] = held + amount * int(pods.sum())
            if until == inf:
                continue
            at = int(np.searchsorted(self._ends, until, side="right"))
            self._ends = np.insert(self._ends, at, np.full(where.size, until))
            self._slots = np.insert(self._slots, at, where)
            self._shapes = np.insert(self._shapes, at, np.full(where.size, self._number(shape)))
            self._queues = np.insert(self._queues, at, np.full(where.size, number))
            self._counts = np.insert(self._counts, at, pods)
            self._who = np.insert(self._who, at, np.full(where.size, gang))

    # ------------------------------------------------------------------ inside

    def _number(self, shape: Shape) -> int:
        """Return the number of a shape, on devices or not."""
        number = self._number_of.setdefault(shape, len(self._kinds))
        if number == len(self._kinds):
            self._kinds.append(shape)
        return number

    def _columns(self, lane: Lane) -> list[int]:
        """Return the columns that say where a lane's gangs have room."""
        asked = {column for shape in lane.offered for column in shape.columns}
        parts = any(shape.apart for shape in lane.offered)
        return sorted(asked.union(self._model.resources.of_parts if parts else ()))

    def _bounds(self) -> IntArray:
        """Return how many pods have ended: now, and at each time at which some do."""
        ends = self._ends
        differs = np.flatnonzero(ends[1:] != ends[:-1]) + 1
        return np.concatenate(([0], differs, [ends.size] if ends.size else [])).astype(np.int64)

    def _quota(self, lane: Lane, bounds: IntArray) -> int | None:
        """Return the first of the times at which capabilities leave enough; None: never."""
        first = 0
        for level in lane.queue.chain:
            for column, limit in level.capability or ():
                asked = lane.taking.get(column, 0)
                held = level.held.get(column, 0) + self._held.get((level, column), 0)
                if not asked or asked + held <= limit:
                    continue
                freed = np.cumsum(np.where(self._below(level), self._amounts(column), 0))
                at = int(np.searchsorted(freed, asked + held - limit))
                if at >= freed.size:
                    return None
                first = max(first, int(np.searchsorted(bounds, at + 1)))
        return first

    def _below(self, level: Queue) -> BoolArray:
        """Return which of the pods are of a queue or those below it."""
        known, names = self._model.queues.by_name, self._model.victims.queues
        numbers = [number for name, number in names.items() if name in known and level in known[name].chain]
        return np.isin(self._queues, numbers)

    def _amounts(self, column: int, first: int = 0, last: int | None = None) -> IntArray:
        """Return what pods hold of a resource."""
        part = slice(first, last)
        each = np.zeros(len(self._kinds), np.int64)
        numbers = self._shapes[part]
        for number in np.flatnonzero(np.bincount(numbers, minlength=1)).tolist():
            each[number] = dict(self._kinds[number].charged).get(column, 0)
        return each[numbers] * self._counts[part]

    def _freed(self, free: IntArray, columns: list[int], first: int, last: int) -> IntArray:
        """Return what is free when some pods more have ended."""
        free = free.copy()
        slots, width = self._slots[first:last], free.shape[1]
        for column in columns:
            amounts = self._amounts(column, first, last)
            free[column] += np.bincount(slots, weights=amounts, minlength=width)[:width].astype(np.int64)
        return free

    def _search(
        self,
        lane: Lane,
        places: tuple[Place, ...] | None,
        columns: list[int],
        bounds: IntArray,
        low: int,
    ) -> tuple[int, tuple[Place, ...]] | None:
        """Return the first of the times from ``low`` on at which there is room, and where."""
        high = bounds.size - 1
        free = self._freed(self._free, columns, 0, bounds.item(low))
        found = self._room(lane, places, free)
        if found is not None:
            return low, found
        found = self._room(lane, places, self._freed(free, columns, bounds.item(low), bounds.item(high)))
        if found is None:
            return None
        while high - low > 1:
            middle = (low + high) // 2
            then = self._freed(free, columns, bounds.item(low), bounds.item(middle))
            here = self._room(lane, places, then)
            if here is None:
                low, free = middle, then
            else:
                high, found = middle, here
        return high, found

    def _room(self, lane: Lane, places: tuple[Place, ...] | None, free: IntArray) -> tuple[Place, ...] | None:
        if places is None and not lane.is_simple:
            return self._landing(lane, free)
        if places is None:
            found = filling.places(self._model.nodes, lane.shapes, free.copy(), self._shut)
            return None if found is None else tuple(found)
        enough = all(
            free.item(column, slot) >= amount
            for slot, row in by_slot(places).items()
            for column, amount in row.items()
        )
        if not enough or not (lane.is_simple or self._landing(lane, free)):
            return None
        return places

    def _landing(self, lane: Lane, free: IntArray) -> tuple[Place, ...] | None:
        """Return where the search places a gang when so much is free, and nothing is reserved."""
        model = self._model
        nodes, columns = model.nodes, self._columns(lane)
        less = np.zeros_like(free)
        with model.reservations.instead(()):
            less[columns] = free[columns] - nodes.allocatable[columns] + nodes.used[columns]
            with nodes.relieved(less):
                parts = land(model, lane)
        return None if parts is None else tuple(place for part in parts for place in part)

    def _after(
        self, bounds: IntArray, number: int, places: tuple[Place, ...], queue: Queue
    ) -> tuple[Key, ...]:
        """Return the gangs that end at the time given: on the nodes of the places, else in the queue."""
        if number == 0:
            return ()
        part = slice(bounds.item(number - 1), bounds.item(number))
        slots = [slot for _, some, _ in places for slot in some]
        here = np.isin(self._slots[part], slots)
        if not here.any():
            here = np.logical_or.reduce(
                [self._below(level)[part] for level in queue.chain if level.capability]
            )
        found = (self._gang(who) for who in self._who[part][here].tolist())
        return tuple(dict.fromkeys(key for key in found if key is not None))

    def _gang(self, who: int) -> Key | None:
        if who < 0:
            return self._gangs[-1 - who]
        pod = self._model.pods.get(self._pods[who])
        return None if pod is None else pod.gang
