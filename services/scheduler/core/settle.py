"""Before a cycle: find out what changed, and which waiting gangs that concerns."""

from __future__ import annotations

from datetime import datetime

from services.scheduler.core.decisions import Decision
from services.scheduler.core.gangs import Gang
from services.scheduler.core.model import Model
from services.scheduler.core.results import expire
from services.scheduler.core.waiting import ANY_GROWTH


def settle(model: Model, now: datetime) -> list[Decision]:
    """Bring lanes up to date; return decisions to be sent again because no result came."""
    resend = [
        decision
        for flight in model.flights.timers.due(now.timestamp())
        if (decision := expire(model, flight, now))
    ]
    for gang in model.retries.due(now.timestamp()):
        if model.gangs.get(gang.key) is gang:
            model.dirty[gang] = None
    for gang in list(model.dirty):
        _assess(model, gang, now)
    model.dirty.clear()
    _wake(model, now)
    return resend


def _assess(model: Model, gang: Gang, now: datetime) -> None:
    """Put a gang where it belongs: in a lane, waiting for members or another try, or nowhere."""
    waiting = model.waiting
    waiting.leave(gang)
    model.unplaced.pop(gang, None)
    needs = gang.needs = gang.assess()
    gang.order = gang.order_key()
    if gang.contract.pool != model.pool:
        model.set_wanted(gang, {})
        return
    wanted: dict[int, int] = {}
    for pick in (*needs.must, *needs.more):
        for column, amount in pick.shape.amounts:
            wanted[column] = wanted.get(column, 0) + amount * len(pick.members)
    model.set_wanted(gang, wanted)
    if needs.short:
        if needs.must or needs.more or needs.gated or not gang.started:
            model.unplaced[gang] = None
        return
    if not (needs.must or needs.more):
        return
    model.unplaced[gang] = None
    if gang.not_before is not None and gang.not_before > now:
        model.retries.add(gang.not_before.timestamp(), gang)
        return
    waiting.enter(gang)


def _wake(model: Model, now: datetime) -> None:
    """Wake the lanes for which something grew."""
    waiting = model.waiting
    waiting.wake_due(now)
    if model.queues.freed:
        freed = set(model.queues.freed)
        model.queues.freed.clear()
        waiting.wake_queues(freed)
    if model.queues.changed:
        changed = set(model.queues.changed)
        model.queues.changed.clear()
        waiting.wake_lanes_of(changed)
    _wake_capacity(model)
    if model.nodes.grown:
        model.nodes.grown.clear()
        _wake_room(model)


def _wake_capacity(model: Model) -> None:
    """With other nodes, other gangs could ever fit, and so hold their place: try such lanes anew."""
    if model.capacity_seen == model.nodes.capacity_version:
        return
    model.capacity_seen = model.nodes.capacity_version
    for lanes in list(model.waiting.by_room.values()):
        for lane in list(lanes):
            model.waiting.wake(lane)


def _wake_room(model: Model) -> None:
    """Wake lanes for whose shape enough fits now."""
    waiting = model.waiting
    for number in sorted(waiting.by_room):
        if not waiting.by_room[number]:
            del waiting.by_room[number]
            continue
        if number == ANY_GROWTH:
            for lane in list(waiting.by_room[number]):
                waiting.wake(lane)
            continue
        fits = model.index(model.shapes.by_number[number]).total
        for lane in list(waiting.by_room.get(number, ())):
            if fits >= max(1, lane.counts[number]):
                waiting.wake(lane)
