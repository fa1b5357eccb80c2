"""The loop around every handler of a topic: poll, decode, handle, retry, dead-letter, commit.

At least once: an offset is committed only when its message and all before it are finished. Messages
with the same serial key are handled in order, others concurrently. What cannot be read or is refused
with a ``ContractError`` goes to the dead-letter topic with the reason, and the offset moves on, and so does
what leads to a record that is too large (``TooLarge``): it would be no smaller the next time. What the
world answers (:data:`shared.keyed.RETRIED`) has the message tried again with back-off for as long as it
takes: the next try sees what has changed. Any other error is ours and ends the service.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from shared.clock import Clock
from shared.errors import ContractError, TooLarge, Unavailable
from shared.events.codec import decode
from shared.events.contracts import Contract
from shared.events.dead_letters import bury
from shared.events.envelope import Envelope
from shared.events.offsets import OffsetTracker
from shared.events.topics import TOPICS
from shared.keyed import RETRIED, retry_level
from shared.log.port import Consumer, Delivery, EventLog, TopicPartition
from shared.telemetry.telemetry import Telemetry

_POLL: Final = 1.0
_PAUSED_POLL: Final = 0.1
"""Seconds that a poll waits for records; when paused, until what is in flight is looked at again."""
_FIRST_RETRY: Final = 0.05
_LAST_RETRY: Final = 10.0
_DRAIN_SECONDS: Final = 5.0
"""Seconds that what is in flight may take at a stop: with the closing of each connection it must stay below
the time after which an orchestrator kills. What is cut off is handled again."""
_COMMIT_PAUSE: Final = 0.25
"""Seconds between two commits: each is a write of the broker's; what comes after is only handled again."""
_REVOKE_PAUSE: Final = 0.02


@dataclass(frozen=True, slots=True)
class Message:
    """An event and where it was read."""

    envelope: Envelope[Contract]
    delivery: Delivery


Handler = Callable[[Message], Awaitable[None]]


def by_record_key(message: Message) -> Hashable:
    """Handle records of one key in order."""
    return message.delivery.key


