"""Compacted topics, read from their start."""

from __future__ import annotations

import asyncio

from shared.log.port import Record
from tests.fixtures.logs import read_all, take


async def test_compaction_keeps_the_last_record_of_each_key_and_drops_replaced_ones(world, log, topic):
    name = await topic(1, compacted=True)
    for turn in range(50):
        await log.producer.send_many([Record(name, f"{k}".encode(), f"{turn}".encode()) for k in range(5)])
    await log.producer.send(Record(name, b"3", None))
    got = await _compacted(world, log, name, at_most=60)
    state = {d.key: d.value for d in got}
    assert {key: value for key, value in state.items() if value is not None and key != b"roll"} == {
        b"0": b"49",
        b"1": b"49",
        b"2": b"49",
        b"4": b"49",
    }
    assert state.get(b"3") is None


async def test_a_view_follows_over_compaction(world, log, topic):
    name = await topic(1, compacted=True)
    reader = await log.read([name])
    for turn in range(20):
        await log.producer.send_many([Record(name, f"{k}".encode(), f"{turn}".encode()) for k in range(3)])
    first = await take(reader, 60)
    await _compacted(world, log, name, at_most=30)
    await log.producer.send(Record(name, b"new", b"v"))
    view = {d.key: d.value for d in first}
    async with asyncio.timeout(20):
        while b"new" not in view:
            view |= {d.key: d.value for d in await reader.poll()}
    assert view[b"0"] == b"19"


async def _compacted(world, log, name, *, at_most):
    """Read the topic until compaction has come about."""
    async with asyncio.timeout(60):
        while True:
            # Kafka never compacts the segment being written: a record later than its age begins a new one.
            await log.producer.send(Record(name, b"roll", b"v"))
            await world.compact()
            got = await read_all(log, name)
            if len(got) <= at_most:
                return got
