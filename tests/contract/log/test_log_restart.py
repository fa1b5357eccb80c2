"""The server goes and comes back in the middle."""

from __future__ import annotations

import asyncio

import pytest

from shared.errors import Unavailable
from shared.log.port import Record
from tests.fixtures.logs import read_all, records, take, values


@pytest.mark.parametrize("way", ["stop_and_restart", "crash_and_restart"])
async def test_a_restart_in_the_middle_loses_and_repeats_nothing_acknowledged(world, topic, unique, way):
    log = await world.connect()
    name, target, group, name_id = await topic(2), await topic(1), unique("group"), unique("id")
    compacted = await topic(1, compacted=True)
    acknowledged: list[str] = []
    count = 300
    total: list[int] = []  # known once all is sent: what was not acknowledged is sent again

    async def sender(log) -> None:
        while len(acknowledged) < count:
            n = len(acknowledged)
            await log.producer.send(Record(name, f"{n % 7}".encode(), f"{n}".encode()))
            await log.producer.send(Record(compacted, b"last", f"{n}".encode()))
            acknowledged.append(str(n))
            await asyncio.sleep(0.002)
        total.append(len(await read_all(log, name)))

    async def mover(log) -> None:
        producer = await log.transactional(name_id)
        consumer = await log.consume(group, [name])
        moved = sum((await log.committed(group, name)).values())
        while not total or moved < total[0]:
            batch = await consumer.poll(max_records=20)
            if batch:
                async with producer.transaction() as transaction:
                    for delivery in batch:
                        await transaction.send(Record(target, b"k", delivery.value))
                    ends = {delivery.where: delivery.offset + 1 for delivery in batch}
                    await transaction.commit_offsets(group, ends)
                moved += len(batch)

    working = [asyncio.create_task(sender(log)), asyncio.create_task(mover(log))]
    await asyncio.sleep(0.4)
    if world.survives_restart:
        await getattr(world, way)()
        async with asyncio.timeout(60):
            await asyncio.gather(*working)
    else:
        await getattr(world, way)()
        results = await asyncio.gather(*working, return_exceptions=True)
        assert all(isinstance(result, Unavailable) for result in results)
        log = await world.connect()
        before = len(acknowledged)
        async with asyncio.timeout(60):
            await asyncio.gather(sender(log), mover(log))
        assert before < count
    sent = values(await read_all(log, name))
    assert set(sent) == {str(n) for n in range(count)}
    if world.survives_restart:
        assert len(sent) == count
    moved = values(await read_all(log, target))
    assert sorted(moved, key=int) == sorted(sent, key=int)
    assert (await read_all(log, compacted))[-1].value == str(count - 1).encode()


async def test_offsets_epochs_and_topics_survive_a_restart(world, topic, unique):
    log = await world.connect()
    name, group, name_id = await topic(3), unique("group"), unique("id")
    await log.producer.send_many(records(name, range(10)))
    producer = await log.transactional(name_id)
    async with producer.transaction() as transaction:
        await transaction.send(Record(name, b"k", b"in"))
    consumer = await log.consume(group, [name])
    got = await take(consumer, 11)
    await consumer.commit({got[6].where: got[6].offset + 1})
    ends, committed = await log.end_offsets(name), await log.committed(group, name)
    await world.crash_and_restart()
    log = log if world.survives_restart else await world.connect()
    async with asyncio.timeout(60):
        assert await log.partitions(name) == 3
        assert await log.end_offsets(name) == ends
        assert await log.committed(group, name) == committed
        again = await log.transactional(name_id)
        async with again.transaction() as transaction:
            await transaction.send(Record(name, b"k", b"again"))
        assert values(await read_all(log, name)) == [*map(str, range(10)), "in", "again"]
