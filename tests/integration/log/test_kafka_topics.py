"""What the adapter asks of Kafka, and what others put into it."""

from __future__ import annotations

import asyncio
import shutil
import subprocess

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from shared.errors import ConfigurationError
from shared.events.topics import SPECS
from shared.log.kafka import KafkaLog
from shared.log.port import Cleanup, TopicSpec
from tests.fixtures.logs import take

pytestmark = pytest.mark.kafka


@pytest.fixture
async def log(kafka_broker):
    async with KafkaLog(kafka_broker.bootstrap) as opened:
        yield opened


async def test_topics_are_created_with_their_settings(log, kafka_broker):
    await log.create_topics(
        [
            TopicSpec("settings-kept", 2),
            TopicSpec("settings-retained", 3, retention_ms=3_600_000),
            TopicSpec("settings-compacted", 1, Cleanup.COMPACT, config={"segment.ms": "1000"}),
            TopicSpec("settings-both", 1, Cleanup.COMPACT, retention_ms=60_000),
        ]
    )
    kept = await _config(kafka_broker, "settings-kept")
    assert (kept["cleanup.policy"], kept["retention.ms"]) == ("delete", "-1")
    retained = await _config(kafka_broker, "settings-retained")
    assert (retained["cleanup.policy"], retained["retention.ms"]) == ("delete", "3600000")
    compacted = await _config(kafka_broker, "settings-compacted")
    assert (compacted["cleanup.policy"], compacted["segment.ms"]) == ("compact", "1000")
    assert compacted["min.cleanable.dirty.ratio"] == "0.2"
    both = await _config(kafka_broker, "settings-both")
    assert (sorted(both["cleanup.policy"].split(",")), both["retention.ms"]) == (
        ["compact", "delete"],
        "60000",
    )
    assert [await log.partitions(f"settings-{name}") for name in ("kept", "retained")] == [2, 3]


async def test_the_brokers_refusal_of_a_topic_names_it(log):
    with pytest.raises(ConfigurationError, match="settings-wrong"):
        await log.create_topics([TopicSpec("settings-wrong", config={"cleanup.policy": "nonsense"})])


async def test_every_topic_of_ours_can_be_created(log):
    await log.create_topics(SPECS)
    for spec in SPECS:
        assert await log.partitions(spec.name) == spec.partitions


async def test_a_record_by_kcat_arrives_with_key_value_and_headers(log, kafka_broker):
    kcat = shutil.which("kcat") or shutil.which("kafkacat")
    if kcat is None:
        pytest.skip("kcat is missing")
    await log.create_topics([TopicSpec("from-kcat", 3)])
    command = [kcat, "-P", "-b", kafka_broker.bootstrap, "-t", "from-kcat", "-K", "\t"]
    headers = ["-H", "ce_id=1", "-H", "content-type=application/json", "-H", "ce_id=2", "-H", "nothing"]
    sent = b'team/train\t{"kind": "Job"}\nteam/empty\t\n'
    ran = await asyncio.to_thread(subprocess.run, [*command, "-Z", *headers], input=sent, capture_output=True)
    assert ran.returncode == 0, ran.stderr
    got = {d.key: d for d in await take(await log.read(["from-kcat"]), 2)}
    job = got[b"team/train"]
    assert job.value == b'{"kind": "Job"}'
    assert job.headers == (
        ("ce_id", b"1"),
        ("content-type", b"application/json"),
        ("ce_id", b"2"),
        ("nothing", b""),
    )
    assert got[b"team/empty"].value is None  # -Z: an empty value is a tombstone


async def _config(broker, topic: str) -> dict[str, str]:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await admin.start()
    (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    await admin.close()
    return {entry[0]: entry[1] for entry in answer.resources[0][4]}
