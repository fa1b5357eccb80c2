"""How often a producer's requests go out."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from shared.clock import LoopClock
from shared.log.kafka.pace import Pace

pytestmark = pytest.mark.looptime


def a_pace() -> Pace:
    return Pace(LoopClock(datetime(2026, 3, 1, tzinfo=UTC)), interval=0.01, burst=4)


async def times_of(pace: Pace, count: int, *, apart: float) -> list[float]:
    """Return when each of so many requests goes, of callers that come ``apart`` seconds from each other."""
    loop = asyncio.get_running_loop()

    async def one() -> float:
        await pace.turn()
        return round(loop.time(), 4)

    tasks = []
    for _ in range(count):
        tasks.append(asyncio.create_task(one()))
        await asyncio.sleep(apart)
    return await asyncio.gather(*tasks)


async def test_as_many_as_the_burst_go_at_once():
    assert await times_of(a_pace(), 4, apart=0) == [0.0] * 4


async def test_those_that_come_while_one_waits_go_together_with_it_in_their_order():
    pace, gone = a_pace(), []
    await times_of(pace, 4, apart=0)

    async def one(number: int) -> None:
        await pace.turn()
        gone.append((number, round(asyncio.get_running_loop().time(), 4)))

    await asyncio.gather(*(one(number) for number in range(50)))
    assert gone == [(number, 0.01) for number in range(50)]


async def test_a_thousand_a_second_go_in_a_hundred_turns_a_second():
    times = await times_of(a_pace(), 1000, apart=0.001)
    assert 100 <= len(set(times)) <= 106
    assert all(gone - index * 0.001 <= 0.0101 for index, gone in enumerate(times))


async def test_a_few_that_are_an_interval_apart_never_wait():
    times = await times_of(a_pace(), 100, apart=0.01)
    assert times == [round(0.01 * index, 4) for index in range(100)]


async def test_a_caller_who_gives_up_stops_no_other():
    pace = a_pace()
    await times_of(pace, 4, apart=0)
    first, second = (asyncio.create_task(pace.turn()) for _ in range(2))
    await asyncio.sleep(0.001)
    first.cancel()
    await asyncio.wait_for(second, 1)
