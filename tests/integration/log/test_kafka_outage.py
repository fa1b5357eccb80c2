"""Kafka goes away: what waits, what gives up, what is logged, what is left behind."""

# ruff: noqa: PT012 - a transaction is a block, and where in it an error comes is the point
from __future__ import annotations

import asyncio
import gc
import logging
import time
from dataclasses import replace

import pytest

from shared.errors import Fenced, TooLarge, Unavailable
from shared.log.kafka import KafkaLog, KafkaSettings
from shared.log.port import Record, TopicPartition, TopicSpec
from tests.fixtures.logs import read_all, records, values

pytestmark = pytest.mark.kafka

QUICK = KafkaSettings(request_timeout=2.0, close_timeout=2.0, session_timeout=2.0, heartbeat_interval=0.2)


@pytest.fixture
async def broker(kafka_broker):
    """The broker, running again at the end whatever the test did."""
    yield kafka_broker
    if not kafka_broker.running:
        await asyncio.to_thread(kafka_broker.start)


@pytest.fixture
def name(request):
    return f"outage-{abs(hash(request.node.nodeid))}"


async def test_an_unreachable_broker_is_one_line_at_start(caplog):
    log = KafkaLog("127.0.0.1:1", settings=replace(QUICK, start_patience=0.5))
    began = time.monotonic()
    with pytest.raises(Unavailable) as refused:
        await log.start()
    assert time.monotonic() - began < 3
    assert str(refused.value).startswith("kafka at 127.0.0.1:1 did not answer within 0.5 s: ")
    assert "Connect call failed" in str(refused.value)
    assert caplog.records == []
    await log.close()


@pytest.mark.slow
async def test_sends_wait_out_an_outage_longer_than_the_request_timeout_in_order_and_once(
    broker, name, caplog
):
    caplog.set_level(logging.WARNING)
    async with KafkaLog(broker.bootstrap, settings=QUICK) as log:
        await log.create_topics([TopicSpec(name)])
        await log.producer.send_many(records(name, range(3)))
        await asyncio.to_thread(broker.kill)
        sends = []
        for n in range(3, 60):
            sends.append(asyncio.create_task(log.producer.send(Record(name, b"k", f"{n}".encode()))))
            await asyncio.sleep(0.1)  # 5.7 s: nearly three request timeouts
        with pytest.raises(Unavailable):
            await log.ping()
        assert not any(send.done() for send in sends)
        await asyncio.to_thread(broker.start)
        async with asyncio.timeout(30):
            positions = await asyncio.gather(*sends)
        assert [p.offset for p in positions] == list(range(3, 60))
        assert values(await read_all(log, name)) == [str(n) for n in range(60)]
        await log.ping()
        async with asyncio.timeout(5):  # the watch looks once a second
            while "is back" not in caplog.text:  # noqa: ASYNC110 - a log line sets no event
                await asyncio.sleep(0.05)
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2
    assert messages[0] == f"kafka at {broker.bootstrap} is away: waiting for it"
    assert messages[1].startswith(f"kafka at {broker.bootstrap} is back after ")


@pytest.mark.slow
async def test_a_bounded_patience_gives_up_and_a_cancelled_send_ends(broker, name):
    async with KafkaLog(broker.bootstrap, settings=replace(QUICK, patience=1.0)) as log:
        await log.create_topics([TopicSpec(name)])
        await log.producer.send(Record(name, b"k", b"0"))
        await asyncio.to_thread(broker.stop)
        with pytest.raises(Unavailable, match="within 1 s"):
            await log.producer.send(Record(name, b"k", b"1"))
        sending = asyncio.create_task(log.producer.send(Record(name, b"k", b"2")))
        await asyncio.sleep(0.1)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await asyncio.to_thread(broker.start)
        async with asyncio.timeout(20):
            while True:
                try:
                    await log.producer.send(Record(name, b"k", b"3"))
                except Unavailable:
                    continue
                break
        got = values(await read_all(log, name))
    assert (got[0], got[-1]) == ("0", "3")
    assert set(got) <= {"0", "1", "2", "3"}


