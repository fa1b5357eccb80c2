"""Whether what a service depends on answers, asked now and then: reading alone does not tell.

A consumer of a broker that is away just gets no records, and a watch of an API server that hangs just
shows no changes.

What answers half of what it is asked is neither away nor back with each answer: one failure alone is none,
and what was away is back when it answers for a while without one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

from shared.clock import Clock
from shared.errors import Unavailable
from shared.service import Health
from shared.telemetry.logs import Outage

FAILURES: Final = 2
"""Failures in a row that say that it is away."""
ANSWERS: Final = 8
"""Answers in a row that say that it is back; of what fails half the time, one row in 256."""


class Verdict:
    """Away or not, by the answers so far; the first one is taken at its word."""

    def __init__(self) -> None:
        self.away: bool | None = None
        """None: never asked."""
        self._against = 0

    @property
    def doubted(self) -> bool:
        """Whether the last answers speak against the verdict, and are too few to change it."""
        return self._against > 0

    def hear(self, *, answered: bool) -> None:
        """Take in whether it answered."""
        if self.away is None or answered is not self.away:
            self.away = not answered
            self._against = 0
            return
        self._against += 1
        if self._against >= (ANSWERS if self.away else FAILURES):
            self.away = not answered
            self._against = 0


async def watch_views(waiting: Callable[[], str], *, health: Health, clock: Clock, pause: float) -> NoReturn:
    """Look every ``pause`` seconds, until cancelled, which kinds have no fresh view; empty: all have."""
    while True:
        away = waiting()
        if away:
            health.waits("kubernetes", f"no fresh view of {away}")
        else:
            health.ok("kubernetes")
        await clock.sleep(pause)


async def watch(
    ping: Callable[[], Awaitable[None]],
    *,
    part: str,
    health: Health,
    clock: Clock,
    pause: float,
    patience: float,
    outage: Outage | None = None,
) -> NoReturn:
    """Ask every ``pause`` seconds until cancelled, and more often while in doubt.

    No answer within ``patience`` is a failure. ``health`` gets the reason under ``part``. ``outage`` says it,
    once, where nobody else does.
    """
    verdict = Verdict()
    while True:
        reason = ""
        try:
            async with asyncio.timeout(patience):
                await ping()
        except (Unavailable, TimeoutError) as error:
            reason = str(error) or f"no answer within {patience:g} s"
        verdict.hear(answered=not reason)
        if verdict.away and reason:
            health.waits(part, reason)
            if outage is not None:
                outage.away(reason)
        elif not verdict.away:
            health.ok(part)
            if outage is not None:
                outage.back()
        await clock.sleep(pause / ANSWERS if verdict.doubted else pause)
