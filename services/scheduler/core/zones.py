"""Zones of nodes that take pods during some hours, and only such as may be evicted: Volcano's ``tdm``.

A node is of the zone that its label names. While a zone is open, pods that may be evicted run there rather
than elsewhere; when it has closed they are evicted (``clearing``). The hours are of each day, in UTC. If they
end before they begin they go on past midnight (in Volcano they are over then).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

import numpy as np

from services.scheduler.core.columns import SlotArray
from services.scheduler.core.gangs import Gang, Member
from services.scheduler.core.model import Model
from services.scheduler.core.policy import Window, Zones
from shared.api.names import REVOCABLE_ZONE

_DAY: Final = timedelta(days=1)


def open_zones(zones: Zones, now: datetime) -> frozenset[str]:
    """Return the zones that are open."""
    minute = now.hour * 60 + now.minute
    return frozenset(one.zone for one in zones.windows if _has(one, minute))


def next_change(zones: Zones, now: datetime) -> datetime | None:
    """Return when a zone opens or closes next."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    times = [
        midnight + timedelta(minutes=minute) for one in zones.windows for minute in (one.begins, one.ends)
    ]
    return min((time if time > now else time + _DAY for time in times), default=None)


def _has(window: Window, minute: int) -> bool:
    if window.begins < window.ends:
        return window.begins <= minute < window.ends
    return minute >= window.begins or minute < window.ends


def keep_hours(model: Model, now: datetime) -> None:
    """Open and close zones as the time is; without zones there is nothing to do."""
    zones = model.policy.zones
    model.nodes.open(None if zones is None else open_zones(zones, now))


def in_zones(model: Model, rows: SlotArray, zones: Iterable[str] | None = None) -> SlotArray:
    """Return those of the pods that are on nodes of some zones, None: of any."""
    among: frozenset[str | None] = frozenset(zones or ())
    column = model.nodes.label(REVOCABLE_ZONE)
    table = np.array([bool(value) and (zones is None or value in among) for value in column.values], np.bool_)
    return rows[table[column.codes[model.victims.slot[rows]]]]


def within_budget(model: Model, gang: Gang, rows: Iterable[int]) -> list[int]:
    """Return as many of a gang's pods as may leave it now: the least important ones."""
    victims = model.victims
    found: list[tuple[int, int, int, int]] = []
    for row in rows:
        at = gang.position(victims.keys[row][1])
        if at is not None:
            found.append((victims.priority.item(row), -at[0], -at[1], row))
    return [row for *_, row in sorted(found)[: may_leave(gang)]]


def may_leave(gang: Gang) -> int:
    """Return how many of a gang's pods may leave it now; of one without a budget it is one at a time."""
    budget = gang.contract.budget
    running = sum(pod.phase == "Running" and not pod.leaving for pod in gang.pods.values())
    if budget is not None and budget.max_unavailable is not None:
        done = sum(task.states.count(Member.DONE) for task in gang.tasks)
        away = sum(len(task.names) for task in gang.tasks) - done - running
        return max(0, budget.max_unavailable - away)
    if budget is not None and budget.min_available is not None:
        return max(0, running - budget.min_available)
    return 1
