"""Who could go at all, and what that would free: looked up once for all gangs that wait.

Gangs of a queue with one priority have the same possible victims. Their rows, the room that they hold, and
how they are cut into bundles stay as they are until somebody is evicted. Sums of that room say of most
gangs that nobody can be evicted for them, without a look at single pods.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

import numpy as np

from services.scheduler.core.bundles import Bundle, by_gang, cut
from services.scheduler.core.columns import BoolArray, IntArray, SlotArray
from services.scheduler.core.gangs import Gang, Key
from services.scheduler.core.lanes import Lane
from services.scheduler.core.model import Model
from services.scheduler.core.policy import Eviction, VictimFilter
from services.scheduler.core.queues import Queue
from services.scheduler.core.shapes import Shape
from services.scheduler.core.timers import earlier
from services.scheduler.core.zones import in_zones, within_budget

Tiers = Sequence[Sequence[VictimFilter]]


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Pods that may be victims for one reason, and how they are filtered."""

    key: Hashable
    """What makes them the same group."""
    rows: SlotArray
    tiers: Tiers


@dataclass(slots=True)
class _Room:
    """What is free when all pods of some groups have gone."""

    free: IntArray
    """[column, slot]"""
    sums: list[int]
    """By column, over our nodes."""
    held: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    """What the pods hold, by queue and column."""


def is_lasting(gang: Gang) -> bool:
    """Whether none of a gang's pods may be evicted by what their templates say."""
    return not any(task.shape.preemptable for task in gang.contract.tasks)


def asks_as(gang: Gang, policy: Eviction) -> Hashable:
    """Return all of a gang by which victims are filtered: gangs that are equal in it have the same."""
    tiers = (*policy.preempt_filters, *policy.reclaim_filters)
    votes = any(not isinstance(one, str) for tier in tiers for one in tier)
    contract = gang.contract
    return contract.queue, contract.priority, is_lasting(gang), gang if votes else None


