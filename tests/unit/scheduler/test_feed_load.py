"""What nodes really use comes by its topic, and goes with its record."""

from __future__ import annotations

import pytest

from services.scheduler.adapters.feed import Feed
from services.scheduler.adapters.publish import measured_record
from services.scheduler.core.cycle import decide
from services.scheduler.core.load import LoadLimit
from services.scheduler.core.model import Model
from services.scheduler.core.policy import Policy
from shared.events import contracts as c
from shared.events import topics
from shared.log.port import Delivery
from shared.telemetry.telemetry import Telemetry
from tests.scenarios.world import START


@pytest.mark.parametrize(("pool", "counts"), [("default", True), ("other", False)])
def test_what_nodes_of_the_pool_use_is_known_until_its_record_is_deleted(pool: str, counts: bool) -> None:
    model = Model(policy=Policy(load_limit=LoadLimit()))
    feed = Feed(model, Telemetry("scheduler"), on_pool=lambda _: None, on_policy=lambda _: None)
    model.apply_node(c.NodeState(name="a", allocatable={"cpu": 1}))
    record = measured_record(c.NodesMeasured(pool=pool, at=START, cpu={"a": 90.0}), "1")
    told = Delivery(record.topic, 0, 0, 0, record.key, record.value, record.headers)
    assert feed.state(told) is counts
    decide(model, START)
    assert model.nodes.load.over.any() == counts
    assert feed.state(Delivery(topics.NODE_LOAD, 0, 1, 0, record.key, None)) is counts
    decide(model, START)
    assert not model.nodes.load.over.any()
