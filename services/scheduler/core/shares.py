"""Shares: what each queue deserves of the cluster, and how what it holds compares with that.

From the top of the tree down, each queue's part is divided among the queues below it, resource by
resource. A part is ``level * weight``, at least what the queue is owed (its guarantee, and an explicit
``deserved``), at most what it asks for and may hold; the level is that at which all is divided. So
what one does not ask for flows on to those beside it (water-filling).

What is owed is bounded by what is there: if it is not, guarantees come before ``deserved``, and each
kind is cut in proportion. A queue with an explicit ``deserved`` deserves that also while it asks for less.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Final

from services.scheduler.core.resources import PODS

if TYPE_CHECKING:
    from services.scheduler.core.policy import Sharing
    from services.scheduler.core.queues import Queue

_ROUNDING: Final = 1e-9
"""Relative: amounts are divided in floating point."""

Part = tuple[float, float, float]
"""Weight, least, most."""


def fill(total: float, parts: Iterable[Part]) -> float:
    """Return the level at which ``min(max(level * weight, least), most)`` add up to ``total``.

    Infinite when all can have their most; 0 when the least that they get is the total, or more.
    """
    points: list[tuple[float, float]] = []
    amount = 0.0
    for weight, least, most in parts:
        amount += least
        if most > least:
            points += [(least / weight, weight), (most / weight, -weight)]
    level, slope = 0.0, 0.0
    if amount >= total:
        return level
    for point, change in sorted(points):
        step = slope * (point - level)
        if slope > 0 and amount + step >= total:
            return level + (total - amount) / slope
        amount, level, slope = amount + step, point, slope + change
    return inf


@dataclass(slots=True)
class _Claim:
    """What a queue and those below it ask for and are owed, of one resource."""

    demand: float = 0.0
    """Held and wanted, no more than the capabilities allow."""
    guarantee: float = 0.0
    owed: float = 0.0
    """``deserved`` where it is named, else the sum of those below; 0 where it does not count."""
    named: bool = False
    open: bool = True
    """It takes part by weight: it, or a queue below it, does not name what it deserves."""


@dataclass(slots=True)
class Shares:
    """What every queue deserves at one moment.

    What it holds is looked up when asked: a share moves with what is placed, against the same amounts.
    All methods take a queue at any level. ``adding`` and ``change`` are by column in base units.
    """

    amounts: dict[str, dict[int, float]] = field(default_factory=dict[str, dict[int, float]])
    totals: Mapping[int, int] = field(default_factory=dict[int, int])
    burdens: Mapping[str, float] = field(default_factory=dict[str, float])
    """By queue: how much more than its part it used over time (1: not more)."""

    dominant: bool = False
    """A share is that of the cluster over the queue's weight."""

    def deserved(self, queue: Queue) -> Mapping[int, float]:
        """Return what the queue deserves. A resource that is not in it has no bound (capacity mode)."""
        return self.amounts.get(queue.name) or dict.fromkeys(self.totals, 0.0)

    def share(self, queue: Queue, change: Mapping[int, int] | None = None) -> float:
        """Return held (with ``change``) over deserved, the largest of all resources; 1 is its due."""
        largest = 0.0
        change = change or {}
        for column, deserved in self.deserved(queue).items():
            held = queue.held.get(column, 0) + change.get(column, 0)
            due = self.totals[column] * queue.weight if self.dominant else deserved
            if held > 0:
                largest = max(largest, held / max(due, _ROUNDING * self.totals[column]))
        return largest if largest <= 1 else 1 + (largest - 1) * self.burdens.get(queue.name, 1.0)

    def within(self, queue: Queue, adding: Mapping[int, int]) -> bool:
        """Whether with ``adding`` it would hold no more than it deserves of each resource added."""
        deserved = self.deserved(queue)
        return all(
            queue.held.get(column, 0) + amount <= _bound(deserved, column)
            for column, amount in adding.items()
            if amount > 0
        )

    def above(self, queue: Queue, column: int, change: int = 0) -> bool:
        """Whether it holds (with ``change``) more than it deserves of a resource."""
        return queue.held.get(column, 0) + change > _bound(self.deserved(queue), column)

    def surplus(self, queue: Queue, column: int) -> float:
        """Return how much more it holds of a resource than it deserves (negative: less)."""
        deserved = self.deserved(queue).get(column)
        return -inf if deserved is None else queue.held.get(column, 0) - deserved

    def may_reclaim(self, claimant: Queue, adding: Mapping[int, int]) -> bool:
        """Whether the queue and all above it stay within what they deserve with ``adding``."""
        return all(self.within(level, adding) for level in claimant.chain)

    def may_lose(
        self, victim: Queue, claimant: Queue, losing: Mapping[int, int], columns: Iterable[int]
    ) -> bool:
        """Whether a queue may lose ``losing`` to another that needs something of ``columns``.

        Each level that is the victim's alone must still hold what it deserves and is guaranteed of them.
        """
        columns = [column for column in columns if losing.get(column, 0) > 0]
        return bool(columns) and all(
            all(not self._short(level, column, losing[column]) for column in columns)
            for level in apart(victim, claimant)[0]
        )

    def _short(self, level: Queue, column: int, losing: int) -> bool:
        """Whether it would hold less than it deserves, or is guaranteed."""
        left = level.held.get(column, 0) - losing
        least = max(self.deserved(level).get(column, 0.0), level.guarantee.get(column, 0))
        return left < least - _ROUNDING * max(1.0, least)


