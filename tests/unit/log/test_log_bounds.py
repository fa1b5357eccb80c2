"""What keeps an in-process log from growing for ever."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from shared.clock import LoopClock, SystemClock
from shared.log.core.state import Limits
from shared.log.memory import MemoryLog
from shared.log.port import Cleanup, Record, TopicPartition, TopicSpec
from shared.log.sqlite import SqliteLog
from tests.fixtures.logs import read_all, take

WHERE = TopicPartition("t", 0)
EPOCH = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def looptime_options():
    return {"start": 0}


@pytest.mark.looptime
async def test_records_older_than_the_retention_go():
    async with MemoryLog(LoopClock(EPOCH)) as log:
        await log.create_topics([TopicSpec("t", retention_ms=3_600_000)])
        await log.producer.send(Record("t", b"k", b"old"))
        await asyncio.sleep(3000)
        await log.producer.send(Record("t", b"k", b"young"))
        await asyncio.sleep(1000)
        assert [d.value for d in await read_all(log, "t")] == [b"young"]
        assert await log.end_offsets("t") == {WHERE: 2}


async def test_memory_of_a_partition_is_bounded_once_its_groups_have_read_it():
    async with MemoryLog(SystemClock(), limits=Limits(partition_bytes=100_000)) as log:
        await log.create_topics([TopicSpec("t")])
        consumer = await log.consume("g", ["t"])
        sizes = []
        for _ in range(40):
            await log.producer.send_many([Record("t", b"k", b"x" * 1000)] * 50)
            got = await take(consumer, 50)
            await consumer.commit({WHERE: got[-1].offset + 1})
            sizes.append(log._broker.state.partitions[WHERE].bytes)
    assert max(sizes) < 400_000


async def test_what_a_group_has_not_read_stays_whatever_the_bound():
    async with MemoryLog(SystemClock(), limits=Limits(partition_bytes=10_000)) as log:
        await log.create_topics([TopicSpec("t")])
        await log.producer.send(Record("t", b"k", b"first"))
        consumer = await log.consume("g", ["t"])
        await consumer.commit({WHERE: 0})
        for _ in range(20):
            await log.producer.send_many([Record("t", b"k", b"x" * 1000)] * 10)
        assert len(await take(consumer, 201)) == 201


async def test_a_compacted_partition_is_swept_without_waiting_for_maintenance():
    async with MemoryLog(SystemClock(), limits=Limits(sweep_records=100)) as log:
        await log.create_topics([TopicSpec("t", cleanup=Cleanup.COMPACT)])
        for n in range(1000):
            await log.producer.send(Record("t", b"one key", str(n).encode()))
        got = await read_all(log, "t")
    assert len(got) <= 102
    assert got[-1].value == b"999"


async def test_on_disk_memory_holds_the_tail_and_the_file_the_rest(tmp_path: Path):
    async with SqliteLog(tmp_path / "log.db", SystemClock(), limits=Limits(partition_bytes=50_000)) as log:
        await log.create_topics([TopicSpec("t")])
        for n in range(30):
            await log.producer.send_many([Record("t", b"k", str(n).encode() + b"x" * 1000)] * 10)
        assert log._broker.state.partitions[WHERE].bytes <= 60_000
        assert [d.offset for d in await read_all(log, "t")] == list(range(300))
        reader = await log.read(["t"], start={WHERE: 5})
        assert [d.offset for d in await take(reader, 295)][:3] == [5, 6, 7]


async def test_retention_on_disk_works_on_what_memory_no_longer_holds(tmp_path: Path):
    log = SqliteLog(tmp_path / "log.db", SystemClock())
    async with log:
        await log.create_topics([TopicSpec("t", retention_ms=1)])
        await log.producer.send_many([Record("t", b"k", b"v")] * 20)
    async with SqliteLog(tmp_path / "log.db", SystemClock()) as again:
        await asyncio.sleep(0.01)
        await again._broker.maintain()
        assert await read_all(again, "t") == []
        await again.producer.send(Record("t", b"k", b"new"))
        assert await again.end_offsets("t") == {WHERE: 21}
