"""Lanes: waiting gangs with the same needs in the same queue, and why they are not tried.

If the head of a lane does not fit, none of it does: ten thousand identical gangs cost one trial, and
none at all until what stopped them grows. A stopped lane may *hold* what it lacks: later gangs that
need the same scarce thing stop *behind* it, instead of taking it piece by piece; gangs that do not
need it pass.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from typing import Final

from services.scheduler.core.choice import Choice
from services.scheduler.core.gangs import Gang, Near, OrderKey
from services.scheduler.core.layout import Layout
from services.scheduler.core.queues import Queue
from services.scheduler.core.resources import Amounts
from services.scheduler.core.shapes import Shape

Signature = tuple[str, int, bool, tuple[tuple[int, int], ...], Amounts, Layout | None, Choice | None]
"""Queue, kind (0 repair, 1 start, 2 surplus), was queued already, (shape, count) in order, floor, layout,
what the minimum may be made of."""

Entry = tuple[OrderKey, int, Gang]
"""A gang's place in a lane, a number by which it is told from its earlier places, and the gang."""

REPAIR, START, SURPLUS = 0, 1, 2
_FEW: Final = 16
"""Entries of gangs that left which are not worth a look at all."""


@dataclass(frozen=True, slots=True)
class NoRoom:
    """Too few pods of ``shape`` fit: ``fits`` of ``need``.

    ``together``: each of the gang's shapes has room, but not all of them at once.
    """

    shape: Shape
    need: int
    fits: int
    together: bool = False


@dataclass(frozen=True, slots=True)
class NoDomain:
    """No hypernode in which pods must be together has room for ``need`` of ``shape``: the best for ``fits``.

    It is the one named ``best`` (empty: none has any room) of ``domains`` which ``near`` allows.
    """

    shape: Shape
    need: int
    fits: int
    best: str
    domains: int
    near: Near


@dataclass(frozen=True, slots=True)
class NoQuota:
    """The capability of ``level`` would be passed in ``column``."""

    level: Queue
    column: int
    asked: int


@dataclass(frozen=True, slots=True)
class NoEntry:
    """It could be placed, but all that it will need (``asked``) is not free beside what is promised.

    ``level`` is the queue whose capability it would pass in ``column``; None: what the nodes have free.
    ``kept``: it is what guarantees of other queues need.
    """

    level: Queue | None
    column: int
    asked: int
    kept: bool = False


@dataclass(frozen=True, slots=True)
class NotOpen:
    """The queue takes no new gangs, or does not exist: then nothing of it is placed any more."""


@dataclass(frozen=True, slots=True)
class Behind:
    """A gang before it needs the same scarce thing."""

    holder: Lane


Stop = NoRoom | NoDomain | NoQuota | NoEntry | NotOpen | Behind
Scarce = tuple[str, int, str]
"""What a stopped lane lacks: ("room", shape, "") or ("quota", column, queue)."""


@dataclass(frozen=True, slots=True)
class InVain:
    """A search that found nobody to leave: it would not while all that it has ``seen`` is the same."""

    seen: Hashable
    until: float | None
    """When more pods may leave than then (POSIX seconds)."""

    def holds(self, seen: Hashable, now: float) -> bool:
        """Whether it would find nobody now either."""
        return self.seen == seen and (self.until is None or self.until > now)


