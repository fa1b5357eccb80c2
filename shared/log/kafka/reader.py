"""Reads all partitions of some topics, outside any group."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as KafkaTopicPartition
from aiokafka.errors import ConsumerStoppedError, KafkaError

from shared.errors import Unavailable
from shared.log.kafka.aio import passing, stop_consumer
from shared.log.kafka.consumer import OVERTIME, deliveries_of
from shared.log.port import Start, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.log.kafka.link import Link
    from shared.log.port import Delivery

_GLANCE = 0.05
"""Seconds between looks at the positions while catching up: markers move them without a record."""


class KafkaReader:
    """One reader. Caught up is measured by positions against the last stable offsets at the opening.

    Positions pass markers and holes, so they get there whatever the last records are.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._behind: dict[Any, int] = {}
        self._closed = False
        self._consumer = AIOKafkaConsumer(
            **link.common(),
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            fetch_max_wait_ms=int(link.settings.reader_fetch_wait * 1000),
            max_partition_fetch_bytes=4 << 20,
        )

    async def open(self, partitions: Mapping[str, int], start: Start | Mapping[TopicPartition, int]) -> None:
        """Take the start positions and note where the end is now."""
        wheres = [
            KafkaTopicPartition(topic, number)
            for topic, count in partitions.items()
            for number in range(count)
        ]
        try:
            await self._consumer.start()
            self._consumer.assign(wheres)
            ends: dict[Any, int] = await self._consumer.end_offsets(wheres)
            if start is Start.LATEST:
                given: Mapping[Any, int] = ends
            else:
                given = start if not isinstance(start, Start) else {}
                self._behind = dict(ends)
            for where in wheres:
                if where in given:
                    self._consumer.seek(where, given[where])
        except BaseException:
            await self.close()
            raise

    async def poll(self, *, max_records: int = 500, timeout: float = 1.0) -> list[Delivery]:
        """Return the next records; none at once when it just caught up."""
        if self._closed:
            message = "this reader is closed"
            raise Unavailable(message)
        records: list[Delivery] = []
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline + OVERTIME):
                while not (records or self._closed):
                    behind, left = bool(self._behind), max(0.0, deadline - loop.time())
                    records = await self._fetch(max_records, min(left, _GLANCE) if behind else left)
                    if (behind and await self.caught_up()) or loop.time() >= deadline:
                        break
        return records

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    async def caught_up(self) -> bool:
        """Say whether everything that was there at the opening has been polled."""
        for where, end in list(self._behind.items()):
            if self._closed or await self._consumer.position(where) < end:
                return False
            self._behind.pop(where, None)
        return True

    async def close(self) -> None:
        """Stop reading."""
        if not self._closed:
            self._closed = True
            await stop_consumer(self._consumer, self._link.settings.close_timeout)

    async def _fetch(self, max_records: int, timeout: float) -> list[Delivery]:
        try:
            batch = await self._consumer.getmany(timeout_ms=int(timeout * 1000), max_records=max_records)
        except ConsumerStoppedError:
            return []
        except KafkaError as error:
            if not passing(error):
                raise
            await self._link.clock.sleep(self._link.settings.retry_interval)
            return []
        return deliveries_of(batch)
