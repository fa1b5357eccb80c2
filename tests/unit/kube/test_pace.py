"""Back-off and the token bucket, in virtual time."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime

import pytest

from shared.clock import LoopClock
from shared.kube.pace import Backoff, Throttle


def test_waits_double_up_to_the_longest_and_at_most_half_is_chance():
    rng = random.Random(7)
    backoff = Backoff(first=0.1, longest=5.0)
    for attempt in range(40):
        whole = min(5.0, 0.1 * 2**attempt)
        assert whole / 2 <= backoff.seconds(attempt, rng) <= whole


@pytest.mark.looptime
async def test_a_burst_goes_at_once_and_the_rest_at_the_rate():
    throttle = Throttle(10, 5, LoopClock(datetime(2026, 1, 1, tzinfo=UTC)))
    loop = asyncio.get_running_loop()
    await asyncio.sleep(100)
    start = loop.time()
    times = []
    for _ in range(25):
        await throttle.take()
        times.append(round(loop.time() - start, 3))
    assert times[:5] == [0.0] * 5
    assert times[5:] == [round(0.1 * n, 3) for n in range(1, 21)]


@pytest.mark.looptime
async def test_without_a_rate_nothing_waits():
    throttle = Throttle(None, 1, LoopClock(datetime(2026, 1, 1, tzinfo=UTC)))
    start = asyncio.get_running_loop().time()
    for _ in range(1000):
        await throttle.take()
    assert asyncio.get_running_loop().time() == start
