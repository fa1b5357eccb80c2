"""Appending and reading: order, keys, headers, sizes, positions."""

from __future__ import annotations

import asyncio

import pytest

from shared.errors import NotFound, TooLarge, Unavailable
from shared.log.core.partitioner import partition_for
from shared.log.port import Record, Start, TopicPartition, TopicSpec
from tests.fixtures.logs import read_all, records, take, values


async def test_records_of_one_key_keep_their_order_and_partition(log, topic):
    name = await topic(4)
    for turn in range(20):
        await log.producer.send_many(
            [Record(name, f"job-{job}".encode(), f"{turn}".encode()) for job in range(8)]
        )
    got = await read_all(log, name)
    for job in range(8):
        mine = [d for d in got if d.key == f"job-{job}".encode()]
        assert values(mine) == [str(turn) for turn in range(20)]
        assert {d.partition for d in mine} == {partition_for(f"job-{job}".encode(), 4)}


async def test_records_without_a_key_reach_a_reader_too(log, topic):
    name = await topic(3)
    await log.producer.send_many(records(name, range(9), key=None))
    assert sorted(values(await read_all(log, name))) == [str(n) for n in range(9)]


async def test_a_record_comes_back_as_it_was_sent(log, topic):
    name = await topic(2)
    headers = (("traceparent", b"00-abc"), ("empty", b""), ("traceparent", b"again"), ("ümlaut", b"\x00\xff"))
    position = await log.producer.send(Record(name, b"\x00key", b"\x00\xff", headers, partition=1))
    (got,) = await read_all(log, name)
    assert (got.key, got.value, got.headers) == (b"\x00key", b"\x00\xff", headers)
    assert (got.topic, got.partition, got.offset) == position
    assert got.where == TopicPartition(name, 1)
    assert got.timestamp_ms > 1_700_000_000_000


async def test_concurrent_senders_get_distinct_positions_and_lose_nothing(log, topic):
    name = await topic(2)

    async def sender(who: int) -> list[tuple[str, int, int]]:
        return [await log.producer.send(Record(name, f"{who}".encode(), f"{n}".encode())) for n in range(30)]

    positions = [p for sent in await asyncio.gather(*(sender(w) for w in range(6))) for p in sent]
    assert len(set(positions)) == 180
    got = await read_all(log, name)
    for who in range(6):
        assert values(d for d in got if d.key == f"{who}".encode()) == [str(n) for n in range(30)]


async def test_a_record_over_the_limit_is_refused_with_sizes_and_harms_nobody(log, topic):
    name = await topic()
    with pytest.raises(TooLarge) as refused:
        await log.producer.send(Record(name, b"k", b"x" * 1_000_001))
    assert refused.value.size == 1_000_002
    assert refused.value.limit == 1_000_000
    await log.producer.send(Record(name, b"k", b"y" * 999_999))
    assert [len(d.value or b"") for d in await read_all(log, name)] == [999_999]


async def test_a_topic_may_take_larger_records_than_the_log(log, unique):
    large, small = unique("large"), unique("small")
    await log.create_topics([TopicSpec(large, record_bytes=7_500_000), TopicSpec(small)])
    with pytest.raises(TooLarge) as refused:
        await log.producer.send(Record(large, b"k", b"x" * 7_500_000))
    assert refused.value.limit == 7_500_000
    with pytest.raises(TooLarge):
        await log.producer.send(Record(small, b"k", b"x" * 1_000_000))
    producer = await log.transactional(unique("id"))
    async with producer.transaction() as transaction:
        await transaction.send(Record(large, b"k", b"y" * 7_499_999))
    await log.producer.send(Record(large, b"k", b"z" * 7_499_999))
    assert [(d.value or b"")[:1] for d in await read_all(log, large)] == [b"y", b"z"]


async def test_a_topic_that_was_never_created_is_not_found(log, unique):
    name = unique("nowhere")
    with pytest.raises(NotFound):
        await log.producer.send(Record(name, b"k", b"v"))
    with pytest.raises(NotFound):
        await log.partitions(name)
    with pytest.raises(NotFound):
        await log.end_offsets(name)
    with pytest.raises(NotFound):
        await log.consume(unique("group"), [name])
    with pytest.raises(NotFound):
        await log.read([name])
    async with (await log.transactional(unique("id"))).transaction() as transaction:
        with pytest.raises(NotFound):
            await transaction.send(Record(name, b"k", b"v"))


async def test_creating_an_existing_topic_leaves_it_as_it_is(log, topic):
    name = await topic(2)
    await log.producer.send(Record(name, b"k", b"v"))
    await asyncio.gather(*(log.create_topics([TopicSpec(name, partitions=7)]) for _ in range(3)))
    assert await log.partitions(name) == 2
    assert len(await read_all(log, name)) == 1


async def test_a_reader_can_start_at_the_end_or_at_given_offsets(log, topic):
    name = await topic(1)
    await log.producer.send_many(records(name, range(10)))
    latest = await log.read([name], start=Start.LATEST)
    given = await log.read([name], start={TopicPartition(name, 0): 7})
    assert await latest.caught_up()
    assert values(await take(given, 3)) == ["7", "8", "9"]
    assert await given.caught_up()
    await log.producer.send_many(records(name, ["new"]))
    assert values(await take(latest, 1)) == ["new"]


async def test_a_reader_of_an_empty_topic_has_caught_up(log, topic):
    reader = await log.read([await topic(3)])
    assert await reader.caught_up()
    assert await reader.poll(timeout=0.05) == []


async def test_end_offsets_count_what_is_visible(log, topic):
    name = await topic(2)
    assert await log.end_offsets(name) == {TopicPartition(name, 0): 0, TopicPartition(name, 1): 0}
    await log.producer.send_many([Record(name, None, b"v", partition=1)] * 5)
    assert await log.end_offsets(name) == {TopicPartition(name, 0): 0, TopicPartition(name, 1): 5}


async def test_a_limit_on_records_leaves_the_rest_for_the_next_poll(log, topic):
    name = await topic(1)
    await log.producer.send_many(records(name, range(10)))
    reader = await log.read([name])
    got = []
    async with asyncio.timeout(20):
        while len(got) < 10:
            batch = await reader.poll(max_records=3)
            assert len(batch) <= 3
            got += batch
    assert values(got) == [str(n) for n in range(10)]


async def test_cancelling_a_poll_loses_no_record(log, topic):
    name = await topic(2)
    reader = await log.read([name])
    got = []
    sending = asyncio.create_task(
        log.producer.send_many([Record(name, f"{n}".encode(), f"{n}".encode()) for n in range(200)])
    )
    async with asyncio.timeout(30):
        while len(got) < 200:
            polling = asyncio.create_task(reader.poll(max_records=7))
            await asyncio.wait([polling], timeout=0.002)
            polling.cancel()
            await asyncio.wait([polling])
            got += [] if polling.cancelled() else polling.result()
    await sending
    assert sorted(map(int, values(got))) == list(range(200))


async def test_closing_ends_a_waiting_poll_and_refuses_later_ones(log, topic, unique):
    name = await topic(1)
    for source in (await log.consume(unique("group"), [name]), await log.read([name])):
        polling = asyncio.create_task(source.poll(timeout=30))
        await asyncio.sleep(0.1)
        await source.close()
        await source.close()
        assert await asyncio.wait_for(polling, 5) == []
        with pytest.raises(Unavailable):
            await source.poll()


async def test_a_closed_log_says_so(log):
    await log.ping()
    await log.close()
    await log.close()
    with pytest.raises(Unavailable):
        await log.ping()
    with pytest.raises(Unavailable):
        await log.read(["t"])
