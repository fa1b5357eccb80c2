"""Folding a story."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from services.gateway.core.facts import Arrival, Model
from services.gateway.core.readmodel import fold
from tests.fixtures.gateway_story import Said

Folder = Callable[[Iterable[Said]], Model]


def arrivals(said: Iterable[Said]) -> list[Arrival]:
    """Return messages as records of a log with one partition a topic."""
    offsets: dict[str, int] = {}
    found = []
    for message in said:
        offset = offsets.get(message.topic, 0)
        offsets[message.topic] = offset + 1
        found.append(Arrival(message.topic, 0, offset, message.time, message.key, message.envelope))
    return found


@pytest.fixture
def folded() -> Folder:
    def run(said: Iterable[Said]) -> Model:
        model = Model()
        for arrival in arrivals(said):
            fold(model, arrival)
        return model

    return run
