"""Usage of queues comes by its topic, and goes with its record."""

from __future__ import annotations

from services.scheduler.adapters.feed import Feed
from services.scheduler.core.model import Model
from shared.events import contracts as c
from shared.events import topics
from shared.events.codec import encode
from shared.events.envelope import Envelope
from shared.log.port import Delivery
from shared.telemetry.telemetry import Telemetry
from tests.scenarios.world import START


def test_what_a_queue_used_is_known_until_its_record_is_deleted() -> None:
    model = Model()
    feed = Feed(model, Telemetry("scheduler"), on_pool=lambda _: None, on_policy=lambda _: None)
    usage = c.QueueUsage(queue="team", gpu_seconds=60, half_life_seconds=3600, as_of=START)
    envelope = Envelope(id="1", source="usage", time=START, data=usage)
    record = encode(topics.QUEUE_USAGE, b"team", envelope)
    told = Delivery(record.topic, 0, 0, 0, record.key, record.value, record.headers)
    assert feed.state(told)
    assert model.queues.usage.levels() == {"team": 60}
    assert feed.state(Delivery(topics.QUEUE_USAGE, 0, 1, 0, b"team", None))
    assert model.queues.usage.levels() == {}
