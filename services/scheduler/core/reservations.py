"""Reservations: room that is kept for a gang which has waited for long, as it becomes free.

Nobody leaves for it. On each of its nodes a reservation keeps of the free room what its gang will need there
and what does not come from pods that end before its start: the rest of the free room is anybody's, since
using it delays nobody. What is kept counts as used on the node, so nobody has to look at reservations;
they are *lifted* for a trial of their own gang, and of those that may run in their shadow.

What is kept is worked out anew from the pods that are there before each cycle. So it depends on what exists
and on the decision that made the reservation, and on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from math import inf
from typing import Final

import numpy as np

from services.scheduler.core.columns import BoolArray, IntArray, SlotArray
from services.scheduler.core.earmarks import Earmark, by_slot
from services.scheduler.core.gangs import Key
from services.scheduler.core.held import Held, with_parts
from services.scheduler.core.nodes import Nodes
from services.scheduler.core.shapes import Shape, Shapes
from services.scheduler.core.victims import Victims

_SLACK: Final = 0.001
"""Seconds: times on the log are rounded."""
_AS_IT_IS: Final = nullcontext()


@dataclass(slots=True, eq=False)
class Reserved(Earmark):
    """Room for a gang's minimum that is to become free."""

    start: float = inf
    """When all of it should be free (POSIX seconds); infinite: nobody knows."""
    groups: tuple[str, ...] = ()
    """Of which of the gang's groups the pods on each of ``places`` are."""
    slots: SlotArray = field(default_factory=lambda: np.zeros(0, np.intp))
    """Its nodes."""
    needs: IntArray = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    """What the gang needs on them: [column, node]."""
    ending: IntArray = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    """What pods hold there that end before the start: [column, node]."""
    seen: int = -1
    """The version of the pods at which ``ending`` was worked out."""

    def by_group(self) -> dict[str, SlotArray]:
        """Return the slots of each of the gang's groups."""
        slots: dict[str, set[int]] = {}
        for group, (_, some, _) in zip(self.groups, self.places, strict=True):
            slots.setdefault(group, set()).update(some)
        return {group: np.array(sorted(some), np.intp) for group, some in slots.items()}

    @property
    def rank(self) -> tuple[float, Key]:
        """The order in which reservations are served."""
        return self.start, self.key


@dataclass(frozen=True, slots=True)
class _Stack:
    """All reservations on all their nodes, in the order in which they are served."""

    keys: tuple[Key, ...]
    slots: SlotArray
    needs: IntArray
    """[reservation, column, node]"""
    coming: IntArray
    """What becomes free there before the start: [reservation, column, node]."""
    on: BoolArray
    """Whether it is on a node: [reservation, node]."""
    found: dict[tuple[int, ...], IntArray] = field(default_factory=dict[tuple[int, ...], IntArray])
    """What is kept for the reservations of some rows, as far as it was asked for."""

    def sums(self, rows: Sequence[int]) -> IntArray:
        """Return what some need in all: [column, node]."""
        found: IntArray = self.needs[rows].sum(axis=0)
        return found

    def keeps(self, lifted: Collection[Key]) -> IntArray:
        """Return what is to be kept for the rest, each beside those before it: [column, node]."""
        rows = tuple(row for row, key in enumerate(self.keys) if key not in lifted)
        found = self.found.get(rows)
        if found is None:
            some = list(rows)
            lacks = self.needs[some].cumsum(axis=0) - self.coming[some]
            lacks *= self.on[some][:, np.newaxis, :]
            found = self.found[rows] = lacks.max(axis=0, initial=0)
        return found


