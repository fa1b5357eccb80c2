"""What every part of the adapter shares: address, settings, clock, and how to wait for a broker."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from aiokafka.errors import KafkaError

from shared.errors import Unavailable
from shared.log.kafka.aio import AWAY, passing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from shared.clock import Clock
    from shared.log.kafka.settings import KafkaSettings

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Link:
    """One application's way to one Kafka cluster."""

    bootstrap: str
    client_id: str
    settings: KafkaSettings
    clock: Clock
    access: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)
    """aiokafka's arguments about security."""
    producers: list[Any] = field(default_factory=list)
    """aiokafka's producers that were made and may still have to be stopped."""
    limits: dict[str, int] = field(default_factory=dict[str, int])
    """Bytes of one record, by topic, where they are not the settings'."""

    def limit(self, topic: str) -> int:
        """Return how many bytes a record of a topic may have."""
        return self.limits.get(topic, self.settings.record_bytes)

    def common(self) -> dict[str, Any]:
        """Return the arguments that every aiokafka client takes."""
        return {
            "bootstrap_servers": self.bootstrap,
            "client_id": self.client_id,
            **self.access,
            "request_timeout_ms": int(self.settings.request_timeout * 1000),
        }

    @asynccontextmanager
    async def within(self, seconds: float | None) -> AsyncIterator[None]:
        """Bound a block by patience: Unavailable when it is used up."""
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError as error:
            message = f"kafka at {self.bootstrap} did not answer within {seconds:g} s"
            raise Unavailable(message) from error

    async def retry(self, call: Callable[[], Awaitable[T]], patience: float | None) -> T:
        """Repeat ``call`` while the broker is away. Raises Unavailable, and what else it raises."""
        async with self.within(patience):
            while True:
                try:
                    return await call()
                except (KafkaError, *AWAY) as error:
                    if not passing(error):
                        raise
                await self.clock.sleep(self.settings.retry_interval)
