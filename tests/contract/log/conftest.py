"""Each adapter of the log as a world: open connections to it, have its server die, start it again."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Protocol

import pytest

from shared.clock import SystemClock
from shared.log.core.state import Limits
from shared.log.inprocess.connection import InProcessLog
from shared.log.kafka import KafkaLog, KafkaSettings
from shared.log.memory import MemoryLog
from shared.log.port import Cleanup, EventLog, TopicSpec
from shared.log.sqlite import SqliteLog
from tools.kafka import Broker

_NAMES = itertools.count(1)

KAFKA = KafkaSettings(session_timeout=2.0, heartbeat_interval=0.2, close_timeout=3.0)
SWEEP_SOON = {
    "segment.ms": "500",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
    "max.compaction.lag.ms": "500",
}


class World(Protocol):
    """One adapter under test."""

    async def connect(self) -> EventLog:
        """Open another connection, as another process would."""
        ...

    async def crash_and_restart(self) -> None:
        """The server dies without warning and comes back; connections of in-process logs die with it."""
        ...

    async def stop_and_restart(self) -> None:
        """The server stops in order and comes back."""
        ...

    async def compact(self) -> None:
        """Let compaction come about (as far as it can be asked for)."""
        ...


class InProcessWorld:
    """Memory or disk: one process, so that a restart takes its connections along."""

    survives_restart = False

    def __init__(self, make: Callable[[], InProcessLog]) -> None:
        self._make = make
        self._first: InProcessLog | None = None
        self._logs: list[EventLog] = []

    async def connect(self) -> EventLog:
        log = self._make() if self._first is None else self._first.connect()
        self._first = self._first or log
        await log.start()
        self._logs.append(log)
        return log

    async def stop_and_restart(self) -> None:
        await self.close()
        if self._first is not None and not isinstance(self._first, MemoryLog):
            self._first = None

    crash_and_restart = stop_and_restart

    async def compact(self) -> None:
        assert self._first is not None
        await self._first._broker.maintain()

    async def close(self) -> None:
        for log in self._logs:
            await log.close()
        self._logs.clear()


class KafkaWorld:
    """The session's broker."""

    survives_restart = True

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._logs: list[EventLog] = []

    async def connect(self) -> EventLog:
        log = KafkaLog(self.broker.bootstrap, settings=KAFKA)
        await log.start()
        self._logs.append(log)
        return log

    async def stop_and_restart(self) -> None:
        await asyncio.to_thread(self.broker.stop)
        await asyncio.sleep(1.0)
        await asyncio.to_thread(self.broker.start)

    async def crash_and_restart(self) -> None:
        await asyncio.to_thread(self.broker.kill)
        await asyncio.sleep(1.0)
        await asyncio.to_thread(self.broker.start)

    async def compact(self) -> None:
        await asyncio.sleep(1.0)

    async def close(self) -> None:
        for log in self._logs:
            await log.close()


@pytest.fixture(params=["memory", "sqlite", pytest.param("kafka", marks=pytest.mark.kafka)])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[InProcessWorld | KafkaWorld]:
    """The adapter under test."""
    limits = Limits(tombstone_ms=0, sweep_records=1_000_000)
    made: InProcessWorld | KafkaWorld
    if request.param == "kafka":
        made = KafkaWorld(request.getfixturevalue("kafka_broker"))
    elif request.param == "sqlite":
        made = InProcessWorld(lambda: SqliteLog(tmp_path / "log.db", SystemClock(), limits=limits))
    else:
        made = InProcessWorld(lambda: MemoryLog(SystemClock(), limits=limits))
    yield made
    await made.close()


@pytest.fixture
async def log(world: World) -> EventLog:
    """A connection to the adapter under test."""
    return await world.connect()


@pytest.fixture
def unique() -> Callable[[str], str]:
    """Names that no other test uses."""
    return lambda name: f"{name}-{next(_NAMES)}"


@pytest.fixture
def topic(log: EventLog, unique: Callable[[str], str]) -> Callable[..., Awaitable[str]]:
    """Make a topic of its own."""

    async def make(partitions: int = 1, *, compacted: bool = False) -> str:
        name = unique("topic")
        cleanup = Cleanup.COMPACT if compacted else Cleanup.DELETE
        await log.create_topics(
            [TopicSpec(name, partitions, cleanup, config=SWEEP_SOON if compacted else {})]
        )
        return name

    return make
