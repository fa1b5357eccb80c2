"""One connection to an in-process log: the ``EventLog`` that services get."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from shared.errors import Unavailable
from shared.log.inprocess.clients import (
    InProcessConsumer,
    InProcessProducer,
    InProcessReader,
    InProcessTransactionalProducer,
)
from shared.log.port import Start, nothing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from shared.log.inprocess.broker import Broker
    from shared.log.port import RebalanceHook, TopicPartition, TopicSpec


class InProcessLog:
    """A connection. The broker lives while one of its connections is started."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._producer = InProcessProducer(broker)
        self._started = False
        self._transactional: list[InProcessTransactionalProducer] = []
        self._sources: list[InProcessConsumer | InProcessReader] = []

    def connect(self) -> InProcessLog:
        """Return another connection to the same log: closing it closes only what it handed out."""
        return InProcessLog(self._broker)

    async def start(self) -> None:
        """Open the log. Raises StartupError when its file cannot be used."""
        if not self._started:
            await self._broker.open()
            self._started = True

    async def close(self) -> None:
        """Close all that was handed out, without waiting for anybody's rebalance."""
        if not self._started:
            return
        self._started = False
        self._producer.close()
        for producer in self._transactional:
            await producer.close()
        for source in self._sources:
            await source.close()
        await self._broker.release()

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        await self.close()

    async def create_topics(self, specs: Iterable[TopicSpec]) -> None:
        """Create what is missing."""
        broker, wanted = self._open(), list(specs)
        await broker.commit(lambda: broker.state.stage_topics(wanted))

    async def partitions(self, topic: str) -> int:
        """Return the number of partitions."""
        return self._open().state.spec(topic).partitions

    async def end_offsets(self, topic: str) -> dict[TopicPartition, int]:
        """Return the offset after the last one of each partition."""
        state = self._open().state
        return {where: state.partitions[where].end for where in state.of(topic)}

    async def committed(self, group: str, topic: str) -> dict[TopicPartition, int]:
        """Return a group's committed offsets."""
        offsets = self._open().state.committed.get(group, {})
        return {where: offset for where, offset in offsets.items() if where.topic == topic}

    @property
    def producer(self) -> InProcessProducer:
        """The shared producer."""
        return self._producer

    async def transactional(self, transactional_id: str) -> InProcessTransactionalProducer:
        """Open a transactional id in a new epoch."""
        broker = self._open()
        change = await broker.commit(lambda: broker.state.stage_epoch(transactional_id))
        producer = InProcessTransactionalProducer(broker, transactional_id, change.epochs[transactional_id])
        self._transactional.append(producer)
        return producer

    async def consume(
        self,
        group: str,
        topics: Sequence[str],
        *,
        on_assigned: RebalanceHook = nothing,
        on_revoked: RebalanceHook = nothing,
    ) -> InProcessConsumer:
        """Join a group; returns with the first share, after ``on_assigned``."""
        broker = self._open()
        for topic in topics:
            broker.state.spec(topic)
        consumer = InProcessConsumer(broker, group, topics, on_assigned, on_revoked)
        await consumer.join()
        self._keep(consumer)
        return consumer

    async def read(
        self,
        topics: Sequence[str],
        *,
        start: Start | Mapping[TopicPartition, int] = Start.EARLIEST,
    ) -> InProcessReader:
        """Open a reader."""
        reader = InProcessReader(self._open(), topics)
        await reader.open(start)
        self._keep(reader)
        return reader

    async def ping(self) -> None:
        """Return when the log can write."""
        self._open().ping()

    def _keep(self, source: InProcessConsumer | InProcessReader) -> None:
        """Remember it until it is closed, by its owner or with us."""
        self._sources = [*(other for other in self._sources if not other.closed), source]

    def _open(self) -> Broker:
        if not self._started:
            message = "the log is not open"
            raise Unavailable(message)
        return self._broker
