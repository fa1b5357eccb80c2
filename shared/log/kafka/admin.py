"""Topics, offsets and liveness: the questions put to the cluster itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as KafkaTopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, LeaderNotAvailableError, TopicAlreadyExistsError, for_code

from shared.errors import ConfigurationError, NotFound, Unavailable
from shared.log.kafka.aio import stop_consumer
from shared.log.port import Cleanup, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shared.log.kafka.link import Link
    from shared.log.port import TopicSpec

_COMPACTED = {
    # By default Kafka compacts only what is older than a week or a gibibyte (it never touches the
    # segment being written): a view that reads such a topic at its start would read all of it.
    "segment.ms": "600000",
    "segment.bytes": str(64 << 20),
    "min.cleanable.dirty.ratio": "0.2",
}
_OVERHEAD = 65_536
"""Bytes by which a batch of one record may be longer than the record."""


def topic_config(spec: TopicSpec) -> dict[str, str]:
    """Return Kafka's settings of a topic; the spec's own ``config`` has the last word."""
    compacted = spec.cleanup is Cleanup.COMPACT
    config = dict(_COMPACTED) if compacted else {}
    config["cleanup.policy"] = "compact" if compacted else "delete"
    if spec.retention_ms is not None:
        config["retention.ms"] = str(spec.retention_ms)
        config["cleanup.policy"] = "compact,delete" if compacted else "delete"
    elif not compacted:
        config["retention.ms"] = "-1"
    if spec.record_bytes is not None:
        config["max.message.bytes"] = str(spec.record_bytes + _OVERHEAD)
    return {**config, **spec.config}


class Admin:
    """One connection for questions. Every call may wait for the broker, within patience."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._admin: Any = None
        self._observer: Any = None
        self._partitions: dict[str, int] = {}

    async def start(self) -> None:
        """Connect, once. Raises aiokafka's errors."""
        admin = AIOKafkaAdminClient(**self._link.common())
        observer = AIOKafkaConsumer(
            **self._link.common(), isolation_level="read_committed", enable_auto_commit=False
        )
        self._admin, self._observer = admin, observer
        try:
            await admin.start()
            await observer.start()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Disconnect."""
        if self._admin is not None:
            await self._admin.close()
            await stop_consumer(self._observer, self._link.settings.close_timeout)
            self._admin = self._observer = None

    async def ping(self) -> None:
        """Ask one broker for the metadata, now. Raises Unavailable."""
        try:
            async with self._link.within(self._link.settings.close_timeout):
                await self._admin.describe_cluster()
        except (KafkaError, OSError) as error:
            message = f"kafka at {self._link.bootstrap} does not answer: {error!r}"
            raise Unavailable(message) from error

    async def create(self, specs: Iterable[TopicSpec]) -> None:
        """Create what is missing and wait until all of it has a leader."""
        wanted = {spec.name: spec for spec in specs}
        self._link.limits.update(
            {name: spec.record_bytes for name, spec in wanted.items() if spec.record_bytes}
        )
        await self._link.retry(lambda: self._create(wanted), self._link.settings.patience)
        await self._link.retry(lambda: self._led(list(wanted)), self._link.settings.patience)

    async def partitions(self, topic: str) -> int:
        """Return the number of partitions. Raises NotFound."""
        if topic not in self._partitions:
            found = await self._link.retry(lambda: self._describe([topic]), self._link.settings.patience)
            if not found.get(topic):
                message = f"there is no topic {topic!r}"
                raise NotFound(message)
            self._partitions[topic] = len(found[topic])
        return self._partitions[topic]

    async def ends(self, topic: str) -> dict[TopicPartition, int]:
        """Return the last stable offsets."""
        wheres = [KafkaTopicPartition(topic, number) for number in range(await self.partitions(topic))]
        ends = await self._link.retry(
            lambda: self._observer.end_offsets(wheres), self._link.settings.patience
        )
        return {TopicPartition(*where): offset for where, offset in ends.items()}

    async def committed(self, group: str, topic: str) -> dict[TopicPartition, int]:
        """Return a group's committed offsets."""
        wheres = [KafkaTopicPartition(topic, number) for number in range(await self.partitions(topic))]

        async def ask() -> dict[Any, Any]:
            found: dict[Any, Any] = await self._admin.list_consumer_group_offsets(group, partitions=wheres)
            if len(found) < len(wheres):  # it drops the group's own error (coordinator loading, moved)
                raise LeaderNotAvailableError
            return found

        found = await self._link.retry(ask, self._link.settings.patience)
        return {TopicPartition(*where): entry.offset for where, entry in found.items() if entry.offset >= 0}

    async def _create(self, wanted: dict[str, TopicSpec]) -> None:
        present = await self._describe(list(wanted))
        missing = [spec for name, spec in wanted.items() if not present.get(name)]
        if not missing:
            return
        factor = self._link.settings.replication_factor
        assignment: dict[int, list[int]] | None = (
            None if factor > 0 else {}
        )  # aiokafka takes -1 only beside an assignment
        topics = [
            NewTopic(spec.name, spec.partitions, factor, assignment, topic_config(spec)) for spec in missing
        ]
        answer = await self._admin.create_topics(topics)
        for name, code, *detail in answer.topic_errors:
            error = for_code(code)
            if code == 0 or error is TopicAlreadyExistsError:
                continue
            if error.retriable:
                raise error
            raise ConfigurationError(f"kafka refuses the topic {name!r}: {(detail or [error.__name__])[0]}")

    async def _led(self, names: list[str]) -> None:
        found = await self._describe(names)
        if not all(found.get(name) and min(found[name]) >= 0 for name in names):
            raise LeaderNotAvailableError
        self._partitions.update({name: len(found[name]) for name in names})

    async def _describe(self, names: list[str]) -> dict[str, list[int]]:
        """Return the leaders of each topic's partitions; an empty list for a missing topic."""
        async with asyncio.timeout(self._link.settings.request_timeout):
            topics = await self._admin.describe_topics(names)
        found: dict[str, list[int]] = {}
        for topic in topics:
            error = for_code(topic["error_code"])
            if topic["error_code"] and error.__name__ == "LeaderNotAvailableError":
                raise error
            found[topic["topic"]] = [partition["leader"] for partition in topic["partitions"]]
        return found
