"""Deciding moves: gangs leave, room is kept for them elsewhere, and one that waited has theirs.

All of it is one decision, about the gang that waits: who leaves, where each of their gangs has room, and
where the gang itself will start. So it is all on the log, or nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from services.scheduler.core.decisions import Decision
from services.scheduler.core.displace import kept_rows, kept_until, leave_for
from services.scheduler.core.gangs import Gang
from services.scheduler.core.lanes import Lane
from services.scheduler.core.model import Model
from services.scheduler.core.moving import Mover, Moves
from shared.events.contracts import Eviction, Reservation

_WORK: Final = "defragment"
"""Its name among the work that pauses."""
_IN_TIME: Final = timedelta(minutes=2)
"""It is done for whoever asked no longer ago than this, by clocks that differ by no more."""
_MOST_SEARCHES: Final = 16
"""In one look: so that a cycle does not wait for all that wait."""


def defragment(model: Model, now: datetime) -> tuple[list[Decision], datetime | None]:
    """Decide who moves for gangs that have waited for long; for all, and at once, if that was asked for.

    Return when to look again, too, if nothing else happens: None where nobody waits for that. Where somebody
    moves that is at once, at those who were behind.
    """
    policy = model.policy.defragmentation
    asked = model.asked is not None and abs(now - model.asked) < _IN_TIME
    if not (policy.enabled or asked):
        model.asked = None
        return [], None
    mover = Mover(model, now, timedelta(0) if asked else policy.rest)
    late = timedelta(0) if asked else policy.after
    heads = list(_heads(model, mover))
    due = [(lane, gang) for lane, gang in heads if gang.contract.ready_since + late <= now]
    again = model.pauses.get(_WORK, now)
    later = [at for _, gang in heads if (at := gang.contract.ready_since + policy.after) > now]
    if due and (asked or again <= now):
        decisions = list(_moves(model, mover, due, now))
        if decisions:
            return decisions, now
        again = model.pauses[_WORK] = now + policy.period
        later += _rested(mover)
    elif due:
        later.append(again)
    model.asked = None
    return [], max(again, min(later)) if later and policy.enabled else None


def _heads(model: Model, mover: Mover) -> Iterable[tuple[Lane, Gang]]:
    """Yield the first gangs of lanes for which others may move, the most important first."""
    found = [
        (lane, head[1])
        for lane in model.waiting.lanes.values()
        if (head := lane.head()) is not None and mover.asks(lane, head[1])
    ]
    return sorted(found, key=lambda one: (-one[1].contract.priority, one[1].contract.ready_since, one[1].key))


def _rested(mover: Mover) -> list[datetime]:
    """Return when the next pod may move that may not now."""
    return [] if mover.rested_at is None else [datetime.fromtimestamp(mover.rested_at, UTC)]


def _moves(
    model: Model, mover: Mover, heads: Iterable[tuple[Lane, Gang]], now: datetime
) -> Iterable[Decision]:
    left, threshold = _MOST_SEARCHES, model.policy.defragmentation.threshold
    for lane, gang in heads:
        with model.reservations.lifted((gang.key,)):
            if (threshold and mover.scattered(lane) < threshold) or mover.is_vain(lane, gang):
                continue
            found = mover.find(lane, gang)
        if found is not None:
            yield _decide(model, gang, found, now)
        left -= 1
        if not left:
            return


def _decide(model: Model, gang: Gang, moves: Moves, now: datetime) -> Decision:
    homes = _homes(model, moves, kept_until(model, now))
    return leave_for(model, gang, moves.places, _leaving(model, gang, moves), now, homes)


def _leaving(model: Model, gang: Gang, moves: Moves) -> Iterable[Eviction]:
    """Yield who leaves, as the log has it."""
    victims = model.victims
    name = f"{gang.contract.namespace}/{gang.contract.job or gang.contract.name}"
    for bundle in moves.bundles:
        _, places = moves.homes[bundle.gang]
        nodes = sorted({model.nodes.names[slot] for _, slots, _ in places for slot in slots})
        why = f"moves so that {name} can start: room is kept for it on {_some(nodes)}"
        for row in sorted(bundle.rows, key=victims.keys.__getitem__):
            pod = victims.pods[row]
            if pod is not None:
                namespace, of_gang = bundle.gang.key
                yield Eviction(
                    namespace=namespace, pod=victims.keys[row][1], uid=pod.uid, reason=why, gang=of_gang
                )


def _homes(model: Model, moves: Moves, until: datetime) -> Iterable[Reservation]:
    """Yield the room that is kept for those who move: their pods are made anew, as their templates are."""
    for gang, (picks, places) in moves.homes.items():
        update = {"gang": gang.contract.ref, "member": ""}
        for row in kept_rows(model, gang, picks, places, until):
            yield row.model_copy(update=update)


def _some(nodes: list[str]) -> str:
    most = 3
    return ", ".join(nodes[:most]) + (f" and {len(nodes) - most} more" if len(nodes) > most else "")
