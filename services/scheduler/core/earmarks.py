"""Room that is kept for a gang until what was evicted for it has left.

An earmark counts in its gang's queue like placed pods, and on its nodes as far as it is not to come from
what is leaving there (``Nodes.earmark``), so nobody takes it. For rules between pods they are there already,
but nobody is placed beside them because they would be. It ends when its gang is placed on it, does
not need it any more or is gone, when some victim refuses to go, and in any case at its time.

The earmark of a gang that *moves* is for members that are elsewhere still: they are its victims. It waits
until they have left and are made anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from services.scheduler.core.choice import choice_of
from services.scheduler.core.gangs import Gang, Key, Pick, by_shape, first
from services.scheduler.core.nodes import Nodes
from services.scheduler.core.queues import Queue, Queues
from services.scheduler.core.resources import Amounts
from services.scheduler.core.shapes import Shape
from services.scheduler.core.timers import Timers

Place = tuple[Shape, tuple[int, ...], tuple[int, ...]]
"""A shape, on devices where it takes parts of them, distinct slots, and how many pods on each."""
Victim = tuple[str, str, str]
"""namespace, pod, UID"""


@dataclass(slots=True, eq=False)
class Earmark:
    """Room for a gang's minimum."""

    number: str
    """The decision that made it."""
    key: Key
    uid: str
    generation: int
    queue: Queue
    places: tuple[Place, ...]
    victims: tuple[Victim, ...]
    until: float
    """POSIX seconds."""
    moves: bool = False
    """Its victims are the gang's own pods, which move here."""
    there: tuple[int, int] = (-1, 0)
    """How many victims were there in which tree of queues, as of which it is counted what is held twice."""
    twice: Mapping[Queue, Mapping[int, int]] = field(default_factory=dict[Queue, Mapping[int, int]])
    """By level: what its victims still hold of what is kept."""

    @property
    def is_over(self) -> bool:
        """Whether with it a queue holds more than it may, as it may hold less than when it was made."""
        asked = {column for shape, _, _ in self.places for column, _ in shape.amounts}
        return any(
            column in asked and level.held.get(column, 0) > limit
            for level in self.queue.chain
            for column, limit in level.capability or ()
        )

    def counts(self) -> dict[Shape, int]:
        """Return for how many pods of each shape it is, whichever devices they have."""
        found: dict[Shape, int] = {}
        for shape, _, counts in self.places:
            found[shape.bare] = found.get(shape.bare, 0) + sum(counts)
        return found

    def suits(self, gang: Gang) -> bool:
        """Whether it is this generation's, in this queue, and for exactly what the gang needs now.

        A gang that moves may be of a later generation, since its job may start anew, and need less.
        """
        contract = gang.contract
        if (contract.uid, contract.queue) != (self.uid, self.queue.name):
            return False
        if not self.moves and contract.generation != self.generation:
            return False
        kept = {shape.number: count for shape, count in self.counts().items()}
        needs = _counts(gang.needs.must)
        if self.moves:
            return all(count <= kept.get(number, 0) for number, count in needs.items())
        choice = choice_of(gang)
        return needs == kept or (choice is not None and choice.allows(kept))

    def reshape(self, now: Callable[[Shape], Shape]) -> None:
        """Keep the room for others of the same amounts: the gang's shapes as they are now."""
        self.places = tuple((now(shape), slots, counts) for shape, slots, counts in self.places)

    def divide(self, gang: Gang) -> tuple[list[Pick], list[tuple[Shape, list[int], list[int]]]]:
        """Return the members of a gang that moves which have room here, the minimum first, and where.

        A member may not be made anew yet, or not be wanted any more: its place stays free.
        """
        groups = by_shape([*gang.needs.must, *gang.needs.more])
        picks: list[Pick] = []
        places: list[tuple[Shape, list[int], list[int]]] = []
        for shape, slots, counts in self.places:
            some = first(groups.get(shape, ()), sum(counts))
            left = sum(len(pick.members) for pick in some)
            picks += some
            taken = [(slot, min(count, left - before)) for slot, count, before in _running(slots, counts)]
            taken = [(slot, count) for slot, count in taken if count > 0]
            if taken:
                places.append((shape, [slot for slot, _ in taken], [count for _, count in taken]))
        return picks, places


