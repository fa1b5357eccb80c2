"""Time as a port: shells ask a clock, cores get ``now`` as an argument."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Wall time, a monotonic reading and sleep, all from one source so that tests can own it."""

    def now(self) -> datetime:
        """Return the wall time, in UTC, with its zone."""
        ...

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start, never backwards."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after ``seconds``; zero or less yields once."""
        ...


class SystemClock:
    """The machine's clock; sleep and monotonic time are the event loop's."""

    def now(self) -> datetime:
        """Return the wall time, in UTC, with its zone."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the running loop's time in seconds."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """Sleep on the running loop."""
        await asyncio.sleep(max(0.0, seconds))


class LoopClock(SystemClock):
    """Wall time derived from the loop's time, so that a loop with virtual time moves both."""

    def __init__(self, epoch: datetime) -> None:
        self._epoch = epoch

    def now(self) -> datetime:
        """Return ``epoch`` plus the loop's time."""
        return self._epoch + timedelta(seconds=self.monotonic())
