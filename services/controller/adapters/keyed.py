"""Work by key: one piece of work at a time for each key, bursts joined, failures tried again later."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from shared.clock import Clock
from shared.errors import Conflict, NotFound, Refused, Unavailable

_FIRST_RETRY: Final = 0.05
_LAST_RETRY: Final = 30.0
_TICK: Final = 0.001
"""The shortest delay: a remainder that is only rounding must not spin."""
RETRIED: Final = (Conflict, NotFound, Refused, Unavailable)
"""What the world may answer: looked at again later. Anything else is our own mistake and ends the loop."""


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
        self._busy: set[str] = set()
        self._failures: dict[str, int] = {}
        self._timers: dict[str, float] = {}
        self._wake = asyncio.Event()
        self._jitter = random.Random("controller")  # noqa: S311 - spreads retries, the same on each run

    def add(self, key: str) -> None:
        """Have the key handled soon."""
        self._waiting[key] = None
        self._wake.set()

    def add_after(self, key: str, seconds: float) -> None:
        """Have the key handled after ``seconds``, or earlier."""
        due = self._clock.monotonic() + max(seconds, _TICK)
        if due < self._timers.get(key, float("inf")):
            self._timers[key] = due
            self._wake.set()

    def forget(self, key: str) -> None:
        """Drop what waits for a key that is gone."""
        self._timers.pop(key, None)
        self._failures.pop(key, None)

    @property
    def length(self) -> int:
        """Keys that wait."""
        return len(self._waiting)

    async def run(self) -> None:
        """Handle keys until cancelled; raise what is our own mistake."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._due()
                for key in [k for k in self._waiting if k not in self._busy]:
                    if len(self._busy) >= self._workers:
                        break
                    del self._waiting[key]
                    self._busy.add(key)
                    group.create_task(self._work(key))
                await self._pause()

    def _due(self) -> None:
        now = self._clock.monotonic()
        for key in [key for key, due in self._timers.items() if due <= now]:
            del self._timers[key]
            self._waiting[key] = None

    async def _pause(self) -> None:
        """Wait for the next key or timer."""
        if not self._timers:
            await self._wake.wait()
        else:
            left = min(self._timers.values()) - self._clock.monotonic()
            waiting = asyncio.ensure_future(self._wake.wait())
            sleeping = asyncio.ensure_future(self._clock.sleep(max(left, _TICK)))
            try:
                await asyncio.wait((waiting, sleeping), return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiting.cancel()
                sleeping.cancel()
                await asyncio.gather(waiting, sleeping, return_exceptions=True)
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
            self._wake.set()