def apart(first: Queue, second: Queue) -> tuple[Sequence[Queue], Sequence[Queue]]:
    """Return the levels of each, from the queue itself up, which are not levels of the other."""
    return (
        [level for level in first.chain if level not in second.chain],
        [level for level in second.chain if level not in first.chain],
    )


def _bound(deserved: Mapping[int, float], column: int) -> float:
    if column == PODS:
        return inf
    amount = deserved.get(column, inf)
    return amount + _ROUNDING * max(1.0, amount)


class _Divider:
    """Divides one resource over the tree."""

    def __init__(self, column: int, sharing: Sharing, burdens: Mapping[str, float]) -> None:
        self._column = column
        self._mode = sharing.mode
        self._named = sharing.mode in ("mixed", "capacity")
        self._burdens = burdens
        self._claims: dict[str, _Claim] = {}

    def divide(self, tree: Sequence[Queue], total: float, into: dict[str, dict[int, float]]) -> None:
        for queue in tree:
            self._claims[queue.name] = self._claim(queue)
        root = tree[-1]
        amounts = {root.name: min(total, dict(root.capability or ()).get(self._column, total))}
        for queue in reversed(tree):
            amount = amounts[queue.name]
            if self._mode != "capacity" or self._claims[queue.name].named or not queue.deserved:
                into[queue.name][self._column] = amount
            left = max(0.0, amount - max(0, queue.own.get(self._column, 0)))
            parts = self._divided(queue.below, left)
            amounts.update((child.name, part) for child, part in zip(queue.below, parts, strict=True))

    def _claim(self, queue: Queue) -> _Claim:
        """Sum up from below."""
        column = self._column
        limit = dict(queue.capability or ()).get(column, inf)
        below = [self._claims[child.name] for child in queue.below]
        demand: float = max(0, queue.own.get(column, 0)) + queue.wanted.get(column, 0)
        demand += sum(one.demand for one in below)
        guarantee = max(float(queue.guarantee.get(column, 0)), sum(one.guarantee for one in below))
        named = (queue.deserved or {}).get(column) if self._named else None
        claim = _Claim(min(demand, limit), min(guarantee, limit))
        if named is not None:
            claim.owed, claim.named, claim.open = min(named, limit), True, False
        elif below:
            claim.owed = min(sum(one.owed for one in below), limit)
            claim.named = any(one.named for one in below)
            claim.open = any(one.open for one in below)
        if self._mode == "capacity":
            claim.open = False
        claim.owed = max(claim.owed, claim.guarantee)
        return claim

    def _divided(self, queues: Sequence[Queue], total: float) -> list[float]:
        claims = [self._claims[queue.name] for queue in queues]
        if self._mode == "capacity":
            return [claim.owed for claim in claims]
        guaranteed = sum(claim.guarantee for claim in claims)
        if guaranteed > total:
            return [claim.guarantee * total / guaranteed for claim in claims]
        parts = [self._part(queue, claim) for queue, claim in zip(queues, claims, strict=True)]
        if sum(least for _, least, _ in parts) > total:
            owed = [
                (claim.owed or 1.0, claim.guarantee, least)
                for claim, (_, least, _) in zip(claims, parts, strict=True)
            ]
            level = fill(total, owed)
            return [
                min(max(min(level, 1.0) * claim.owed, claim.guarantee), max(claim.owed, claim.guarantee))
                for claim in claims
            ]
        level = fill(total, parts)
        return [
            max(claim.owed if claim.named else 0.0, _clamp(level, part))
            for claim, part in zip(claims, parts, strict=True)
        ]

    def _part(self, queue: Queue, claim: _Claim) -> Part:
        least = max(claim.guarantee, min(claim.owed, claim.demand))
        most = max(least, claim.demand) if claim.open else least
        return queue.weight / self._burdens.get(queue.name, 1.0), least, most


def _clamp(level: float, part: Part) -> float:
    weight, least, most = part
    return most if level == inf else min(max(level * weight, least), most)


def divide(tree: Sequence[Queue], totals: Mapping[int, int], sharing: Sharing) -> Shares:
    """Return what each queue of a tree (those below first, the root last) deserves of a cluster."""
    amounts: dict[str, dict[int, float]] = {queue.name: {} for queue in tree}
    for column, total in totals.items():
        if column != PODS:
            _Divider(column, sharing, {}).divide(tree, float(total), amounts)
    return Shares(amounts, totals, dominant=sharing.mode == "drf")
