"""When a dependency counts as away and as back: said once each, however unevenly it answers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime

import pytest

from shared.clock import LoopClock
from shared.errors import Unavailable
from shared.liveness import ANSWERS, watch
from shared.service import Health
from shared.telemetry.logs import Outage

pytestmark = pytest.mark.looptime

PAUSE, PATIENCE = 2.0, 5.0


class NotedHealth(Health):
    """Notes each change with its time."""

    def __init__(self, clock: LoopClock) -> None:
        super().__init__()
        self.clock = clock
        self.changes: list[tuple[float, bool]] = []

    def waits(self, part: str, reason: str) -> None:
        super().waits(part, reason)
        self.note()

    def ok(self, part: str) -> None:
        super().ok(part)
        self.note()

    def note(self) -> None:
        if not self.changes or self.changes[-1][1] is not self.ready:
            self.changes.append((self.clock.monotonic(), self.ready))


class Watched:
    """What is watched: it answers as ``answer`` says."""

    def __init__(self, answer: Callable[[float], bool]) -> None:
        self.clock = LoopClock(datetime(2026, 1, 1, tzinfo=UTC))
        self.answer = answer
        self.health = NotedHealth(self.clock)
        self.asked = 0

    async def ping(self) -> None:
        self.asked += 1
        if not self.answer(self.clock.monotonic()):
            raise Unavailable("refused")

    async def run(self, seconds: float, outage: Outage | None = None) -> list[tuple[float, bool]]:
        await self.watch(self.ping, seconds, outage)
        return self.health.changes

    async def watch(self, ping: Callable[[], Awaitable[None]], seconds: float, outage: Outage | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await watch(
                    ping,
                    part="it",
                    health=self.health,
                    clock=self.clock,
                    pause=PAUSE,
                    patience=PATIENCE,
                    outage=outage,
                )


async def test_what_does_not_answer_at_first_is_away_at_once():
    assert await Watched(lambda _: False).run(0.1) == [(0, False)]


async def test_one_failure_alone_says_nothing():
    changes = await Watched(lambda now: not 3.9 < now < 4.1).run(60)
    assert [ready for _, ready in changes] == [True]


async def test_an_outage_is_noticed_and_its_end_within_two_pauses():
    changes = await Watched(lambda now: not 9.5 < now < 21).run(60)
    assert [ready for _, ready in changes] == [True, False, True]
    (_, away), (_, back) = (changes[1][::-1], changes[2][::-1])
    assert 9.5 < away < 9.5 + 2 * PAUSE
    assert 21 < back < 21 + 2 * PAUSE + 0.1


@pytest.mark.parametrize("seed", range(5))
async def test_what_fails_half_the_time_is_away_and_not_back_with_each_answer(seed, caplog):
    dice = random.Random(seed)
    watched = Watched(lambda now: now >= 600 or dice.random() < 0.5)
    outage = Outage("it", caplog_logger(caplog), watched.clock)
    changes = await watched.run(660, outage)
    assert changes[-1][1] is True, "well again, it is back"
    assert sum(not ready for _, ready in changes) <= 3
    assert watched.asked > 200
    lines = [record.getMessage() for record in caplog.records]
    assert [line.split(" ")[2].strip(",") for line in lines] == ["away", "back"] * (len(lines) // 2)
    assert len(lines) <= 6


async def test_what_fails_one_time_in_fifty_is_not_away():
    count = 0

    def answer(_: float) -> bool:
        nonlocal count
        count += 1
        return count % 50 > 0

    changes = await Watched(answer).run(2000)
    assert [ready for _, ready in changes] == [True]


async def test_no_answer_is_a_failure_when_patience_ends():
    watched = Watched(lambda _: True)

    async def hang() -> None:
        await asyncio.sleep(3600)

    await watched.watch(hang, PATIENCE + 1, None)
    assert watched.health.reasons == {"it": "no answer within 5 s"}


async def test_in_doubt_it_is_asked_more_often_and_no_longer_than_a_pause():
    watched = Watched(lambda now: now > 5)
    changes = await watched.run(60)
    assert changes[-1][0] == pytest.approx(6 + PAUSE * (ANSWERS - 1) / ANSWERS, abs=0.02)


def caplog_logger(caplog: pytest.LogCaptureFixture):
    import logging

    caplog.set_level(logging.WARNING)
    return logging.getLogger("pumice.test")
