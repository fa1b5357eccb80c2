"""The gaps of aiokafka that the Kafka adapter closes, each by itself."""

from __future__ import annotations

import asyncio
import gc
import logging
from types import SimpleNamespace

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    NodeNotReadyError,
    ProducerFenced,
)
from aiokafka.producer.message_accumulator import BatchBuilder, MessageBatch
from aiokafka.producer.transaction_manager import TransactionManager

from shared.clock import SystemClock
from shared.log.core.state import Limits
from shared.log.kafka.admin import topic_config
from shared.log.kafka.aio import see_every_failure, survive_lookups
from shared.log.kafka.outage import Outage
from shared.log.kafka.settings import KafkaSettings
from shared.log.port import Cleanup, TopicSpec


@pytest.mark.parametrize(
    ("raised", "seen"),
    [
        (KafkaConnectionError, NodeNotReadyError),
        (GroupAuthorizationFailedError, GroupAuthorizationFailedError),
    ],
)
async def test_a_connection_that_breaks_during_a_lookup_is_passing_and_a_refusal_is_not(raised, seen):
    async def lookup(*_):
        raise raised("broken")

    producer = SimpleNamespace(client=SimpleNamespace(coordinator_lookup=lookup))
    survive_lookups(producer)
    with pytest.raises(seen):
        await producer.client.coordinator_lookup(0, "group")


async def test_a_fenced_producer_leaves_no_exception_that_nobody_saw():
    """Whoever was cancelled while its offsets or records were on their way does not wait for them any more."""
    see_every_failure()
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    manager = TransactionManager("id", 1000)
    manager.set_pid_and_epoch(1, 0)
    manager.begin_transaction()
    manager.add_offsets_to_txn({}, "group")
    batch = MessageBatch(TopicPartition("t", 0), BatchBuilder(1000, 0, is_transactional=1), 1, 0)
    manager.fatal_error(ProducerFenced())
    batch.failure(ProducerFenced())
    await asyncio.sleep(0)
    del manager, batch
    gc.collect()
    assert reported == []


async def test_symptoms_of_an_outage_are_dropped_and_the_rest_is_kept(caplog):
    async def ping():
        return None

    outage = Outage("here", SystemClock(), ping, 1.0)
    client, fetcher = logging.getLogger("aiokafka"), logging.getLogger("aiokafka.consumer.fetcher")
    outage.install()
    try:
        client.error("Unable connect to node with id %s: %s", 1, "refused")
        fetcher.error("Failed fetch messages from %s: %s", 1, "gone")
        fetcher.warning("Not authorized to read from topic %s.", "t")
        with caplog.at_level(logging.DEBUG, "aiokafka"):
            client.error("Unable connect to node with id %s: %s", 2, "said in full at DEBUG")
    finally:
        await outage.close()
    fetcher.error("Failed fetch messages from %s: %s", 3, "not ours any more")
    assert [record.getMessage() for record in caplog.records] == [
        "Not authorized to read from topic t.",
        "Unable connect to node with id 2: said in full at DEBUG",
        "Failed fetch messages from 3: not ours any more",
    ]


def test_a_specs_own_settings_have_the_last_word():
    spec = TopicSpec("t", cleanup=Cleanup.COMPACT, config={"segment.ms": "1", "cleanup.policy": "delete"})
    config = topic_config(spec)
    assert (config["segment.ms"], config["cleanup.policy"]) == ("1", "delete")


def test_both_kinds_of_log_refuse_the_same_records():
    assert Limits().record_bytes == KafkaSettings().record_bytes < 1_048_588
