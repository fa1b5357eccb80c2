"""Who may use room that is reserved: gangs that end before its gang starts, and those of a higher priority.

They are looked for among the gangs that found no room beside the reservations, lane by lane: only where a
gang would fit if nothing were reserved are the run times of the lane's gangs looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from heapq import merge
from math import inf
from typing import Final, NamedTuple

from services.scheduler.core.gangs import Gang, Key, OrderKey
from services.scheduler.core.lanes import Lane, NoDomain, NoRoom
from services.scheduler.core.model import Model
from services.scheduler.core.queues import Queue
from services.scheduler.core.reservations import Reserved

_MOST: Final = 1000
"""Gangs of a lane that are looked at in a cycle."""


class _Bounds(NamedTuple):
    """What gangs of a queue may use of a reservation."""

    mark: Reserved
    priority: float
    """Those of a higher one may use it, infinite: nobody for that; -infinite: all of the queue."""
    seconds: float
    """Those that run no longer may use it, -infinite: nobody for that."""


class Shadow:
    """All reservations, and who may use them at a time."""

    def __init__(self, model: Model, now: datetime) -> None:
        self._model = model
        self._marks = list(model.reservations)
        self._ends = {mark.key: self._seconds_before(mark, now) for mark in self._marks}
        self._holders = {model.gangs[mark.key] for mark in self._marks}
        self._of_queue: dict[Queue, list[_Bounds]] = {}
        self._failed: dict[Lane, list[set[Key]]] = {}

    def turns(self) -> Iterator[tuple[Lane, Gang, tuple[Key, ...]]]:
        """Yield gangs to be tried, in order, each with the gangs whose reservations it may use."""
        for _, _, lane, gang, usable in merge(*map(self._turns_of, self._lanes()), key=lambda turn: turn[:2]):
            yield lane, gang, usable

    def fail(self, lane: Lane, usable: tuple[Key, ...]) -> None:
        """Note that a gang found no room: nobody of its lane does who may use no more."""
        self._failed.setdefault(lane, []).append(set(usable))

    def usable_by(self, gang: Gang) -> tuple[Key, ...]:
        """Return the gangs whose reservations a gang may use."""
        bounds = self._bounds(self._model.queues.get(gang.contract.queue))
        priority, seconds = gang.contract.priority, self._seconds(gang)
        return tuple(
            one.mark.key
            for one in bounds
            if priority > one.priority or seconds <= one.seconds or gang.key == one.mark.key
        )

    # ------------------------------------------------------------------ inside

    def _lanes(self) -> list[Lane]:
        """Return the lanes that lack room, and would not if nothing were reserved."""
        model = self._model
        if not self._marks:
            return []
        lanes = [
            lane
            for lane in model.waiting.lanes.values()
            if isinstance(lane.stop, NoRoom | NoDomain) and not lane.surplus
        ]
        if not lanes:
            return []
        with model.reservations.lifted(self._ends.keys()):
            return [lane for lane in lanes if lane.has_room(lambda shape: model.index(shape).total)]

    def _turns_of(self, lane: Lane) -> Iterator[tuple[int, OrderKey, Lane, Gang, tuple[Key, ...]]]:
        """Yield the gangs of a lane that may use something, as long as none failed that may use as much."""
        bounds = self._bounds(lane.queue)
        least = min(one.priority for one in bounds)
        longest = max(one.seconds for one in bounds)
        failed = self._failed.setdefault(lane, [])
        for key, gang in lane.members(_MOST):
            above = gang.contract.priority > least
            if not above and self._seconds(gang) > longest and gang not in self._holders:
                continue
            usable = self.usable_by(gang)
            if usable and not any(map(set(usable).issubset, failed)):
                yield -lane.queue.rank, key, lane, gang, usable

    def _bounds(self, queue: Queue) -> list[_Bounds]:
        """Return what gangs of a queue may use: of other queues' by the queues' priorities alone.

        Nobody else delays who waited for long.
        """
        if queue not in self._of_queue:
            gangs = self._model.gangs
            self._of_queue[queue] = [
                _Bounds(
                    mark,
                    gangs[mark.key].contract.priority
                    if queue is mark.queue
                    else (-inf if queue.outranks(mark.queue) else inf),
                    self._ends[mark.key],
                )
                for mark in self._marks
            ]
        return self._of_queue[queue]

    def _seconds(self, gang: Gang) -> float:
        """Return how long a gang runs at most, infinite: nobody knows."""
        seconds = gang.contract.run_seconds
        if seconds is None and self._model.policy.backfill.learned:
            learned = self._model.learned.of(gang.contract)
            seconds = None if learned is None else learned.most
        return inf if seconds is None else seconds

    def _seconds_before(self, mark: Reserved, now: datetime) -> float:
        """Return how long a gang may run, from now on, to end before that of a reservation starts."""
        margin = self._model.policy.backfill.margin.total_seconds()
        return -inf if mark.start == inf else mark.start - margin - now.timestamp()
