"""Whose turn it is: queues by priority and share, in a queue the head that comes first.

A queue's share is taken anew after each of its gangs, against what queues deserved when the cycle
began. Lanes that are woken on the way get their turn in the same cycle.
"""

from __future__ import annotations

from heapq import heappop, heappush

from services.scheduler.core.gangs import Gang, OrderKey
from services.scheduler.core.lanes import Lane
from services.scheduler.core.model import Model
from services.scheduler.core.queues import Queue
from services.scheduler.core.shares import Shares


class Turns:
    """The order of one pass over the lanes that are to be tried."""

    def __init__(self, model: Model, *, surplus: bool) -> None:
        self._model = model
        self._surplus = surplus
        self._shares: Shares | None = None
        self._lanes: dict[Queue, list[tuple[OrderKey, int, Lane]]] = {}
        self._queues: list[tuple[int, float, str, Queue]] = []
        self._listed: set[Queue] = set()
        self._inside: set[Lane] = set()
        self._count = 0
        model.waiting.take_woken()
        for queue in model.waiting.active:
            for lane in queue.active:
                self.put(lane)

    def next(self) -> tuple[Lane, Gang, OrderKey] | None:
        """Return the lane whose head is to be tried; ``put`` it back afterwards."""
        for lane in self._model.waiting.take_woken():
            self.put(lane)
        while self._queues:
            queue = heappop(self._queues)[3]
            self._listed.discard(queue)
            found = self._first(queue)
            if found is not None:
                return found
        return None

    def put(self, lane: Lane) -> None:
        """Let a lane have turns, unless it is stopped or empty."""
        queue = lane.queue
        head = None if lane.stop is not None or lane.surplus != self._surplus else lane.head()
        if head is not None and lane not in self._inside:
            self._inside.add(lane)
            self._count += 1
            heappush(self._lanes.setdefault(queue, []), (head[0], self._count, lane))
        if queue not in self._listed and self._lanes.get(queue):
            self._listed.add(queue)
            heappush(self._queues, (-queue.priority, self._share(queue), queue.name, queue))

    def _first(self, queue: Queue) -> tuple[Lane, Gang, OrderKey] | None:
        heap = self._lanes[queue]
        while heap:
            key, _, lane = heappop(heap)
            self._inside.discard(lane)
            head = lane.head()
            if lane.stop is not None or head is None:
                continue
            if head[0] == key:
                return lane, head[1], key
            self._inside.add(lane)
            self._count += 1
            heappush(heap, (head[0], self._count, lane))
        return None

    def _share(self, queue: Queue) -> float:
        model = self._model
        if len(model.waiting.queues) <= 1:
            return 0.0
        if self._shares is None:
            self._shares = model.shares()
        return self._shares.share(queue)
