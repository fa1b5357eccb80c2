"""What nodes really use is asked of Prometheus over HTTP, and told on its topic for the nodes of the pool."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from services.scheduler.adapters.measuring import Ask, Measuring
from services.scheduler.adapters.metrics import Metrics
from services.scheduler.adapters.prometheus import Figures, figures
from services.scheduler.core.configuration import Source
from services.scheduler.core.model import Model
from shared.clock import LoopClock
from shared.errors import Unavailable
from shared.events import contracts as c
from shared.events import topics
from shared.events.codec import decode
from shared.log.memory import MemoryLog
from shared.telemetry.telemetry import Telemetry
from tests.fixtures.prometheus import prometheus
from tests.fixtures.waiting import eventually

NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def test_figures_are_percent_by_instance_as_of_the_time_asked_for() -> None:
    async with prometheus(cpu={"a": "12.3456", "b": "99"}, memory={"a": "7"}) as server:
        assert await figures(Source(server.address), NOW) == ({"a": 12.346, "b": 99.0}, {"a": 7.0})
        assert [one["time"] for one in server.asked] == ["1767225600.000"] * 2
        assert "node_cpu_seconds_total" in server.asked[0]["query"]
        assert "node_memory_MemAvailable_bytes" in server.asked[1]["query"]


async def test_what_is_no_number_is_left_out_and_what_cannot_be_is_cut_off() -> None:
    samples = {"a": "NaN", "b": "+Inf", "c": "-0.2", "d": "100.01"}
    async with prometheus(cpu=samples) as server:
        assert await figures(Source(server.address), NOW) == ({"c": 0.0, "d": 100.0}, {})


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((400, {"status": "error", "errorType": "bad_data", "error": "no such\nthing"}), "answered 400: no such"),
        ((503, "<html>away</html>"), "answered 503: Service Unavailable"),
        ((200, "[]"), "answered 200: OK"),
        ((200, {"status": "success", "data": {"resultType": "matrix", "result": []}}), "instant vector"),
        ((200, {"status": "success", "data": None}), "instant vector"),
        ((200, {"status": "success", "data": {"resultType": "vector"}}), "cannot be read"),
        ((200, {"status": "success", "data": {"resultType": "vector", "result": [3]}}), "cannot be read"),
        (
            (200, {"status": "success", "data": {"resultType": "vector", "result": [{"metric": 1, "value": [0, "1"]}]}}),
            "cannot be read",
        ),
        (
            (200, {"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": []}]}}),
            "cannot be read",
        ),
    ],
)  # fmt: skip
async def test_any_other_answer_is_told_in_a_line(answer: tuple[int, Any], words: str) -> None:
    async with prometheus() as server:
        server.answer = answer
        with pytest.raises(Unavailable, match=words):
            await figures(Source(server.address), NOW)


async def test_an_answer_without_end_is_not_read() -> None:
    async with prometheus() as server:
        server.answer = (200, " " * (33 << 20))
        with pytest.raises(Unavailable, match="answered with more than 32 MB"):
            await figures(Source(server.address), NOW)


async def test_a_server_that_is_not_there_is_told_in_a_line() -> None:
    async with prometheus() as server:
        address = server.address
    with pytest.raises(Unavailable) as caught:
        await figures(Source(address), NOW)
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------------- telling


class Place:
    """A pool's model, a log, and who measures."""

    def __init__(self, *names: str, ask: Ask = figures) -> None:
        self.clock = LoopClock(NOW)
        self.log = MemoryLog(self.clock)
        self.telemetry = Telemetry("scheduler")
        self.telemetry.log.propagate = True
        self.model = Model()
        for name in names:
            self.model.apply_node(c.NodeState(name=name, allocatable={"cpu": 1}))
        self.model.apply_node(c.NodeState(name="other", pool="other", allocatable={"cpu": 1}))
        self.measuring = Measuring(
            "default",
            self.model.nodes,
            clock=self.clock,
            log=self.log,
            ids=lambda: "0" * 32,
            telemetry=self.telemetry,
            metrics=Metrics(self.telemetry.registry),
            ask=ask,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        await self.log.start()
        await self.log.create_topics(topics.SPECS)
        task = asyncio.create_task(self.measuring.run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def told(self) -> list[c.NodesMeasured]:
        reader = await self.log.read([topics.NODE_LOAD])
        found: list[c.NodesMeasured] = []
        while not await reader.caught_up():
            for delivery in await reader.poll(timeout=0.1):
                event = decode(delivery).data
                assert isinstance(event, c.NodesMeasured)
                assert delivery.key == b"default"
                found.append(event)
        await reader.close()
        return found

    def count(self, result: str) -> float:
        labels = {"pool": "default", "result": result}
        value = self.telemetry.registry.get_sample_value("pumice_scheduler_measurements_total", labels)
        return value or 0.0


async def test_the_nodes_of_the_pool_are_told_at_once_and_at_each_interval() -> None:
    place = Place("a", "b")
    samples = {"a": "10", "other": "1", "strange": "1"}
    async with prometheus(cpu=samples, memory={"a": "20"}) as server, place.running():
        place.measuring.follow(Source(server.address, timedelta(seconds=0.2)))
        first = (await eventually(place.told))[0]
        assert (first.cpu, first.memory) == ({"a": 10.0}, {"a": 20.0})
        server.cpu["b"] = "30"

        async def again() -> bool:
            return (await place.told())[-1].cpu == {"a": 10.0, "b": 30.0}

        await eventually(again)


@pytest.mark.looptime
async def test_nobody_is_asked_until_a_source_is_named_nor_when_it_is_taken_away() -> None:
    asked: list[tuple[Source | None, float]] = []

    async def ask(source: Source, at: datetime) -> tuple[Figures, Figures]:
        asked.append((source, (at - NOW).total_seconds()))
        return {"a": 10.0}, {"a": 20.0}

    place = Place("a", ask=ask)
    one, two = (Source(f"http://{name}", timedelta(seconds=30)) for name in ("one", "two"))
    async with place.running():
        for source, seconds in ((None, 1000), (one, 70), (two, 25), (None, 1000)):
            place.measuring.follow(source)
            await asyncio.sleep(seconds)
    times = [(source, round(at)) for source, at in asked]
    assert times == [(one, 1000), (one, 1030), (one, 1060), (two, 1070)]


async def test_a_source_that_is_away_is_said_once_and_asked_again(caplog) -> None:
    place = Place("a")
    async with prometheus(cpu={"a": "10"}, memory={"a": "20"}) as server, place.running():
        server.answer = (503, "away")
        with caplog.at_level(logging.WARNING):
            place.measuring.follow(Source(server.address, timedelta(seconds=0.05)))
            await eventually(lambda: place.count("failed") >= 3)
            assert await place.told() == []
            server.answer = None
            await eventually(place.told)
        told = [record.getMessage() for record in caplog.records]
        assert len(told) == 2
        assert told[0] == (
            f"metrics source {server.address} is away, retrying: answered 503: Service Unavailable"
        )
        assert told[1].startswith(f"metrics source {server.address} is back")


async def test_a_source_that_knows_none_of_the_nodes_is_said_once(caplog) -> None:
    place = Place("a", "b")
    async with prometheus(cpu={"10.0.0.1:9100": "10"}) as server, place.running():
        with caplog.at_level(logging.WARNING):
            place.measuring.follow(Source(server.address, timedelta(seconds=0.05)))
            await eventually(lambda: place.count("done") >= 3)
        [record] = caplog.records
        words = "knows none of the 2 nodes: its label instance has to be a node's name"
        assert record.getMessage() == f"metrics source {server.address} {words}"
