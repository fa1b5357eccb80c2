"""Time as a port: shells ask a clock, cores get ``now`` as an argument."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

_TICK: Final = 0.001
"""The shortest wait of an alarm: a remainder that is only rounding must not spin."""


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


class Alarm:
    """Sets an event when a time has come: the earliest of those asked for since it rang last.

    Whoever waits for the event looks what is due and asks again; so a wait costs a task only when it is for
    an earlier time than the wait before.
    """

    def __init__(self, clock: Clock, event: asyncio.Event) -> None:
        self._clock = clock
        self._event = event
        self._due = 0.0
        self._task: asyncio.Task[None] | None = None

    def ring_in(self, seconds: float) -> None:
        """Set the event in ``seconds`` or earlier; less than a millisecond counts as one."""
        due = self._clock.monotonic() + max(seconds, _TICK)
        if self._task is not None and not self._task.done():
            if due > self._due - _TICK:
                return
            self._task.cancel()
        self._due = due
        self._task = asyncio.create_task(self._ring())

    def stop(self) -> None:
        """Ring no more."""
        if self._task is not None:
            self._task.cancel()

    async def _ring(self) -> None:
        await self._clock.sleep(self._due - self._clock.monotonic())
        self._event.set()
