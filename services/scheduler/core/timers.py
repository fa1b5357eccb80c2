"""What is to be looked at again at a certain time."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class Timers(Generic[T]):
    """A heap of (POSIX seconds, number, thing): equal times keep their order."""

    heap: list[tuple[float, int, T]] = field(default_factory=list[tuple[float, int, T]])
    count: int = 0

    def add(self, at: float, what: T) -> None:
        """Remember ``what`` for the time ``at``."""
        self.count += 1
        heappush(self.heap, (at, self.count, what))

    def due(self, now: float) -> list[T]:
        """Return and forget what is due."""
        due: list[T] = []
        while self.heap and self.heap[0][0] <= now:
            due.append(heappop(self.heap)[2])
        return due

    def next(self) -> float | None:
        """Return the earliest time."""
        return self.heap[0][0] if self.heap else None


def earlier(one: float | None, other: float | None) -> float | None:
    """Return the earlier of two times, either of which may be never (None)."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
