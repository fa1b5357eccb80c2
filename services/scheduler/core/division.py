"""Dividing a cluster over the tree of queues.

From the top of the tree down, each queue's part is divided among the queues below it, resource by
resource. A part is ``level * weight``, at least what the queue is owed (its guarantee, and of an explicit
``deserved`` what it asks for), at most what it asks for and may hold; the level is that at which all is
divided. So what one does not ask for flows on to those beside it (water-filling).

What is owed is bounded by what is there: if it is not, guarantees come before ``deserved``, and each
kind is cut in proportion. A queue with an explicit ``deserved`` deserves that also while it asks for less.
Who used more than its part over time has a smaller weight, and is owed the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final

from services.scheduler.core.resources import PODS
from services.scheduler.core.shares import Shares

if TYPE_CHECKING:
    from services.scheduler.core.policy import Sharing
    from services.scheduler.core.queues import Queue

Part = tuple[float, float, float]
"""Weight, least, most."""


def divide(
    tree: Sequence[Queue], totals: Mapping[int, int], sharing: Sharing, usage: Mapping[str, float]
) -> Shares:
    """Return what each queue of a tree deserves of a cluster.

    ``tree`` has those below first and the root last; ``usage`` is what queues used over time, in any unit.
    """
    amounts: dict[str, dict[int, float]] = {queue.name: {} for queue in tree}
    burdens = _burdens(tree, usage, sharing.usage_weight) if usage else {}
    for column, total in totals.items():
        if column == PODS:
            continue
        for name, amount in _Division(column, sharing, burdens).divide(tree, float(total)).items():
            amounts[name][column] = amount
    return Shares(amounts, totals, burdens, dominant=sharing.mode == "drf")


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

    guarantee: float
    owed: float
    """``deserved`` where it is named, else the sum of those below."""
    least: float
    """Its guarantee, or what of what it is owed is asked for."""
    asked: float
    most: float
    """What is asked for and may be had: more than the least for who takes part by weight."""
    open: bool
    """It takes part by weight: it, or a queue below it, does not name what it deserves."""


_NOTHING: Final = _Claim(0.0, 0.0, 0.0, 0.0, 0.0, open=True)


class _Division:
    """Divides one resource."""

    def __init__(self, column: int, sharing: Sharing, burdens: Mapping[str, float]) -> None:
        self._column = column
        self._explicit = sharing.mode in ("mixed", "capacity")
        self._weighted = sharing.mode != "capacity"
        self._burdens = burdens
        self._claims: dict[str, _Claim] = {}

    def divide(self, tree: Sequence[Queue], total: float) -> dict[str, float]:
        """Return what queues deserve; none for a resource that a queue with ``deserved`` does not name."""
        for queue in tree:
            self._claims[queue.name] = self._claim(queue)
        root = tree[-1]
        parts = {root.name: min(total, dict(root.capability or ()).get(self._column, total))}
        deserved = dict(parts)
        for queue in reversed(tree):
            if not queue.below:
                continue
            left = max(0.0, parts[queue.name] - max(0, queue.own.get(self._column, 0)))
            for child, part in zip(queue.below, self._divided(queue.below, left), strict=True):
                parts[child.name], due = part
                if self._weighted or due > 0 or not child.deserved or self._column in child.deserved:
                    deserved[child.name] = due
        return deserved

    def _claim(self, queue: Queue) -> _Claim:
        """Sum up from below."""
        column = self._column
        demand: float = max(0, queue.own.get(column, 0)) + queue.wanted.get(column, 0)
        named = (queue.deserved or {}).get(column) if self._explicit else None
        guarantee: float = queue.guarantee.get(column, 0)
        if not (demand or guarantee or queue.below or named is not None):
            return _NOTHING
        limit = dict(queue.capability or ()).get(column, inf)
        below = [self._claims[child.name] for child in queue.below]
        demand = min(demand + sum(one.most for one in below), limit)
        guarantee = min(max(guarantee, sum(one.guarantee for one in below)), limit)
        if named is not None:
            owed = min(named, limit)
            asked, is_open = min(owed, demand), False
        else:
            owed = min(sum(one.owed for one in below), limit)
            asked = min(sum(one.asked for one in below), limit)
            is_open = not below or any(one.open for one in below)
        least = max(guarantee, asked)
        return _Claim(guarantee, owed, least, asked, max(least, demand) if is_open else least, is_open)

    def _divided(self, queues: Sequence[Queue], total: float) -> list[tuple[float, float]]:
        """Return the part of each, and what it deserves: more where it asks for less than it is owed."""
        claims = [self._claims[queue.name] for queue in queues]
        guaranteed = sum(claim.guarantee for claim in claims)
        if not self._weighted:
            return [(claim.most, max(claim.owed, claim.guarantee)) for claim in claims]
        if guaranteed > total:
            return [(part, part) for part in (claim.guarantee * total / guaranteed for claim in claims)]
        if sum(claim.least for claim in claims) > total:
            return self._cut(claims, total)
        weights = [queue.weight / self._burdens.get(queue.name, 1.0) for queue in queues]
        parts = [(weight, claim.least, claim.most) for weight, claim in zip(weights, claims, strict=True)]
        level = fill(total, parts)
        return [
            (part, max(part, claim.owed))
            for claim, part in zip(claims, (_clamp(level, one) for one in parts), strict=True)
        ]

    @staticmethod
    def _cut(claims: Sequence[_Claim], total: float) -> list[tuple[float, float]]:
        """Guarantees, and of what else is owed the same fraction for all."""
        owed = [(max(claim.owed, claim.least) or 1.0, claim.guarantee, claim.least) for claim in claims]
        level = fill(total, owed)
        parts = [_clamp(level, one) for one in owed]
        return [
            (part, max(part, min(level, 1.0) * claim.owed)) for claim, part in zip(claims, parts, strict=True)
        ]


def _clamp(level: float, part: Part) -> float:
    weight, least, most = part
    return most if level == inf else min(max(level * weight, least), most)


def _burdens(tree: Sequence[Queue], usage: Mapping[str, float], weight: float) -> dict[str, float]:
    """Return how much more than its part by weight each queue used, beside those that share its parent.

    1 for not more; ``weight`` times the excess is added.
    """
    used: dict[str, float] = {}
    burdens: dict[str, float] = {}
    for queue in tree:
        used[queue.name] = usage.get(queue.name, 0.0) + sum(used[child.name] for child in queue.below)
        total = sum(used[child.name] for child in queue.below)
        weights = sum(child.weight for child in queue.below)
        for child in queue.below:
            if total > 0:
                excess = used[child.name] / total / (child.weight / weights) - 1
                burdens[child.name] = 1 + weight * max(0.0, excess)
    return burdens