class Earmarks:
    """All earmarks, one for a gang at most."""

    def __init__(self, nodes: Nodes, queues: Queues) -> None:
        self._nodes = nodes
        self._queues = queues
        self._of: dict[Key, Earmark] = {}
        self.timers: Timers[Earmark] = Timers()

    def __len__(self) -> int:
        return len(self._of)

    def __iter__(self) -> Iterator[Earmark]:
        return iter(list(self._of.values()))

    def of(self, key: Key) -> Earmark | None:
        """Return a gang's earmark."""
        return self._of.get(key)

    def add(self, mark: Earmark) -> None:
        """Keep room, instead of what was kept for that gang before."""
        self.drop(mark.key)
        self._of[mark.key] = mark
        self.timers.add(mark.until, mark)
        self._charge(mark, 1)

    def drop(self, key: Key) -> Earmark | None:
        """Keep a gang's room no longer; return what was kept."""
        mark = self._of.pop(key, None)
        if mark is not None:
            self.count_twice(mark, {})
            self._charge(mark, -1)
        return mark

    def count_twice(self, mark: Earmark, now: Mapping[Queue, Mapping[int, int]]) -> None:
        """Note what a mark's victims still hold of what is kept, by level."""
        before, mark.twice = mark.twice, now
        if before != now:
            for sums, sign in ((before, -1), (now, 1)):
                for level, amounts in sums.items():
                    self._queues.count_twice(level, amounts, sign)

    @contextmanager
    def lifted(self, key: Key) -> Iterator[None]:
        """Keep no room for a gang for as long as it takes to look; nobody is woken by it."""
        nodes, mark = self._nodes, self._of[key]
        before = set(nodes.moved), set(nodes.grown), nodes.room_version
        self._hold(mark, -1)
        try:
            yield
        finally:
            self._hold(mark, 1)
            nodes.moved, nodes.grown, nodes.room_version = before

    def reshape(self, key: Key, now: Callable[[Shape], Shape]) -> None:
        """Keep a gang's room for its shapes as they are now: of the same amounts, in other columns."""
        mark = self._of.get(key)
        if mark is not None:
            self._hold(mark, -1)
            mark.reshape(now)
            self._hold(mark, 1)

    def due(self, now: float) -> list[Earmark]:
        """Return the earmarks whose time is over."""
        return [mark for mark in self.timers.due(now) if self._of.get(mark.key) is mark]

    def count_in(self, column: int, shapes: frozenset[int]) -> None:
        """Count what is kept for pods of shapes, by their numbers, in a column that is new to them."""
        for mark in self._of.values():
            for shape, slots, counts in mark.places:
                if shape.number in shapes:
                    for slot, count in zip(slots, counts, strict=True):
                        self._nodes.earmark(slot, ((column, count),), 1)

    def is_free(self, mark: Earmark) -> bool:
        """Whether the gang can be placed on its room now: what was to leave has left."""
        nodes = self._nodes
        if not self.is_possible(mark):
            return False
        mine = by_slot(mark.places)
        where = np.array(list(mine), np.intp)
        if nodes.over[where].any():
            return False
        for column in sorted({column for row in mine.values() for column in row}):
            own = np.array([row.get(column, 0) for row in mine.values()], np.int64)
            kept, leaving = nodes.earmarked[column, where], nodes.releasing[column, where]
            used = nodes.used[column, where] - np.maximum(kept - leaving, 0)
            used += np.maximum(kept - own - leaving, 0)
            if (used + own > nodes.allocatable[column, where]).any():
                return False
        return True

    def is_possible(self, mark: Earmark) -> bool:
        """Whether its nodes still take its gang's pods."""
        for shape, slots, _ in mark.places:
            rules = shape.bare.rules
            rules.refresh()
            if not all(rules.allowed.item(slot) for slot in slots):
                return False
        return True

    def _charge(self, mark: Earmark, sign: int) -> None:
        nodes = self._nodes
        where = [slot for _, slots, _ in mark.places for slot in slots]
        for slot in where if sign > 0 else ():
            nodes.holders[slot] += 1
        self._hold(mark, sign)
        for shape, _, counts in mark.places:
            self._queues.charge(mark.queue, shape.amounts, sign * sum(counts))
        for slot in where if sign < 0 else ():
            nodes.release(slot)

    def _hold(self, mark: Earmark, sign: int) -> None:
        for shape, slots, counts in mark.places:
            for slot, count in zip(slots, counts, strict=True):
                self._nodes.earmark(slot, _times(shape.charged, count), sign)


def _counts(picks: list[Pick]) -> dict[int, int]:
    """Return how many members picks have, by number of shape."""
    return {shape.number: sum(len(pick.members) for pick in some) for shape, some in by_shape(picks).items()}


def _running(slots: Iterable[int], counts: Iterable[int]) -> Iterator[tuple[int, int, int]]:
    """Yield each slot, its count, and the sum of the counts before it."""
    before = 0
    for slot, count in zip(slots, counts, strict=True):
        yield slot, count, before
        before += count


def by_slot(places: Iterable[Place]) -> dict[int, dict[int, int]]:
    """Return what pods on places are charged for: amounts by slot and column."""
    needs: dict[int, dict[int, int]] = {}
    for shape, slots, counts in places:
        for slot, count in zip(slots, counts, strict=True):
            row = needs.setdefault(slot, {})
            for column, amount in shape.charged:
                row[column] = row.get(column, 0) + amount * count
    return needs


def _times(amounts: Amounts, count: int) -> Amounts:
    return tuple((column, amount * count) for column, amount in amounts)
