"""Tells on ``node-load`` what the nodes of a pool really use, for as long as its policy asks for it.

The scheduler hears of it as of any fact: from the log, at an offset that each cycle's record names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Final, NoReturn

from services.scheduler.adapters.metrics import Metrics
from services.scheduler.adapters.prometheus import Figures, figures
from services.scheduler.adapters.publish import measured_record
from services.scheduler.core.configuration import Source
from services.scheduler.core.nodes import Nodes
from shared.clock import Clock
from shared.errors import TooLarge, Unavailable
from shared.events.contracts import NodesMeasured
from shared.log.port import EventLog
from shared.service import Ids
from shared.telemetry.logs import Outage
from shared.telemetry.telemetry import Telemetry

Ask = Callable[[Source, datetime], Awaitable[tuple[Figures, Figures]]]


class Measuring:
    """Asks the source, and tells of the pool's nodes. What goes wrong is said once, and tried again."""

    def __init__(
        self,
        pool: str,
        nodes: Nodes,
        *,
        clock: Clock,
        log: EventLog,
        ids: Ids,
        telemetry: Telemetry,
        metrics: Metrics,
        ask: Ask = figures,
    ) -> None:
        self._pool = pool
        self._nodes = nodes
        self._clock = clock
        self._event_log = log
        self._ids = ids
        self._telemetry = telemetry
        self._metrics = metrics
        self._ask: Final = ask
        self._source: Source | None = None
        self._outage: Outage | None = None
        self._strange = False
        """It was said that the source knows none of the nodes."""
        self._wake = asyncio.Event()

    def follow(self, source: Source | None) -> None:
        """Ask this source from now on; None: nobody."""
        if source != self._source:
            self._source, self._strange = source, False
            if source is not None:
                what = f"metrics source {source.address}"
                self._outage = self._telemetry.outage(what, self._clock)
            self._wake.set()

    async def run(self) -> NoReturn:
        """Ask and tell until cancelled."""
        while True:
            self._wake.clear()
            source, alarm = self._source, None
            try:
                if source is not None:
                    await self._measure(source)
                    alarm = asyncio.create_task(self._ring(source.interval))
                await self._wake.wait()
            finally:
                if alarm is not None:
                    alarm.cancel()

    async def _ring(self, after: timedelta) -> None:
        await self._clock.sleep(after.total_seconds())
        self._wake.set()

    async def _measure(self, source: Source) -> None:
        at, outage = self._clock.now(), self._outage
        try:
            cpu, memory = await self._ask(source, at)
        except Unavailable as error:
            self._metrics.measurements.labels(self._pool, "failed").inc()
            if outage is not None:
                outage.away(error, pool=self._pool)
            return
        if outage is not None:
            outage.back()
        self._metrics.measurements.labels(self._pool, "done").inc()
        await self._tell(source, at, self._mine(cpu), self._mine(memory))

    def _mine(self, told: Figures) -> Figures:
        nodes = self._nodes
        return {
            name: one for name, one in told.items() if name in nodes.slots and nodes.mine[nodes.slots[name]]
        }

    async def _tell(self, source: Source, at: datetime, cpu: Figures, memory: Figures) -> None:
        known, there = len(cpu.keys() & memory.keys()), int(self._nodes.mine.sum())
        self._metrics.measured.labels(self._pool).set(known)
        if there and not known and not self._strange:
            self._telemetry.log.warning(
                "metrics source %s knows none of the %d nodes: its label instance has to be a node's name",
                source.address,
                there,
                extra={"pool": self._pool},
            )
        self._strange = there > 0 and not known
        event = NodesMeasured(pool=self._pool, at=at, cpu=cpu, memory=memory)
        try:
            await self._event_log.producer.send(measured_record(event, self._ids()))
        except (TooLarge, Unavailable) as error:
            self._telemetry.log.warning("what nodes use is not told: %s", error, extra={"pool": self._pool})
