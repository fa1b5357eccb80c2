"""What a connection to the in-process log hands out: producers, transactions, consumers, readers."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from shared.errors import Unavailable
from shared.log.inprocess.cursor import Cursor
from shared.log.port import Delivery, Position, Start

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

    from shared.log.inprocess.broker import Broker
    from shared.log.port import RebalanceHook, Record, TopicPartition


class InProcessProducer:
    """Appends; each call is one atomic change."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._closed = False

    async def send(self, record: Record) -> Position:
        """Append one record."""
        return (await self.send_many([record]))[0]

    async def send_many(self, records: Sequence[Record]) -> list[Position]:
        """Append in order."""
        broker = self._broker
        if self._closed:
            message = "this producer is closed"
            raise Unavailable(message)
        for record in records:
            broker.state.check(record)
        change = await broker.commit(lambda: broker.state.stage_records(records, broker.now_ms()))
        return [Position(entry.topic, entry.partition, entry.offset) for entry in change.appended]

    def close(self) -> None:
        """Refuse what comes after."""
        self._closed = True


class InProcessTransaction:
    """Holds records and offsets until commit."""

    def __init__(self, broker: Broker, producer: tuple[str, int]) -> None:
        self._broker = broker
        self._producer = producer
        self._records: list[Record] = []
        self._group = ""
        self._offsets: dict[TopicPartition, int] = {}

    async def send(self, record: Record) -> None:
        """Append at commit."""
        self._broker.state.check_epoch(*self._producer)
        self._broker.state.check(record)
        self._records.append(record)

    async def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit the offsets at commit."""
        self._broker.state.check_epoch(*self._producer)
        if self._group not in {"", group}:
            message = f"this transaction commits offsets of {self._group!r} already, not of {group!r}"
            raise ValueError(message)
        self._group = group
        self._offsets.update(offsets)

    async def commit(self) -> None:
        """Make all of it durable and visible in one change."""
        state, now_ms = self._broker.state, self._broker.now_ms
        committed = {self._group: self._offsets} if self._offsets else {}
        await self._broker.commit(
            lambda: state.stage_transaction(self._producer, self._records, committed, now_ms())
        )


class InProcessTransactionalProducer:
    """One transactional id in one epoch."""

    def __init__(self, broker: Broker, transactional_id: str, epoch: int) -> None:
        self._broker = broker
        self._producer = (transactional_id, epoch)
        self._open = False
        self._closed = False

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[InProcessTransaction]:
        """Begin; commit at the end, forget when the block raises."""
        if self._closed:
            message = "this producer is closed"
            raise Unavailable(message)
        if self._open:
            message = "a transaction of this producer is open already"
            raise RuntimeError(message)
        self._broker.state.check_epoch(*self._producer)
        transaction = InProcessTransaction(self._broker, self._producer)
        self._open = True
        try:
            yield transaction
            if self._closed:
                message = "this producer was closed inside a transaction"
                raise Unavailable(message)
            await transaction.commit()
        finally:
            self._open = False

    async def close(self) -> None:
        """Refuse what comes after, the commit of an open transaction too."""
        self._closed = True


class InProcessConsumer:
    """One member of a group."""

    def __init__(
        self,
        broker: Broker,
        group: str,
        topics: Sequence[str],
        on_assigned: RebalanceHook,
        on_revoked: RebalanceHook,
    ) -> None:
        self.topics = topics
        self._broker = broker
        self._group = group
        self._hooks = (on_assigned, on_revoked)
        self._cursor = Cursor(broker, topics)
        self._assignment: frozenset[TopicPartition] = frozenset()
        self._identity = ""
        self._failure: Exception | None = None
        self._closed = False

    async def join(self) -> None:
        """Join the group and get a share."""
        self._identity = await self._broker.group(self._group).join(self)

    @property
    def closed(self) -> bool:
        """Whether it has left."""
        return self._closed

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions owned now."""
        return self._assignment

    async def poll(self, *, max_records: int = 500, timeout: float = 1.0) -> list[Delivery]:
        """Return the next records of the owned partitions; raises what a rebalance hook raised."""
        if self._failure is None and (records := await self._cursor.poll(max_records, timeout)):
            return records
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return []

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit what is still owned."""
        owned = {where: offset for where, offset in offsets.items() if where in self._assignment}
        if not owned or self._closed:
            return
        state = self._broker.state
        await self._broker.commit(lambda: state.stage_offsets({self._group: owned}))

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop reading these."""
        self._cursor.pause(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these again."""
        self._cursor.resume(partitions)

    def seek(self, where: TopicPartition, offset: int) -> None:
        """Read ``where`` from ``offset`` next."""
        self._cursor.seek(where, offset)

    async def close(self) -> None:
        """Leave the group."""
        if self._closed:
            return
        self._closed = True
        self._assignment = frozenset()
        self._cursor.close()
        self._broker.group(self._group).leave(self._identity)

    async def revoke(self) -> None:
        """Give everything back; the owner may still commit inside its hook."""
        self._cursor.move({})
        if self._assignment and not self._closed:
            await self._call(self._hooks[1])
        self._assignment = frozenset()

    async def take(self, partitions: frozenset[TopicPartition]) -> None:
        """Own ``partitions`` and read them from the committed offsets, after the hook."""
        if self._closed:
            return
        self._assignment = partitions
        committed = self._broker.state.committed.get(self._group, {})
        self._cursor.move({where: committed.get(where, 0) for where in sorted(partitions)}, held=True)
        if partitions:
            await self._call(self._hooks[0])
        self._cursor.release()

    async def _call(self, hook: RebalanceHook) -> None:
        try:
            await hook(self._assignment)
        except Exception as error:  # noqa: BLE001 - the owner's bug, raised to the owner by poll
            self._failure = error
            self._cursor.interrupt()


class InProcessReader:
    """Reads all partitions of some topics."""

    def __init__(self, broker: Broker, topics: Sequence[str]) -> None:
        self._broker = broker
        self._cursor = Cursor(broker, topics)
        self._targets: dict[TopicPartition, int] = {}
        self._wheres = [where for topic in topics for where in broker.state.of(topic)]

    async def open(self, start: Start | Mapping[TopicPartition, int]) -> None:
        """Take the start positions and note where the end is now."""
        ends = {where: self._broker.state.partitions[where].end for where in self._wheres}
        self._targets = ends
        if start is Start.LATEST:
            self._cursor.move(ends)
            return
        given = start if not isinstance(start, Start) else {}
        positions = {where: given.get(where, 0) for where in self._wheres}
        for where, position in positions.items():  # over gaps, where there is nothing to poll
            positions[where] = (await self._broker.read(where, position, 0)).position
        self._cursor.move(positions)

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._cursor.closed

    async def poll(self, *, max_records: int = 500, timeout: float = 1.0) -> list[Delivery]:
        """Return the next records."""
        return await self._cursor.poll(max_records, timeout)

    async def caught_up(self) -> bool:
        """Say whether everything that was there at the opening has been polled."""
        positions = self._cursor.positions
        return all(positions[where] >= end for where, end in self._targets.items())

    async def close(self) -> None:
        """Stop reading."""
        self._cursor.close()
