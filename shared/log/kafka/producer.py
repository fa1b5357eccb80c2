"""The connection's idempotent producer.

Outages. A record waits in aiokafka's queue until the broker is back and is then sent with its
sequence number: in order, once, however long it took (``never_expire``). A caller that gives up first
(patience, cancellation) does not take the record back. When the broker refuses a batch for good, its
sequence numbers are spent and every later batch would be refused as well: the producer is replaced,
and the refused sends raise Unavailable (or TooLarge) so that their callers send again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    RecordListTooLargeError,
    UnknownTopicOrPartitionError,
)

from shared.errors import Unavailable
from shared.log.core.state import record_size, too_large
from shared.log.kafka.aio import (
    consumed,
    never_expire,
    remove_twice,
    see_every_failure,
    stop_producer,
    stopped,
    survive_lookups,
)
from shared.log.port import Position

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from shared.log.kafka.link import Link
    from shared.log.port import Record

TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)


def check(record: Record, limit: int) -> None:
    """Refuse what no broker takes: TooLarge, ValueError for a bug."""
    size = record_size(record)
    if size > limit:
        raise too_large(record, size, limit)
    if record.key is None and record.value is None:
        message = f"a record for {record.topic} has neither key nor value"
        raise ValueError(message)


async def start_producer(link: Link, transactional_id: str | None = None) -> Any:
    """Connect a producer; a transactional one fences its elders here. May wait for the broker."""
    see_every_failure()
    settings = link.settings
    pause: dict[str, Any] = (
        {} if transactional_id is None else {"retry_backoff_ms": int(settings.transaction_retry * 1000)}
    )

    async def attempt() -> Any:
        producer = AIOKafkaProducer(
            **link.common(),
            **pause,
            acks="all",
            enable_idempotence=True,
            transactional_id=transactional_id,
            transaction_timeout_ms=int(settings.transaction_timeout * 1000),
            max_batch_size=settings.batch_bytes,
            max_request_size=settings.request_bytes,
            linger_ms=0,
        )
        link.producers[:] = [*(other for other in link.producers if not stopped(other)), producer]
        never_expire(producer)
        survive_lookups(producer)
        remove_twice(producer)
        try:
            await producer.start()
        except BaseException:
            await stop_producer(producer, settings.close_timeout)
            raise
        return producer

    return await link.retry(attempt, None)


async def append(link: Link, producer: Any, record: Record) -> asyncio.Future[Any]:
    """Queue a record; returns the future of its acknowledgement. Waits while the queue is full."""
    while True:
        try:
            future: asyncio.Future[Any] = await producer.send(
                record.topic,
                value=record.value,
                key=record.key,
                partition=record.partition,
                timestamp_ms=int(link.clock.now().timestamp() * 1000),
                headers=list(record.headers),
            )
        except (KafkaTimeoutError, UnknownTopicOrPartitionError):
            continue  # not taken: the queue stayed full, or no metadata came, for the request timeout
        future.add_done_callback(consumed)
        return future


class KafkaProducer:
    """See the module's docstring. Connects with the first send."""

    def __init__(self, link: Link, exists: Callable[[str], Awaitable[object]]) -> None:
        self._link = link
        self._exists = exists
        self._producer: Any = None
        self._lock = asyncio.Lock()
        self._closed = False

    async def send(self, record: Record) -> Position:
        """Append one record."""
        return (await self.send_many([record]))[0]

    async def send_many(self, records: Sequence[Record]) -> list[Position]:
        """Queue all, then wait for all."""
        settings = self._link.settings
        for record in records:
            check(record, self._link.limit(record.topic))
        async with self._link.within(settings.patience):
            for topic in {record.topic for record in records}:
                await self._exists(topic)
            producer = await self._current()
            try:
                futures = [await append(self._link, producer, record) for record in records]
                metadata = [await future for future in futures]
            except TOO_LARGE as error:
                await self._replace(producer)
                largest = max(records, key=record_size)
                limit = self._link.limit(largest.topic)
                raise too_large(largest, record_size(largest), limit) from error
            except KafkaError as error:
                await self._replace(producer)
                message = f"kafka at {self._link.bootstrap} refused a record: {error!r}"
                raise Unavailable(message) from error
        return [Position(entry.topic, entry.partition, entry.offset) for entry in metadata]

    async def close(self) -> None:
        """Deliver what is queued, if the broker is there, and stop."""
        self._closed = True
        producer, self._producer = self._producer, None
        if producer is not None:
            await stop_producer(producer, self._link.settings.close_timeout)

    async def _current(self) -> Any:
        async with self._lock:
            if self._closed:
                message = "this producer is closed"
                raise Unavailable(message)
            if self._producer is None:
                self._producer = await start_producer(self._link)
            return self._producer

    async def _replace(self, producer: Any) -> None:
        async with self._lock:
            if self._producer is producer:
                self._producer = None
                await stop_producer(producer, self._link.settings.close_timeout)
