"""How often requests go out: at once while they are few, those of some milliseconds together when many."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shared.clock import Clock


class Pace:
    """Turns for requests: ``burst`` of them at once, then one every ``interval`` seconds.

    Whoever comes while a turn is waited for goes with it. So a few records are never late, and of many a
    broker gets few requests, which are most of what records cost it.
    """

    def __init__(self, clock: Clock, *, interval: float, burst: int) -> None:
        self._clock = clock
        self._interval = interval
        self._burst = burst
        self._due = float("-inf")
        """When the last turn would have been if each had waited for the one before."""
        self._waiting: asyncio.Task[None] | None = None

    async def turn(self) -> None:
        """Return when it is one's turn."""
        if self._waiting is None:
            now = self._clock.monotonic()
            self._due = max(self._due, now - self._interval * self._burst) + self._interval
            if self._due <= now:
                return
            self._waiting = asyncio.create_task(self._wait(self._due - now))
        await asyncio.shield(self._waiting)

    async def _wait(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._waiting = None
