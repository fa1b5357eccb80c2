"""Groups: sharing partitions, committing, handing over."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from shared.log.port import Consumer, Delivery, Record, TopicPartition
from tests.fixtures.logs import records, take, values


async def test_what_was_polled_and_not_committed_is_delivered_again(world, topic, unique):
    first, second = await world.connect(), await world.connect()
    name, group = await topic(1), unique("group")
    await first.producer.send_many(records(name, range(10)))
    consumer = await first.consume(group, [name])
    got = await take(consumer, 10)
    await consumer.commit({got[3].where: got[3].offset + 1})
    await first.close()
    assert values(await take(await second.consume(group, [name]), 6)) == ["4", "5", "6", "7", "8", "9"]


async def test_committed_offsets_are_the_groups_own(log, topic, unique):
    name, group = await topic(2), unique("group")
    await log.producer.send_many([Record(name, None, b"v", partition=1)] * 3)
    consumer = await log.consume(group, [name])
    assert await log.committed(group, name) == {}
    await take(consumer, 3)
    await consumer.commit({TopicPartition(name, 1): 2})
    assert await log.committed(group, name) == {TopicPartition(name, 1): 2}
    assert await log.committed(unique("group"), name) == {}


async def test_a_member_alone_owns_everything_and_its_hook_ran_before(log, topic, unique):
    one, two = await topic(2), await topic(3)
    seen = []

    async def assigned(partitions):
        seen.append(partitions)

    consumer = await log.consume(unique("group"), [one, two], on_assigned=assigned)
    everything = {TopicPartition(one, n) for n in range(2)} | {TopicPartition(two, n) for n in range(3)}
    assert seen == [consumer.assignment] == [everything]


async def test_equal_partitions_of_two_topics_go_to_the_same_member(log, topic, unique):
    one, two, group = await topic(4), await topic(4), unique("group")
    members = [await log.consume(group, [one, two]) for _ in range(2)]
    await _settled(members, 8)
    for member in members:
        numbers = {t: {w.partition for w in member.assignment if w.topic == t} for t in (one, two)}
        assert numbers[one] == numbers[two]
        assert len(numbers[one]) == 2


async def test_a_member_beyond_the_partitions_joins_with_none_and_takes_over(log, topic, unique):
    name, group = await topic(1), unique("group")
    first = await log.consume(group, [name])
    second = await log.consume(group, [name])
    await _settled([first, second], 1)
    owner, spare = (first, second) if first.assignment else (second, first)
    assert spare.assignment == frozenset()
    await owner.close()
    await log.producer.send_many(records(name, ["after"]))
    assert values(await take(spare, 1)) == ["after"]


async def test_the_old_owner_finishes_before_the_new_one_begins(log, topic, unique):
    name, group = await topic(2), unique("group")
    await log.producer.send_many([Record(name, None, f"{n}".encode(), partition=n % 2) for n in range(20)])
    events: list[str] = []
    handled: dict[TopicPartition, int] = {}

    async def revoked(partitions):
        assert partitions == first.assignment
        await asyncio.sleep(0.3)
        await first.commit(handled)
        events.append("finished")

    async def assigned(_partitions):
        events.append("begun")

    first = await log.consume(group, [name], on_revoked=revoked)
    handled |= {d.where: d.offset + 1 for d in await take(first, 20)}
    second = asyncio.create_task(log.consume(group, [name], on_assigned=assigned))
    polling = asyncio.create_task(first.poll(timeout=20))
    member = await asyncio.wait_for(second, 20)
    assert events == ["finished", "begun"]
    polling.cancel()
    assert await member.poll(timeout=1) == []  # the hook's commit counted
    assert await log.committed(group, name) == handled


async def test_a_commit_for_a_lost_partition_is_ignored(log, topic, unique):
    name, group = await topic(2), unique("group")
    await log.producer.send_many([Record(name, None, b"v", partition=n % 2) for n in range(10)])
    first = await log.consume(group, [name])
    await take(first, 10)
    second = await log.consume(group, [name])
    await _settled([first, second], 2)
    await first.commit(dict.fromkeys(first.assignment | second.assignment, 5))
    assert await log.committed(group, name) == dict.fromkeys(first.assignment, 5)


async def test_members_that_come_and_go_lose_nothing(world, topic, unique):
    log = await world.connect()
    name, group = await topic(4), unique("group")
    seen: Counter[str] = Counter()

    async def member(lifetime: float) -> None:
        mine = await world.connect()
        done: dict[TopicPartition, int] = {}

        async def revoked(_partitions):
            await consumer.commit(done)
            done.clear()

        consumer = await mine.consume(group, [name], on_revoked=revoked)
        ends = asyncio.get_running_loop().time() + lifetime
        while asyncio.get_running_loop().time() < ends:
            for delivery in await consumer.poll(max_records=20, timeout=0.1):
                seen[(delivery.value or b"").decode()] += 1
                done[delivery.where] = delivery.offset + 1
            await consumer.commit(done)
        await consumer.close()

    async def sender() -> None:
        for n in range(400):
            await log.producer.send(Record(name, f"{n % 40}".encode(), f"{n}".encode()))
            await asyncio.sleep(0.005)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(sender())
        for lifetime in (1.0, 2.0, 3.0):
            tasks.create_task(member(lifetime))
            await asyncio.sleep(0.5)
    last = await log.consume(group, [name])
    for delivery in await last.poll(timeout=2):
        seen[(delivery.value or b"").decode()] += 1
    async with asyncio.timeout(10):
        while rest := await last.poll(timeout=1):
            seen.update((delivery.value or b"").decode() for delivery in rest)
    assert len(seen) == 400


async def test_a_paused_partition_gives_nothing_until_it_is_resumed(log, topic, unique):
    name = await topic(2)
    consumer = await log.consume(unique("group"), [name])
    one = TopicPartition(name, 1)
    consumer.pause([one])
    await log.producer.send_many([Record(name, None, f"{n}".encode(), partition=n % 2) for n in range(10)])
    got = await take(consumer, 5)
    assert values(got) == ["0", "2", "4", "6", "8"]
    assert await consumer.poll(timeout=0.4) == []
    consumer.resume([one])
    assert values(await take(consumer, 5)) == ["1", "3", "5", "7", "9"]


async def test_seek_reads_again_from_there(log, topic, unique):
    name = await topic(1)
    where = TopicPartition(name, 0)
    await log.producer.send_many(records(name, range(5)))
    consumer = await log.consume(unique("group"), [name])
    assert values(await take(consumer, 5)) == ["0", "1", "2", "3", "4"]
    consumer.seek(where, 2)
    assert values(await take(consumer, 3)) == ["2", "3", "4"]
    consumer.seek(TopicPartition(name, 9), 0)  # not ours: nothing happens
    assert await consumer.poll(timeout=0.2) == []


async def test_an_error_in_a_hook_reaches_its_owner(log, topic, unique):
    async def assigned(_partitions):
        raise ZeroDivisionError

    consumer = await log.consume(unique("group"), [await topic(1)], on_assigned=assigned)
    with pytest.raises(ZeroDivisionError):
        await consumer.poll(timeout=1)


async def test_a_full_partition_does_not_starve_another(log, topic, unique):
    full, rare = await topic(1), await topic(1)
    await log.producer.send_many([Record(full, b"k", b"x" * 2000)] * 2000)
    await log.producer.send_many(records(rare, ["rare"]))
    consumer = await log.consume(unique("group"), [full, rare])
    got: list[Delivery] = []
    async with asyncio.timeout(20):
        while not any(d.topic == rare for d in got):
            got += await consumer.poll(max_records=100)
    assert len(got) < 2000


async def _settled(members: list[Consumer], partitions: int) -> None:
    """Wait until the members share all partitions (their hooks may still be on the way)."""
    async with asyncio.timeout(20):
        while True:
            owned = [where for member in members for where in member.assignment]
            busy = sum(bool(member.assignment) for member in members) == min(len(members), partitions)
            if len(owned) == len(set(owned)) == partitions and busy:
                return
            await asyncio.gather(*(member.poll(max_records=1, timeout=0.05) for member in members))
