"""Virtual time: what is to happen, in order of time and, of one time, in the order in which it was noted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from typing import Final

BEGINNING: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""Second 0 of every scenario: some moment, always the same."""
_TICK: Final = timedelta(microseconds=1)

Action = Callable[[], None]


class Timeline:
    """The clock and the queue of events."""

    def __init__(self) -> None:
        self.now = BEGINNING
        self._stamp = BEGINNING - _TICK
        self._heap: list[tuple[datetime, int, Action]] = []
        self._count = 0

    def add(self, at: datetime, action: Action) -> None:
        """Have something done at a time, at once if that has passed."""
        self._count += 1
        heappush(self._heap, (max(at, self.now), self._count, action))

    def next(self) -> datetime | None:
        """Return when something happens next."""
        return self._heap[0][0] if self._heap else None

    def advance(self, to: datetime) -> None:
        """Go on to a time and do all that is due then, also what is added meanwhile."""
        self.now = max(self.now, to)
        while self._heap and self._heap[0][0] <= self.now:
            heappop(self._heap)[2]()

    def stamp(self) -> datetime:
        """Return the present, a microsecond later for each time it is asked for: order within a moment."""
        self._stamp = max(self.now, self._stamp + _TICK)
        return self._stamp


def seconds(moment: datetime) -> float:
    """Return a moment as seconds since the beginning."""
    return (moment - BEGINNING).total_seconds()
