"""How fast requests may go and when they are tried again: token bucket and jittered back-off."""

from __future__ import annotations

import random
from dataclasses import dataclass

from shared.clock import Clock


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential back-off with jitter: try ``n`` (from 0) waits ``first`` * 2**n, at most ``longest``.

    Half of each wait is drawn at random, so that many clients of one server do not come back in step.
    """

    first: float = 0.1
    longest: float = 10.0

    def seconds(self, attempt: int, rng: random.Random) -> float:
        """Return how long to wait before trying again."""
        whole = min(self.longest, self.first * 2.0 ** min(attempt, 32))
        return whole * (0.5 + 0.5 * rng.random())


class Throttle:
    """A token bucket: ``qps`` requests a second in the long run, ``burst`` at once. No qps: no limit."""

    def __init__(self, qps: float | None, burst: int, clock: Clock) -> None:
        self._interval = 1.0 / qps if qps else 0.0
        self._slack = self._interval * max(0, burst - 1)
        self._clock = clock
        self._next = 0.0

    async def take(self) -> None:
        """Return when the next request may go."""
        if not self._interval:
            return
        now = self._clock.monotonic()
        self._next = max(self._next, now - self._slack)
        wait = self._next - now
        self._next += self._interval
        if wait > 0:
            await self._clock.sleep(wait)
