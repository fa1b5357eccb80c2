"""Making cycles again: what a cycle had read, whether it can be the first of a replay, and what differs.

A model depends on what it was told, not on when or in which order, so that a cycle is made again from the
same records, the same ``now``, the same limit and the same policy. A replay begins with a *fresh* cycle: one
that a scheduler started at that moment would have made, too. What is not on the log (gangs put off after a
failure) must not be there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from services.scheduler.core.decisions import Decision
from services.scheduler.core.model import Model
from shared.events.contracts import GangDecided
from shared.log.port import TopicPartition

_MOST_FLYING: Final = 200
"""Decisions in flight at the beginning of a replay: their ids are in the cycle's record."""
_NOT_COMPARED: Final = frozenset({"cycle", "cycle_traceparent", "policy"})


@dataclass(slots=True)
class Inputs:
    """Up to where each partition has been taken in."""

    _next: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])

    def begin(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Note where reading begins."""
        self._next.update(offsets)

    def took(self, where: TopicPartition, offset: int) -> None:
        """Note a record."""
        self._next[where] = offset + 1

    def read(self) -> dict[str, dict[int, int]]:
        """Return the offsets by topic and partition."""
        found: dict[str, dict[int, int]] = {}
        for where, offset in sorted(self._next.items()):
            found.setdefault(where.topic, {})[where.partition] = offset
        return found


def is_fresh(model: Model) -> bool:
    """Whether all that a model knows can be read from the log, in few records."""
    few = len(model.flights) <= _MOST_FLYING
    return few and not (
        len(model.earmarks)
        or len(model.reservations)
        or model.retries.heap
        or any(gang.held for gang in model.unplaced)
    )


def content(event: GangDecided) -> object:
    """Return what a decision says, without what tells cycles apart."""
    return event.model_dump(exclude=set(_NOT_COMPARED))


@dataclass(frozen=True, slots=True)
class Difference:
    """A decision that was made on one side alone, or otherwise."""

    gang: str
    logged: GangDecided | None
    again: GangDecided | None


def differences(logged: Sequence[GangDecided], again: Sequence[GangDecided]) -> list[Difference]:
    """Return what differs between two cycles' decisions, gang by gang."""
    before = {f"{one.gang.namespace}/{one.gang.name}": one for one in logged}
    after = {f"{one.gang.namespace}/{one.gang.name}": one for one in again}
    found: list[Difference] = []
    for name in {**before, **after}:
        old, new = before.get(name), after.get(name)
        if old is None or new is None or content(old) != content(new):
            found.append(Difference(name, old, new))
    return found


def withdraw(model: Model, decision: Decision) -> None:
    """Take back a decision that will not be said, as if it had not been made."""
    key = (decision.namespace, decision.name)
    gang = model.gangs.get(key)
    model.earmarks.drop(key)
    model.reservations.drop(key)
    flight = model.flights.by_number.get(decision.number)
    if flight is not None:
        for name in model.flights.drop(flight, list(flight.pods)):
            if gang is not None:
                model.show(gang, name)
    if gang is not None:
        gang.enqueued = gang.enqueued and not decision.enqueue
        model.dirty[gang] = None
