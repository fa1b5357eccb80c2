"""When a gang that finds no room can start, and where: by what ends when.

Pods end in the order of their declared ends. Those of which nobody knows end after all others, the oldest
first: that says on which nodes to wait, and not for how long. A pod that is there beyond its end is expected
to end at any moment. The gang's own pods stay, and those beside whom it must be while nobody knows their end.

Where amounts alone say where a gang goes, only they are looked at. Any other is placed for trial by the
search that places every gang, on room as it will be at one of the times; the first is found by halving.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import inf

import numpy as np

from services.scheduler.core import filling
from services.scheduler.core.columns import BoolArray, FloatArray, IntArray, SlotArray
from services.scheduler.core.earmarks import Place
from services.scheduler.core.gangs import Gang, Key
from services.scheduler.core.held import Held, Placed, leaving, with_parts
from services.scheduler.core.lanes import Lane
from services.scheduler.core.model import Model
from services.scheduler.core.placing import place, place_reserved, places_of
from services.scheduler.core.plan import Plan
from services.scheduler.core.reservations import Reserved
from services.scheduler.core.shapes import Shape

Parts = tuple[tuple[Place, ...], ...]
"""Places, by part of a gang's layout."""


@dataclass(frozen=True, slots=True)
class Start:
    """When all the room is free (POSIX seconds, infinite: nobody knows), and where it is."""

    at: float
    parts: Parts
    """By part of the gang's layout; of gangs without one there is one part."""

    @property
    def places(self) -> tuple[Place, ...]:
        """All of them."""
        return tuple(place for part in self.parts for place in part)


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
    placed: tuple[Placed, ...]
    """Those that have parts of devices."""


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
        tuple(with_parts(victims, model.shapes, rows)),
    )
    flying: list[tuple[int, int, float, float, int]] = []
    placed = list(there.placed)
    keys: list[Key] = []
    for flight in model.flights.by_number.values():
        begins = flight.decision.decided_at.timestamp()
        gang = model.gangs.get(flight.key)
        seconds = None if gang is None else gang.contract.run_seconds
        end = inf if seconds is None else begins + seconds
        queue = victims.queue_number(flight.queue.name)
        for slot, shape in flight.pods.values():
            if shape.of_node:
                placed.append((rows.size + len(flying), shape))
            flying.append((slot, shape.number, end, begins, queue))
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
        tuple(placed),
    )


class Ends:
    """What will be free when for a gang of a lane, beside the reservations of others."""

    def __init__(self, model: Model, now: datetime, gang: Gang, lane: Lane) -> None:
        self._model = model
        self._key = gang.key
        self._lane = lane
        nodes = model.nodes
        nodes.fit_columns()
        self._free: IntArray = nodes.future() + nodes.kept
        """By column and slot, before anybody ends."""
        self._shut: BoolArray = nodes.lacking(self._free)
        moment = now.timestamp()
        there = pods_there(model)
        ends = np.maximum(there.ends, moment)
        since = np.where(ends == inf, there.since, 0.0)
        order = np.lexsort((since, ends))
        order = order[~stay(model, gang, lane, there)[order]]
        rank = np.full(ends.size, -1, np.intp)
        rank[order] = np.arange(order.size)
        self._slots, self._numbers = there.slots[order], there.shapes[order]
        self._placed = [(rank.item(at), shape) for at, shape in there.placed if rank[at] >= 0]
        self._held = Held(model.shapes, self._slots, self._numbers, self._placed)
        ends, since = ends[order], since[order]
        differs = (ends[1:] != ends[:-1]) | (since[1:] != since[:-1])
        begins = np.flatnonzero(np.concatenate(([True], differs))) if ends.size else np.zeros(0, np.intp)
        self._bounds: list[int] = [0, *begins[1:].tolist(), *([ends.size] if ends.size else [])]
        """How many pods have ended at each of ``_times``. Those that end at once do so together."""
        self._times: list[float] = [moment, *ends[begins].tolist()]

    def soonest(self, before: float | None = None) -> Start | None:
        """Return the first start, or the first before a time; None when there is none.

        Not even the end of all pods may make room.
        """
        times = len(self._times) if before is None else bisect_left(self._times, before)
        others = list(self._model.reservations.others(self._key))
        if self._lane.is_simple:
            return self._first(lambda number: self._fills(number, others), times)
        return self._first(lambda number: self._lands(number, others), times)

    def on(self, mark: Reserved) -> Start | None:
        """Return when the gang starts on the nodes that are reserved for it; None: never.

        Those that start later found their room beside it, so it may start before them.
        """
        before = [one for one in self._model.reservations.others(self._key) if one.rank < mark.rank]
        if not self._lane.is_simple:
            return self._first(lambda number: self._lands(number, before, mark))
        for shape, slots, _ in mark.places:
            shape.rules.refresh()
            if not all(shape.rules.allowed.item(slot) and not self._shut.item(slot) for slot in slots):
                return None
        lacks = self._lacking(mark, before)
        at = np.full(lacks.shape[1], -1, np.intp)
        at[mark.slots] = np.arange(mark.slots.size)
        rows = np.flatnonzero(at[self._slots] >= 0)
        among = {row: number for number, row in enumerate(rows.tolist())}
        placed = ((among[row], shape) for row, shape in self._placed if row in among)
        held = Held(self._model.shapes, at[self._slots[rows]], self._numbers[rows], placed)
        lacks = lacks[:, mark.slots]

        def enough(number: int) -> Parts | None:
            comes = np.zeros_like(lacks)
            held.add_to(comes, int(np.searchsorted(rows, self._bounds[number])))
            return (mark.places,) if (comes >= lacks).all() else None

        return self._first(enough)

    # ------------------------------------------------------------------ inside

    def _lacking(self, mark: Reserved, before: Sequence[Reserved]) -> IntArray:
        """Return what is not free yet of what is reserved, beside those before it: [column, slot]."""
        lacks = -self._free
        for one in (mark, *before):
            lacks[: one.needs.shape[0], one.slots] += one.needs
        asked = np.zeros_like(lacks, np.bool_)
        asked[: mark.needs.shape[0], mark.slots] = mark.needs > 0
        return np.where(asked, lacks, 0)

    def _first(self, find: Callable[[int], Parts | None], times: int | None = None) -> Start | None:
        """Return the first of the times, or of so many, at which places are found, and these."""
        low, high = 0, (len(self._times) if times is None else times) - 1
        found = None if high < 0 else find(high)
        if found is None:
            return None
        while low < high:
            middle = (low + high) // 2
            sooner = find(middle)
            if sooner is None:
                low = middle + 1
            else:
                high, found = middle, sooner
        return Start(self._times[high], found)

    def _at(self, number: int, others: Sequence[Reserved]) -> IntArray:
        """Return what is free when so many times have come, beside what is reserved for others."""
        free = self._free.copy()
        self._held.add_to(free, self._bounds[number])
        for mark in others:
            free[: mark.needs.shape[0], mark.slots] -= mark.needs
        return free

    def _fills(self, number: int, others: Sequence[Reserved]) -> Parts | None:
        """Find places by amounts alone."""
        free = self._at(number, others)
        found = filling.places(self._model.nodes, self._lane.shapes, free, self._shut)
        return None if found is None else (tuple(found),)

    def _lands(self, number: int, others: Sequence[Reserved], mark: Reserved | None = None) -> Parts | None:
        """Find places by the search that places every gang, or see if those of its reservation are free."""
        model = self._model
        freed = leaving(model.nodes)
        self._held.add_to(freed, self._bounds[number])
        with model.nodes.relieved(freed), model.reservations.instead(others):
            return land(model, self._lane, mark)


