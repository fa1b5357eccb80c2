"""Whether what a service depends on answers, asked now and then: reading alone does not tell.

A consumer of a broker that is away just gets no records, and a watch of an API server that hangs just
shows no changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn

from shared.clock import Clock
from shared.errors import Unavailable
from shared.service import Health
from shared.telemetry.logs import Outage


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
    """Ask every ``pause`` seconds until cancelled; no answer within ``patience`` counts as away.

    ``health`` gets the reason under ``part``. ``outage`` says it, once, where nobody else does.
    """
    while True:
        try:
            async with asyncio.timeout(patience):
                await ping()
        except (Unavailable, TimeoutError) as error:
            reason = str(error) or f"no answer within {patience:g} s"
            health.waits(part, reason)
            if outage is not None:
                outage.away(reason)
        else:
            health.ok(part)
            if outage is not None:
                outage.back()
        await clock.sleep(pause)
