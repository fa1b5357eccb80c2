"""Queues: what they may hold, what they hold, and what is kept for them.

Every amount is charged to the queue and to each level above it, so that a capability is a bound at
every level. What a level holds, and what of the guarantees below it is not used, together are within
its capability: so nobody takes what would make a guarantee unattainable. Which queue is served first is in
``turns``, what each deserves in ``shares``, the tree in ``queuetree``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from services.scheduler.core import queuetree
from services.scheduler.core.division import divide
from services.scheduler.core.policy import Sharing
from services.scheduler.core.queuetree import Fault
from services.scheduler.core.resources import Amounts, Resources
from services.scheduler.core.shares import Shares
from services.scheduler.core.usage import Usage
from shared.api.names import ROOT_QUEUE
from shared.events.contracts import QueueState

if TYPE_CHECKING:
    from services.scheduler.core.lanes import Lane


@dataclass(slots=True, eq=False)
class Queue:
    """One queue's account. ``known`` is False for a name that gangs or pods use and no Queue has."""

    name: str
    known: bool = False
    facts: QueueState | None = None
    state: str = ""
    parent: str = ""
    weight: float = 1
    """As named, or as many times of that as a plugin says; so is ``deserved``."""
    priority: int = 0
    rank: int = 0
    """Its priority, as far as priorities of queues count."""
    reclaimable: bool = True
    capability: Amounts | None = None
    deserved: Mapping[int, int] | None = None
    """By column, as named; None: not named. What it gets of that is in ``shares``."""
    named_guarantee: Mapping[int, int] = field(default_factory=dict[int, int])
    guarantee: Mapping[int, int] = field(default_factory=dict[int, int])
    """By column: as named, nothing while the queue takes no gangs."""
    held: dict[int, int] = field(default_factory=dict[int, int])
    """By column: bound pods and decisions in flight, those of queues below included."""
    twice: dict[int, int] = field(default_factory=dict[int, int])
    """By column: what of ``held`` is room for gangs in which pods still are that leave for them."""
    own: dict[int, int] = field(default_factory=dict[int, int])
    wanted: dict[int, int] = field(default_factory=dict[int, int])
    """By column: what its waiting members ask for."""
    kept: dict[int, int] = field(default_factory=dict[int, int])
    """By column: what guarantees, its own and those below, exceed what is held."""
    kept_below: dict[int, int] = field(default_factory=dict[int, int])
    """The sum of ``kept`` of the queues directly below."""
    floor: dict[int, int] = field(default_factory=dict[int, int])
    """By column: what would be kept if nothing were held."""
    above: Queue | None = None
    below: list[Queue] = field(default_factory=list["Queue"])
    chain: tuple[Queue, ...] = ()
    """The queue itself, the queue above it, and so on up to the root."""

    def uses(self, column: int) -> int:
        """Return what it holds, counting room and the pods that leave it once."""
        return self.held.get(column, 0) - self.twice.get(column, 0)

    broken: Fault | None = None
    """Why it is not where its parent's name says."""
    active: dict[Lane, None] = field(default_factory=dict["Lane", None])
    """Lanes that are to be tried."""
    waiting: int = 0

    @property
    def takes_new(self) -> bool:
        """Whether gangs may enter: an open queue does, unless it is there to hold other queues."""
        return self.known and not self.below and self.above is not None and self.closed is None

    @property
    def closed(self) -> Queue | None:
        """The first level that is not open, or broken."""
        for level in self.chain:
            if level.broken is not None or (level.known and level.state != "Open"):
                return level
        return None

    def outranks(self, other: Queue) -> bool:
        """Whether its priority, or that of its level below the common one, is the higher."""
        mine, others = self.chain[::-1], other.chain[::-1]
        for level, beside in zip(mine, others, strict=False):
            if level is not beside:
                return level.rank > beside.rank
        return False


