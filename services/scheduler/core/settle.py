"""Before a cycle: find out what changed, and which waiting gangs that concerns."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import numpy as np

from services.scheduler.core import near
from services.scheduler.core.choice import Choice, choice_of, choose
from services.scheduler.core.decisions import Decision
from services.scheduler.core.gangs import Gang, Pick
from services.scheduler.core.groups import assess
from services.scheduler.core.lanes import Lane, NoDomain, NoEntry, NoRoom
from services.scheduler.core.layout import Layout, layout_of
from services.scheduler.core.model import Model
from services.scheduler.core.reservations import Reserved
from services.scheduler.core.results import expire, expire_evicting
from services.scheduler.core.twice import recount


def follow(model: Model) -> None:
    """Wake lanes that would stop at something else, or fit, after what was placed or taken away."""
    if model.queues.charged:
        charged, model.queues.charged = model.queues.charged, set()
        model.waiting.wake_where_quota_ran_out(charged)
    if model.nodes.moved:
        moved, model.nodes.moved = model.nodes.moved, set()
        if model.waiting.by_use:
            _wake_used(model, moved)


def could_ever_fit(model: Model, lane: Lane) -> bool:
    """Whether empty nodes and queues would hold a gang; an upper bound: its shapes are not placed."""
    if not model.queues.allows(lane.queue, lane.taking, model.nodes.totals()):
        return False
    if not lane.has_room(lambda shape: model.index(shape).potential()):
        return False
    if lane.choice is not None or lane.layout is None:
        return True
    return near.shortage(model, lane.layout, near.ever) is None


def settle(model: Model, now: datetime) -> list[Decision]:
    """Bring lanes up to date; return decisions to be sent again because no result came."""
    model.queues.refresh()
    model.sort_lots()
    resend = [
        decision
        for flight in model.flights.timers.due(now.timestamp())
        if (decision := expire(model, flight, now))
    ]
    resend += [
        decision
        for evicting in model.evictions.timers.due(now.timestamp())
        if (decision := expire_evicting(model, evicting, now))
    ]
    _end_earmarks(model, now)
    for gang in model.retries.due(now.timestamp()):
        if model.gangs.get(gang.key) is gang:
            model.dirty[gang] = None
    if model.capacity_seen != model.nodes.capacity_version:
        model.dirty.update(dict.fromkeys(gang for gang in model.unplaced if gang.share))
    recount(model)
    for gang in list(model.dirty):
        assign(model, gang, now)
    model.dirty.clear()
    _end_reservations(model, now)
    model.reservations.refresh()
    _wake(model, now)
    return resend


def _end_earmarks(model: Model, now: datetime) -> None:
    """Keep no room any more for those who did not come in time, or on nodes that do not take them now."""
    over = model.earmarks.due(now.timestamp())
    if model.capacity_seen != model.nodes.capacity_version:
        over += [mark for mark in model.earmarks if not model.earmarks.is_possible(mark)]
    for mark in over:
        model.earmarks.drop(mark.key)
        gang = model.gangs.get(mark.key)
        if gang is not None:
            model.dirty[gang] = None


def _end_reservations(model: Model, now: datetime) -> None:
    """Reserve nothing any more whose time is over, or on nodes that do not take the gang now."""
    changed = model.capacity_seen != model.nodes.capacity_version
    for mark in model.reservations:
        over = mark.until <= now.timestamp() or not model.policy.backfill.enabled
        if over or (changed and not _takes(model, mark)):
            model.reservations.drop(mark.key)
            assign(model, model.gangs[mark.key], now)


def _takes(model: Model, mark: Reserved) -> bool:
    """Whether reserved nodes still take the gang, and are as near to each other as it asks."""
    layout = arrangement_of(model, model.gangs[mark.key])[0]
    near_enough = layout is None or near.holds(model, layout, mark.by_group())
    return near_enough and model.earmarks.is_possible(mark)


def _keeps_earmark(model: Model, gang: Gang) -> bool:
    """Whether a gang waits for its room; what is kept for something else is dropped.

    One that moves waits as long as none of its pods stays where it is.
    """
    reserved = model.reservations.of(gang.key)
    if reserved is not None and (gang.needs.short or not reserved.suits(gang)):
        model.reservations.drop(gang.key)
    mark = model.earmarks.of(gang.key)
    if mark is None:
        return False
    waits = not any(map(model.stays, mark.victims)) if mark.moves else not gang.needs.short
    if not waits or not mark.suits(gang):
        model.earmarks.drop(gang.key)
        return False
    if not mark.moves and choice_of(gang) is not None:
        choose(gang, {shape: sum(counts) for shape, _, counts in mark.places})
    return True


def arrangement_of(model: Model, gang: Gang) -> tuple[Layout | None, Choice | None]:
    """Return how what a gang needs must be placed, and what its minimum may be made of."""
    needs = gang.needs
    return layout_of(gang, needs.must or needs.more, model.places_of), choice_of(gang)


def assign(model: Model, gang: Gang, now: datetime) -> None:
    """Put a gang where it belongs: in a lane, waiting for members or another try, or nowhere."""
    waiting = model.waiting
    waiting.leave(gang)
    model.unplaced.pop(gang, None)
    needs = gang.needs = assess(gang)
    gang.order = model.order_key(gang)
    model.promises.note(gang)
    if gang.contract.pool != model.pool:
        model.earmarks.drop(gang.key)
        model.reservations.drop(gang.key)
        model.set_wanted(gang, ())
        return
    earmarked = _keeps_earmark(model, gang)
    model.set_wanted(gang, _wanted(model, gang, earmarked=earmarked))
    if needs.short:
        if needs.must or needs.more or needs.gated or not gang.started:
            model.unplaced[gang] = None
        return
    if not (needs.must or needs.more):
        return
    model.unplaced[gang] = None
    if earmarked:
        return
    if gang.held is not None:
        model.set_wanted(gang, ())
        return
    if gang.not_before is not None and gang.not_before > now:
        model.retries.add(gang.not_before.timestamp(), gang)
        return
    waiting.enter(gang, *arrangement_of(model, gang))


def _wanted(model: Model, gang: Gang, *, earmarked: bool) -> Iterable[Pick]:
    """Return the members that a gang asks for and for which no room is kept."""
    needs = gang.needs
    mark = model.earmarks.of(gang.key) if earmarked else None
    if mark is None:
        return (*needs.must, *needs.more)
    return () if mark.moves else needs.more


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
    _wake_entering(model)
    follow(model)
    if model.nodes.grown:
        model.nodes.grown.clear()
        _wake_room(model)
        _wake_reserved(model)


def _wake_capacity(model: Model) -> None:
    """With other nodes, other gangs could ever fit, and so hold their place: try such lanes anew."""
    if model.capacity_seen == model.nodes.capacity_version:
        return
    model.capacity_seen = model.nodes.capacity_version
    waiting = model.waiting
    for lanes in (*waiting.by_room.values(), *waiting.by_use.values()):
        for lane in list(lanes):
            waiting.wake(lane)
    for lanes in waiting.by_quota.values():
        for lane in list(lanes):
            if lane.holding is None or not could_ever_fit(model, lane):
                waiting.wake(lane)


def _wake_entering(model: Model) -> None:
    """Wake lanes that may begin now, or are kept from it by something else."""
    for lane in list(model.waiting.by_entry):
        head = lane.head()
        with model.reservations.lifted(() if head is None else (head[1].key,)):
            stop = model.promises.obstacle(lane)
        if stop != lane.stop:
            model.waiting.wake(lane)


def _wake_room(model: Model) -> None:
    """Wake lanes for whose shape enough fits now."""
    waiting = model.waiting
    for number in sorted(waiting.by_room):
        if not waiting.by_room[number]:
            del waiting.by_room[number]
            continue
        fits = model.index(model.shapes.by_number[number]).total
        for lane in list(waiting.by_room.get(number, ())):
            if fits >= max(1, lane.counts[number]):
                waiting.wake(lane)


def _wake_reserved(model: Model) -> None:
    """Wake lanes whose head has room that nobody else sees."""
    for mark in model.reservations:
        gang = model.gangs.get(mark.key)
        lane = None if gang is None else gang.lane
        if lane is not None and isinstance(lane.stop, NoRoom | NoDomain | NoEntry):
            model.waiting.wake(lane)


def _wake_used(model: Model, moved: set[int]) -> None:
    """Wake lanes whose stop may depend on the use of the nodes given."""
    waiting = model.waiting
    slots = np.fromiter(moved, np.intp, len(moved))
    for number in sorted(waiting.by_use):
        lanes = waiting.by_use[number]
        if not lanes:
            del waiting.by_use[number]
            continue
        shape = model.shapes.by_number[number]
        shape.rules.refresh()
        if shape.between is None and not shape.rules.allowed[slots].any():
            continue
        for lane in list(lanes):
            stop = lane.stop
            several = isinstance(stop, NoDomain) or (isinstance(stop, NoRoom) and stop.together)
            among = len(lane.shapes) > 1 or shape.between is not None
            several = several or (isinstance(stop, NoEntry) and among)
            several = several or lane.choice is not None or bool(shape.leaves)
            if several or model.index(shape).total < lane.counts[number]:
                waiting.wake(lane)
