"""A member of a consumer group."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka import TopicPartition as KafkaTopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import ConsumerStoppedError, KafkaError

from shared.errors import Unavailable
from shared.log.kafka.aio import LOST_OWNERSHIP, passing, stop_consumer
from shared.log.port import Delivery, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from shared.log.kafka.link import Link
    from shared.log.port import RebalanceHook

    Settle = Callable[[str, frozenset[TopicPartition]], Awaitable[None]]

_LOG = logging.getLogger(__name__)
OVERTIME = 0.1
"""Seconds that a poll may take longer than asked."""


def deliveries_of(batch: Mapping[Any, Iterable[Any]]) -> list[Delivery]:
    """Return aiokafka's records as ours, in order per partition."""
    return [
        Delivery(
            record.topic,
            record.partition,
            record.offset,
            record.timestamp,
            record.key,
            record.value,
            tuple((name, value or b"") for name, value in record.headers),
        )
        for records in batch.values()
        for record in records
    ]


class KafkaConsumer(ConsumerRebalanceListener):  # type: ignore[misc] # aiokafka is untyped
    """One member. ``settle`` waits until offsets committed by transactions are there to be read.

    aiokafka calls ``on_partitions_assigned`` while records of the new partitions may already be
    polled; a gate keeps them until the owner's hook is done.
    """

    def __init__(
        self, link: Link, group: str, on_assigned: RebalanceHook, on_revoked: RebalanceHook, settle: Settle
    ) -> None:
        settings = link.settings
        self._link = link
        self._group = group
        self._hooks = (on_assigned, on_revoked)
        self._settle = settle
        self._gate = asyncio.Event()
        self._generation = 0
        self._held: tuple[int, list[Delivery]] = (0, [])
        self._failure: Exception | None = None
        self._closed = False
        self._consumer = AIOKafkaConsumer(
            **link.common(),
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            partition_assignment_strategy=(RangePartitionAssignor,),
            session_timeout_ms=int(settings.session_timeout * 1000),
            heartbeat_interval_ms=int(settings.heartbeat_interval * 1000),
            rebalance_timeout_ms=int(settings.rebalance_timeout * 1000),
            fetch_max_wait_ms=int(settings.fetch_wait * 1000),
        )

    async def join(self, topics: Sequence[str]) -> None:
        """Join the group; returns with the first share, after the hook."""
        self._consumer.subscribe(list(topics), listener=self)
        try:
            await self._consumer.start()
            await self._gate.wait()
        except BaseException:
            await self.close()
            raise

    @property
    def closed(self) -> bool:
        """Whether it has left."""
        return self._closed

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions owned now."""
        if self._closed:
            return frozenset()
        return frozenset(TopicPartition(*where) for where in self._consumer.assignment())

    async def poll(self, *, max_records: int = 500, timeout: float = 1.0) -> list[Delivery]:
        """Return the next records; raises what a rebalance hook raised."""
        if self._closed:
            message = "this consumer is closed"
            raise Unavailable(message)
        records: list[Delivery] = []
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        # getmany keeps the time itself, but not while a rebalance is under way. It must not be
        # cancelled without need: each time it forgets that nobody is polling, for its idle timeout.
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline + OVERTIME):
                while not (records or self._closed or self._failure):
                    await self._fetch(max_records, max(0.0, deadline - loop.time()))
                    await self._gate.wait()
                    records = self._take()
                    if loop.time() >= deadline:
                        break
        if self._failure is not None and not records:
            failure, self._failure = self._failure, None
            raise failure
        return records

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit what is still owned; waits while the broker is away."""
        owned = self.assignment
        given = {KafkaTopicPartition(*where): offset for where, offset in offsets.items() if where in owned}
        if not given:
            return
        try:
            async with self._link.within(self._link.settings.patience):
                await self._consumer.commit(given)
        except LOST_OWNERSHIP as error:
            _LOG.debug("a commit of group %s came after a rebalance: %r", self._group, error)
        except KafkaError as error:
            message = f"kafka at {self._link.bootstrap} refused a commit: {error!r}"
            raise Unavailable(message) from error

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching from these."""
        self._consumer.pause(*self._owned(partitions))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch from these again."""
        self._consumer.resume(*self._owned(partitions))

    def seek(self, where: TopicPartition, offset: int) -> None:
        """Read ``where`` from ``offset`` next."""
        for owned in self._owned([where]):
            generation, held = self._held
            self._held = generation, [record for record in held if record.where != where]
            self._consumer.seek(owned, offset)

    async def close(self) -> None:
        """Leave the group."""
        if self._closed:
            return
        owned = self.assignment
        self._closed = True
        self._gate.set()
        await self._settle(self._group, owned)
        await stop_consumer(self._consumer, self._link.settings.close_timeout)

    async def on_partitions_revoked(  # pyright: ignore[reportIncompatibleMethodOverride] # may be a coroutine
        self, revoked: Iterable[Any]
    ) -> None:
        """Finish with what we hold; called by aiokafka before the others may have it."""
        self._generation += 1
        self._gate.clear()
        partitions = frozenset(TopicPartition(*where) for where in revoked)
        if partitions and not self._closed:
            await self._call(self._hooks[1], partitions)
            await self._settle(self._group, partitions)

    async def on_partitions_assigned(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, assigned: Iterable[Any]
    ) -> None:
        """Begin with what is ours now."""
        partitions = frozenset(TopicPartition(*where) for where in assigned)
        if partitions and not self._closed:
            await self._call(self._hooks[0], partitions)
        self._gate.set()

    async def _fetch(self, max_records: int, timeout: float) -> None:
        if self._take_held():
            return
        try:
            batch = await self._consumer.getmany(timeout_ms=int(timeout * 1000), max_records=max_records)
        except ConsumerStoppedError:
            return
        except KafkaError as error:
            if not passing(error):
                raise
            await self._link.clock.sleep(self._link.settings.retry_interval)
        else:
            self._held = self._generation, deliveries_of(batch)

    def _take_held(self) -> bool:
        return bool(self._held[1]) and self._held[0] == self._generation

    def _take(self) -> list[Delivery]:
        """Return what was fetched, unless a rebalance came in between: then it is read again."""
        generation, records = self._held
        self._held = (0, [])
        return records if generation == self._generation else []

    async def _call(self, hook: RebalanceHook, partitions: frozenset[TopicPartition]) -> None:
        try:
            await hook(partitions)
        except Exception as error:  # noqa: BLE001 - the owner's bug, raised to the owner by poll
            self._failure = error

    def _owned(self, partitions: Iterable[TopicPartition]) -> list[Any]:
        owned = self.assignment
        return [KafkaTopicPartition(*where) for where in partitions if where in owned]