class Queues:
    """All queues by name."""

    def __init__(self, resources: Resources, sharing: Sharing | None = None) -> None:
        self._resources = resources
        self._sharing = sharing or Sharing()
        self.by_name: dict[str, Queue] = {}
        self.freed: set[str] = set()
        """Queues that hold less, or may hold more, than before: taken by the cycle."""
        self.charged: set[str] = set()
        """Queues with a capability that hold more than before: taken by those who hold something."""
        self.changed: set[str] = set()
        """Queues with other rules than before: taken by the cycle."""
        self._guaranteed: tuple[int, ...] = ()
        """Columns in which any queue has a guarantee."""
        self.usage = Usage()
        self._shares = Shares()
        self._shares_of: tuple[int, int, int] | None = None
        self.shares_version = 0
        """Rises when queues deserve something else, as of the last question."""
        self.held_version = 0
        """Rises with what queues hold, and with their rules."""
        self._version = 0
        self._moved = False
        self.tree_version = 0
        """Rises when queues come, go, or move."""
        self._unweighed: set[str] = set()
        """Queues whose objects, or what plugins make of them, changed."""
        self.root = self.get(ROOT_QUEUE)
        self.tree = [self.root]
        """The root and all that hangs below it, those below first."""

    def get(self, name: str) -> Queue:
        """Return the queue of a name, unknown yet if need be."""
        queue = self.by_name.get(name)
        if queue is None:
            queue = self.by_name[name] = Queue(name)
            queue.above = None if name == ROOT_QUEUE else self.root
            queue.chain = (queue,) if queue.above is None else (queue, queue.above)
        return queue

    # ------------------------------------------------------------------ facts

    def facts(self, name: str) -> QueueState | None:
        """Return what is known of a queue; None of one that is not there."""
        queue = self.by_name.get(name)
        return None if queue is None else queue.facts

    def upsert(self, state: QueueState) -> None:
        """Take in a queue's facts."""
        queue = self.get(state.name)
        if queue.facts == state:
            return
        queue.facts = state
        moved = not queue.known or queue.priority != state.priority
        moved = moved or (queue.parent, queue.state) != (state.parent, state.state)
        queue.known, queue.state, queue.parent = True, state.state, state.parent
        queue.priority, queue.reclaimable = state.priority, state.reclaimable
        queue.capability = None if state.capability is None else self._limits(state.capability)
        guarantee = {} if state.guarantee is None else dict(self._limits(state.guarantee))
        self._changed(queue, moved=moved or guarantee != queue.named_guarantee)
        queue.named_guarantee = guarantee

    def remove(self, name: str) -> None:
        """Forget a queue's facts; what it holds stays counted."""
        queue = self.by_name.get(name)
        if queue is not None:
            queue.known, queue.state, queue.parent, queue.facts = False, "", "", None
            queue.capability = queue.deserved = None
            queue.named_guarantee = {}
            queue.weight, queue.priority, queue.reclaimable = 1, 0, True
            self._changed(queue, moved=True)

    def refresh(self) -> None:
        """Work out the tree and all sums anew if queues came, went, or moved, and weights that changed."""
        if self._unweighed:
            self._weigh()
        if not self._moved:
            return
        self._moved = False
        self.tree_version += 1
        self.tree = queuetree.link(self.by_name, self.root, flat=not self._sharing.hierarchy)
        ranked = "priority" in self._sharing.queue_order
        for queue in self.by_name.values():
            queue.rank = queue.priority if ranked else 0
            queue.held, queue.kept, queue.kept_below, queue.floor = {}, {}, {}, {}
            queue.guarantee = queue.named_guarantee if queue.closed is None else {}
        self._guaranteed = tuple(
            sorted({column for queue in self.by_name.values() for column in queue.guarantee})
        )
        for queue in self.by_name.values():
            for level in queue.chain:
                _add(level.held, queue.own)
        for queue in self.tree:
            for column in self._guaranteed:
                queue.floor[column] = max(
                    queue.guarantee.get(column, 0), sum(child.floor[column] for child in queue.below)
                )
                queue.kept_below[column] = sum(child.kept[column] for child in queue.below)
                lacks = queue.guarantee.get(column, 0) - queue.held.get(column, 0)
                queue.kept[column] = max(0, lacks, queue.kept_below[column])
        self.freed.update(self.by_name)
        self.changed.update(self.by_name)

    def govern(self, sharing: Sharing) -> None:
        """Share by another policy from now on."""
        self._sharing = sharing
        self._moved = True
        self._unweighed.update(self.by_name)
        self._version += 1
        self.held_version += 1

    def faults(self) -> list[Fault]:
        """Return all that is wrong with the tree and its quotas, by queue."""
        return queuetree.faults(self.by_name.values(), self._resources)

    # ------------------------------------------------------------------ accounts

    def charge(self, queue: Queue, amounts: Amounts, count: int) -> None:
        """Count ``count`` pods (negative: fewer) in the queue and its parents."""
        self._version += 1
        self.held_version += 1
        self._count(queue, amounts, count)
        for level in queue.chain:
            if count < 0:
                self.freed.add(level.name)
            elif level.capability:
                self.charged.add(level.name)

    @contextmanager
    def without(self, gone: Mapping[Queue, Mapping[int, int]]) -> Iterator[None]:
        """Let questions be answered as if queues did not hold these amounts: nobody is woken by it."""
        for queue, amounts in gone.items():
            self._count(queue, tuple(amounts.items()), -1)
        twice = [(level, level.twice) for level in self.by_name.values() if level.twice]
        for level, _ in twice:  # what leaves has gone
            level.twice = {}
        try:
            yield
        finally:
            for level, sums in twice:
                level.twice = sums
            for queue, amounts in gone.items():
                self._count(queue, tuple(amounts.items()), 1)

    def count_twice(self, level: Queue, amounts: Mapping[int, int], sign: int) -> None:
        """Count (or no more) what a level holds of room that still holds pods which leave for it."""
        if not any(amounts.values()):
            return
        for column, amount in amounts.items():
            level.twice[column] = level.twice.get(column, 0) + sign * amount
        self.held_version += 1
        (self.freed if sign > 0 else self.charged).add(level.name)

    def want(self, queue: Queue, wanted: Mapping[int, int], sign: int) -> None:
        """Count (1) or no longer count (-1) what a waiting gang asks for."""
        self._version += 1
        for column, amount in wanted.items():
            queue.wanted[column] = queue.wanted.get(column, 0) + sign * amount

    def over(self, queue: Queue, total: Mapping[int, int]) -> tuple[Queue, int] | None:
        """Return the first level and column where ``total`` more would pass the capability.

        What is kept there for guarantees counts as held.
        """
        for level in queue.chain:
            for column, limit in level.capability or ():
                asked = total.get(column, 0)
                if asked and asked > limit - level.uses(column):
                    return level, column
        for column in self._guaranteed:
            if more := total.get(column, 0):
                for level, kept in _keeping(queue, column, more):
                    most = dict(level.capability or ()).get(column, inf)
                    grows = more + kept > level.kept.get(column, 0)
                    if grows and level.held.get(column, 0) + more + kept > most:
                        return level, column
        return None

    def room(self, queue: Queue, amounts: Amounts, count: int) -> tuple[int, tuple[Queue, int] | None]:
        """Return how many of ``count`` such pods may be held, and what bounds them."""
        fits = most_of(count, lambda some: self.over(queue, times(amounts, some)) is None)
        return fits, None if fits == count else self.over(queue, times(amounts, fits + 1))

    def keeps(self, queue: Queue, total: Mapping[int, int], free: Mapping[int, int]) -> int | None:
        """Return the column in which ``total`` would take what guarantees need of ``free``, if any."""
        for column in self._guaranteed:
            if asked := total.get(column, 0):
                *_, (root, kept) = _keeping(queue, column, asked)
                if asked + kept > free.get(column, 0) and asked + kept > root.kept.get(column, 0):
                    return column
        return None

    def kept_columns(self, total: Iterable[int]) -> list[int]:
        """Return those of the columns in which guarantees are not used up."""
        if not self._guaranteed:
            return []
        return [column for column in self._guaranteed if column in total and self.root.kept.get(column)]

    def allows(self, queue: Queue, total: Mapping[int, int], cluster: Mapping[int, int]) -> bool:
        """Whether an empty cluster and empty queues could hold ``total``, beside what is guaranteed."""
        for column, asked in total.items():
            guaranteed = column in self._guaranteed
            floors = (
                _floors(queue, column, asked) if guaranteed else ((level, asked) for level in queue.chain)
            )
            for level, floor in floors:
                limit = dict(level.capability or ()).get(column, inf)
                if level is self.root:
                    limit = min(limit, cluster.get(column, 0))
                if asked > limit or limit < floor > level.floor.get(column, 0):
                    return False
        return True

    # ------------------------------------------------------------------ shares

    def shares(self, cluster: Mapping[int, int], version: int) -> Shares:
        """Return what each queue deserves of a cluster (``version`` names its contents)."""
        self.refresh()
        now = self._version, self.usage.version, version
        if self._shares_of != now:
            before, self._shares = (
                self._shares,
                divide(self.tree, cluster, self._sharing, self.usage.levels()),
            )
            self.shares_version += before != self._shares
            self._shares_of = now
        return self._shares

    # ------------------------------------------------------------------ inside

    def _count(self, queue: Queue, amounts: Amounts, count: int) -> None:
        for sums in (queue.own, *[level.held for level in queue.chain]):
            for column, amount in amounts:
                sums[column] = sums.get(column, 0) + amount * count
        for column in self._guaranteed:
            if any(column == charged for charged, _ in amounts):
                self._keep(queue, column)

    def _weigh(self) -> None:
        """Note what queues are named to get, times what plugins say."""
        names, self._unweighed = self._unweighed, set()
        queues = [queue for name in sorted(names) if (queue := self.by_name[name]).facts is not None]
        states = [queue.facts for queue in queues if queue.facts is not None]
        times = np.ones(len(states))
        for factor in self._sharing.factors if states else ():
            times *= factor(states)
        for queue, state, many in zip(queues, states, times.tolist(), strict=True):
            queue.weight = max(1, state.weight)
            queue.deserved = None if state.deserved is None else dict(self._limits(state.deserved))
            if many != 1:
                queue.weight *= many
                deserved = queue.deserved
                queue.deserved = deserved and {column: round(one * many) for column, one in deserved.items()}

    def _changed(self, queue: Queue, *, moved: bool) -> None:
        self._moved = self._moved or moved
        self._version += 1
        self.held_version += 1
        self._unweighed.add(queue.name)
        self.changed.add(queue.name)
        self.freed.add(queue.name)

    def _keep(self, queue: Queue, column: int) -> None:
        """Work out anew what is to be kept at the queue's levels after what it holds changed."""
        change = 0
        for level in queue.chain:
            below = level.kept_below[column] = level.kept_below.get(column, 0) + change
            lacks = level.guarantee.get(column, 0) - level.held.get(column, 0)
            change = -level.kept.get(column, 0)
            level.kept[column] = max(0, lacks, below)
            change += level.kept[column]

    def _limits(self, quantities: Mapping[str, int]) -> Amounts:
        """A limit of zero is a limit; a resource that is not named has none."""
        return tuple(
            sorted((self._resources.column(name), max(0, amount)) for name, amount in quantities.items())
        )


