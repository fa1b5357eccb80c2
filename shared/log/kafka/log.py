"""A connection to Kafka: the ``EventLog`` of a deployment."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from shared.clock import SystemClock
from shared.errors import Unavailable
from shared.log.access import KafkaAccess
from shared.log.kafka.admin import Admin
from shared.log.kafka.aio import stop_producer, stopped
from shared.log.kafka.consumer import KafkaConsumer
from shared.log.kafka.link import Link
from shared.log.kafka.outage import Outage
from shared.log.kafka.producer import KafkaProducer, start_producer
from shared.log.kafka.reader import KafkaReader
from shared.log.kafka.settings import KafkaSettings
from shared.log.kafka.settling import Settling
from shared.log.kafka.transactions import KafkaTransactionalProducer
from shared.log.port import Start, TopicPartition, nothing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from shared.clock import Clock
    from shared.log.port import RebalanceHook, TopicSpec


class KafkaLog:
    """``bootstrap``: ``host:port[,host:port]``. Raises ConfigurationError when ``access`` cannot be used."""

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str = "pumice",
        clock: Clock | None = None,
        settings: KafkaSettings | None = None,
        access: KafkaAccess | None = None,
    ) -> None:
        self._link = Link(
            bootstrap,
            client_id,
            settings or KafkaSettings(),
            clock or SystemClock(),
            (access or KafkaAccess()).arguments(),
        )
        self._admin = Admin(self._link)
        self._producer = KafkaProducer(self._link, self._admin.partitions)
        self._outage = Outage(bootstrap, self._link.clock, self._admin.ping, 1.0)
        self._started = False
        self._open: list[KafkaConsumer | KafkaReader | KafkaTransactionalProducer] = []
        self._settling = Settling(self._link, self._admin)

    async def start(self) -> None:
        """Connect. Raises Unavailable within the start's patience."""
        if self._started:
            return
        self._outage.install()
        try:
            await self._link.retry(self._admin.start, self._link.settings.start_patience)
        except Unavailable as error:
            await self._outage.close()
            raise Unavailable(
                f"{error}: {self._outage.cause}" if self._outage.cause else str(error)
            ) from error
        except BaseException:
            await self._outage.close()
            raise
        self._outage.watch()
        self._started = True

    async def close(self) -> None:
        """Close what was handed out, then the connection."""
        if not self._started:
            return
        self._started = False
        await asyncio.gather(*(part.close() for part in self._open))
        await self._producer.close()
        for producer in self._link.producers:
            if not stopped(producer):  # whoever made it was interrupted
                await stop_producer(producer, self._link.settings.close_timeout)
        await self._outage.close()
        await self._admin.close()

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        await self.close()

    async def create_topics(self, specs: Iterable[TopicSpec]) -> None:
        """Create what is missing. Raises ConfigurationError when the broker refuses a topic."""
        self._check()
        await self._admin.create(specs)

    async def partitions(self, topic: str) -> int:
        """Return the number of partitions."""
        self._check()
        return await self._admin.partitions(topic)

    async def end_offsets(self, topic: str) -> dict[TopicPartition, int]:
        """Return the last stable offset of each partition."""
        self._check()
        await self._settling.records([topic])
        return await self._admin.ends(topic)

    async def committed(self, group: str, topic: str) -> dict[TopicPartition, int]:
        """Return a group's committed offsets."""
        self._check()
        await self._settling.offsets(group, frozenset(await self._wheres(topic)))
        return await self._admin.committed(group, topic)

    @property
    def producer(self) -> KafkaProducer:
        """The shared producer."""
        return self._producer

    async def transactional(self, transactional_id: str) -> KafkaTransactionalProducer:
        """Open a transactional id; an older transaction of it is settled first."""
        self._check()
        async with self._link.within(self._link.settings.patience):
            producer = await start_producer(self._link, transactional_id)
        opened = KafkaTransactionalProducer(self._link, producer, self._admin.partitions, self._settling.note)
        self._keep(opened)
        return opened

    async def consume(
        self,
        group: str,
        topics: Sequence[str],
        *,
        on_assigned: RebalanceHook = nothing,
        on_revoked: RebalanceHook = nothing,
    ) -> KafkaConsumer:
        """Join a group."""
        self._check()
        for topic in topics:
            await self._admin.partitions(topic)

        async def attempt() -> KafkaConsumer:
            consumer = KafkaConsumer(self._link, group, on_assigned, on_revoked, self._settling.offsets)
            await consumer.join(topics)
            return consumer

        consumer = await self._link.retry(attempt, self._link.settings.patience)
        self._keep(consumer)
        return consumer

    async def read(
        self,
        topics: Sequence[str],
        *,
        start: Start | Mapping[TopicPartition, int] = Start.EARLIEST,
    ) -> KafkaReader:
        """Open a reader."""
        self._check()
        partitions = {topic: await self._admin.partitions(topic) for topic in topics}
        await self._settling.records(topics)

        async def attempt() -> KafkaReader:
            reader = KafkaReader(self._link)
            await reader.open(partitions, start)
            return reader

        reader = await self._link.retry(attempt, self._link.settings.patience)
        self._keep(reader)
        return reader

    async def ping(self) -> None:
        """Return when a broker answers."""
        self._check()
        await self._admin.ping()

    def _keep(self, part: KafkaConsumer | KafkaReader | KafkaTransactionalProducer) -> None:
        """Remember it until it is closed, by its owner or with us."""
        self._open = [*(other for other in self._open if not other.closed), part]

    async def _wheres(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for number in range(await self._admin.partitions(topic))]

    def _check(self) -> None:
        if not self._started:
            message = "the log is not open"
            raise Unavailable(message)
