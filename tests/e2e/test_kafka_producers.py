"""Jobs published on job-submitted by anybody: each form runs to its end, none runs twice."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiokafka import AIOKafkaProducer

from shared.api.resources import JOBS
from tests.fixtures.platform import gang
from tests.fixtures.services import Services, ended

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]

TOPIC = "job-submitted"
Headers = Sequence[tuple[str, bytes]]


async def publish(services: Services, *records: tuple[bytes, Headers]) -> None:
    """Publish as any program would that knows nothing of us but the topic."""
    producer = AIOKafkaProducer(bootstrap_servers=services.bootstrap)
    await producer.start()
    try:
        for value, headers in records:
            await producer.send_and_wait(TOPIC, value, headers=list(headers))
    finally:
        await producer.stop()


def small(name: str) -> dict[str, Any]:
    return gang(name, workers=1, gpus=1)


def binary(name: str, event: str) -> tuple[bytes, Headers]:
    attributes = {"specversion": "1.0", "id": event, "source": "/ci", "type": "dev.pumice.job.submitted.v1"}
    headers = [(f"ce_{key}", text.encode()) for key, text in attributes.items()]
    return json.dumps({"job": small(name)}).encode(), [*headers, ("content-type", b"application/json")]


def structured(name: str, event: str) -> tuple[bytes, Headers]:
    content = {
        "specversion": "1.0",
        "id": event,
        "source": "/ci",
        "type": "dev.pumice.job.submitted.v1",
        "datacontenttype": "application/json",
        "data": {"job": small(name), "submittedBy": "ann"},
    }
    return json.dumps(content).encode(), [("content-type", b"application/cloudevents+json; charset=utf-8")]


FORMS: dict[str, tuple[bytes, Headers]] = {
    "binary": binary("form-binary", "event-1"),
    "structured": structured("form-structured", "event-2"),
    "bare-json": (json.dumps(small("form-bare-json")).encode(), []),
    "bare-yaml": (yaml.safe_dump(small("form-bare-yaml")).encode(), []),
}


@pytest.mark.parametrize("form", FORMS)
async def test_a_job_published_by_a_plain_producer_runs_to_its_end(services: Services, form: str):
    await publish(services, FORMS[form])
    async with services.client() as client:
        job = await ended(client, f"form-{form}")
    assert (job.phase, job.pods.succeeded) == ("Completed", 2)


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not on the PATH")
async def test_a_job_published_by_kcat_runs_to_its_end(services: Services, tmp_path: Path):
    manifest = tmp_path / "job.yaml"
    manifest.write_text(yaml.safe_dump(small("form-kcat")))
    subprocess.run(  # noqa: ASYNC221 - short
        ["kcat", "-P", "-b", services.bootstrap, "-t", TOPIC, "-k", "default/form-kcat", str(manifest)],
        check=True,
        timeout=30,
    )
    async with services.client() as client:
        assert (await ended(client, "form-kcat")).phase == "Completed"


async def test_a_message_that_comes_twice_makes_one_job(services: Services):
    repeated = 'pumice_admission_total{outcome="repeated"}'
    before = await services.metric("admission", repeated)
    once = binary("twice", "event-twice")
    await publish(services, once, once)
    async with services.client() as client, services.cluster() as cluster:
        assert (await ended(client, "twice")).phase == "Completed"
        uid = (await cluster.get(JOBS, "default", "twice"))["metadata"]["uid"]
        await publish(services, once)  # and once more, long after
        await publish(services, binary("twice-later", "event-twice-later"))
        assert (await ended(client, "twice-later")).phase == "Completed"
        assert (await cluster.get(JOBS, "default", "twice"))["metadata"]["uid"] == uid
        shown = await client.get("twice")
    assert (shown.phase, shown.pods.succeeded) == ("Completed", 2)
    assert await services.metric("admission", repeated) == before + 2


async def test_another_message_with_the_same_job_is_rejected_and_the_first_job_goes_on(services: Services):
    text = json.dumps(small("same-name")).encode()
    rejected = 'pumice_admission_total{outcome="rejected"}'
    before = await services.metric("admission", rejected)
    await publish(services, (text, []), (text, []))
    async with services.client() as client, services.cluster() as cluster:
        assert (await ended(client, "same-name")).phase == "Completed"
        jobs = [one["metadata"]["name"] for one in (await cluster.list(JOBS)).items]
        assert jobs.count("same-name") == 1
    assert await services.metric("admission", rejected) == before + 1
