"""The gateway as a server: live streams, a port, an absent log, its end."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import httpx
import pytest

from services.gateway.adapters.server import listen
from services.gateway.app import Gateway, build
from services.gateway.settings import GatewaySettings
from shared.clock import SystemClock
from shared.errors import StartupError, Unavailable
from shared.events import topics
from shared.events.codec import encode
from shared.log.memory import MemoryLog
from shared.log.port import Delivery, Position, Reader, Record, Start, TopicPartition
from shared.telemetry.telemetry import Telemetry
from tests.fixtures.gateway_story import Said, Story

SHORT = {"name": "train", "image": "pytorch"}


class _ProducerAway:
    """A producer that answers according to its log's mood."""

    def __init__(self, log: MoodyLog) -> None:
        self._log = log

    async def send(self, record: Record) -> Position:
        await self._log.mood()
        return await MemoryLog.producer.fget(self._log).send(record)  # type: ignore[attr-defined]

    async def send_many(self, records: Sequence[Record]) -> list[Position]:
        return [await self.send(record) for record in records]


class _ReaderAway:
    """A reader that answers according to its log's mood."""

    def __init__(self, log: MoodyLog, reader: Reader) -> None:
        self._log = log
        self._reader = reader

    async def poll(self, *, max_records: int = 500, timeout: float = 1.0) -> list[Delivery]:
        await self._log.mood()
        return await self._reader.poll(max_records=max_records, timeout=min(timeout, 0.02))

    async def caught_up(self) -> bool:
        return await self._reader.caught_up()

    async def close(self) -> None:
        await self._reader.close()


class MoodyLog(MemoryLog):
    """A log that can be away (errors at once) or mute (never answers)."""

    away = False
    mute = False

    async def mood(self) -> None:
        if self.away:
            raise Unavailable("broker at 127.0.0.1:9092 is away")
        if self.mute:
            await asyncio.Event().wait()

    @property
    def producer(self) -> _ProducerAway:  # type: ignore[override]
        return _ProducerAway(self)

    async def read(
        self, topics: Sequence[str], *, start: Start | Mapping[TopicPartition, int] = Start.EARLIEST
    ) -> _ReaderAway:  # type: ignore[override]
        await self.mood()
        return _ReaderAway(self, await super().read(topics, start=start))

    async def ping(self) -> None:
        await self.mood()


@pytest.fixture
async def log() -> AsyncIterator[MoodyLog]:
    log = MoodyLog(SystemClock())
    await log.start()
    await log.create_topics(topics.SPECS)
    yield log
    await log.close()


@asynccontextmanager
async def running(log: MemoryLog, **settings: object) -> AsyncIterator[tuple[Gateway, httpx.AsyncClient]]:
    """Run a gateway on a free port."""
    numbers = itertools.count(1)
    gateway = build(
        GatewaySettings(**{"port": 0, "ping_pause": 0.02, **settings}),
        clock=SystemClock(),
        log=log,
        ids=lambda: f"id-{next(numbers)}",
        telemetry=Telemetry("gateway"),
    )
    task = asyncio.create_task(gateway.run())
    try:
        async with asyncio.timeout(10):
            while not gateway.listening:  # noqa: ASYNC110 - looks from outside
                await asyncio.sleep(0.005)
        async with httpx.AsyncClient(base_url=gateway.url, timeout=10) as http:
            yield gateway, http
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def ready(http: httpx.AsyncClient, expected: int = 200) -> dict:
    async with asyncio.timeout(10):
        while (answer := await http.get("/readyz")).status_code != expected:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return answer.json()


async def say(log: MemoryLog, *said: Said) -> None:
    for message in said:
        record = Record(message.topic, message.key, None)
        if message.envelope is not None:
            record = encode(message.topic, message.key, message.envelope)
        await log.producer.send(record)


async def frames(answer: httpx.Response) -> AsyncIterator[dict[str, str]]:
    """Yield the frames of a stream; a comment is ``{"": text}``."""
    frame: dict[str, str] = {}
    async for line in answer.aiter_lines():
        if not line:
            yield frame
            frame = {}
            continue
        name, _, value = line.partition(": ")
        frame[name] = value


async def test_a_stream_tells_what_happens_as_it_happens_and_ends_with_the_job(log: MoodyLog) -> None:
    story = Story().born()
    await say(log, *story.said)
    async with running(log) as (_, http):
        await ready(http)
        async with http.stream("GET", "/v1/jobs/default/train/events") as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            stream = frames(answer)
            first = [(await anext(stream)).get("event") for _ in range(4)]
            assert first == [None, "submitted", "admitted", "phase"]
            await say(log, story.report(0.5))
            assert (await anext(stream))["event"] == "report"
            await say(log, story.phase("Running", 2))
            assert json.loads((await anext(stream))["data"])["data"]["phase"] == "Running"
            await say(log, story.phase("Completed", 3, previous="Running"))
            rest = [frame async for frame in stream]
        assert [frame["event"] for frame in rest] == ["phase", "end"]
        assert json.loads(rest[-1]["data"]) == {"phase": "Completed"}


