"""Entering: a gang begins only when all that it will need in the end is free.

A gang may ask for less at its start than later: a Spark driver is a gang of one, and asks for its
executors when it runs. Its *floor* is what its PodGroup says that it will need in all (``minResources``).
What of it is not placed yet is *promised* to a gang that holds a place, at its queue's levels and on the
nodes in sum, and no other gang begins with that. As in Volcano it is a bound at the beginning and no
reservation: members that are added to gangs which run take what room there is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from services.scheduler.core.gangs import Gang, Member
from services.scheduler.core.lanes import Lane, NoEntry
from services.scheduler.core.nodes import Nodes
from services.scheduler.core.queues import Queue, Queues, most_of, times
from services.scheduler.core.shapes import Shape


@dataclass(frozen=True, slots=True)
class _Promise:
    queue: Queue
    amounts: Mapping[int, int]
    mine: bool
    """It is to be kept by our nodes, not by another pool's."""


class Promises:
    """What is promised, and whether a gang may begin beside it."""

    def __init__(self, nodes: Nodes, queues: Queues) -> None:
        self._nodes = nodes
        self._queues = queues
        self._of: dict[Gang, _Promise] = {}
        self._by_queue: dict[Queue, dict[int, int]] = {}
        self._on_nodes: dict[int, int] = {}

    def note(self, gang: Gang) -> None:
        """Work out anew what is promised to a gang; without a floor there is nothing to do."""
        if not gang.floor:
            return
        self.drop(gang)
        held = _held(gang)
        left = {column: amount - held.get(column, 0) for column, amount in gang.floor}
        amounts = {column: amount for column, amount in left.items() if amount > 0}
        if held and amounts and gang.phase != "Completed":
            queue = self._queues.get(gang.contract.queue)
            self._of[gang] = _Promise(queue, amounts, gang.contract.pool == self._nodes.pool)
            self._add(self._of[gang], 1)

    def drop(self, gang: Gang) -> None:
        """Promise a gang nothing any more."""
        promise = self._of.pop(gang, None)
        if promise is not None:
            self._add(promise, -1)

    def obstacle(self, lane: Lane) -> NoEntry | None:
        """Return what a gang that has room would pass: what is promised, or kept for guarantees.

        Of a lane of surplus: what one more pod of a shape would.
        """
        if lane.surplus:
            stops = (self.kept(lane.queue, dict(shape.amounts)) for shape, _ in lane.shapes)
            return next((stop for stop in stops if stop), None)
        entry = self._entry(lane) if lane.starts and (lane.floor or self._of) else None
        return entry or self.kept(lane.queue, lane.taking)

    def kept(
        self, queue: Queue, total: Mapping[int, int], freed: Mapping[int, int] | None = None
    ) -> NoEntry | None:
        """Return what of ``total`` other queues' guarantees need of what the nodes have free.

        ``freed`` will be free, too.
        """
        columns = self._queues.kept_columns(total)
        if not columns:
            return None
        free = {column: much + (freed or {}).get(column, 0) for column, much in self.free(columns).items()}
        column = self._queues.keeps(queue, total, free)
        return None if column is None else NoEntry(None, column, total[column], kept=True)

    def room(self, queue: Queue, shape: Shape, count: int) -> tuple[int, NoEntry | None]:
        """Return how many of ``count`` pods leave what is kept for guarantees, and what stops more."""
        fits = most_of(count, lambda some: self.kept(queue, times(shape.amounts, some)) is None)
        stop = None if fits == count else self.kept(queue, times(shape.amounts, fits + 1))
        if stop is not None:
            stop = replace(stop, asked=dict(shape.amounts)[stop.column])
        return fits, stop

    def _entry(self, lane: Lane) -> NoEntry | None:
        """Return what a beginning gang would pass: a level's capability, or what the nodes have free."""
        asked = dict(lane.taking)
        for column, amount in lane.floor:
            asked[column] = max(amount, asked.get(column, 0))
        for level in lane.queue.chain:
            limits = dict(level.capability or ())
            for column, amount in asked.items():
                used = level.held.get(column, 0) + self.at(level, column)
                if column in limits and used + amount > limits[column]:
                    return NoEntry(level, column, amount)
        columns = list(asked)
        free = self.free(columns)
        for column, amount in asked.items():
            if amount + self.at(None, column) > free[column]:
                return NoEntry(None, column, amount)
        return None

    def at(self, level: Queue | None, column: int) -> int:
        """Return what is promised in a queue and those below it, or (None) on the nodes."""
        if level is None:
            return self._on_nodes.get(column, 0)
        return sum(own.get(column, 0) for queue, own in self._by_queue.items() if level in queue.chain)

    def free(self, columns: list[int]) -> dict[int, int]:
        """Return what is free on the nodes that take pods, in sum."""
        nodes = self._nodes
        nodes.fit_columns()
        room = np.maximum(nodes.allocatable[columns] - nodes.used[columns], 0)
        sums = room[:, nodes.ready & ~nodes.unschedulable].sum(axis=1).tolist()
        return dict(zip(columns, sums, strict=True))

    def _add(self, promise: _Promise, sign: int) -> None:
        own = self._by_queue.setdefault(promise.queue, {})
        for sums in (own, self._on_nodes) if promise.mine else (own,):
            for column, amount in promise.amounts.items():
                sums[column] = sums.get(column, 0) + sign * amount


def _held(gang: Gang) -> dict[int, int]:
    """Return what the members that are placed or in flight take."""
    held: dict[int, int] = {}
    for task in gang.tasks:
        for name, state in zip(task.names, task.states, strict=True):
            if state in (Member.FLYING, Member.HELD):
                pod = gang.pods.get(name)
                for column, amount in (task.shape if pod is None else pod.shape).amounts:
                    held[column] = held.get(column, 0) + amount
    return held
