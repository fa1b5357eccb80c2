"""Shares: how what queues hold compares with what they deserve."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Final

from services.scheduler.core.resources import PODS

if TYPE_CHECKING:
    from services.scheduler.core.queues import Queue

_ROUNDING: Final = 1e-9
"""Relative: amounts are divided in floating point."""


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

    def may_reclaim(self, claimant: Queue, victim: Queue, adding: Mapping[int, int]) -> bool:
        """Whether each level that is the claimant's alone stays within what it deserves with ``adding``.

        (What both are below holds no more than before.)
        """
        return all(self.within(level, adding) for level in apart(claimant, victim)[0])

    def may_lose(
        self, victim: Queue, claimant: Queue, losing: Mapping[int, int], columns: Iterable[int]
    ) -> bool:
        """Whether a queue may lose ``losing`` to another that needs something of ``columns``.

        Each level that is the victim's alone must still hold what it deserves of ``columns``, and what it is
        guaranteed of anything.
        """
        needed = {column for column in columns if losing.get(column, 0) > 0}
        return bool(needed) and all(
            self._keeps(level, column, amount, due=column in needed)
            for level in apart(victim, claimant)[0]
            for column, amount in losing.items()
        )

    def _keeps(self, level: Queue, column: int, losing: int, *, due: bool) -> bool:
        """Whether it still holds what it is guaranteed, and (``due``) what it deserves."""
        least = float(level.guarantee.get(column, 0))
        if due:
            least = max(least, self.deserved(level).get(column, 0.0))
        return not losing or level.held.get(column, 0) - losing >= least - _ROUNDING * max(1.0, least)


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