class Consuming:
    """One member of a consumer group with its handlers."""

    def __init__(
        self,
        log: EventLog,
        *,
        group: str,
        topics: Sequence[str],
        handlers: Mapping[type[Contract], Handler],
        clock: Clock,
        telemetry: Telemetry,
        passed_over: Collection[type[Contract]] = (),
        serial_by: Callable[[Message], Hashable] = by_record_key,
        max_in_flight: int = 1000,
    ) -> None:
        """``passed_over`` are events on these topics that are for others: nothing is done with them.

        Raises:
            ValueError: an event of these topics is neither handled nor passed over.
        """
        known = {event for name in topics for event in TOPICS[name].events}
        if forgotten := known - handlers.keys() - set(passed_over):
            names = ", ".join(sorted(event.TYPE for event in forgotten))
            raise ValueError(f"{group} neither handles nor passes over {names}")
        self._log = log
        self._group = group
        self._topics = topics
        self._handlers = handlers
        self._clock = clock
        self._telemetry = telemetry
        self._serial_by = serial_by
        self._max_in_flight = max_in_flight
        self._offsets = _Committer(clock)
        self._lanes: dict[Hashable, deque[Message | _Unreadable]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._paused = False
        self._failed: BaseException | None = None
        self._jitter = random.Random(group)  # noqa: S311 - spreads retries, deterministic on purpose
        self._metrics = _Metrics(telemetry.registry, group)

    async def run(self) -> None:
        """Consume until cancelled; then finish what is in flight (bounded), commit and leave."""
        consumer = await self._log.consume(self._group, self._topics, on_revoked=self._revoked)
        self._offsets.consumer = consumer
        committing = asyncio.create_task(self._offsets.run())
        try:
            while True:
                await self._poll(consumer)
                if self._failed is not None:
                    raise self._failed
                if committing.done():
                    committing.result()
        finally:
            await self._drain()
            committing.cancel()
            await asyncio.gather(committing, return_exceptions=True)
            try:
                if self._failed is None:
                    await self._offsets.commit()
            except Unavailable:
                self._telemetry.log.warning("the log is away: the last offsets were not committed")
            finally:
                await consumer.close()

    async def _poll(self, consumer: Consumer) -> None:
        in_flight = self._offsets.in_flight()
        if in_flight >= self._max_in_flight:
            self._paused = True
        elif self._paused and in_flight <= (self._max_in_flight - 1) // 2:
            self._paused = False
            consumer.resume(consumer.assignment)
        if self._paused:
            # Keep polling while paused: a member that does not poll is thrown out of its group. What came by
            # a rebalance is paused too.
            consumer.pause(consumer.assignment)
        timeout = _PAUSED_POLL if self._paused else _POLL
        for delivery in await consumer.poll(max_records=self._max_in_flight, timeout=timeout):
            self._dispatch(delivery)
        self._metrics.in_flight.set(self._offsets.in_flight())

    def _dispatch(self, delivery: Delivery) -> None:
        self._offsets.begin(delivery)
        item = self._read(delivery)
        if item is None:
            self._offsets.finish(delivery)
            return
        key = ("unreadable", delivery.where) if isinstance(item, _Unreadable) else self._serial_by(item)
        lane = self._lanes.get(key)
        if lane is not None:
            lane.append(item)
            return
        self._lanes[key] = deque([item])
        self._spawn(self._work_off(key))

    def _read(self, delivery: Delivery) -> Message | _Unreadable | None:
        """Return what is to be done; None for an event that is passed over."""
        try:
            envelope = decode(delivery)
        except ContractError as error:
            return _Unreadable(delivery, error)
        return Message(envelope, delivery) if type(envelope.data) in self._handlers else None

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and self._failed is None:
            self._failed = error

    async def _work_off(self, key: Hashable) -> None:
        lane = self._lanes[key]
        while lane:
            item = lane[0]
            delivery = item.delivery
            outcome = await self._handle(item)
            lane.popleft()
            self._metrics.consumed(delivery.topic, outcome).inc()
            self._offsets.finish(delivery)
        del self._lanes[key]

    async def _handle(self, item: Message | _Unreadable) -> str:
        if isinstance(item, _Unreadable):
            await self._bury(item.delivery, item.error)
            return "dead-letter"
        handler = self._handlers[type(item.envelope.data)]
        tries = 0
        while True:
            try:
                await handler(item)
            except ContractError as error:
                await self._bury(item.delivery, error)
                return "dead-letter"
            except TooLarge as error:
                refusal = ContractError("too-large", f"what it leads to is too large for the log: {error}")
                await self._bury(item.delivery, refusal)
                return "dead-letter"
            except RETRIED as error:
                tries += 1
                self._metrics.retries.labels(item.delivery.topic, type(error).__name__).inc()
                level = retry_level(error, tries)
                self._telemetry.log.log(level, "%s is tried again: %s", _describe(item.delivery), error)
                await self._clock.sleep(self._back_off(tries))
            else:
                return "handled"

    async def _bury(self, delivery: Delivery, error: ContractError) -> None:
        self._telemetry.log.warning(
            "%s goes to the dead-letter topic: %s (%s)", _describe(delivery), error, error.reason
        )
        tries = 0
        while True:
            try:
                await bury(self._log, delivery, error, self._telemetry.service)
            except Unavailable:
                tries += 1
                await self._clock.sleep(self._back_off(tries))
            else:
                return

    def _back_off(self, tries: int) -> float:
        return min(_LAST_RETRY, _FIRST_RETRY * 2.0 ** min(tries - 1, 16)) * self._jitter.uniform(0.5, 1.0)

    async def _revoked(self, partitions: frozenset[TopicPartition]) -> None:
        """Finish what is in flight of these partitions, so that the next owner repeats little."""
        deadline = self._clock.monotonic() + _DRAIN_SECONDS
        while (
            self._offsets.in_flight(partitions)
            and self._clock.monotonic() < deadline
            and self._failed is None
        ):
            await self._clock.sleep(_REVOKE_PAUSE)
        await self._offsets.commit()
        self._offsets.forget(partitions)

    async def _drain(self) -> None:
        if self._failed is None and self._tasks:
            await asyncio.wait(list(self._tasks), timeout=_DRAIN_SECONDS)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class _Metrics:
    """One loop's metrics; every loop has its group's name, so several share a registry."""

    def __init__(self, registry: CollectorRegistry, group: str) -> None:
        prefix = f"pumice_{group.replace('-', '_')}"
        consumed = Counter(
            f"{prefix}_consumed_messages",
            "Messages taken from a topic, by what became of them (handled, dead-letter).",
            ["topic", "outcome"],
            registry=registry,
        )
        self.consumed = cache(consumed.labels)
        self.retries = Counter(
            f"{prefix}_consumer_retries",
            "Messages tried again, by error.",
            ["topic", "error"],
            registry=registry,
        )
        self.in_flight = Gauge(f"{prefix}_consumer_in_flight", "Messages being handled.", registry=registry)


@dataclass(frozen=True, slots=True)
class _Unreadable:
    delivery: Delivery
    error: ContractError


class _Committer:
    """Commits finished offsets as they come, one commit at a time, off the handlers' path."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tracker = OffsetTracker()
        self._changed = asyncio.Event()
        self.consumer: Consumer | None = None

    def begin(self, delivery: Delivery) -> None:
        self._tracker.begin(delivery.where, delivery.offset)

    def finish(self, delivery: Delivery) -> None:
        self._tracker.finish(delivery.where, delivery.offset)
        self._changed.set()

    def in_flight(self, partitions: frozenset[TopicPartition] | None = None) -> int:
        return self._tracker.in_flight(partitions)

    def forget(self, partitions: frozenset[TopicPartition]) -> None:
        self._tracker.forget(partitions)

    async def run(self) -> None:
        """Commit after each burst of finished messages."""
        tries = 0
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self.commit()
                tries = 0
                await self._clock.sleep(_COMMIT_PAUSE)
            except Unavailable:
                tries += 1
                self._changed.set()
                await self._clock.sleep(min(_LAST_RETRY, _FIRST_RETRY * 2 ** min(tries, 16)))

    async def commit(self) -> None:
        """Commit what may be committed now."""
        offsets = self._tracker.committable()
        if offsets and self.consumer is not None:
            await self.consumer.commit(offsets)
            self._tracker.committed(offsets)


def _describe(delivery: Delivery) -> str:
    return f"{delivery.topic}[{delivery.partition}]@{delivery.offset}"