async def test_closing_while_the_broker_is_away_takes_no_longer_than_its_timeout(broker, name):
    log = KafkaLog(broker.bootstrap, settings=QUICK)
    await log.start()
    await log.create_topics([TopicSpec(name)])
    await log.producer.send(Record(name, b"k", b"0"))
    await log.consume(f"{name}-group", [name])
    await log.read([name])
    producer = await log.transactional(f"{name}-id")
    async with producer.transaction() as transaction:
        await transaction.send(Record(name, b"k", b"1"))
    await asyncio.to_thread(broker.kill)
    sending = asyncio.create_task(log.producer.send(Record(name, b"k", b"2")))
    await asyncio.sleep(0.3)
    began = time.monotonic()
    await log.close()
    assert time.monotonic() - began < 12
    with pytest.raises(Unavailable):
        await asyncio.wait_for(sending, 1)
    gc.collect()
    ours = {asyncio.current_task()}
    left = [task for task in asyncio.all_tasks() - ours if not task.done()]
    await asyncio.sleep(0.5)
    assert [task for task in left if not task.done()] == []


async def test_after_a_commit_of_unknown_outcome_the_id_is_opened_again(broker, name):
    async with KafkaLog(broker.bootstrap, settings=QUICK) as earlier:  # a group's first use may take long
        await earlier.create_topics([TopicSpec(name)])
        await earlier.committed(f"{name}-group", name)
    async with KafkaLog(broker.bootstrap, settings=replace(QUICK, patience=5.0)) as log:
        producer = await log.transactional(f"{name}-id")
        with pytest.raises(Unavailable):
            async with producer.transaction() as transaction:
                await transaction.send(Record(name, b"k", b"unknown"))
                await transaction.commit_offsets(f"{name}-group", {TopicPartition(name, 0): 7})
                await asyncio.to_thread(broker.kill)
        assert not broker.running  # it was the commit that failed, and nothing before
        with pytest.raises(Unavailable):
            async with producer.transaction():
                pass
        await asyncio.to_thread(broker.start)
    async with KafkaLog(broker.bootstrap, settings=QUICK) as later:
        again = await later.transactional(f"{name}-id")
        async with again.transaction() as transaction:
            await transaction.send(Record(name, b"k", b"known"))
        got = values(await read_all(later, name))
        committed = await later.committed(f"{name}-group", name)
    assert got[-1] == "known"
    assert (got == ["unknown", "known"]) == (committed == {TopicPartition(name, 0): 7})
    assert got in (["unknown", "known"], ["known"])


@pytest.mark.slow
async def test_a_transaction_that_outlives_its_timeout_is_aborted_and_its_producer_fenced(broker, name):
    async with KafkaLog(broker.bootstrap, settings=replace(QUICK, transaction_timeout=1.0)) as log:
        await log.create_topics([TopicSpec(name)])
        producer = await log.transactional(f"{name}-id")
        with pytest.raises(Fenced):
            async with producer.transaction() as transaction:
                await transaction.send(Record(name, b"k", b"late"))
                await asyncio.sleep(13)  # the broker looks every ten seconds
        again = await log.transactional(f"{name}-id")
        async with again.transaction() as transaction:
            await transaction.send(Record(name, b"k", b"next"))
        assert values(await read_all(log, name)) == ["next"]


async def test_a_record_over_the_topics_own_limit_is_too_large_and_harms_nobody(broker, name):
    async with KafkaLog(broker.bootstrap, settings=QUICK) as log:
        await log.create_topics([TopicSpec(name, config={"max.message.bytes": "10000"})])
        await log.producer.send(Record(name, b"k", b"0"))
        with pytest.raises(TooLarge):
            await log.producer.send(Record(name, b"k", b"x" * 20_000))
        await log.producer.send(Record(name, b"k", b"1"))
        producer = await log.transactional(f"{name}-id")
        with pytest.raises(TooLarge):
            async with producer.transaction() as transaction:
                await transaction.send(Record(name, b"k", b"never"))
                await transaction.send(Record(name, b"k", b"x" * 20_000))
        with pytest.raises(Unavailable, match="open its transactional id again"):
            async with producer.transaction():
                pass
        again = await log.transactional(f"{name}-id")
        async with again.transaction() as transaction:
            await transaction.send(Record(name, b"k", b"2"))
        assert values(await read_all(log, name)) == ["0", "1", "2"]
