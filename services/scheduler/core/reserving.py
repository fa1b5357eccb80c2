"""Reserving room for the first gang of a queue that has waited for too long: where it starts the soonest.

A reservation is a decision without bindings and victims. It stands for a while and is worked out anew then;
its nodes stay the same unless the gang would start clearly sooner on others. It ends when its gang is
placed, needs something else or is gone, when one of a higher priority is late in its queue, and when its
nodes go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from math import isfinite
from typing import Final

from services.scheduler.core.decisions import Decision
from services.scheduler.core.displace import begin, kept_rows
from services.scheduler.core.gangs import Gang, OrderKey
from services.scheduler.core.lanes import Behind, Lane
from services.scheduler.core.layout import in_parts
from services.scheduler.core.model import Model
from services.scheduler.core.reservations import Reserved
from services.scheduler.core.results import keep_room
from services.scheduler.core.settle import could_ever_fit
from services.scheduler.core.shapes import Shape, amounts_of
from services.scheduler.core.starts import Ends, Start, lands_alone

_CLEARLY: Final = 0.9
"""Other nodes have to cut the rest of the wait to this part."""
_MOST_PLACES: Final = 5000
"""Nodes of a reservation, by shape: a record of the log is made for so many."""


def reserve(model: Model, now: datetime) -> list[Decision]:
    """Reserve room for those who are to have some, and no longer for others."""
    if not model.waiting.late and not len(model.reservations):
        return []
    wanted = dict(_wanted(model))
    for mark in model.reservations:
        gang = model.gangs[mark.key]
        if gang not in wanted:
            _end(model, gang)
    decisions: list[Decision] = []
    for gang, lane in wanted.items():
        old = model.reservations.of(gang.key)
        if old is not None and renewal(model, old) > now.timestamp():
            continue
        decision = _reserve(model, gang, lane, old, now)
        if decision is not None:
            decisions.append(decision)
            model.waiting.wake(lane)
    return decisions


def renewal(model: Model, mark: Reserved) -> float:
    """Return when a reservation is worked out anew (POSIX seconds)."""
    return mark.until - model.policy.backfill.lasts.total_seconds() / 2


def next_renewal(model: Model) -> float | None:
    """Return when the first reservation is worked out anew (POSIX seconds)."""
    return min((renewal(model, mark) for mark in model.reservations), default=None)


def _wanted(model: Model) -> Iterable[tuple[Gang, Lane]]:
    """Yield the gangs that should have a reservation: the first of each queue, of all the longest waiting.

    Those that have one come first.
    """
    policy = model.policy.backfill
    found = list(_late(model)) if policy.enabled else []
    found.sort(key=lambda item: (item[0].contract.queue, *_turn(model, item[0])))
    first: list[tuple[Gang, Lane]] = []
    count, queue = 0, ""
    for gang, lane in found:
        if gang.contract.queue != queue:
            count, queue = 0, gang.contract.queue
        if count < policy.per_queue and _could_start(model, gang, lane):
            count += 1
            first.append((gang, lane))
    first.sort(
        key=lambda item: (
            model.reservations.of(item[0].key) is None,
            item[0].contract.ready_since,
            item[0].key,
        )
    )
    yield from first[: policy.in_all]


def _late(model: Model) -> Iterable[tuple[Gang, Lane]]:
    """Return the heads of late lanes, and who has a reservation in them or behind others.

    What a reservation keeps may be what another gang then lacks and holds, so that the reserved one comes
    behind it: to end it for that would bring back what it was made for, and so on for ever.
    """
    late = model.waiting.late
    gangs = {gang: lane for lane in late if (head := lane.head()) is not None for gang in head[1:]}
    for mark in model.reservations:
        gang = model.gangs[mark.key]
        lane = gang.lane
        if lane is not None and (lane in late or isinstance(lane.stop, Behind)):
            gangs[gang] = lane
    return gangs.items()


def _could_start(model: Model, gang: Gang, lane: Lane) -> bool:
    """Whether a gang starts when others have ended, and it can be worked out when."""
    return lane.is_foreseeable and could_ever_fit(model, lane) and lands_alone(model, gang, lane)


def _turn(model: Model, gang: Gang) -> tuple[int, bool, OrderKey]:
    """Return a gang's place: who has a reservation keeps it unless one of a higher priority needs it."""
    return -gang.contract.priority, model.reservations.of(gang.key) is None, gang.order


def _reserve(model: Model, gang: Gang, lane: Lane, old: Reserved | None, now: datetime) -> Decision | None:
    """Reserve room for a gang, or keep it for longer."""
    start = _start(model, gang, lane, old, now)
    if start is None or not _may_have(model, lane, start):
        _end(model, gang)
        return None
    decision = begin(model, gang, now, enqueue=False)
    until = now + model.policy.backfill.lasts
    starts = datetime.fromtimestamp(start.at, UTC) if isfinite(start.at) else None
    needs = gang.needs
    parts = [[*needs.must, *needs.more]] if lane.layout is None else in_parts(lane.layout, needs.must)
    decision.reservations = tuple(
        row.model_copy(update={"as_freed": True, "starts": starts})
        for picks, places in zip(parts, start.parts, strict=True)
        for row in kept_rows(model, gang, picks, places, until)
    )
    keep_room(model, gang, decision)
    return decision


def _may_have(model: Model, lane: Lane, start: Start) -> bool:
    """Whether a gang may have what it starts with: it fits into a record, and into its queue's quota.

    Others found no room because their quota is enough; where members can be chosen it depends on which.
    """
    if sum(len(slots) for _, slots, _ in start.places) > _MOST_PLACES:
        return False
    if lane.choice is None:
        return True
    counts: Counter[Shape] = Counter()
    for shape, _, some in start.places:
        counts[shape] += sum(some)
    return model.queues.over(lane.queue, amounts_of(counts)) is None


def _end(model: Model, gang: Gang) -> None:
    """Reserve nothing for a gang any more: what it holds, while it waits, depends on that."""
    if model.reservations.drop(gang.key) is not None and gang.lane is not None:
        model.waiting.wake(gang.lane)


def _start(model: Model, gang: Gang, lane: Lane, old: Reserved | None, now: datetime) -> Start | None:
    """Return where a gang starts the soonest: where it is to start already unless that is clearly later."""
    ends = Ends(model, now, gang, lane)
    there = None if old is None else ends.on(old)
    if there is None:
        return ends.soonest()
    moment = now.timestamp()
    return ends.soonest(before=moment + _CLEARLY * (there.at - moment)) or there
