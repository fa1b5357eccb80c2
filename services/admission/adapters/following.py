"""Follows ``cluster-state`` and the fate of admitted jobs, and says when the view can be trusted."""

from __future__ import annotations

import asyncio
from typing import Final

from services.admission.adapters.view import LiveView
from shared.clock import Clock
from shared.errors import ContractError, Unavailable
from shared.events import topics
from shared.events.codec import data_of, written_at
from shared.log.port import Delivery, EventLog, Reader, TopicPartition
from shared.service import Health
from shared.telemetry.telemetry import Telemetry

CONTROLLER_GROUP: Final = "controller"
"""The consumer group that creates admitted jobs: what it has not committed is still to come."""
_TOPICS: Final = (topics.CLUSTER_STATE, topics.JOB_ADMITTED, topics.JOB_REJECTED)
_KINDS: Final = (b"job/", b"queue/")
"""How the keys of those facts begin that the rules depend on."""
_PART: Final = "view"
_LOG_PART: Final = "log"
_RETRY_PAUSE: Final = 0.5


class Follower:
    """Keeps the view up to date.

    The view can be trusted when all of ``cluster-state`` has been read and it has a queue: the controller
    makes the default one before anything else, so a view without queues means that it has not started yet.
    """

    def __init__(
        self, log: EventLog, view: LiveView, *, clock: Clock, health: Health, telemetry: Telemetry
    ) -> None:
        self._log = log
        self._view = view
        self._clock = clock
        self._health = health
        self._telemetry = telemetry
        self._trusted = asyncio.Event()
        self._caught_up = False
        health.waits(_PART, "reading cluster-state")

    async def trusted(self) -> LiveView:
        """Return the view, as soon as it can be trusted."""
        await self._trusted.wait()
        return self._view

    async def run(self) -> None:
        """Follow until cancelled; a log that is away is waited for."""
        reader: Reader | None = None
        away = False
        try:
            while True:
                try:
                    reader = reader or await self._log.read(_TOPICS, start=await self._start())
                    await self._step(reader)
                    if away:
                        away = False
                        self._health.ok(_LOG_PART)
                except Unavailable as error:
                    away = True  # the log's adapter says so, once for everybody
                    self._health.waits(_LOG_PART, str(error))
                    await self._clock.sleep(_RETRY_PAUSE)
        finally:
            if reader is not None:
                await reader.close()

    async def _start(self) -> dict[TopicPartition, int]:
        """Where to begin: ``cluster-state`` at its start, admitted jobs where the controller stands."""
        start = dict(await self._log.committed(CONTROLLER_GROUP, topics.JOB_ADMITTED))
        start.update(await self._log.end_offsets(topics.JOB_REJECTED))
        return start

    async def _step(self, reader: Reader) -> None:
        deliveries = await reader.poll(timeout=1.0 if self._caught_up else 0.1)
        for delivery in deliveries:
            self._fold(delivery)
        self._view.forget_old(self._clock.now())
        if not self._caught_up:
            self._caught_up = await reader.caught_up()
        if self._caught_up and not self._trusted.is_set():
            if any(True for _ in self._view.queues()):
                self._trusted.set()
                self._health.ok(_PART)
            else:
                self._health.waits(_PART, "no queue yet: the controller has not started")

    def _fold(self, delivery: Delivery) -> None:
        if delivery.topic == topics.CLUSTER_STATE and not (delivery.key or b"").startswith(_KINDS):
            return  # not decoded: most facts are about pods
        try:
            if delivery.value is None:
                if delivery.topic == topics.CLUSTER_STATE and delivery.key is not None:
                    self._view.gone(*topics.parse_state_key(delivery.key))
                return
            event, at = data_of(delivery), written_at(delivery)
        except ContractError as error:
            self._telemetry.log.warning(
                "a fact cannot be read: %s", error, extra={"topic": delivery.topic, "offset": delivery.offset}
            )
            return
        self._view.apply(event, at)
