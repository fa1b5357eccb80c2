"""Reads a stretch of the log and makes its decisions again.

The state at the beginning is read from ``cluster-state`` as a scheduler that starts does, up to what the
first cycle had read; from then on each cycle gets what it had read more. Where compaction has taken records
out of the stretch meanwhile, what they said for a while is not known any more, and that is said.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from services.scheduler.adapters.feed import STATE, Feed
from services.scheduler.core.configuration import configure
from services.scheduler.core.cycle import decide
from services.scheduler.core.decisions import Decision
from services.scheduler.core.events import event_of
from services.scheduler.core.model import Model
from services.scheduler.core.policy import Policy
from services.scheduler.core.replay import Difference, differences, withdraw
from services.scheduler.core.results import adopt
from shared.errors import ConfigurationError, ContractError
from shared.events import topics
from shared.events.codec import data_of
from shared.events.contracts import Contract, CycleDecided, GangDecided, GangReady, PolicyState
from shared.log.port import Delivery, EventLog, TopicPartition, up_to_now
from shared.plugins import Maker
from shared.telemetry.telemetry import Telemetry

_LOOK_BACK: Final = 200
"""Announcements of gangs read again at the beginning: their PodGroups' states may come later."""
_INPUTS: Final = (*STATE, topics.BIND_RESULTS, topics.PODGROUP_READY)
"""In this order what a cycle had read is taken in."""


@dataclass(slots=True)
class Stretch:
    """What is on the log about a pool's cycles, by time."""

    pool: str
    cycles: list[CycleDecided]
    decisions: dict[str, GangDecided]
    records: dict[TopicPartition, deque[Delivery]]
    gaps: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class Again:
    """A cycle made again."""

    cycle: CycleDecided
    logged: tuple[GangDecided, ...]
    again: tuple[GangDecided, ...]
    differences: tuple[Difference, ...]
    policy: str
    """Digest of the policy by which it was made again."""


async def read_stretch(log: EventLog, pool: str, since: datetime | None, until: datetime | None) -> Stretch:
    """Read what is needed to make a pool's cycles again, from the first fresh one on.

    Raises ConfigurationError when there is none.
    """
    cycles: list[CycleDecided] = []
    decisions: dict[str, GangDecided] = {}
    async for delivery in _records(log, topics.BIND_DECISIONS, {}):
        event = _event(delivery) if delivery.key == pool.encode() else None
        if isinstance(event, GangDecided):
            decisions[event.decision] = event
        elif isinstance(event, CycleDecided) and not _outside(event.at, since, until):
            cycles.append(event)
    first = next((number for number, cycle in enumerate(cycles) if cycle.fresh), None)
    if first is None:
        raise ConfigurationError(
            f"pool {pool}: none of the {len(cycles)} cycles of this stretch is one to begin a replay with"
        )
    stretch = Stretch(pool, cycles[first:], decisions, {})
    begin = _offsets(stretch.cycles[0])
    for topic in _INPUTS:
        start = {} if topic in STATE else begin
        if topic == topics.PODGROUP_READY:
            start = {where: max(0, offset - _LOOK_BACK) for where, offset in begin.items()}
        async for delivery in _records(log, topic, start):
            stretch.records.setdefault(delivery.where, deque()).append(delivery)
    stretch.gaps += _gaps(stretch, begin)
    return stretch


def replay(
    stretch: Stretch,
    policy: Policy,
    telemetry: Telemetry,
    *,
    fixed: bool,
    own: Mapping[str, Maker] | None = None,
) -> Iterator[Again]:
    """Make the cycles again. ``fixed``: the policy is given, and the log's word does not change it.

    Where a cycle decides otherwise than then, what was decided then is what goes on: each cycle is compared
    in the world as it was.
    """
    model = Model(stretch.pool, policy)
    feed = Feed(
        model,
        telemetry,
        on_pool=lambda _pool: None,
        on_policy=(lambda _state: None) if fixed else _following(model, policy, own),
    )
    _begin(stretch, model, feed)
    for cycle in stretch.cycles:
        _take_in(stretch, cycle, model, feed)
        model.pauses, model.asked = dict(cycle.pauses), cycle.asked
        outcome = decide(model, cycle.at, limit=cycle.limit or None)
        again = tuple(event_of(one, stretch.pool, cycle.cycle, None) for one in outcome.decisions)
        logged = tuple(stretch.decisions[one] for one in cycle.decisions if one in stretch.decisions)
        found = tuple(differences(logged, again))
        if found:
            _go_on(model, outcome.decisions, logged, found, cycle.at)
        yield Again(cycle, logged, again, found, model.policy.digest)


