"""Whose turn it is: from the top of the tree down the queue that comes first, and in it the first head.

Queues below the same one are compared by priority and share; a share is taken anew after each gang, at
every level above it, against what queues deserved when the cycle began. Lanes that are woken on the way
get their turn in the same cycle.
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
        self._queues: dict[Queue, list[tuple[tuple[float, ...], str, Queue]]] = {}
        """By queue: those directly below it that have lanes in them."""
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
        root = self._model.queues.root
        while self._lanes.get(root) or self._queues.get(root):
            queue = root
            while not self._lanes.get(queue) and self._queues.get(queue):
                queue = heappop(self._queues[queue])[2]
                self._listed.discard(queue)
            found = self._first(queue)
            if found is not None:
                return found
            self._list(queue)
        return None

    def put(self, lane: Lane) -> None:
        """Let a lane have turns, unless it is stopped or empty."""
        head = None if lane.stop is not None or lane.surplus != self._surplus else lane.head()
        if head is not None and lane not in self._inside:
            self._inside.add(lane)
            self._count += 1
            heappush(self._lanes.setdefault(lane.queue, []), (head[0], self._count, lane))
        self._list(lane.queue)

    def _list(self, queue: Queue) -> None:
        """Put a queue, and those above it, among those that have turns."""
        for level in queue.chain:
            above = level.above
            if above is None or level in self._listed:
                continue
            if self._lanes.get(level) or self._queues.get(level):
                self._listed.add(level)
                heappush(self._queues.setdefault(above, []), (self._order(level), level.name, level))

    def _first(self, queue: Queue) -> tuple[Lane, Gang, OrderKey] | None:
        heap = self._lanes.get(queue, [])
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

    def _order(self, queue: Queue) -> tuple[float, ...]:
        model = self._model
        if len(model.waiting.queues) <= 1:
            return ()
        if self._shares is None:
            self._shares = model.shares()
        return tuple(
            -queue.priority if what == "priority" else self._shares.share(queue)
            for what in model.policy.sharing.queue_order
        )
