"""Pods that hold room, as columns: who may be evicted is found by vector operations over them.

A pod has a *row* while it is on a node. Rows are taken again when their pod has gone, so a row's number
means nothing; whoever orders pods does so by what they are.

Most pods come and go while nobody asks for room: what changed is noted, and written when somebody does.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from math import inf
from typing import Final

import numpy as np

from services.scheduler.core.columns import BoolArray, FloatArray, IntArray, SlotArray
from services.scheduler.core.pods import Pod

Key = tuple[str, str]
_NONE: Final = ""
_COLUMNS: Final = (
    "shape",
    "priority",
    "rank",
    "queue",
    "scheduled",
    "cooldown",
    "since",
    "ends",
    "willing",
    "critical",
    "leaving",
)


class Victims:
    """The rows. ``slot`` is -1 where a row is free."""

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.pods: list[Pod | None] = []
        self.slot: SlotArray = np.full(64, -1, np.intp)
        self.shape: IntArray = np.zeros(64, np.int64)
        self.priority: IntArray = np.zeros(64, np.int64)
        self.rank: IntArray = np.zeros(64, np.int64)
        """Its priority or its gang's, whichever is the higher."""
        self.queue: IntArray = np.zeros(64, np.int64)
        """A number of the queue's name, see ``queues``."""
        self.scheduled: FloatArray = np.zeros(64)
        """When it was bound (POSIX seconds)."""
        self.cooldown: FloatArray = np.zeros(64)
        """Seconds after that in which it asks not to be evicted."""
        self.since: FloatArray = np.zeros(64)
        """When it began (POSIX seconds)."""
        self.ends: FloatArray = np.full(64, inf)
        """When it ends at the latest, as declared (POSIX seconds)."""
        self.willing: BoolArray = np.zeros(64, np.bool_)
        """It may be evicted by what it says itself, and is not leaving yet."""
        self.critical: BoolArray = np.zeros(64, np.bool_)
        self.leaving: BoolArray = np.zeros(64, np.bool_)
        self.queues: dict[str, int] = {_NONE: 0}
        self.version = 0
        """Rises when it may be others that can be evicted, or others together, as of the last refresh."""
        self.changes: dict[int, int] = {}
        """By slot: the version in which pods there came, changed or went last."""
        self._changed: dict[Key, Pod | None] = {}
        """Pods that are new or changed since the last refresh; None: gone."""
        self._rows: dict[Key, int] = {}
        self._free: list[int] = []
        self._lowest: dict[str, dict[int, int]] = {}
        """By queue: how many willing pods there are of each rank."""

    def __len__(self) -> int:
        return len(self._rows)

    def put(self, key: Key, pod: Pod) -> None:
        """Note a pod on a node, or what it is now."""
        self._changed[key] = pod

    def drop(self, key: Key) -> None:
        """Forget a pod that holds no room any more."""
        if key in self._rows:
            self._changed[key] = None
        else:
            self._changed.pop(key, None)

    def touch(self) -> None:
        """Note that something else changed by which victims are chosen."""
        self.version += 1

    def refresh(self) -> None:
        """Bring rows and columns up to date: before they are read."""
        changed, self._changed = self._changed, {}
        self.version += bool(changed)
        rows: list[int] = []
        pods: list[Pod] = []
        for key, pod in changed.items():
            if pod is None:
                self._remove(key)
                continue
            row = self._rows.get(key)
            if row is None:
                row = self._rows[key] = self._row()
            else:
                self._count(row, -1)
                self.changes[self.slot.item(row)] = self.version
            self.keys[row], self.pods[row] = key, pod
            self.changes[pod.slot] = self.version
            rows.append(row)
            pods.append(pod)
        if not rows:
            return
        where = np.array(rows, np.intp)
        self.slot[where] = [pod.slot for pod in pods]
        self.shape[where] = [pod.shape.number for pod in pods]
        self.priority[where] = [pod.priority for pod in pods]
        self.rank[where] = [pod.rank for pod in pods]
        self.queue[where] = [self.queue_number(pod.queue) for pod in pods]
        self.scheduled[where] = [pod.scheduled for pod in pods]
        self.cooldown[where] = [pod.cooldown for pod in pods]
        self.since[where] = [pod.since for pod in pods]
        self.ends[where] = [pod.ends for pod in pods]
        self.willing[where] = [_is_willing(pod) for pod in pods]
        self.critical[where] = [pod.critical for pod in pods]
        self.leaving[where] = [pod.leaving for pod in pods]
        for row in rows:
            self._count(row, 1)

    def those(self, rows: SlotArray, which: Callable[[Pod], bool]) -> SlotArray:
        """Return the rows whose pods are as asked."""
        found = [(pod := self.pods[row]) is not None and which(pod) for row in rows.tolist()]
        return rows[np.array(found, np.bool_)]

    def rested(self, rest: timedelta, run: timedelta) -> FloatArray:
        """Return by row from when on pods may leave (POSIX seconds).

        They rest for so long after they were bound, or as long as they ask for, and run for so long.
        """
        size = self.size
        rests = np.maximum(self.cooldown[:size], rest.total_seconds())
        found: FloatArray = np.maximum(self.scheduled[:size] + rests, self.since[:size] + run.total_seconds())
        return found

    def row_of(self, key: Key) -> int:
        """Return a pod's row; -1: it has none."""
        return self._rows.get(key, -1)

    def queue_number(self, queue: str) -> int:
        """Return the number of a queue's name."""
        return self.queues.setdefault(queue, len(self.queues))

    def lowest(self, queue: str) -> int | None:
        """Return the lowest rank of a willing pod of a queue, None when it has none."""
        counts = self._lowest.get(queue)
        return min(counts) if counts else None

    def queues_with_victims(self) -> list[str]:
        """Return the queues that have willing pods."""
        return sorted(self._lowest)

    @property
    def size(self) -> int:
        """Rows that are or were in use: the part of the columns that means something."""
        return len(self.keys)

    # ------------------------------------------------------------------ inside

    def _row(self) -> int:
        if self._free:
            return self._free.pop()
        row = len(self.keys)
        self.keys.append((_NONE, _NONE))
        self.pods.append(None)
        if row >= self.slot.size:
            extra = self.slot.size
            self.slot = np.pad(self.slot, (0, extra), constant_values=-1)
            for name in _COLUMNS:
                setattr(self, name, np.pad(getattr(self, name), (0, extra)))
        return row

    def _remove(self, key: Key) -> None:
        row = self._rows.pop(key)
        self._count(row, -1)
        self.changes[self.slot.item(row)] = self.version
        self.slot[row] = -1
        self.willing[row] = self.leaving[row] = False
        self.pods[row] = None
        self._free.append(row)

    def _count(self, row: int, sign: int) -> None:
        pod = self.pods[row]
        if pod is None or not self.willing[row]:
            return
        counts = self._lowest.setdefault(pod.queue, {})
        rank = self.rank.item(row)
        counts[rank] = counts.get(rank, 0) + sign
        if not counts[rank]:
            del counts[rank]
            if not counts:
                del self._lowest[pod.queue]


def _is_willing(pod: Pod) -> bool:
    return pod.preemptable and not pod.leaving and pod.gang is not None and pod.queue != ""
