"""Figures of what nodes really use, as they are told, folded into the nodes' columns.

They count for five minutes after they were measured. Which pods they show follows from when these began: a
pod enters the columns at its time, and leaves them as it leaves the node, so nothing is counted anew. Without
a policy that asks for it the latest figures are kept, and nothing else is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import numpy as np

from services.scheduler.core.columns import BoolArray, SlotArray
from services.scheduler.core.gangs import Key
from services.scheduler.core.load import FRESH, LoadLimit, LoadScore
from services.scheduler.core.nodes import Nodes
from services.scheduler.core.pods import Pod
from services.scheduler.core.resources import CPU, MEMORY
from services.scheduler.core.shapes import Shapes
from services.scheduler.core.timers import Timers
from shared.events.contracts import NodesMeasured


class Measured:
    """The latest figures, and which pods they show. ``pods`` are those that there are."""

    def __init__(self, nodes: Nodes, shapes: Shapes, pods: Mapping[Key, Pod]) -> None:
        self._nodes = nodes
        self._shapes = shapes
        self._pods = pods
        self._score: LoadScore | None = None
        self._limit: LoadLimit | None = None
        self._levels = False
        self._told: NodesMeasured | None = None
        self._fresh = False
        self._changed = False
        self._came: set[str] = set()
        """Nodes that came since the last look."""
        self._shown: dict[Key, tuple[str, int, tuple[int, int, int]]] = {}
        """By pod: its UID, its node, and what it counts for there."""
        self._begun: Timers[tuple[Key, str]] = Timers()

    def govern(self, score: LoadScore | None, limit: LoadLimit | None, *, levels: bool) -> None:
        """Follow another policy from now on. ``levels``: pods may leave nodes for what these use."""
        if (score, limit, levels) == (self._score, self._limit, self._levels):
            return
        self._score, self._limit, self._levels = score, limit, levels
        self._changed = True
        self._shown.clear()
        self._begun = Timers()
        self._nodes.load.shown[:] = 0
        if score is not None:
            self._nodes.load.unasked = self._shapes.count_unasked()
            for key, pod in self._pods.items():
                self.note(key, pod)

    def tell(self, event: NodesMeasured) -> None:
        """Take in figures, unless they are older than what is known."""
        if self._told is None or self._told.at <= event.at:
            self._told = event
            self._changed |= self._is_on

    def forget(self) -> None:
        """Figures are no longer told."""
        self._told = None
        self._changed |= self._is_on

    def seat(self, name: str) -> None:
        """A node is there or has changed."""
        if self._is_on:
            self._came.add(name)

    def note(self, key: Key, pod: Pod | None) -> None:
        """A pod is there, has changed, or is gone (None)."""
        if self._score is None:
            return
        due = None if pod is None else self._due(pod)
        shown = self._shown.get(key)
        if shown is not None:
            if pod is not None and due is not None and shown == (pod.uid, pod.slot, _counts(pod)):
                return
            self._count(self._shown.pop(key), -1)
        if pod is not None and due is not None:
            self._begun.add(due, (key, pod.uid))

    def refresh(self, now: datetime) -> None:
        """Bring the columns up to date; costs in proportion to what changed."""
        self._show(now.timestamp())
        told = self._told if self._is_on else None
        fresh = told is not None and now < told.at + FRESH
        if self._changed or fresh != self._fresh:
            self._fresh = fresh
            self._take(np.arange(len(self._nodes.names)), None)
            self._nodes.load.version += 1
        elif self._came:
            slots = [slot for name in self._came if (slot := self._nodes.slots.get(name)) is not None]
            self._take(np.array(sorted(slots), np.intp), self._came)
        self._changed = False
        self._came.clear()

    def next(self) -> float | None:
        """Return when nodes take pods again because nobody says any more that they are busy."""
        closed = self._fresh and self._told is not None and bool(self._nodes.load.over.any())
        return (self._told.at + FRESH).timestamp() if closed and self._told is not None else None

    # ------------------------------------------------------------------ inside

    @property
    def _is_on(self) -> bool:
        return self._score is not None or self._limit is not None or self._levels

    def _due(self, pod: Pod) -> float | None:
        """Return from when on figures show a pod (POSIX seconds); None: it has not begun, or has ended."""
        if pod.slot < 0 or self._score is None or (pod.phase == "Pending" and not pod.releasing):
            return None
        young = pod.phase == "Running" and not pod.releasing
        return pod.since + self._score.unseen_for.total_seconds() if young else 0.0

    def _show(self, now: float) -> None:
        """Count the pods that figures show from now on."""
        for key, uid in self._begun.due(now):
            pod = self._pods.get(key)
            if pod is None or pod.uid != uid or key in self._shown:
                continue
            due = self._due(pod)
            if due is not None and due <= now:
                self._shown[key] = (uid, pod.slot, _counts(pod))
                self._count(self._shown[key], 1)
                self._nodes.touch(pod.slot)

    def _count(self, shown: tuple[str, int, tuple[int, int, int]], sign: int) -> None:
        _, slot, counts = shown
        for row, amount in enumerate(counts):
            self._nodes.load.shown[row, slot] += sign * amount

    def _take(self, slots: SlotArray, names: set[str] | None) -> None:
        """Write the figures of some nodes, None: of all that are named, and close those that use too much."""
        nodes, load = self._nodes, self._nodes.load
        load.used[:, slots] = np.nan
        if self._fresh and self._told is not None:
            for row, figures in enumerate((self._told.cpu, self._told.memory)):
                for name in figures if names is None else names & figures.keys():
                    slot = nodes.slots.get(name)
                    if slot is not None:
                        load.used[row, slot] = figures[name]
        over = self._over(slots)
        changed = slots[over != load.over[slots]]
        load.over[slots] = over
        nodes.note_rules(changed.tolist())
        if names is not None:
            for slot in slots.tolist():
                nodes.touch(slot)

    def _over(self, slots: SlotArray) -> BoolArray:
        if self._limit is None:
            return np.zeros(slots.size, np.bool_)
        cpu, memory = self._nodes.load.used[:, slots]
        over: BoolArray = (cpu > self._limit.cpu) | (memory > self._limit.memory)
        return over


def _counts(pod: Pod) -> tuple[int, int, int]:
    asked = dict(pod.shape.amounts)
    return asked.get(CPU, 0), asked.get(MEMORY, 0), int(pod.shape.asks_nothing)
