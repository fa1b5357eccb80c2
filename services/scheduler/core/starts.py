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

from services.scheduler.core import filling
from services.scheduler.core.columns import BoolArray, FloatArray, IntArray, SlotArray
from services.scheduler.core.earmarks import Place, by_slot
from services.scheduler.core.filling import Counts
from services.scheduler.core.gangs import Key
from services.scheduler.core.model import Model


@dataclass(frozen=True, slots=True)
class Start:
    """When all the room is free (POSIX seconds, infinite: nobody knows), and where it is."""

    at: float
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class PodsThere:
    """All pods that hold room and do not leave, those in flight included: a column each."""

    slots: SlotArray
    shapes: IntArray
    """Numbers of shapes."""
    ends: FloatArray
    """When each ends at the latest, as declared (POSIX seconds)."""
    since: FloatArray
    """When it began (POSIX seconds)."""
    queues: IntArray
    """Numbers of queues, as among the victims."""
    rows: SlotArray
    """Its row among the victims; -1 in flight."""
    flying: tuple[Key, ...]
    """The gangs of those in flight, which are the last."""


def pods_there(model: Model) -> PodsThere:
    """Look at all pods that hold room."""
    victims = model.victims
    victims.refresh()
    size = victims.size
    rows = np.flatnonzero((victims.slot[:size] >= 0) & ~victims.leaving[:size])
    there = PodsThere(
        victims.slot[rows],
        victims.shape[rows],
        victims.ends[rows],
        victims.since[rows],
        victims.queue[rows],
        rows,
        (),
    )
    flying: list[tuple[int, int, float, float, int]] = []
    keys: list[Key] = []
    for flight in model.flights.by_number.values():
        begins = flight.decision.decided_at.timestamp()
        gang = model.gangs.get(flight.key)
        seconds = None if gang is None else gang.contract.run_seconds
        end = inf if seconds is None else begins + seconds
        queue = victims.queue_number(flight.queue.name)
        flying += [(slot, shape.number, end, begins, queue) for slot, shape in flight.pods.values()]
        keys += [flight.key] * len(flight.pods)
    if not flying:
        return there
    more = list(zip(*flying, strict=True))
    return PodsThere(
        np.concatenate((there.slots, np.array(more[0], np.intp))),
        np.concatenate((there.shapes, np.array(more[1], np.int64))),
        np.concatenate((there.ends, np.array(more[2]))),
        np.concatenate((there.since, np.array(more[3]))),
        np.concatenate((there.queues, np.array(more[4], np.int64))),
        np.concatenate((rows, np.full(len(flying), -1, np.intp))),
        tuple(keys),
    )


class Ends:
    """What will be free when, beside the reservations of others than the gang ``key``."""

    def __init__(self, model: Model, now: datetime, key: Key) -> None:
        self._model = model
        nodes = model.nodes
        nodes.fit_columns()
        self._free: IntArray = nodes.future() + nodes.kept
        """By column and slot, before anybody ends."""
        self._shut: BoolArray = nodes.lacking(self._free)
        for mark in model.reservations.others(key):
            height = mark.needs.shape[0]
            self._free[:height, mark.slots] -= mark.needs
        moment = now.timestamp()
        there = pods_there(model)
        self._slots, self._shapes, since = there.slots, there.shapes, there.since
        ends = np.maximum(there.ends, moment)
        since = np.where(ends == inf, since, 0.0)
        order = np.lexsort((since, ends))
        self._slots, self._shapes = self._slots[order], self._shapes[order]
        ends, since = ends[order], since[order]
        differs = (ends[1:] != ends[:-1]) | (since[1:] != since[:-1])
        begins = np.flatnonzero(np.concatenate(([True], differs))) if ends.size else np.zeros(0, np.intp)
        self._bounds: list[int] = [0, *begins[1:].tolist(), *([ends.size] if ends.size else [])]
        """How many pods have ended at each of ``_times``. Those that end at once do so together."""
        self._times: list[float] = [moment, *ends[begins].tolist()]

    def soonest(self, counts: Counts) -> Start | None:
        """Return the first start, None when not even the end of all pods makes room."""
        found: list[Place] | None = None

        def enough(at: int) -> bool:
            nonlocal found
            places = filling.places(self._model.nodes, counts, self._at(at), self._shut)
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
        self._model.shapes.add_held(free, self._slots[:count], self._shapes[:count])
        return free
