"""Commands to a node pool's scheduler, which any client may write."""

from __future__ import annotations

import json

import pytest

from services.scheduler.adapters.feed import Feed
from services.scheduler.core.cycle import decide
from services.scheduler.core.model import Model
from shared.events import topics
from shared.log.port import Delivery
from shared.telemetry.telemetry import Telemetry
from tests.scenarios.world import START


def told(at: str, *, pool: str = "default", action: str = "defragment", key: str = "default") -> Delivery:
    """A record as a client writes it by hand."""
    event = {
        "specversion": "1.0",
        "id": "1",
        "source": "/me",
        "type": "dev.pumice.pool.command.v1",
        "time": "2026-01-01T00:00:00Z",
        "data": {"pool": pool, "action": action, "at": at},
    }
    return Delivery(topics.POOL_COMMANDS, 0, 0, 0, key.encode(), json.dumps(event).encode())


def feed() -> tuple[Model, Feed]:
    model = Model()
    return model, Feed(model, Telemetry("scheduler"), on_pool=lambda _: None, on_policy=lambda _: None)


def test_a_command_is_taken_in_by_the_pool_that_it_is_for() -> None:
    model, feeds = feed()
    assert feeds.state(told("2026-01-01T00:00:00Z"))
    assert model.asked == START
    assert not feeds.state(told("2026-01-02T00:00:00Z", pool="other", key="other"))
    assert model.asked == START


@pytest.mark.parametrize("at", ["2026-01-01T00:00:00", "soon", ""])
def test_a_command_without_a_time_of_a_zone_is_left_out(at: str) -> None:
    model, feeds = feed()
    assert not feeds.state(told(at))
    assert model.asked is None


@pytest.mark.parametrize("at", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"])
def test_a_command_of_any_time_can_be_decided_about(at: str) -> None:
    model, feeds = feed()
    assert feeds.state(told(at))
    assert decide(model, START).decisions == []
    assert model.asked is None


def test_a_command_that_nobody_knows_is_left_out() -> None:
    model, feeds = feed()
    assert not feeds.state(told("2026-01-01T00:00:00Z", action="dance"))
    assert model.asked is None