def land(model: Model, lane: Lane, mark: Reserved | None = None) -> Parts | None:
    """Return where a lane's gang lands now, or (``mark``) lies where room is reserved; nothing is placed."""
    with Plan(model).attempt() as trial:
        if mark is None:
            found, stop = place(model, trial, lane)
            placed = found if stop is None else None
        else:
            placed = place_reserved(model, trial, lane, mark)
        if placed is None:
            return None
        return tuple(
            tuple((shape, tuple(on), tuple(on.values())) for shape, on in places_of(part).items())
            for part in placed
        )


def lands_alone(model: Model, gang: Gang, lane: Lane) -> bool:
    """Whether a gang would land if nobody were there but those who stay: else it waits for no end."""
    if lane.is_simple:
        return True
    used = np.zeros_like(model.nodes.used)
    if gang.started or any(map(_beside, lane.offered)):
        there = pods_there(model)
        staying = np.flatnonzero(stay(model, gang, lane, there))
        rank = {at: number for number, at in enumerate(staying.tolist())}
        placed = ((rank[at], shape) for at, shape in there.placed if at in rank)
        Held(model.shapes, there.slots[staying], there.shapes[staying], placed).add_to(used)
    seen = model.nodes.capacity_version, used[:, used.any(axis=0)].tobytes(), np.flatnonzero(used).tobytes()
    if lane.lands is None or lane.lands[0] != seen:
        with model.reservations.instead(()), model.nodes.relieved(model.nodes.used - used):
            lane.lands = seen, land(model, lane) is not None
    return lane.lands[1]


def stay(model: Model, gang: Gang, lane: Lane, there: PodsThere) -> BoolArray:
    """Return which pods nobody waits for: the gang's own, and of unknown end those beside whom it must be."""
    own = {model.victims.row_of((gang.key[0], name)) for name in model.pods_of(gang.key)}
    staying = np.isin(there.rows, list(own - {-1}))
    first = there.rows.size - len(there.flying)
    staying[first:] |= np.array([key == gang.key for key in there.flying], np.bool_)
    asked = {column for shape in lane.offered for column in _beside(shape)}
    if asked:
        counted = [one.number for one in model.shapes.by_number if asked.intersection(dict(one.charged))]
        staying |= np.isin(there.shapes, counted) & (there.ends == inf)
    return staying


def _beside(shape: Shape) -> list[int]:
    """Return the columns of pods that must be there first."""
    return [] if shape.kin is None else [term.column for term in shape.kin.near]