def _keeping(queue: Queue, column: int, more: int) -> Iterator[tuple[Queue, int]]:
    """Yield each level, from the queue up, and what is to be kept there when it holds ``more``."""
    change = 0
    for level in queue.chain:
        below = level.kept_below.get(column, 0) + change
        kept = max(0, below, level.guarantee.get(column, 0) - level.held.get(column, 0) - more)
        yield level, kept
        change = kept - level.kept.get(column, 0)


def _floors(queue: Queue, column: int, asked: int) -> Iterator[tuple[Queue, int]]:
    """Yield each level, and what would be held or kept there if only ``asked`` were held."""
    change = asked
    for level in queue.chain:
        below = sum(child.floor.get(column, 0) for child in level.below) + change
        floor = max(below, level.guarantee.get(column, 0))
        yield level, floor
        change = floor - level.floor.get(column, 0)


def most_of(count: int, allowed: Callable[[int], bool]) -> int:
    """Return the largest number up to ``count`` that is allowed, where all below one that is are."""
    if allowed(count):
        return count
    fits, refused = 0, count
    while refused - fits > 1:
        middle = (fits + refused) // 2
        fits, refused = (middle, refused) if allowed(middle) else (fits, middle)
    return fits


def times(amounts: Amounts, count: int) -> dict[int, int]:
    """Return the amounts of so many pods, by column."""
    return {column: amount * count for column, amount in amounts}


def _add(sums: dict[int, int], amounts: Mapping[int, int]) -> None:
    for column, amount in amounts.items():
        sums[column] = sums.get(column, 0) + amount
