"""One line when the broker goes and one when it is back, instead of aiokafka's hundreds."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from shared.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from shared.clock import Clock

_LOG = logging.getLogger(__name__)

_LOGGERS = (
    "aiokafka",
    "aiokafka.conn",
    "aiokafka.cluster",
    "aiokafka.producer.sender",
    "aiokafka.consumer.fetcher",
    "aiokafka.consumer.group_coordinator",
)
_SYMPTOMS = (
    "Unable connect to",
    "Unable to request metadata",
    "Unable to update metadata",
    "Failed fetch messages",
    "Failed fetch offsets",
    "Failed to commit on finallization",
    "Heartbeat send request failed",
    "Heartbeat session expired",
    "Error sending",
    "Marking the coordinator dead",
    "Group Coordinator Request failed",
    "Got error produce response",
    "Cannot send",
    "Could not send",
    "LeaveGroup request failed",
    "Error in OffsetFetchRequest",
    "Connection ",
)
"""How the messages begin that aiokafka repeats for each attempt while a broker is away."""
_ROUTINE = (
    "Heartbeat failed for group %s because it is rebalancing",
    "Heartbeat failed for group %s: generation id is not  current.",
    "Heartbeat failed: local member_id was not recognized",
    "Heartbeat failed for group %s: coordinator",
    "OffsetCommit failed for group %s due to group",
    "Unexpected error in sender routine",
)
"""What belongs to every rebalance or fencing, or is raised by us to the owner as well."""


class Outage(logging.Filter):
    """Drops aiokafka's symptoms, and looks by itself whether the broker is there.

    Every record is let through when the logger is at DEBUG.
    """

    def __init__(
        self, where: str, clock: Clock, ping: Callable[[], Awaitable[None]], interval: float
    ) -> None:
        super().__init__()
        self._where = where
        self._clock = clock
        self._ping = ping
        self._interval = interval
        self.cause = ""
        """Why the last connection was not made, in aiokafka's words: it raises without them."""
        self._suspected = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def install(self) -> None:
        """Listen to aiokafka's loggers, before anything is connected."""
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(self)

    def watch(self) -> None:
        """Begin to say when the broker goes and comes."""
        self._suspected.clear()
        self._task = asyncio.create_task(self._watch(), name="kafka outage watch")

    async def close(self) -> None:
        """Stop watching and let aiokafka's loggers alone."""
        for name in _LOGGERS:
            logging.getLogger(name).removeFilter(self)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def filter(self, record: logging.LogRecord) -> bool:
        """Drop a symptom and note the suspicion."""
        if record.levelno < logging.WARNING or logging.getLogger(record.name).isEnabledFor(logging.DEBUG):
            return True
        message = str(record.msg)
        if message.startswith(_SYMPTOMS):
            self._suspected.set()
            if message.startswith("Unable connect to") and isinstance(record.args, tuple):
                self.cause = str(record.args[-1])
            return False
        return not message.startswith(_ROUTINE)

    async def _watch(self) -> None:
        while True:
            await self._suspected.wait()
            self._suspected.clear()
            since = self._clock.monotonic()
            said = False
            while not await self._answers():
                if not said:
                    _LOG.warning("kafka at %s is away: waiting for it", self._where)
                    said = True
                await self._clock.sleep(self._interval)
            if said:
                _LOG.warning("kafka at %s is back after %.1f s", self._where, self._clock.monotonic() - since)
            self._suspected.clear()

    async def _answers(self) -> bool:
        try:
            await self._ping()
        except Unavailable:
            return False
        return True
