"""When a gang that finds no room can start, and where: by what ends when.

Pods end in the order of their declared ends. Those of which nobody knows end after all others, the oldest
first: that says on which nodes to wait, and not for how long. A pod that is there beyond its end is expected
to end at any moment. Only amounts are looked at, for gangs to which it does not matter where they lie.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from math import inf

import numpy as np

from services.scheduler.core.columns import BoolArray, FloatArray, IntArray, SlotArray
from services.scheduler.core.earmarks import Place, by_slot
from services.scheduler.core.gangs import Key
from services.scheduler.core.model import Model
from services.scheduler.core.shapes import Shape

Counts = tuple[tuple[Shape, int], ...]


@dataclass(frozen=True, slots=True)
class Start:
    """When all the room is free (POSIX seconds, infinite: nobody knows), and where it is."""

    at: float
    places: tuple[Place, ...]


class Ends:
    """What will be free when, beside the reservations of others than the gang ``key``."""

    def __init__(self, model: Model, now: datetime, key: Key) -> None:
        self._model = model
        nodes = model.nodes
        nodes.fit_columns()
        every = list(range(nodes.used.shape[0]))
        self._free: IntArray = nodes.future(every) + nodes.kept
        """By column and slot, before anybody ends."""
        self._shut: BoolArray = np.asarray((self._free < 0).any(axis=0))
        for mark in model.reservations.others(key):
            height = mark.needs.shape[0]
            self._free[:height, mark.slots] -= mark.needs
        self._slots, self._shapes, ends, since = self._pods(now.timestamp())
        order = np.lexsort((since, ends))
        self._slots, self._shapes = self._slots[order], self._shapes[order]
        ends, since = ends[order], since[order]
        differs = (ends[1:] != ends[:-1]) | (since[1:] != since[:-1])
        begins = np.flatnonzero(np.concatenate(([True], differs))) if ends.size else np.zeros(0, np.intp)
        self._bounds: list[int] = [0, *begins[1:].tolist(), *([ends.size] if ends.size else [])]
        """How many pods have ended at each of ``_times``. Those that end at once do so together."""
        self._times: list[float] = [now.timestamp(), *ends[begins].tolist()]

    def soonest(self, counts: Counts) -> Start | None:
        """Return the first start, None when not even the end of all pods makes room."""
        found: list[Place] | None = None

        def enough(at: int) -> bool:
            nonlocal found
            places = self._places(counts, self._at(at))
            found = places or found
            return places is not None

        number = self._first(enough)
        if number is None or found is None:
            return None
        return Start(self._times[number], tuple(found))

    def on(self, places: tuple[Place, ...]) -> float | None:
        """Return when places that are chosen already are all free; None: never."""
        for shape, slots, _ in places:
            shape.rules.refresh()
            if not all(shape.rules.allowed.item(slot) and not self._shut.item(slot) for slot in slots):
                return None
        needs = by_slot(places)

        def enough(at: int) -> bool:
            free = self._at(at)
            return all(
                free.item(column, slot) >= amount
                for slot, row in needs.items()
                for column, amount in row.items()
            )

        number = self._first(enough)
        return None if number is None else self._times[number]

    # ------------------------------------------------------------------ inside

    def _pods(self, now: float) -> tuple[SlotArray, IntArray, FloatArray, FloatArray]:
        """Return slot, number of shape, end and beginning of all pods on nodes, those in flight included."""
        victims = self._model.victims
        victims.refresh()
        size = victims.size
        rows = np.flatnonzero((victims.slot[:size] >= 0) & ~victims.leaving[:size])
        slots, shapes = victims.slot[rows], victims.shape[rows]
        ends, since = victims.ends[rows], victims.since[rows]
        flying: list[tuple[int, int, float, float]] = []
        for flight in self._model.flights.by_number.values():
            begins = flight.decision.decided_at.timestamp()
            gang = self._model.gangs.get(flight.key)
            seconds = None if gang is None else gang.contract.run_seconds
            end = inf if seconds is None else begins + seconds
            flying += [(slot, shape.number, end, begins) for slot, shape in flight.pods.values()]
        if flying:
            more = list(zip(*flying, strict=True))
            slots = np.concatenate((slots, np.array(more[0], np.intp)))
            shapes = np.concatenate((shapes, np.array(more[1], np.int64)))
            ends = np.concatenate((ends, np.array(more[2])))
            since = np.concatenate((since, np.array(more[3])))
        ends = np.maximum(ends, now)
        return slots, shapes, ends, np.where(ends == inf, since, 0.0)

    def _first(self, enough: Callable[[int], bool]) -> int | None:
        """Return the first of the times at which it is enough."""
        low, high = 0, len(self._bounds) - 1
        if not enough(high):
            return None
        while low < high:
            middle = (low + high) // 2
            if enough(middle):
                high = middle
            else:
                low = middle + 1
        return low

    def _at(self, number: int) -> IntArray:
        """Return what is free when so many times have come."""
        count = self._bounds[number]
        free = self._free.copy()
        if not count:
            return free
        slots, numbers = self._slots[:count], self._shapes[:count]
        shapes = self._model.shapes.by_number
        for shape in np.unique(numbers).tolist():
            pods = np.bincount(slots[numbers == shape], minlength=free.shape[1])[: free.shape[1]]
            for column, amount in shapes[shape].amounts:
                free[column] += pods * amount
        return free

    def _places(self, counts: Counts, free: IntArray) -> list[Place] | None:
        """Place a gang in what is free, the shape with the least room to spare first; None: it fits not."""
        spare = sorted(
            (
                (int(self._fits(shape, free).sum()) - count, number, shape, count)
                for number, (shape, count) in enumerate(counts)
            ),
            key=lambda item: item[:2],
        )
        if spare[0][0] < 0:
            return None
        places: list[Place] = []
        for _, _, shape, count in spare:
            chosen = self._fill(shape, count, free)
            if chosen is None:
                return None
            places.append(chosen)
        return places

    def _fill(self, shape: Shape, count: int, free: IntArray) -> Place | None:
        """Take what pods of a shape need, the tightest node first, then by name."""
        fits = self._fits(shape, free)
        order = self._model.nodes.by_name()
        order = order[fits[order] > 0]
        order = order[np.argsort(fits[order], kind="stable")]
        filled = np.cumsum(fits[order])
        if not filled.size or filled[-1] < count:
            return None
        last = int(np.searchsorted(filled, count))
        slots, taken = order[: last + 1], fits[order[: last + 1]]
        taken[-1] -= int(filled[last]) - count
        for column, amount in shape.amounts:
            free[column, slots] -= taken * amount
        return shape, tuple(slots.tolist()), tuple(taken.tolist())

    def _fits(self, shape: Shape, free: IntArray) -> IntArray:
        """Return how many pods of a shape fit, by slot."""
        shape.rules.refresh()
        rooms = [free[column] // amount for column, amount in shape.amounts]
        fits: IntArray = np.maximum(np.minimum.reduce(rooms), 0)
        fits[~shape.rules.allowed[: fits.size] | self._shut] = 0
        return fits
