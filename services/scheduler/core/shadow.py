"""Who may use room that is reserved: gangs that end before its gang starts, and those of a higher priority.

They are looked for among the gangs that found no room beside the reservations, lane by lane: only where a
gang would fit if nothing were reserved are the run times of the lane's gangs looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from math import inf
from typing import Final

from services.scheduler.core.gangs import Gang, Key, OrderKey
from services.scheduler.core.lanes import Lane, NoDomain, NoRoom
from services.scheduler.core.model import Model
from services.scheduler.core.reservations import Reserved

_MOST: Final = 1000
"""Gangs of a lane that are looked at in a cycle."""


def in_shadow(model: Model, now: datetime) -> Iterator[tuple[Lane, Gang, tuple[Key, ...]]]:
    """Yield gangs to be tried, in order, each with the gangs whose reservations it may use."""
    marks = list(model.reservations)
    if not marks:
        return
    found: list[tuple[int, OrderKey, Lane, Gang, tuple[Key, ...]]] = []
    for lane in _lanes(model, tuple(mark.key for mark in marks)):
        for key, gang in islice(lane.members(), _MOST):
            usable = usable_by(model, gang, now)
            if usable:
                found.append((-lane.queue.rank, key, lane, gang, usable))
    found.sort(key=lambda item: item[:2])
    for _, _, lane, gang, usable in found:
        yield lane, gang, usable


def usable_by(model: Model, gang: Gang, now: datetime) -> tuple[Key, ...]:
    """Return the gangs whose reservations a gang may use."""
    return tuple(mark.key for mark in model.reservations if _may_use(model, gang, mark, now))


def _lanes(model: Model, keys: tuple[Key, ...]) -> list[Lane]:
    """Return the lanes that lack room, and would not if nothing were reserved."""
    lanes = [
        lane
        for lane in model.waiting.lanes.values()
        if isinstance(lane.stop, NoRoom | NoDomain) and not lane.surplus
    ]
    if not lanes:
        return []
    with model.reservations.lifted(keys):
        return [lane for lane in lanes if lane.has_room(lambda shape: model.index(shape).total)]


def _may_use(model: Model, gang: Gang, mark: Reserved, now: datetime) -> bool:
    """Whether a gang ends before that of a reservation starts, or is of a higher priority."""
    if gang.key == mark.key or _precedes(model, gang, mark):
        return True
    seconds = gang.contract.run_seconds
    if seconds is None and model.policy.backfill.learned:
        learned = model.learned.of(gang.contract)
        seconds = None if learned is None else learned.most
    margin = model.policy.backfill.margin.total_seconds()
    return seconds is not None and now.timestamp() + seconds + margin <= mark.start < inf


def _precedes(model: Model, gang: Gang, mark: Reserved) -> bool:
    """By priority alone, of gangs in one queue or else of queues: nobody else delays who waited for long."""
    queue = model.queues.get(gang.contract.queue)
    if queue is not mark.queue:
        return queue.outranks(mark.queue)
    return gang.contract.priority > model.gangs[mark.key].contract.priority