class Candidates:
    """Possible victims as they are at one moment."""

    def __init__(self, model: Model, now: datetime) -> None:
        self._model = model
        self._policy = model.policy.eviction
        self._now = now.timestamp()
        self.cool_at: float | None = None
        """When the next pod can be evicted that was asked for and is safe now; whoever asks sets it back."""
        self._rows: dict[Hashable, tuple[SlotArray, float | None]] = {}
        self._free: dict[Key | None, IntArray] = {}
        self._rooms: dict[Hashable, _Room] = {}
        self._bundles: dict[Hashable, tuple[list[Bundle], Sequence[VictimFilter], float | None]] = {}

    # ------------------------------------------------------------------ who

    def below(self, queue: Queue, priority: int) -> Group:
        """Return the pods of a queue that have a lower priority, and are of gangs that have one."""
        victims = self._model.victims
        key = ("below", queue.name, priority)

        def which() -> BoolArray:
            mine: BoolArray = victims.queue[: victims.size] == victims.queues.get(queue.name, -1)
            return mine & (victims.rank[: victims.size] < priority)

        return Group(key, self._willing(key, which), self._policy.preempt_filters)

    def of_queues(self, names: Sequence[str]) -> Group:
        """Return the pods of some queues."""
        victims = self._model.victims
        numbers = tuple(victims.queues[name] for name in names)
        key = ("queues", numbers)
        rows = self._willing(key, lambda: np.isin(victims.queue[: victims.size], numbers))
        return Group(key, rows, self._policy.reclaim_filters)

    def _willing(self, key: Hashable, which: Callable[[], BoolArray]) -> SlotArray:
        """Return which of the rows may be evicted now, on our nodes; remember when the next may."""
        if key not in self._rows:
            victims, size = self._model.victims, self._model.victims.size
            asked = which() & victims.willing[:size] & self._model.nodes.mine[victims.slot[:size]]
            cold = victims.since[:size] + self._policy.min_run_time.total_seconds()
            waits = asked & (cold > self._now)
            at = float(cold[waits].min()) if waits.any() else None
            self._rows[key] = np.flatnonzero(asked & ~waits), at
        rows, at = self._rows[key]
        self.cool_at = earlier(self.cool_at, at)
        return rows

    # ------------------------------------------------------------------ what that frees

    def free(self, gang: Gang) -> IntArray:
        """Return what is free for a gang once all that is leaving has left: [column, slot]."""
        reserved = gang.key if self._model.reservations.of(gang.key) is not None else None
        if reserved not in self._free:
            nodes = self._model.nodes
            nodes.fit_columns()
            self._free[reserved] = nodes.future()
        return self._free[reserved]

    def could_help(
        self, lane: Lane, gang: Gang, groups: Sequence[Group], short: dict[tuple[Queue, int], int]
    ) -> bool:
        """Whether there are room and quota if all these pods go: an upper bound, without a search.

        ``short`` is what quotas lack, by level and column.
        """
        room = self._room(gang, groups)
        if any(self._given(room, *where) < lacks for where, lacks in short.items()):
            return False
        if lane.choice is None and any(amount > room.sums[column] for column, amount in lane.total.items()):
            return False
        return lane.has_room(partial(self._fits, room))

    def _room(self, gang: Gang, groups: Sequence[Group]) -> _Room:
        model = self._model
        free = self.free(gang)
        key = (tuple(group.key for group in groups), id(free))
        if key not in self._rooms:
            rows = np.concatenate([group.rows for group in groups])
            victims, shapes = model.victims, model.shapes.by_number
            slots, numbers, queues = victims.slot[rows], victims.shape[rows], victims.queue[rows]
            everything = free.copy()
            model.shapes.add_held(everything, slots, numbers)
            sums = np.where(model.nodes.mine, np.maximum(everything, 0), 0).sum(axis=1).tolist()
            room = self._rooms[key] = _Room(everything, sums)
            names = {number: name for name, number in victims.queues.items()}
            counts = np.bincount(queues * len(shapes) + numbers)
            for pair in np.flatnonzero(counts).tolist():
                queue, number = divmod(pair, len(shapes))
                for column, amount in shapes[number].amounts:
                    where = (names[queue], column)
                    room.held[where] = room.held.get(where, 0) + amount * counts.item(pair)
        return self._rooms[key]

    def _given(self, room: _Room, level: Queue, column: int) -> int:
        return sum(
            amount
            for (name, held), amount in room.held.items()
            if held == column and level in self._model.queues.get(name).chain
        )

    @staticmethod
    def _fits(room: _Room, shape: Shape) -> int:
        shape.rules.refresh()
        free = room.free[:, shape.rules.allowed]
        each = np.minimum.reduce([free[column] // amount for column, amount in shape.amounts])
        return int(np.maximum(each, 0).sum())

    # ------------------------------------------------------------------ in which pieces

    def bundles(self, gang: Gang, group: Group) -> tuple[list[Bundle], Sequence[VictimFilter]]:
        """Cut what may go into bundles, by the first tier of filters that leaves any."""
        key = (group.key, asks_as(gang, self._policy))
        if key not in self._bundles:
            before, self.cool_at = self.cool_at, None
            found, tier = self._cut(gang, group)
            self._bundles[key] = found, tier, self.cool_at
            self.cool_at = before
        found, tier, at = self._bundles[key]
        self.cool_at = earlier(self.cool_at, at)
        return found, tier

    def _cut(self, gang: Gang, group: Group) -> tuple[list[Bundle], Sequence[VictimFilter]]:
        priority, own = gang.contract.priority, gang.contract.queue
        tiers = group.tiers or ((),)
        always = set.intersection(*map(set, tiers))
        for tier in tiers:
            voted, silent = self._voted(gang, self._filtered(gang, group.rows, tier), tier)
            if silent and silent == len(set(tier) - always) and len(tiers) > 1:
                continue  # nobody else votes here
            found: list[Bundle] = []
            for one, rows in by_gang(self._model, voted).items():
                same = one.contract.queue == own or "priority" in tier
                if not same or one.contract.priority < priority:
                    some = within_budget(self._model, one, rows) if "tdm" in tier else rows
                    found += cut(self._model, one, some, whole="gang" not in tier)
            if found:
                return found, tier
        return [], ()

    def _voted(self, gang: Gang, rows: SlotArray, tier: Sequence[VictimFilter]) -> tuple[SlotArray, int]:
        """Return the rows that plugins let go which see gangs, and how many of these had nothing to say."""
        silent = 0
        for vote in tier:
            if not isinstance(vote, str) and rows.size:
                answer = vote(self._model, gang.contract, rows)
                silent += answer is None
                rows = rows if answer is None else rows[answer]
        return rows, silent

    def _filtered(self, gang: Gang, rows: SlotArray, tier: Sequence[VictimFilter]) -> SlotArray:
        victims = self._model.victims
        if "conformance" in tier:
            rows = rows[~victims.critical[rows]]
        if "tdm" in tier:
            rows = np.setdiff1d(rows, in_zones(self._model, rows)) if is_lasting(gang) else rows[:0]
        if "cdp" in tier:
            cooldown = np.maximum(victims.cooldown[rows], self._policy.cooldown.total_seconds())
            warm = victims.scheduled[rows] + cooldown
            if (warm > self._now).any():
                self.cool_at = earlier(self.cool_at, float(warm[warm > self._now].min()))
                rows = rows[warm <= self._now]
        return rows
