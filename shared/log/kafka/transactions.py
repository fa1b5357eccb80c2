"""Transactions with consumed offsets inside.

After a commit whose outcome is unknown (patience used up, cancelled) the producer is spent: opening
the id again settles the old transaction on the broker, but only its owner may do that, for it fences
everybody else. The broker aborts a transaction that outlives its timeout and fences the producer, so
a long outage inside a transaction can end as Fenced too: both say "start again as a new owner".
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from aiokafka import TopicPartition as KafkaTopicPartition
from aiokafka.errors import InvalidProducerEpoch, KafkaError, ProducerFenced

from shared.errors import Fenced, PumiceError, Unavailable
from shared.log.core.state import record_size, too_large
from shared.log.kafka.aio import fatal, stop_producer
from shared.log.kafka.producer import TOO_LARGE, append, check
from shared.log.port import TopicPartition

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping

    from shared.log.kafka.link import Link
    from shared.log.port import Record

_FENCED = (ProducerFenced, InvalidProducerEpoch)


class KafkaTransaction:
    """One open transaction."""

    def __init__(self, owner: KafkaTransactionalProducer) -> None:
        self._owner = owner
        self._sent: list[tuple[Record, asyncio.Future[Any]]] = []
        self.group = ""
        self.offsets: dict[TopicPartition, int] = {}
        self.written: dict[TopicPartition, int] = {}

    async def send(self, record: Record) -> None:
        """Queue a record; that it was taken is checked before the commit."""
        owner = self._owner
        check(record, owner.link.limit(record.topic))
        with owner.translating():
            async with owner.link.within(owner.link.settings.patience):
                await owner.exists(record.topic)
                self._sent.append((record, await append(owner.link, owner.producer, record)))

    async def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets of the one group of this transaction."""
        if self.group not in {"", group}:
            message = f"this transaction commits offsets of {self.group!r} already, not of {group!r}"
            raise ValueError(message)
        if not offsets:
            return
        owner = self._owner
        with owner.translating():
            async with owner.link.within(owner.link.settings.patience):
                given = {KafkaTopicPartition(*where): offset for where, offset in offsets.items()}
                await owner.producer.send_offsets_to_transaction(given, group)
        self.group = group
        self.offsets.update(offsets)

    async def delivered(self) -> None:
        """Wait until every record was taken: aiokafka would commit without those that were refused."""
        for record, future in self._sent:
            try:
                entry = await future
            except TOO_LARGE as error:
                self._owner.spend("a record was refused and its sequence number is lost")
                limit = self._owner.link.limit(record.topic)
                raise too_large(record, record_size(record), limit) from error
            self.written[TopicPartition(entry.topic, entry.partition)] = entry.offset


class KafkaTransactionalProducer:
    """One transactional id in one epoch."""

    def __init__(
        self,
        link: Link,
        producer: Any,
        exists: Callable[[str], Awaitable[object]],
        committed: Callable[[KafkaTransaction], None],
    ) -> None:
        self.link = link
        self.producer = producer
        self.exists = exists
        self._committed = committed
        self._open = False
        self._closed = False
        self._end: PumiceError | None = None

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[KafkaTransaction]:
        """Begin; commit at the end, abort when the block raises."""
        if self._end is not None:
            raise self._end
        if self._open:
            message = "a transaction of this producer is open already"
            raise RuntimeError(message)
        self._open = True
        try:
            with self.translating():
                await self.producer.begin_transaction()
            transaction = KafkaTransaction(self)
            try:
                yield transaction
                with self.translating():
                    async with self.link.within(self.link.settings.patience):
                        await transaction.delivered()
            except BaseException as error:
                await self._abort(cancelled=not isinstance(error, Exception))
                raise
            await self._commit()
            self._committed(transaction)
        finally:
            self._open = False

    async def close(self) -> None:
        """Abort what is open and leave."""
        self._closed = True
        if self._open and self._end is None:
            await self._abort(cancelled=True)
        if self._end is None:
            self._end = Unavailable("this producer is closed")
        await stop_producer(self.producer, self.link.settings.close_timeout)

    def spend(self, why: str) -> None:
        """Refuse every later transaction, unless there is a stronger reason already."""
        self._end = self._end or Unavailable(f"{why}: open its transactional id again")

    @contextmanager
    def translating(self) -> Iterator[None]:
        """Raise aiokafka's errors as ours, and remember those after which nothing goes."""
        try:
            yield
        except KafkaError as error:
            cause = fatal(self.producer) or error
            if isinstance(error, _FENCED) or isinstance(cause, _FENCED):
                self._end = Fenced("a newer producer has this transactional id, or the transaction timed out")
            else:
                message = f"kafka at {self.link.bootstrap} refused a transaction: {error!r}"
                self._end = Unavailable(f"{message}; open its id again")
            raise self._end from error

    async def _commit(self) -> None:
        try:
            with self.translating():
                async with self.link.within(self.link.settings.patience):
                    await self.producer.commit_transaction()
        except BaseException:
            self.spend("the outcome of a transaction is unknown")
            raise

    async def _abort(self, *, cancelled: bool) -> None:
        """Abort within patience; in a hurry, within the time a close may take."""
        if fatal(self.producer) is not None:
            return
        settings = self.link.settings
        try:
            async with asyncio.timeout(settings.close_timeout if cancelled else settings.patience):
                await self.producer.abort_transaction()
        except (KafkaError, TimeoutError, AssertionError):  # asserts a state that an error has left
            self.spend("a transaction could not be aborted")
        except asyncio.CancelledError:
            self.spend("a transaction could not be aborted")
            raise
