"""Reading one's own transactions.

The broker answers a commit before it has applied it: for some milliseconds its records are not
visible yet and its offsets not what a new owner of the partition is given (aiokafka cannot ask for
stable ones, OffsetFetch version 7). Whoever commits and then opens a reader, asks for offsets or hands
a partition over must not meet the time before.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from shared.errors import PumiceError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from shared.log.kafka.admin import Admin
    from shared.log.kafka.link import Link
    from shared.log.kafka.transactions import KafkaTransaction
    from shared.log.port import TopicPartition

_PATIENCE = 5.0
"""Seconds; an offset that somebody else has set back meanwhile is not waited for any longer."""


class Settling:
    """What this connection's transactions committed and nobody has seen applied yet."""

    def __init__(self, link: Link, admin: Admin) -> None:
        self._link = link
        self._admin = admin
        self._offsets: dict[str, dict[TopicPartition, int]] = {}
        self._written: dict[TopicPartition, int] = {}

    def note(self, transaction: KafkaTransaction) -> None:
        """Remember a committed transaction."""
        if transaction.offsets:
            self._offsets.setdefault(transaction.group, {}).update(transaction.offsets)
        self._written.update(transaction.written)

    async def offsets(self, group: str, partitions: frozenset[TopicPartition]) -> None:
        """Wait until a new owner of ``partitions`` would get the offsets we committed."""
        await self._applied(
            self._offsets.get(group, {}), partitions, lambda topic: self._admin.committed(group, topic)
        )

    async def records(self, topics: Iterable[str]) -> None:
        """Wait until the records we committed to ``topics`` are visible."""
        wanted = set(topics)
        ours = frozenset(where for where in self._written if where.topic in wanted)

        async def ends(topic: str) -> dict[TopicPartition, int]:
            return {where: end - 1 for where, end in (await self._admin.ends(topic)).items()}

        await self._applied(self._written, ours, ends)

    async def _applied(
        self,
        noted: dict[TopicPartition, int],
        partitions: frozenset[TopicPartition],
        ask: Callable[[str], Awaitable[dict[TopicPartition, int]]],
    ) -> None:
        expected = {where: noted[where] for where in partitions if where in noted}
        waiting = dict(expected)
        with suppress(TimeoutError, PumiceError):
            async with asyncio.timeout(_PATIENCE):
                while waiting:
                    for topic in {where.topic for where in waiting}:
                        found = await ask(topic)
                        for where in [where for where in waiting if where.topic == topic]:
                            if found.get(where, -1) >= waiting[where]:
                                del waiting[where]
                    if waiting:
                        await self._link.clock.sleep(0.005)
        for where, offset in expected.items():
            if noted.get(where) == offset:
                del noted[where]
