"""Clearing zones that are closed: whoever may be evicted goes, in rounds, as many of each gang as it allows.

Nobody asks for the room, so each such decision is about the gang whose pods leave. As with others that evict,
their controller makes the pods anew, and they wait for room elsewhere.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import numpy as np

from services.scheduler.core.bundles import Bundle, by_gang
from services.scheduler.core.claims import Budgets
from services.scheduler.core.columns import SlotArray
from services.scheduler.core.decisions import Decision
from services.scheduler.core.displace import begin
from services.scheduler.core.gangs import Gang
from services.scheduler.core.model import Model
from services.scheduler.core.results import launch_evictions
from services.scheduler.core.zones import in_zones, next_change, within_budget
from shared.api.names import REVOCABLE_ZONE
from shared.events.contracts import Eviction

_WORK: Final = "clear"
"""Its name among the work that pauses."""


def clear(model: Model, now: datetime) -> tuple[list[Decision], datetime | None]:
    """Decide who leaves the zones that are closed; say when to look again."""
    zones = model.policy.zones
    if zones is None:
        return [], None
    change = next_change(zones, now)
    if not zones.evicts:
        return [], change
    rows = _in_closed(model, {one.zone for one in zones.windows})
    if not rows.size:
        return [], change
    due = model.pauses.get(_WORK, now)
    if due > now:
        return [], due if change is None else min(due, change)
    model.pauses[_WORK] = now + zones.period
    budgets = Budgets(model) if _heeds_budgets(model) else None
    decisions = [
        decision
        for gang, some in sorted(by_gang(model, rows).items(), key=lambda item: item[0].key)
        if (decision := _evict(model, gang, some, budgets, now)) is not None
    ]
    return decisions, now + zones.period


def _in_closed(model: Model, zones: set[str]) -> SlotArray:
    """Return the pods in closed zones that may be evicted."""
    victims = model.victims
    victims.refresh()
    rows = np.flatnonzero(victims.willing[: victims.size] & model.nodes.mine[victims.slot[: victims.size]])
    rows = in_zones(model, rows, zones - (model.nodes.zones or frozenset()))
    return victims.those(rows, lambda pod: pod.phase == "Running")


def _heeds_budgets(model: Model) -> bool:
    policy = model.policy.eviction
    return any("pdb" in tier for tier in (*policy.preempt_filters, *policy.reclaim_filters))


def _evict(
    model: Model, gang: Gang, rows: list[int], budgets: Budgets | None, now: datetime
) -> Decision | None:
    """Decide that some of a gang's pods leave; it is a decision about the gang itself."""
    victims = model.victims
    going: list[Eviction] = []
    for row in within_budget(model, gang, rows):
        pod = victims.pods[row]
        alone = Bundle(gang, [row], whole=False, priority=victims.priority.item(row))
        if pod is None or (budgets is not None and not budgets.take(alone)):
            continue
        zone = model.nodes.labels[pod.slot].get(REVOCABLE_ZONE, "")
        why = f"node {model.nodes.names[pod.slot]} is of zone {zone}, whose hours are over"
        namespace, name = victims.keys[row]
        going.append(Eviction(namespace=namespace, pod=name, uid=pod.uid, reason=why))
    if not going:
        return None
    decision = begin(model, gang, now, enqueue=False)
    decision.minimum = 0
    decision.evictions = tuple(going)
    launch_evictions(model, decision, now)
    return decision
