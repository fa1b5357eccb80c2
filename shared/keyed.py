"""Work by key: one piece of work at a time for each key, bursts joined, failures tried again later."""

from __future__ import annotations

import asyncio
import heapq
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from shared.clock import Alarm, Clock
from shared.errors import Conflict, NotFound, Refused, Unavailable

_FIRST_RETRY: Final = 0.05
_LAST_RETRY: Final = 30.0
_TICK: Final = 0.001
"""The shortest delay: a remainder that is only rounding must not spin."""
RETRIED: Final = (Conflict, NotFound, Refused, Unavailable)
"""What the world may answer: looked at again later. Anything else is our own mistake and ends the loop."""


def retry_level(error: Exception, failures: int) -> int:
    """Return the level at which the log hears of a failure, that many in a row, of one piece of work.

    An outage is everybody's, and whoever owns the connection says it once: one piece of work is told of when
    it goes on for long.
    """
    told = failures == 30 or (failures == 3 and not isinstance(error, Unavailable))  # noqa: PLR2004
    return logging.WARNING if told else logging.DEBUG


class KeyedLocks:
    """A lock for each key, as long as somebody holds or wants it."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._users: dict[str, int] = {}

    @asynccontextmanager
    async def __call__(self, key: str) -> AsyncIterator[None]:
        """Hold the key's lock."""
        lock = self._locks.setdefault(key, asyncio.Lock())
        self._users[key] = self._users.get(key, 0) + 1
        try:
            async with lock:
                yield
        finally:
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key], self._locks[key]


class KeyedQueue:
    """Calls ``handle(key)`` for each key that was added, at most ``workers`` at once.

    A key added while it waits is handled once; added while it is being handled, once more afterwards.
    """

    def __init__(
        self,
        handle: Callable[[str], Awaitable[None]],
        *,
        clock: Clock,
        workers: int,
        on_retry: Callable[[str, Exception, int], None],
    ) -> None:
        self._handle = handle
        self._clock = clock
        self._workers = workers
        self._on_retry = on_retry
        self._waiting: dict[str, None] = {}
        """Keys to be handled, in order of arrival; none of them is being handled."""
        self._busy: set[str] = set()
        self._again: set[str] = set()
        """Keys being handled that were added meanwhile."""
        self._failures: dict[str, int] = {}
        self._due: dict[str, float] = {}
        self._timers: list[tuple[float, str]] = []
        """A heap of (monotonic time, key); an entry that ``_due`` does not confirm is void."""
        self._wake = asyncio.Event()
        self._alarm = Alarm(clock, self._wake)
        self._jitter = random.Random("keyed")  # noqa: S311 - spreads retries, the same on each run

    def add(self, key: str) -> None:
        """Have the key handled soon."""
        if key in self._busy:
            self._again.add(key)
        else:
            self._waiting[key] = None
            self._wake.set()

    def add_after(self, key: str, seconds: float) -> None:
        """Have the key handled after ``seconds``, or earlier."""
        due = self._clock.monotonic() + max(seconds, _TICK)
        if due < self._due.get(key, float("inf")):
            self._due[key] = due
            heapq.heappush(self._timers, (due, key))
            if self._timers[0] == (due, key):
                self._wake.set()

    def forget(self, key: str) -> None:
        """Drop what waits for a key that is gone."""
        self._due.pop(key, None)
        self._failures.pop(key, None)

    async def run(self) -> None:
        """Handle keys until cancelled; raise what is our own mistake."""
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    self._ring()
                    while self._waiting and len(self._busy) < self._workers:
                        key = next(iter(self._waiting))
                        del self._waiting[key]
                        self._busy.add(key)
                        group.create_task(self._work(key))
                    await self._pause()
        finally:
            self._alarm.stop()

    def _ring(self) -> None:
        """Add the keys whose time has come."""
        now = self._clock.monotonic()
        while self._timers and (self._timers[0][0] <= now or not self._is_valid(self._timers[0])):
            timer = heapq.heappop(self._timers)
            if self._is_valid(timer):
                del self._due[timer[1]]
                self.add(timer[1])

    def _is_valid(self, timer: tuple[float, str]) -> bool:
        return self._due.get(timer[1]) == timer[0]

    async def _pause(self) -> None:
        """Wait for the next key or timer."""
        if self._timers:
            self._alarm.ring_in(self._timers[0][0] - self._clock.monotonic())
        await self._wake.wait()
        self._wake.clear()

    async def _work(self, key: str) -> None:
        try:
            await self._handle(key)
            self._failures.pop(key, None)
        except RETRIED as error:
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            self._on_retry(key, error, failures)
            pause = min(_LAST_RETRY, _FIRST_RETRY * 2.0 ** min(failures - 1, 16))
            self.add_after(key, pause * self._jitter.uniform(0.5, 1.0))
        finally:
            self._busy.discard(key)
            if key in self._again:
                self._again.discard(key)
                self._waiting[key] = None
            self._wake.set()
