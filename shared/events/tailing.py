"""Following a topic from now on, outside any group: for questions that nobody asks again once they are old.

At most once: what comes while nobody follows, or cannot be handled when it comes, is left to whoever asked
to notice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

from shared.clock import Clock
from shared.errors import ContractError, NotFound, TooLarge, Unavailable
from shared.events.codec import data_of
from shared.events.contracts import Contract
from shared.keyed import RETRIED
from shared.log.port import EventLog, Reader, Start
from shared.telemetry.telemetry import Telemetry

_PAUSE: Final = 0.5
Handle = Callable[[Contract], Awaitable[None]]


async def tail(
    log: EventLog,
    topic: str,
    handle: Handle,
    *,
    clock: Clock,
    telemetry: Telemetry,
    opened: asyncio.Event | None = None,
) -> NoReturn:
    """Handle each event from now on, one after the other, until cancelled; a log that is away is waited for.

    ``opened`` is set while nothing that comes is missed.
    """
    while True:
        reader: Reader | None = None
        try:
            reader = await log.read([topic], start=Start.LATEST)
            if opened is not None:
                opened.set()
            while True:
                for delivery in await reader.poll():
                    if delivery.value is None:
                        continue
                    try:
                        await handle(data_of(delivery))
                    except (ContractError, TooLarge, *RETRIED) as error:
                        extra = {"topic": topic, "offset": delivery.offset}
                        telemetry.log.warning("a question is left without an answer: %s", error, extra=extra)
        except (Unavailable, NotFound):  # the log's adapter says so, once for everybody
            await clock.sleep(_PAUSE)
        finally:
            if opened is not None:
                opened.clear()
            if reader is not None:
                await reader.close()
