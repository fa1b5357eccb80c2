"""What a sender did wrong is the sender's to hear; the services go on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from shared.clock import SystemClock
from shared.events.topics import SPECS
from shared.log.kafka import KafkaLog
from tests.fixtures.logs import read_all
from tests.fixtures.platform import gang
from tests.fixtures.services import SERVICES, Services, ended

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]

TOPIC = "job-submitted"
DEAD = 'pumice_admission_consumed_messages_total{outcome="dead-letter",topic="job-submitted"}'


def small(name: str, **changes: Any) -> dict[str, Any]:
    return gang(name, workers=1, gpus=1) | changes


def event(data: object, **attributes: str) -> tuple[bytes, list[tuple[str, bytes]]]:
    given = {
        "specversion": "1.0",
        "id": "bad",
        "source": "/ci",
        "type": "dev.pumice.job.submitted.v1",
    } | attributes
    return json.dumps(data).encode(), [(f"ce_{name}", text.encode()) for name, text in given.items()]


BAD: dict[str, tuple[tuple[bytes | None, list[tuple[str, bytes]]], str]] = {
    "neither-json-nor-yaml": ((b"\x00{{{: not a document", []), "not-json-or-yaml"),
    "a-text": ((b"hello", []), "not-json-or-yaml"),
    "nothing": ((None, []), "no-value"),
    "not-a-job": ((b'{"a": 1}', []), "not-a-job"),
    "bottomless-yaml": ((b"kind: Job\na: &a [*a]\n", []), "too-deep"),
    "unknown-contract-version": (
        event({"job": small("v9")}, type="dev.pumice.job.submitted.v9"),
        "unknown-contract-version",
    ),
    "unknown-event": (event({"job": small("what")}, type="com.example.other.v1"), "unknown-event-type"),
    "another-topics-event": (
        event({"namespace": "default", "name": "a", "action": "AbortJob"}, type="dev.pumice.job.command.v1"),
        "wrong-topic",
    ),
    "event-without-a-job": (event({"submittedBy": "ann"}), "invalid-data"),
    "wrong-api-version": (
        (json.dumps(small("wrong-version", apiVersion="batch.volcano.sh/v9")).encode(), []),
        "not-a-job",
    ),
    "another-kind": (
        (json.dumps(small("a-pod", apiVersion="v1", kind="Pod")).encode(), []),
        "not-a-job",
    ),
}


async def publish(services: Services, topic: str, *records: tuple[bytes | None, Any], key: bytes) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=services.bootstrap)
    await producer.start()
    try:
        for value, headers in records:
            await producer.send_and_wait(topic, value, key=key, headers=list(headers))
    finally:
        await producer.stop()


@pytest.fixture
async def log(services: Services) -> AsyncIterator[KafkaLog]:
    async with KafkaLog(services.bootstrap, clock=SystemClock()) as log:
        yield log


async def dead_letters(services: Services, key: bytes) -> list[Any]:
    consumer = AIOKafkaConsumer(
        f"{TOPIC}.dead-letter", bootstrap_servers=services.bootstrap, auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        batches = await consumer.getmany(timeout_ms=3000)
        return [record for records in batches.values() for record in records if record.key == key]
    finally:
        await consumer.stop()


@pytest.mark.parametrize("kind", BAD)
async def test_what_is_no_job_goes_to_the_dead_letter_topic_with_the_reason_and_the_next_job_runs(
    services: Services, log: KafkaLog, kind: str
):
    record, reason = BAD[kind]
    key, good = f"bad/{kind}".encode(), (json.dumps(small(f"after-{kind}")).encode(), [])
    counted, said = await services.metric("admission", DEAD), len(services.processes["admission"].lines)
    await publish(services, TOPIC, record, good, key=key)  # of one key: the good one is behind the bad one
    async with services.client() as client:
        assert (await ended(client, f"after-{kind}")).phase == "Completed"

    [letter] = await dead_letters(services, key)
    assert letter.value == record[0]  # as it was sent
    notes = {name: value.decode() for name, value in letter.headers if name.startswith("dead_letter_")}
    assert notes["dead_letter_reason"] == reason
    assert notes["dead_letter_message"]
    if kind == "wrong-api-version":
        assert "batch.volcano.sh/v9" in notes["dead_letter_message"]
    assert (notes["dead_letter_service"], notes["dead_letter_topic"]) == ("admission", TOPIC)
    assert [pair for pair in letter.headers if not pair[0].startswith("dead_letter_")] == record[1]

    assert await services.metric("admission", DEAD) == counted + 1
    where = f"{TOPIC}[{notes['dead_letter_partition']}]@{notes['dead_letter_offset']}"
    lines = services.processes["admission"].lines[said:]
    assert len([line for line in lines if where in line and reason in line]) == 1
    committed = await log.committed("admission", TOPIC)
    assert sum(committed.values()) == sum((await log.end_offsets(TOPIC)).values())


FIVE_MISTAKES = {
    "metadata.name",
    "spec.queue",
    "spec.minAvailable",
    "spec.tasks[1].name",
    "spec.policies[0].event",
}


def with_five_mistakes(name: str) -> dict[str, Any]:
    job = gang(name, queue="nowhere")
    job["spec"]["minAvailable"] = 40
    job["spec"]["tasks"][1]["name"] = "master"
    job["spec"]["policies"] = [{"event": "Nonsense", "action": "RestartJob"}]
    return job


async def rejections(log: KafkaLog, name: str) -> list[dict[str, Any]]:
    found = [json.loads(one.value or b"{}") for one in await read_all(log, "job-rejected")]
    return [one for one in found if one.get("name") == name]


async def rejected(services: Services, log: KafkaLog, job: dict[str, Any]) -> dict[str, Any]:
    """Publish a job and return its rejection."""
    await publish(services, TOPIC, (json.dumps(job).encode(), []), key=b"rejected")
    while not (found := await rejections(log, job["metadata"]["name"])):  # noqa: ASYNC110 - of a topic
        await asyncio.sleep(0.1)
    [rejection] = found
    return rejection


async def test_an_invalid_job_on_the_topic_is_rejected_with_every_violation(
    services: Services, log: KafkaLog
):
    rejection = await rejected(services, log, with_five_mistakes("Bad_Topic"))
    paths = {violation["path"] for violation in rejection["violations"]}
    assert paths >= FIVE_MISTAKES
    assert all(violation["code"] and violation["message"] for violation in rejection["violations"])


async def test_an_invalid_job_through_http_is_answered_422_with_every_violation(services: Services):
    async with httpx.AsyncClient(base_url=services.url) as http:
        answer = await http.post("/v1/jobs?wait=admitted", json=with_five_mistakes("Bad_Http"), timeout=30)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert {violation["path"] for violation in answer.json()["violations"]} >= FIVE_MISTAKES


async def test_a_job_for_a_queue_that_does_not_exist_is_rejected(services: Services, log: KafkaLog):
    rejection = await rejected(services, log, gang("lost-topic", queue="nowhere"))
    assert [violation["code"] for violation in rejection["violations"]] == ["queue-not-found"]
    assert "nowhere" in rejection["violations"][0]["message"]
    async with httpx.AsyncClient(base_url=services.url) as http:
        answer = await http.post(
            "/v1/jobs?wait=admitted", json=gang("lost-http", queue="nowhere"), timeout=30
        )
    assert answer.status_code == 422
    assert [violation["code"] for violation in answer.json()["violations"]] == ["queue-not-found"]


@pytest.mark.parametrize("size", [1_100_000, 2_000_000])
async def test_a_job_larger_than_the_brokers_limit_is_answered_413_with_size_and_limit(
    services: Services, size: int
):
    job = small("huge")
    job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["args"] = ["x" * size]
    async with httpx.AsyncClient(base_url=services.url) as http:
        answer = await http.post("/v1/jobs", json=job, timeout=30)
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (413, "too-large")
    assert problem["size"] >= size
    assert 900_000 < problem["limit"] < 1_048_576
    assert str(problem["limit"]) in problem["detail"]


async def test_what_nobody_can_read_on_any_topic_stops_no_service_even_at_its_start(services: Services):
    records = [(b"\xff garbage", []), event({"x": 1}, type="dev.pumice.no.such.thing.v1"), (None, [])]
    for spec in SPECS:
        if not spec.name.endswith(".dead-letter"):
            for key in (b"odd", b"pod/odd/key", b"\xff\xfe"):
                await publish(services, spec.name, *records, key=key)
    for process in services.processes.values():
        await process.kill()
    await services.start()
    async with services.client() as client:
        await client.submit(small("after-garbage"), wait=None)
        assert (await ended(client, "after-garbage")).phase == "Completed"
    for name in SERVICES:
        assert services.processes[name].running
        assert services.processes[name].unclean == []
