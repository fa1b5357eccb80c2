"""Transactions: all or nothing, fencing, offsets inside."""

# ruff: noqa: PT012, TRY301 - a transaction is a block, and where in it an error comes is the point
from __future__ import annotations

import asyncio
import gc

import pytest

from shared.errors import Fenced, TooLarge
from shared.log.port import Record, TopicPartition
from tests.fixtures.logs import read_all, records, take, values


async def test_a_transactions_records_are_visible_together_after_commit(log, topic, unique):
    one, two = await topic(1), await topic(1)
    reader = await log.read([one, two])
    producer = await log.transactional(unique("id"))
    async with producer.transaction() as transaction:
        await transaction.send(Record(one, b"k", b"1"))
        await transaction.send(Record(two, b"k", b"2"))
        assert await reader.poll(timeout=0.3) == []
    assert sorted(values(await take(reader, 2))) == ["1", "2"]


async def test_nothing_of_an_aborted_transaction_is_visible(log, topic, unique):
    name, group = await topic(2), unique("group")
    producer = await log.transactional(unique("id"))
    with pytest.raises(ZeroDivisionError):
        async with producer.transaction() as transaction:
            for n in range(10):
                await transaction.send(Record(name, f"{n}".encode(), b"never"))
            await transaction.commit_offsets(group, {TopicPartition(name, 0): 7})
            raise ZeroDivisionError
    async with producer.transaction() as transaction:
        await transaction.send(Record(name, b"k", b"yes"))
    assert values(await read_all(log, name)) == ["yes"]
    assert await log.committed(group, name) == {}


async def test_a_reader_catches_up_past_a_transactions_end(log, topic, unique):
    name = await topic(1)
    producer = await log.transactional(unique("id"))
    async with producer.transaction() as transaction:
        await transaction.send(Record(name, b"k", b"1"))
    with pytest.raises(ZeroDivisionError):
        async with producer.transaction() as transaction:
            await transaction.send(Record(name, b"k", b"never"))
            raise ZeroDivisionError
    reader = await log.read([name])
    got = []
    async with asyncio.timeout(10):
        while not await reader.caught_up():
            got += await reader.poll(max_records=1, timeout=5)
    assert values(got) == ["1"]
    (end,) = (await log.end_offsets(name)).values()
    assert end > got[-1].offset


async def test_records_and_offsets_of_a_transaction_go_together(log, topic, unique):
    source, target, group = await topic(1), await topic(1), unique("group")
    await log.producer.send_many(records(source, range(20)))
    producer = await log.transactional(unique("id"))
    consumer = await log.consume(group, [source])
    attempts = done = 0
    async with asyncio.timeout(60):
        while done < 20:
            batch = await consumer.poll(max_records=4)
            if not batch:
                continue
            attempts += 1
            try:
                async with producer.transaction() as transaction:
                    for delivery in batch:
                        await transaction.send(Record(target, delivery.key, delivery.value))
                    await transaction.commit_offsets(group, {batch[-1].where: batch[-1].offset + 1})
                    if attempts % 3 == 2:
                        raise ZeroDivisionError
            except ZeroDivisionError:
                consumer.seek(batch[0].where, batch[0].offset)
            else:
                done += len(batch)
    assert values(await read_all(log, target)) == [str(n) for n in range(20)]
    assert await log.committed(group, source) == {TopicPartition(source, 0): 20}


async def test_a_new_member_begins_where_the_transaction_committed(log, topic, unique):
    name, group = await topic(1), unique("group")
    await log.producer.send_many(records(name, range(10)))
    producer = await log.transactional(unique("id"))
    for n in range(5):  # the hand-over follows the commit at once
        consumer = await log.consume(group, [name])
        (got,) = await take_one(consumer)
        assert values([got]) == [str(n)]
        async with producer.transaction() as transaction:
            await transaction.commit_offsets(group, {got.where: got.offset + 1})
        await consumer.close()


async def test_an_older_producer_of_a_transactional_id_is_fenced(world, topic, unique):
    first, second = await world.connect(), await world.connect()
    name, name_id = await topic(1), unique("id")
    old = await first.transactional(name_id)
    async with old.transaction() as transaction:
        await transaction.send(Record(name, b"k", b"old"))
    new = await second.transactional(name_id)
    with pytest.raises(Fenced):
        async with old.transaction() as transaction:
            await transaction.send(Record(name, b"k", b"zombie"))
            await transaction.commit_offsets(unique("group"), {TopicPartition(name, 0): 1})
    with pytest.raises(Fenced):
        async with old.transaction():
            pass
    async with new.transaction() as transaction:
        await transaction.send(Record(name, b"k", b"new"))
    assert values(await read_all(second, name)) == ["old", "new"]


async def test_opening_an_id_again_ends_the_open_transaction_of_the_older(world, topic, unique):
    first, second = await world.connect(), await world.connect()
    name, name_id = await topic(1), unique("id")
    old = await first.transactional(name_id)
    with pytest.raises(Fenced):
        async with old.transaction() as transaction:
            await transaction.send(Record(name, b"k", b"zombie"))
            await asyncio.sleep(0.1)
            new = await second.transactional(name_id)
            async with new.transaction() as other:
                await other.send(Record(name, b"k", b"new"))
    assert values(await read_all(second, name)) == ["new"]


async def test_fencing_leaves_no_forgotten_exception(world, topic, unique):
    reports = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reports.append(context))
    first, second = await world.connect(), await world.connect()
    name, name_id = await topic(1), unique("id")
    old = await first.transactional(name_id)
    with pytest.raises(Fenced):
        async with old.transaction() as transaction:
            for n in range(50):
                await transaction.send(Record(name, b"k", f"{n}".encode()))
                if n == 25:
                    await second.transactional(name_id)
    await old.close()
    del old, transaction
    await first.close()
    gc.collect()
    await asyncio.sleep(0.1)
    gc.collect()
    assert reports == []


async def test_a_transaction_with_a_refused_record_commits_nothing(log, topic, unique):
    name = await topic(1)
    producer = await log.transactional(unique("id"))
    with pytest.raises(TooLarge):
        async with producer.transaction() as transaction:
            await transaction.send(Record(name, b"k", b"small"))
            await transaction.send(Record(name, b"k", b"x" * 1_000_001))
    async with producer.transaction() as transaction:
        await transaction.send(Record(name, b"k", b"next"))
    assert values(await read_all(log, name)) == ["next"]


async def test_an_empty_transaction_commits(log, unique):
    producer = await log.transactional(unique("id"))
    for _ in range(2):
        async with producer.transaction():
            pass


async def test_a_transaction_serves_one_group(log, topic, unique):
    name = await topic(1)
    producer = await log.transactional(unique("id"))
    with pytest.raises(ValueError, match="commits offsets of"):
        async with producer.transaction() as transaction:
            await transaction.commit_offsets(unique("group"), {TopicPartition(name, 0): 1})
            await transaction.commit_offsets(unique("group"), {TopicPartition(name, 0): 1})


async def take_one(consumer):
    async with asyncio.timeout(20):
        while not (got := await consumer.poll(max_records=1)):
            pass
    return got