class Reservations:
    """All reservations, one for a gang at most."""

    def __init__(self, nodes: Nodes, shapes: Shapes, victims: Victims) -> None:
        self._nodes = nodes
        self._shapes = shapes
        self._victims = victims
        self._of: dict[Key, Reserved] = {}
        self._lifted: Collection[Key] = ()
        self._stack: _Stack | None = None
        self._seen: tuple[int, ...] = ()
        """What was there when all was worked out last."""

    def __len__(self) -> int:
        return len(self._of)

    def __iter__(self) -> Iterator[Reserved]:
        return iter(sorted(self._of.values(), key=lambda one: one.rank))

    def of(self, key: Key) -> Reserved | None:
        """Return a gang's reservation."""
        return self._of.get(key)

    def add(self, mark: Reserved) -> None:
        """Keep room, instead of what was kept for that gang before."""
        self.drop(mark.key)
        slots = sorted({slot for _, some, _ in mark.places for slot in some})
        for slot in slots:
            self._nodes.holders[slot] += 1
        mark.slots = np.array(slots, np.intp)
        self._of[mark.key] = mark
        self._seen = ()
        self.refresh()

    def drop(self, key: Key) -> Reserved | None:
        """Keep a gang's room no longer; return what was kept."""
        mark = self._of.pop(key, None)
        if mark is None:
            return None
        nodes = self._nodes
        nodes.fit_columns()
        nodes.keep(mark.slots, np.zeros((nodes.used.shape[0], mark.slots.size), np.int64), lasting=True)
        nodes.move(mark.slots.tolist())
        nodes.grown.update(mark.slots.tolist())
        self._pile()
        self._apply(lasting=True)
        self._seen = ()
        for slot in mark.slots.tolist():
            nodes.release(slot)
        return mark

    def reshape(self, key: Key, now: Callable[[Shape], Shape]) -> None:
        """Keep a gang's room for its shapes as they are now: of the same amounts, in other columns."""
        mark = self._of.get(key)
        if mark is not None:
            mark.reshape(now)
            mark.needs = np.zeros((0, 0), np.int64)
            self._nodes.fit_columns()
            self._victims.refresh()
            self._look(mark)
            self._seen = ()

    def refresh(self) -> None:
        """Keep what is to be kept beside the pods that are there now."""
        if not self._of:
            return
        self._nodes.fit_columns()
        self._victims.refresh()
        if self._seen == self._versions():
            return
        for mark in self._of.values():
            self._look(mark)
        self._pile()
        self._apply(lasting=True)
        self._seen = self._versions()

    def lifted(self, keys: Collection[Key]) -> AbstractContextManager[None]:
        """Keep nothing for these gangs for as long as it takes."""
        return _AS_IT_IS if self._of.keys().isdisjoint(keys) else self._lift(keys)

    @contextmanager
    def _lift(self, keys: Collection[Key]) -> Iterator[None]:
        before, self._lifted = self._lifted, keys
        self._apply(lasting=False)
        try:
            yield
        finally:
            self._lifted = before
            self._apply(lasting=False)

    @contextmanager
    def instead(self, marks: Collection[Reserved]) -> Iterator[None]:
        """Keep all that these gangs need, whoever ends there, and nothing for others, as long as it takes."""
        if self._stack is None:
            yield
            return
        nodes, slots = self._nodes, self._stack.slots
        needs = self._stack.sums([self._stack.keys.index(mark.key) for mark in marks])
        before = nodes.kept[:, slots].copy()
        nodes.keep(slots, self._at_most_free(needs, slots), lasting=False)
        try:
            yield
        finally:
            nodes.keep(slots, before, lasting=False)

    def is_free(self, mark: Reserved) -> bool:
        """Whether all that a gang needs is free on its nodes, while it is lifted."""
        nodes, height = self._nodes, mark.needs.shape[0]
        free = nodes.allocatable[:height, mark.slots] - nodes.used[:height, mark.slots]
        return bool(((free >= mark.needs) | (mark.needs == 0)).all())

    def others(self, key: Key) -> Iterator[Reserved]:
        """Return the reservations of other gangs."""
        return (mark for mark in self if mark.key != key)

    # ------------------------------------------------------------------ inside

    def _versions(self) -> tuple[int, ...]:
        """Return what all that is kept depends on."""
        nodes = self._nodes
        return self._victims.version, nodes.room_version, nodes.capacity_version, nodes.used.shape[0]

    def _look(self, mark: Reserved) -> None:
        """Work out what a gang needs on its nodes, and what pods there hold that end in time."""
        height, width = self._nodes.used.shape[0], mark.slots.size
        if mark.needs.shape != (height, width):
            where = {slot: at for at, slot in enumerate(mark.slots.tolist())}
            mark.needs = np.zeros((height, width), np.int64)
            for slot, amounts in by_slot(mark.places).items():
                for column, amount in amounts.items():
                    mark.needs[column, where[slot]] = amount
            mark.seen = -1
        if self._is_stale(mark):
            mark.ending = self._ending(mark, height)
            mark.seen = self._victims.version

    def _is_stale(self, mark: Reserved) -> bool:
        """Whether pods on a reservation's nodes changed since they were looked at."""
        seen, changes = mark.seen, self._victims.changes
        if seen < 0:
            return True
        return seen < self._victims.version and any(
            changes.get(slot, 0) > seen for slot in mark.slots.tolist()
        )

    def _ending(self, mark: Reserved, height: int) -> IntArray:
        """Return what pods hold on a reservation's nodes that end before its start."""
        ending = np.zeros((height, mark.slots.size), np.int64)
        if mark.start == inf:
            return ending
        victims = self._victims
        at = np.full(self._nodes.exists.size, -1, np.intp)
        at[mark.slots] = np.arange(mark.slots.size)
        size = victims.size
        on = victims.slot[:size]
        rows = np.flatnonzero((on >= 0) & (at[on] >= 0))
        rows = rows[(victims.ends[rows] <= mark.start + _SLACK) & ~victims.leaving[rows]]
        placed = with_parts(victims, self._shapes, rows)
        Held(self._shapes, at[on[rows]], victims.shape[rows], placed).add_to(ending)
        return ending

    def _pile(self) -> None:
        """Lay all reservations side by side."""
        marks = list(self)
        if not marks:
            self._stack = None
            return
        nodes = self._nodes
        slots = np.unique(np.concatenate([mark.slots for mark in marks]))
        shape = len(marks), nodes.used.shape[0], slots.size
        needs, coming = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        on = np.zeros((shape[0], shape[2]), np.bool_)
        leaving = np.maximum(nodes.releasing[:, slots] - nodes.earmarked[:, slots], 0)
        for row, mark in enumerate(marks):
            at = np.searchsorted(slots, mark.slots)
            height = mark.needs.shape[0]
            needs[row, :height, at] = mark.needs.T
            on[row, at] = True
            if mark.start < inf:
                coming[row, :height, at] = mark.ending.T
                coming[row] += leaving
        self._stack = _Stack(tuple(mark.key for mark in marks), slots, needs, coming, on)

    def _apply(self, *, lasting: bool) -> None:
        """Keep what those that are not lifted need: each with those that start before it."""
        if self._stack is None:
            return
        slots = self._stack.slots
        keeps = self._at_most_free(self._stack.keeps(self._lifted), slots)
        self._nodes.keep(slots, keeps, lasting=lasting)

    def _at_most_free(self, amounts: IntArray, slots: SlotArray) -> IntArray:
        """Return amounts, [column, node], but no more than is free but for what is kept now."""
        nodes, height = self._nodes, amounts.shape[0]
        used = nodes.used[:height, slots] - nodes.kept[:height, slots]
        free = nodes.allocatable[:height, slots] - used
        least: IntArray = np.minimum(amounts, np.maximum(free, 0))
        return least
