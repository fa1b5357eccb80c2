"""What is due when: a heap with one entry that counts for each key."""

from __future__ import annotations

import heapq
from datetime import datetime


class Agenda:
    """Times by key; setting a key again moves it."""

    def __init__(self) -> None:
        self._heap: list[tuple[datetime, int, str]] = []
        self._when: dict[str, tuple[datetime, int]] = {}
        self._count = 0

    def set(self, key: str, when: datetime | None) -> None:
        """Make ``key`` due at ``when``; None takes it off."""
        if when is None:
            self._when.pop(key, None)
            return
        if key in self._when and self._when[key][0] == when:
            return
        self._count += 1
        self._when[key] = when, self._count
        heapq.heappush(self._heap, (when, self._count, key))

    def pop_due(self, now: datetime) -> list[str]:
        """Take off and return the keys that are due, the earliest first."""
        due: list[str] = []
        while (when := self.next_time()) is not None and when <= now:
            key = heapq.heappop(self._heap)[2]
            del self._when[key]
            due.append(key)
        return due

    def next_time(self) -> datetime | None:
        """Return when the next key is due."""
        while self._heap:
            when, count, key = self._heap[0]
            if self._when.get(key) == (when, count):
                return when
            heapq.heappop(self._heap)
        return None