def _begin(stretch: Stretch, model: Model, feed: Feed) -> None:
    """Have the model know what it knew before the first cycle, as a scheduler that starts finds out.

    A gang may have been announced before its PodGroup's state is there. One whose PodGroup is gone is not.
    """
    first = stretch.cycles[0]
    gone: set[tuple[str, str]] = set()
    early: list[Delivery] = []
    for where, end in _offsets(first).items():
        records = stretch.records.get(where)
        while where.topic != topics.BIND_RESULTS and records and records[0].offset < end:
            delivery = records.popleft()
            if where.topic == topics.PODGROUP_READY:
                early.append(delivery)
                continue
            feed.state(delivery)
            if where.topic != topics.CLUSTER_STATE:
                continue
            kind, namespace, name = topics.parse_state_key(delivery.key or b"")
            if kind == "podgroup" and delivery.value is None:
                gone.add((namespace, name))
    for number in first.flying:
        if number in stretch.decisions:
            adopt(model, stretch.decisions[number], first.at)
    for delivery in early:
        event = _event(delivery)
        if isinstance(event, GangReady) and (event.gang.namespace, event.gang.name) not in gone:
            _apply(delivery, model, feed)


def _go_on(
    model: Model,
    made: Sequence[Decision],
    logged: Sequence[GangDecided],
    found: Sequence[Difference],
    now: datetime,
) -> None:
    """Have in flight what was decided then, not what was decided now: that is what the log goes on with."""
    other = {one.gang for one in found}
    for decision in made:
        if f"{decision.namespace}/{decision.name}" in other:
            withdraw(model, decision)
    for event in logged:
        if f"{event.gang.namespace}/{event.gang.name}" in other:
            adopt(model, event, now)


def _following(
    model: Model, base: Policy, own: Mapping[str, Maker] | None
) -> Callable[[PolicyState | None], None]:
    def told(state: PolicyState | None) -> None:
        if state is None:
            model.set_policy(base)
            return
        configured = configure(state.text, base, own)
        if not configured.problems:
            model.set_policy(configured.policy)

    return told


def _take_in(stretch: Stretch, cycle: CycleDecided, model: Model, feed: Feed) -> None:
    """Apply what a cycle had read."""
    for topic in _INPUTS:
        for where, end in _offsets(cycle).items():
            records = stretch.records.get(where)
            while where.topic == topic and records and records[0].offset < end:
                _apply(records.popleft(), model, feed)


def _apply(delivery: Delivery, model: Model, feed: Feed) -> None:
    if delivery.topic in STATE:
        feed.state(delivery)
    elif delivery.topic == topics.BIND_RESULTS:
        feed.result(delivery)
    else:
        event = _event(delivery)
        if isinstance(event, GangReady) and event.gang.pool == model.pool:
            model.gang_ready(event.gang)


def _gaps(stretch: Stretch, begin: Mapping[TopicPartition, int]) -> Iterator[str]:
    """Yield the partitions of the state from which records of the stretch are gone."""
    ends = _offsets(stretch.cycles[-1])
    for where, records in sorted(stretch.records.items()):
        if where.topic not in (topics.CLUSTER_STATE, topics.NODE_LOAD, topics.EXTENDER_ANSWERS):
            continue
        first, last = begin.get(where, 0), ends.get(where, 0)
        there = sum(first <= one.offset < last for one in records)
        if there < last - first:
            gone = last - first - there
            yield f"{where.topic}/{where.partition}: {gone} of {last - first} records are gone"


def _offsets(cycle: CycleDecided) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, partition): offset
        for topic, partitions in cycle.inputs.items()
        for partition, offset in partitions.items()
    }


def _outside(at: datetime, since: datetime | None, until: datetime | None) -> bool:
    return (since is not None and at < since) or (until is not None and at > until)


def _records(log: EventLog, topic: str, start: Mapping[TopicPartition, int]) -> AsyncIterator[Delivery]:
    own = {where: offset for where, offset in start.items() if where.topic == topic}
    return up_to_now(log, [topic], start=own)


def _event(delivery: Delivery) -> Contract | None:
    if delivery.value is None:
        return None
    try:
        return data_of(delivery)
    except ContractError:
        return None
