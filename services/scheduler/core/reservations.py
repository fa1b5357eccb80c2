"""Reservations: room that is kept for a gang which has waited for long, as it becomes free.

Nobody leaves for it. On each of its nodes a reservation keeps of the free room what its gang will need there
and what does not come from pods that end before its start: the rest of the free room is anybody's, since
using it delays nobody. What is kept counts as used on the node, so nobody has to look at reservations;
they are *lifted* for a trial of their own gang, and of those that may run in their shadow.

What is kept is worked out anew from the pods that are there before each cycle. So it depends on what exists
and on the decision that made the reservation, and on nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from math import inf
from typing import Final

import numpy as np

from services.scheduler.core.columns import IntArray, SlotArray
from services.scheduler.core.earmarks import Earmark, by_slot
from services.scheduler.core.gangs import Key
from services.scheduler.core.held import Held, with_parts
from services.scheduler.core.nodes import Nodes
from services.scheduler.core.shapes import Shapes
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
    coming: IntArray = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    """What pods hold there that end before the start: [column, node]."""

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


class Reservations:
    """All reservations, one for a gang at most."""

    def __init__(self, nodes: Nodes, shapes: Shapes, victims: Victims) -> None:
        self._nodes = nodes
        self._shapes = shapes
        self._victims = victims
        self._of: dict[Key, Reserved] = {}
        self._lifted: Collection[Key] = ()

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
        self._apply(lasting=True)
        for slot in mark.slots.tolist():
            nodes.release(slot)
        return mark

    def refresh(self) -> None:
        """Keep what is to be kept beside the pods that are there now."""
        if not self._of:
            return
        self._nodes.fit_columns()
        self._victims.refresh()
        for mark in self._of.values():
            self._look(mark)
        self._apply(lasting=True)

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
        if not self._of:
            yield
            return
        nodes = self._nodes
        slots, needs = self._sums(marks)
        before = nodes.kept[:, slots].copy()
        free = nodes.allocatable[:, slots] - nodes.used[:, slots] + before
        nodes.keep(slots, np.minimum(needs, np.maximum(free, 0)), lasting=False)
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

    def _look(self, mark: Reserved) -> None:
        """Work out what a gang needs on its nodes, and what comes there in time."""
        nodes, victims = self._nodes, self._victims
        height, width = nodes.used.shape[0], mark.slots.size
        at = np.full(nodes.exists.size, -1, np.intp)
        at[mark.slots] = np.arange(width)
        mark.needs = np.zeros((height, width), np.int64)
        for slot, amounts in by_slot(mark.places).items():
            for column, amount in amounts.items():
                mark.needs[column, at[slot]] = amount
        mark.coming = np.zeros((height, width), np.int64)
        if mark.start == inf:
            return
        size = victims.size
        on = victims.slot[:size]
        rows = np.flatnonzero((on >= 0) & (at[on] >= 0))
        rows = rows[(victims.ends[rows] <= mark.start + _SLACK) & ~victims.leaving[rows]]
        placed = with_parts(victims, self._shapes, rows)
        Held(self._shapes, at[on[rows]], victims.shape[rows], placed).add_to(mark.coming)
        leaving = nodes.releasing[:, mark.slots] - nodes.earmarked[:, mark.slots]
        mark.coming += np.maximum(leaving, 0)

    def _sums(self, marks: Iterable[Reserved]) -> tuple[SlotArray, IntArray]:
        """Return the slots of all reservations, and what gangs need there: [column, slot]."""
        slots = np.unique(np.concatenate([mark.slots for mark in self._of.values()]))
        height = self._nodes.used.shape[0]
        sums = np.zeros((height, slots.size), np.int64)
        for mark in marks:
            sums[:, np.searchsorted(slots, mark.slots)] += _padded(mark.needs, height)
        return slots, sums

    def _apply(self, *, lasting: bool) -> None:
        """Keep what those that are not lifted need: each with those that start before it."""
        if not self._of:
            return
        nodes = self._nodes
        slots = np.unique(np.concatenate([mark.slots for mark in self._of.values()]))
        height = nodes.used.shape[0]
        sums = np.zeros((height, slots.size), np.int64)
        keeps = np.zeros((height, slots.size), np.int64)
        for mark in self:
            if mark.key in self._lifted:
                continue
            at = np.searchsorted(slots, mark.slots)
            sums[:, at] += _padded(mark.needs, height)
            needed = sums[:, at] - _padded(mark.coming, height)
            keeps[:, at] = np.maximum(keeps[:, at], needed)
        free = nodes.allocatable[:, slots] - nodes.used[:, slots] + nodes.kept[:, slots]
        nodes.keep(slots, np.minimum(keeps, np.maximum(free, 0)), lasting=lasting)


def _padded(amounts: IntArray, height: int) -> IntArray:
    more = height - amounts.shape[0]
    return np.pad(amounts, ((0, more), (0, 0))) if more else amounts