async def test_a_stream_that_follows_goes_on_with_the_names_next_job(log: MoodyLog) -> None:
    await say(log, *Story().finished().said)
    async with running(log, heartbeat=0.05) as (_, http):
        await ready(http)
        async with http.stream("GET", "/v1/jobs/default/train/events?follow=true") as answer:
            stream = frames(answer)
            seen = [await anext(stream) for _ in range(10)]
            assert "end" not in [frame.get("event") for frame in seen]
            assert await anext(stream) == {"": "heartbeat"}
            again = Story(uid="u-2", submission="s-2", base=100)
            gone = Story()
            gone.gone(50)
            await say(log, *gone.said, again.submitted())
            frame = {"": "heartbeat"}
            while frame == {"": "heartbeat"}:
                frame = await anext(stream)
            assert frame["event"] == "submitted"


async def test_the_gateway_stops_though_streams_and_waits_are_open(log: MoodyLog) -> None:
    await say(log, *Story().born().said)
    async with asyncio.timeout(8):
        async with httpx.AsyncClient(timeout=10) as patient:
            async with running(log) as (gateway, http):
                await ready(http)
                url = gateway.url
                waiting = asyncio.create_task(
                    patient.post(f"{url}/v1/jobs?wait=finished&timeout=1h", json=SHORT)
                )
                request = patient.build_request("GET", f"{url}/v1/jobs/default/train/events")
                answer = await patient.send(request, stream=True)
                stream = frames(answer)
                await anext(stream)
                await asyncio.sleep(0.1)
            assert (await waiting).status_code == 202
            assert [frame["event"] async for frame in stream] == ["submitted", "admitted", "phase"]


async def test_a_client_that_hangs_up_ends_its_wait(log: MoodyLog) -> None:
    async with running(log) as (gateway, http):
        await ready(http)
        with pytest.raises(httpx.ReadTimeout):
            await http.post("/v1/jobs?wait=finished&timeout=1h", json=SHORT, timeout=0.2)
        async with asyncio.timeout(5):
            while gateway._context.watchers._waiting:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


async def test_while_the_log_is_away_the_gateway_says_so_and_answers_503(
    log: MoodyLog, caplog: pytest.LogCaptureFixture
) -> None:
    await say(log, *Story().placed().said)
    async with running(log) as (_, http):
        await ready(http)
        log.away = True
        state = await ready(http, 503)
        assert "127.0.0.1:9092" in state["waiting"]["log"]
        refused = await http.post("/v1/jobs", json=SHORT)
        command = await http.delete("/v1/jobs/default/train")
        known = await http.get("/v1/jobs/default/train")
        alive = await http.get("/healthz")
        log.away = False
        await ready(http)
        accepted = await http.post("/v1/jobs", json=SHORT)
    assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
    assert int(refused.headers["retry-after"]) > 0
    assert command.status_code == 503
    assert (known.status_code, known.json()["phase"], alive.status_code) == (200, "Running", 200)
    assert accepted.status_code == 202
    messages = [record.getMessage() for record in caplog.records if record.name == "pumice.gateway"]
    assert [text for text in messages if "away" in text] == []  # the log's adapter says it


async def test_a_log_that_does_not_answer_is_not_waited_for_for_ever(log: MoodyLog) -> None:
    async with running(log, log_patience=0.1) as (_, http):
        await ready(http)
        log.mute = True
        answer = await http.post("/v1/jobs", json=SHORT)
    assert answer.status_code == 503
    assert "not known" in answer.json()["detail"]


async def test_before_the_topics_are_read_nothing_is_said_not_to_exist(log: MoodyLog) -> None:
    await say(log, *Story().placed().said)
    log.away = True
    async with running(log, log_patience=0.1) as (_, http):
        state = await ready(http, 503)
        assert "read-model" in state["waiting"]
        assert (await http.get("/v1/jobs/default/train")).status_code == 503
        keyed = await http.post("/v1/jobs", json=SHORT, headers={"Idempotency-Key": "k"})
        assert keyed.status_code == 503
        log.away = False
        await ready(http)
        assert (await http.get("/v1/jobs/default/train")).json()["phase"] == "Running"


async def test_a_port_in_use_is_one_line_that_names_it(log: MoodyLog) -> None:
    taken = listen("127.0.0.1", 0)
    port = taken.getsockname()[1]
    gateway = build(
        GatewaySettings(port=port),
        clock=SystemClock(),
        log=log,
        ids=lambda: "x",
        telemetry=Telemetry("gateway"),
    )
    with pytest.raises(StartupError, match=f"127.0.0.1:{port}") as caught:
        await gateway.run()
    taken.close()
    assert "\n" not in str(caught.value)


async def test_an_idle_connection_is_kept_longer_than_clients_keep_it_and_closed_after_its_time(
    log: MoodyLog,
) -> None:
    """A server that closes as early as its clients do meets requests on their way: they fail for nothing."""
    expiry = httpx.Limits().keepalive_expiry
    assert expiry is not None
    assert GatewaySettings().keep_alive > 2 * expiry
    async with running(log, keep_alive=1.0) as (gateway, _):
        reader, writer = await asyncio.open_connection(*gateway.url.removeprefix("http://").split(":"))
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        async with asyncio.timeout(10):
            await reader.read()
        writer.close()
