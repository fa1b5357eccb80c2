"""From the topics to the read model: read everything from the start, fold it, wake who waits.

``cluster-state`` is read first, so that which jobs exist is known before their history comes: what may be
forgotten can then be forgotten while the history is read.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final

from services.gateway.adapters.metrics import Metrics
from services.gateway.adapters.reading import read_record
from services.gateway.adapters.watching import Watchers, queue_key
from services.gateway.core.facts import JobKey, Model
from services.gateway.core.listing import Listing
from services.gateway.core.readmodel import fold
from services.gateway.core.retention import prune, settle
from services.gateway.settings import GatewaySettings
from shared.clock import Clock
from shared.errors import ContractError, Unavailable
from shared.events import topics
from shared.log.port import Delivery, EventLog, Reader
from shared.service import Health

STATE: Final = (topics.CLUSTER_STATE,)
HISTORY: Final = (
    topics.JOB_SUBMITTED,
    topics.JOB_COMMANDS,
    topics.JOB_ADMITTED,
    topics.JOB_REJECTED,
    topics.BIND_DECISIONS,
    topics.BIND_RESULTS,
    topics.SCHEDULING_REPORTS,
    topics.JOB_LIFECYCLE,
)
_QUEUE: Final = queue_key("")
_BATCH: Final = 200  # keeps the loop free for requests: about 10 ms of work
_RETRY_PAUSE: Final = 1.0
_PRUNE_EVERY: Final = 50_000  # records, while catching up


class Follower:
    """Keeps the read model up to date. ``ready`` is set once all that was in the log has been read."""

    def __init__(
        self,
        log: EventLog,
        settings: GatewaySettings,
        *,
        watchers: Watchers,
        metrics: Metrics,
        clock: Clock,
        health: Health,
    ) -> None:
        self.model = Model()
        self.listing = Listing(self.model)
        self.ready = asyncio.Event()
        self._log = log
        self._settings = settings
        self._watchers = watchers
        self._metrics = metrics
        self._clock = clock
        self._health = health
        self._folded = 0
        health.waits("read-model", "reading the topics from their start")

    async def run(self) -> None:
        """Follow until cancelled."""
        state = await self._open(STATE)
        try:
            await self._catch_up(state)
            history = await self._open(HISTORY)
            try:
                await self._catch_up(history)
                await self._settled()
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._follow(state))
                    tasks.create_task(self._follow(history))
                    tasks.create_task(self._forget())
                    tasks.create_task(self._watch_log())
            finally:
                await history.close()
        finally:
            await state.close()

    async def _settled(self) -> None:
        settle(self.model)
        self.listing.clear()
        self._prune()
        self._health.ok("read-model")
        self.ready.set()

    async def _open(self, names: tuple[str, ...]) -> Reader:
        while True:
            try:
                reader = await self._log.read(names)
            except Unavailable as error:
                await self._away(error)
            else:
                self._back()
                return reader

    async def _catch_up(self, reader: Reader) -> None:
        while True:
            try:
                if await reader.caught_up():
                    return
            except Unavailable as error:
                await self._away(error)
            else:
                await self._take(reader)

    async def _follow(self, reader: Reader) -> None:
        while True:
            await self._take(reader)

    async def _take(self, reader: Reader) -> None:
        """Read and fold one batch."""
        try:
            deliveries = await reader.poll(max_records=_BATCH)
        except Unavailable as error:
            await self._away(error)
            return
        if deliveries:  # nothing to read may also mean that nobody answers
            self._back()
        changed: set[JobKey] = set()
        for delivery in deliveries:
            changed |= self._fold(delivery)
        self.listing.changed(changed)
        self._watchers.wake(changed)
        self._watchers.wake(one.key for one in deliveries if (one.key or b"").startswith(_QUEUE))
        self._metrics.jobs.set(len(self.model.jobs))
        lag = self._clock.now().timestamp() - deliveries[-1].timestamp_ms / 1000 if deliveries else 0.0
        self._metrics.lag.set(max(0.0, lag))
        await self._clock.sleep(0)  # let requests in between two batches

    def _fold(self, delivery: Delivery) -> frozenset[JobKey]:
        try:
            record = read_record(delivery)
            changed = fold(self.model, record)
        except ContractError:
            # Whoever consumes the topic dead-letters it and says why.
            self._metrics.unreadable.labels(delivery.topic).inc()
            return frozenset()
        self._metrics.folded.labels(delivery.topic).inc()
        self._folded += 1
        if self._folded % _PRUNE_EVERY == 0:
            self._prune()
        return changed

    def _prune(self) -> None:
        keep_for = timedelta(seconds=self._settings.keep_for)
        if prune(self.model, self._clock.now(), keep_jobs=self._settings.keep_jobs, keep_for=keep_for):
            self.listing.clear()

    async def _forget(self) -> None:
        while True:
            await self._clock.sleep(self._settings.prune_pause)
            self._prune()

    async def _watch_log(self) -> None:
        """Notice that the log is away also when nothing is read or written."""
        while True:
            await self._clock.sleep(self._settings.ping_pause)
            try:
                async with asyncio.timeout(self._settings.log_patience):
                    await self._log.ping()
            except (Unavailable, TimeoutError) as error:
                self._note_outage(error)
            else:
                self._back()

    async def _away(self, error: Unavailable) -> None:
        self._note_outage(error)
        await self._clock.sleep(_RETRY_PAUSE)

    def _note_outage(self, error: Exception) -> None:
        """Be not ready; that the log is away is said by its adapter, once for everybody who uses it."""
        self._health.waits("log", str(error) or f"no answer within {self._settings.log_patience:g} s")

    def _back(self) -> None:
        self._health.ok("log")