@dataclass(slots=True, eq=False)
class Lane:
    """Gangs of one signature, in order. Without ``stops`` it is to be tried."""

    signature: Signature
    queue: Queue
    shapes: tuple[tuple[Shape, int], ...]
    counts: dict[int, int] = field(init=False)
    """Pods that one gang needs, by number of shape; 0 in a lane of surplus."""
    total: dict[int, int] = field(init=False)
    """What one gang needs, by column."""
    taking: dict[int, int] = field(init=False)
    """What the last trial would have taken, where the minimum may be made of others; else ``total``."""
    floor: Amounts = field(init=False)
    """What its gangs will need in all, if they said it and have nothing yet."""
    layout: Layout | None = field(init=False)
    """Where the pods of a gang must be to each other, if that matters."""
    choice: Choice | None = field(init=False)
    """What the minimum may be made of, where it can be others than ``shapes``."""
    offered: tuple[Shape, ...] = field(init=False)
    """All shapes of which it may place pods."""
    starts: bool = field(init=False)
    """Its gangs hold nothing yet."""
    surplus: bool = field(init=False)
    """Its gangs have their minimum."""
    stops: tuple[Stop, ...] = ()
    holding: Scarce | None = None
    exposed: tuple[Scarce, ...] = ()
    """While it holds: all that it needs, so that a gang before it which lacks that is noticed."""
    late_at: float = inf
    """While it lacks room: when its head has waited for so long that some is reserved (POSIX seconds)."""
    lands: tuple[Hashable, bool] | None = None
    """Whether its gangs would land if nobody else were there, as of what that depends on."""
    in_vain: InVain | None = None
    """The last search for victims for its head, if it was one in vain."""
    unmoved: InVain | None = None
    """The last search for who moves for its head, if it was one in vain."""
    followers: dict[Lane, None] = field(default_factory=dict["Lane", None])
    entries: list[Entry] = field(default_factory=list["Entry"])
    """Its gangs in order from ``first`` on; those that left stay in it for a while."""
    first: int = 0
    size: int = 0

    def __post_init__(self) -> None:
        self.counts = {shape.number: count for shape, count in self.shapes}
        self.total = {}
        for shape, count in self.shapes:
            for column, amount in shape.amounts:
                self.total[column] = self.total.get(column, 0) + amount * count
        self.taking = self.total
        _, kind, _, _, self.floor, self.layout, self.choice = self.signature
        self.starts, self.surplus = kind == START, kind == SURPLUS
        if self.choice is None:
            self.offered = tuple(shape for shape, _ in self.shapes)
        else:
            self.offered = tuple(offer.shape for offer in self.choice.offers)

    @property
    def stop(self) -> Stop | None:
        """What stops it, None when it is to be tried."""
        return self.stops[0] if self.stops else None

    @property
    def is_plain(self) -> bool:
        """Whether amounts alone say if a gang has room: not where it lies, nor beside whom, matters."""
        return self.layout is None and all(shape.is_plain for shape, _ in self.shapes)

    @property
    def is_simple(self) -> bool:
        """Whether amounts alone say where a gang goes, and its minimum names its members."""
        return self.is_plain and self.choice is None

    @property
    def is_foreseeable(self) -> bool:
        """Whether columns of the nodes tell all that its pods take, and so what frees it.

        Not where they mount volumes that nodes count, or leave something beside scarce resources; nor where
        they have CPUs of NUMA nodes for themselves, as room that is kept does not name these.
        """
        return not any(
            shape.mounts is not None
            or shape.leaves
            or shape.aligned
            or (shape.kin is not None and shape.kin.alone)
            for shape in self.offered
        )

    def has_room(self, fits: Callable[[Shape], int]) -> bool:
        """Whether each of its shapes has room for as many pods as a gang needs; not together.

        ``fits`` says how many pods of a shape have room.
        """
        if self.choice is not None:
            return self.choice.has_room(fits)
        return all(fits(shape) >= count for shape, count in self.shapes)

    def push(self, gang: Gang, ticket: int) -> bool:
        """Put a gang in its place; say whether it is the head now."""
        gang.lane, gang.ticket = self, ticket
        entry = (gang.order, ticket, gang)
        entries = self.entries
        if self.first == len(entries) or entry > entries[-1]:
            entries.append(entry)
        else:
            insort(entries, entry, lo=self.first)
        self.size += 1
        return self._top() is entry

    def drop(self, gang: Gang) -> bool:
        """Take a gang out; say whether it was the head."""
        top = self._top()
        gang.lane = None
        gang.ticket = 0
        self.size -= 1
        if len(self.entries) - self.first > 2 * self.size + _FEW:
            self.entries, self.first = [one for one in self.entries if self._has(one)], 0
        return top is not None and top[2] is gang

    def head(self) -> tuple[OrderKey, Gang] | None:
        """Return the first gang and its place."""
        top = self._top()
        return None if top is None else (top[0], top[2])

    def members(self, most: int | None = None) -> list[tuple[OrderKey, Gang]]:
        """Return all gangs in order, or so many of the first."""
        there = (entry for entry in islice(self.entries, self.first, None) if self._has(entry))
        return [(key, gang) for key, _, gang in islice(there, most)]

    def held_until(self, hold_seconds: float) -> float:
        """Return the time (POSIX seconds) until which its head holds what it lacks."""
        top = self._top()
        return top[0][2] + hold_seconds if top is not None else 0.0

    def _top(self) -> Entry | None:
        entries, first = self.entries, self.first
        while first < len(entries) and not self._has(entries[first]):
            first += 1
        if first > _FEW and 2 * first > len(entries):
            del entries[:first]
            first = 0
        self.first = first
        return entries[first] if first < len(entries) else None

    def _has(self, entry: Entry) -> bool:
        """Whether a gang is in the lane still, by that ticket."""
        gang = entry[2]
        return gang.lane is self and gang.ticket == entry[1]
