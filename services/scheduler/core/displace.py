"""Deciding evictions: victims leave, and their room is kept for the gang that they leave for.

It is the first of two decisions about a gang; the second one binds its pods when the room is free.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from services.scheduler.core.choice import choice_of, choose
from services.scheduler.core.decisions import Decision
from services.scheduler.core.eviction import Evictor
from services.scheduler.core.gangs import Gang, Pick, by_shape
from services.scheduler.core.model import Model
from services.scheduler.core.results import keep_room, launch_evictions
from services.scheduler.core.search import Found
from services.scheduler.core.shapes import Shape
from shared.events.contracts import Eviction, Reservation

Places = tuple[Shape, Sequence[int], Sequence[int]]
"""A shape, distinct slots, and how many pods on each."""


def make_room(model: Model, now: datetime) -> tuple[list[Decision], float | None]:
    """Decide who leaves for gangs that were stopped; say when more pods may be evicted (POSIX seconds)."""
    evictor = Evictor(model, now)
    decisions: list[Decision] = []
    for lane, gang in evictor.heads():
        with model.reservations.lifted((gang.key,)):
            found = evictor.find(lane, gang)
        if found is not None:
            decisions.append(leave_for(model, gang, found.places, evictions(model, gang, found), now))
            evictor.forget()
    return decisions, evictor.cool_at


def begin(model: Model, gang: Gang, now: datetime, *, enqueue: bool) -> Decision:
    """Return a gang's next decision, empty yet."""
    contract = gang.contract
    gang.decided = max(gang.decided + 1, int(now.timestamp() * 1000))
    return Decision(
        f"{model.pool}/{contract.uid}/{contract.generation}/{gang.decided}",
        contract.namespace,
        contract.name,
        contract.uid,
        contract.generation,
        enqueue,
        gang.minimum,
        [],
        now,
        contract.ready_since,
        gang.traceparent,
    )


def leave_for(
    model: Model,
    gang: Gang,
    places: Sequence[Places],
    leaving: Iterable[Eviction],
    now: datetime,
    homes: Iterable[Reservation] = (),
) -> Decision:
    """Decide that pods leave, and keep the room where the gang goes; ``homes`` is what is kept for others."""
    if choice_of(gang) is not None:
        choose(gang, {shape: sum(counts) for shape, _, counts in places})
    decision = begin(model, gang, now, enqueue=False)
    decision.evictions = tuple(leaving)
    kept = kept_rows(model, gang, gang.needs.must, places, kept_until(model, now))
    decision.reservations = (*kept, *homes)
    model.waiting.leave(gang)
    launch_evictions(model, decision, now)
    keep_room(model, gang, decision)
    model.set_wanted(gang, gang.needs.more)  # room is kept for the others
    return decision


def kept_until(model: Model, now: datetime) -> datetime:
    """Return for how long room is kept that is decided on now."""
    return now + model.policy.eviction.earmark


def evictions(model: Model, gang: Gang, found: Found) -> Iterable[Eviction]:
    """Yield who leaves for a gang, as the log has it."""
    victims, contract = model.victims, gang.contract
    name = f"{contract.namespace}/{contract.job or contract.name}"
    for bundle in found.bundles:
        other = bundle.gang.contract
        if other.queue == contract.queue:
            why = f"preempted by {name}: its priority is {contract.priority}, this gang's {other.priority}"
        else:
            why = f"queue {contract.queue} takes back what it deserves from queue {other.queue} for {name}"
        for row in sorted(bundle.rows, key=victims.keys.__getitem__):
            pod = victims.pods[row]
            if pod is not None:
                yield Eviction.model_construct(
                    namespace=victims.keys[row][0], pod=victims.keys[row][1], uid=pod.uid, reason=why
                )


def kept_rows(
    model: Model, gang: Gang, picks: Iterable[Pick], places: Iterable[Places], until: datetime
) -> Iterable[Reservation]:
    """Yield what is kept for members of a gang on each node, as the log has it."""
    groups = by_shape(picks)
    names = model.resources.names
    for shape, slots, counts in places:
        pick = groups[shape.bare][0]
        task = gang.tasks[pick.task]
        for slot, count in zip(slots, counts, strict=True):
            yield Reservation.model_construct(
                node=model.nodes.names[slot],
                resources={names[column]: amount * count for column, amount in shape.amounts},
                until=until,
                task=task.name,
                pods=count,
                member=task.names[pick.members[0]],
                devices=shape.on_devices,
            )
