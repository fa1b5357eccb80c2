"""The alarm of a loop that waits for changes and for times."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from shared.clock import Alarm, LoopClock

pytestmark = pytest.mark.looptime


async def _rings(*waits: float) -> float:
    """Return after how many seconds an alarm rings that was asked for all of these waits at once."""
    clock, event = LoopClock(datetime(2026, 1, 1, tzinfo=UTC)), asyncio.Event()
    alarm = Alarm(clock, event)
    begin = clock.monotonic()
    for wait in waits:
        alarm.ring_in(wait)
    await event.wait()
    return clock.monotonic() - begin


@pytest.mark.parametrize("waits", [(2.0,), (2.0, 5.0), (5.0, 2.0)])
async def test_it_rings_at_the_earliest_time_asked_for(waits: tuple[float, ...]):
    assert await _rings(*waits) == pytest.approx(2.0, abs=0.01)


async def test_a_time_that_is_past_rings_soon_and_not_at_once():
    assert 0 < await _rings(-1.0) < 0.01


async def test_it_rings_anew_when_asked_after_it_rang():
    clock, event = LoopClock(datetime(2026, 1, 1, tzinfo=UTC)), asyncio.Event()
    alarm = Alarm(clock, event)
    for expected in (1.0, 4.0):
        alarm.ring_in(expected - clock.monotonic())
        await event.wait()
        event.clear()
        assert clock.monotonic() == pytest.approx(expected, abs=0.01)


async def test_a_stopped_alarm_does_not_ring():
    clock, event = LoopClock(datetime(2026, 1, 1, tzinfo=UTC)), asyncio.Event()
    alarm = Alarm(clock, event)
    alarm.ring_in(1.0)
    alarm.stop()
    await clock.sleep(2.0)
    assert not event.is_set()
