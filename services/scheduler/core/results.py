"""What becomes of decisions.

A pod in flight counts on its node and in its queue until

- the state shows it on a node, in that generation: the pod itself counts from then on, until it ends;
- the decision's result refuses it, or does not name this pod among the bound ones;
- its result names it, and the pod is not seen within the policy's patience (it ended meanwhile);
- no result comes within that patience: the decision is sent again, which is harmless, or given up when
  its gang is gone.

So a lost result or state keeps room for a bounded time, and never for ever. The gang's going alone
frees nothing: its pods may be being bound at this moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from math import inf

from services.scheduler.core.decisions import Decision, Flight
from services.scheduler.core.earmarks import Earmark
from services.scheduler.core.evictions import Evicting
from services.scheduler.core.gangs import Gang
from services.scheduler.core.model import Model
from services.scheduler.core.numa import cells_of
from services.scheduler.core.pods import ENDED
from services.scheduler.core.reservations import Reserved
from services.scheduler.core.shapes import Shape
from shared.events.contracts import (
    DecisionApplied,
    DecisionOutcome,
    GangDecided,
    GangRef,
    Reason,
    Reservation,
)

_DOUBLINGS = 16


def apply_result(model: Model, result: DecisionApplied) -> None:
    """Take in what became of a decision; one that is not in flight (any more) changes nothing."""
    evicting = model.evictions.by_number.get(result.decision)
    if evicting is not None:
        _evicted(model, evicting, result)
        return
    flight = model.flights.by_number.get(result.decision)
    if flight is None:
        _resolved(model, result)
        return
    gang = _present(model, result.gang)
    match result.outcome:
        case DecisionOutcome.APPLIED | DecisionOutcome.PARTIAL:
            bound = {pod.pod for pod in result.bound}
            _drop(model, flight, [name for name in flight.pods if name not in bound])
            flight.resolved = True
            if result.decision in model.flights.by_number:
                model.flights.watch(flight, _due(model, result.at))
            if gang is not None and result.outcome is DecisionOutcome.APPLIED:
                gang.failures = 0
            elif gang is not None:
                _back_off(model, gang, result)
        case DecisionOutcome.ROLLED_BACK | DecisionOutcome.REFUSED:
            _drop(model, flight, list(flight.pods))
            if gang is None:
                return
            if result.outcome is DecisionOutcome.REFUSED and not gang.confirmed:
                model.remove_podgroup(gang.contract.namespace, gang.contract.name)
                return
            gang.enqueued = False
            _back_off(model, gang, result)


def _resolved(model: Model, result: DecisionApplied) -> None:
    """Take in what became of a decision that took nobody: its gang may be another one by now."""
    if result.outcome is DecisionOutcome.REFUSED:
        _end_earmark(model, (result.gang.namespace, result.gang.name), result.decision)


def give_up(model: Model, decision: Decision, why: Reason) -> None:
    """Take back a decision that cannot be published, and hold its gang until it is another one."""
    flight = model.flights.by_number.get(decision.number)
    if flight is not None:
        _drop(model, flight, list(flight.pods))
    evicting = model.evictions.by_number.get(decision.number)
    if evicting is not None:
        _spare(model, evicting, list(evicting.left))
    _end_earmark(model, (decision.namespace, decision.name), decision.number)
    gang = _present(model, decision)
    if gang is not None:
        gang.enqueued = False
        gang.held = why
        model.dirty[gang] = None


def adopt(model: Model, event: GangDecided, now: datetime) -> None:
    """Count a decision of an earlier scheduler that may not be carried out yet (at the start)."""
    model.sort_lots()
    gang = _present(model, event.gang)
    if gang is None or event.decision in model.flights.by_number or event.pool != model.pool:
        return
    _count_on(gang, event)
    if event.evictions or event.reservations:
        _adopt_evictions(model, gang, event, now)
        return
    model.earmarks.drop(gang.key)
    model.reservations.drop(gang.key)
    decision = Decision(
        event.decision,
        event.gang.namespace,
        event.gang.name,
        event.gang.uid,
        event.gang.generation,
        event.enqueue,
        event.minimum,
        [(binding.pod, binding.task, binding.node, binding.uid) for binding in event.bindings],
        event.decided_at,
        gang.contract.ready_since,
        gang.traceparent,
        devices={binding.pod: binding.devices for binding in event.bindings if binding.devices},
        cells={binding.pod: cells_of(binding.numa) for binding in event.bindings if binding.numa},
    )
    flight = Flight(decision, model.queues.get(gang.contract.queue))
    model.flights.launch(flight, _due(model, now))
    for name, _, node, _ in decision.rows:
        at = gang.position(name)
        pod = gang.pods.get(name)
        seen = pod is not None and (pod.slot >= 0 or pod.phase in ENDED)
        if at is None or seen or model.flights.has(gang.contract, name):
            continue
        shape = gang.tasks[at[0]].shape if pod is None else pod.shape
        chosen = decision.devices.get(name, ())
        parts = model.devices.parts(shape, chosen, model.nodes.slot(node)) if chosen else ()
        placed = model.numa.on(model.devices.on(shape, parts), decision.cells.get(name, ()))
        model.flights.charge(flight, name, node, placed)
        model.show(gang, name)
    if flight.pods:
        gang.enqueued = gang.enqueued or event.enqueue
    model.flights.close(flight)


def expire(model: Model, flight: Flight, now: datetime) -> Decision | None:
    """Deal with a flight that is due; return its decision if it is to be sent again."""
    decision = flight.decision
    if decision.number not in model.flights.by_number or flight.due > now.timestamp():
        return None
    gang = model.gangs.get(flight.key)
    if not flight.resolved and gang is not None and flight.of(gang.contract.uid, gang.contract.generation):
        model.flights.watch(flight, _due(model, now))
        decision.again = True
        return decision
    model.flights.given_up += len(flight.pods)
    _drop(model, flight, list(flight.pods))
    return None


def recall(model: Model, event: GangDecided, now: datetime) -> None:
    """Take what still matters of a decision that was carried out before the start: the room it keeps."""
    model.sort_lots()
    if event.pool != model.pool:
        return
    gang = _present(model, event.gang)
    lasts = any(one.until > now for one in event.reservations)
    if gang is None:
        if lasts:
            keep_room(model, None, event)  # others moved for it, and are on their way
        return
    _count_on(gang, event)
    if event.bindings:
        model.earmarks.drop(gang.key)
        model.reservations.drop(gang.key)
    elif lasts:
        _adopt_evictions(model, gang, event, now)


def expire_evicting(model: Model, one: Evicting, now: datetime) -> Decision | None:
    """Deal with evictions that are due; return the decision if it is to be sent again."""
    decision = one.decision
    if decision.number not in model.evictions.by_number or one.due > now.timestamp():
        return None
    if not one.resolved and _present(model, decision) is not None:
        model.evictions.watch(one, _due(model, now))
        decision.again = True
        return decision
    model.evictions.given_up += len(one.left)
    _spare(model, one, list(one.left))
    return None


def _evicted(model: Model, one: Evicting, result: DecisionApplied) -> None:
    """Take in what became of victims. When some stay, the gang is decided anew."""
    good = result.outcome in (DecisionOutcome.APPLIED, DecisionOutcome.PARTIAL)
    failed = {failure.uid for failure in result.eviction_failures}
    stay = [uid for uid in one.left if not good or uid in failed]
    one.resolved = good
    model.evictions.watch(one, _due(model, result.at))
    _spare(model, one, stay)
    if good and not failed:
        return
    _end_earmark(model, (one.decision.namespace, one.decision.name), one.decision.number)
    gang = _present(model, result.gang)
    if gang is not None and result.outcome is DecisionOutcome.REFUSED and not gang.confirmed:
        model.remove_podgroup(gang.contract.namespace, gang.contract.name)
    elif gang is not None:
        _back_off(model, gang, result)


def _spare(model: Model, one: Evicting, uids: list[str]) -> None:
    """Let victims stay."""
    for uid in uids:
        key = model.evictions.spare(one, uid)
        if key is not None:
            model.doom(key, uid, doomed=False)
    model.evictions.close(one)


def _end_earmark(model: Model, key: tuple[str, str], number: str) -> None:
    """Keep the room of a gang's decision no longer."""
    reserved = model.reservations.of(key)
    if reserved is not None and reserved.number == number:
        model.reservations.drop(key)
    for mark in model.earmarks:
        if mark.number == number:
            model.earmarks.drop(mark.key)
            gang = model.gangs.get(mark.key)
            if gang is not None:
                model.dirty[gang] = None


def _count_on(gang: Gang, event: GangDecided) -> None:
    """Give the gang's next decision a later number than an earlier scheduler's, whatever its clock said."""
    count = event.decision.rpartition("/")[2]
    if count.isdecimal():
        gang.decided = max(gang.decided, int(count))


def _adopt_evictions(model: Model, gang: Gang, event: GangDecided, now: datetime) -> None:
    decision = Decision(
        event.decision,
        event.gang.namespace,
        event.gang.name,
        event.gang.uid,
        event.gang.generation,
        event.enqueue,
        event.minimum,
        [],
        event.decided_at,
        gang.contract.ready_since,
        gang.traceparent,
        evictions=event.evictions,
        reservations=event.reservations,
    )
    launch_evictions(model, decision, now)
    if all(one.until > now for one in event.reservations):
        keep_room(model, gang, event)
    model.dirty[gang] = None


def launch_evictions(model: Model, decision: Decision, now: datetime) -> None:
    """Doom the victims of a decision until the state shows what becomes of them."""
    one = Evicting(decision)
    for victim in decision.evictions:
        key = (victim.namespace, victim.pod)
        pod = model.pods.get(key)
        if pod is not None and pod.uid == victim.uid and pod.slot >= 0 and not pod.leaving:
            one.left[victim.uid] = key
    if one.left:
        model.evictions.launch(one, _due(model, now))
        for uid, key in one.left.items():
            model.doom(key, uid, doomed=True)


def keep_room(model: Model, gang: Gang | None, event: Decision | GangDecided) -> None:
    """Keep the room that a decision reserves, for each gang that still has pods of those shapes.

    The decision's own gang may be gone (None).
    """
    rows: dict[GangRef | None, list[Reservation]] = {}
    for row in event.reservations:
        rows.setdefault(row.gang, []).append(row)
    for ref, some in rows.items():
        one = gang if ref is None else model.gangs.get((ref.namespace, ref.name))
        if one is not None and (ref is None or one.contract.uid == ref.uid):
            _keep_for(model, one, event, some)


def _keep_for(
    model: Model, gang: Gang, event: Decision | GangDecided, reservations: Sequence[Reservation]
) -> None:
    """Keep room for one gang: that of the decision, or one that moves for it."""
    places: dict[tuple[str, Shape], dict[int, int]] = {}
    for one in reservations:
        kept = _shape_of(gang, one)
        each = {name: amount // max(1, one.pods) for name, amount in one.resources.items()}
        if kept is None or kept.amounts != model.shapes.amounts(each):
            return
        slot = model.nodes.slot(one.node)
        kept = model.devices.on(kept, model.devices.parts(kept, one.devices, slot))
        on = places.setdefault((_group_of(gang, one), kept), {})
        on[slot] = on.get(slot, 0) + one.pods  # pods that differ in their CPUs are told apart
    first, moves = reservations[0], reservations[0].gang is not None
    kind = Reserved if first.as_freed else Earmark
    mark = kind(
        event.decision if isinstance(event, GangDecided) else event.number,
        gang.key,
        gang.contract.uid,
        gang.contract.generation,
        model.queues.get(gang.contract.queue),
        tuple((shape, tuple(on), tuple(on.values())) for (_, shape), on in places.items()),
        tuple(
            (one.namespace, one.pod, one.uid)
            for one in event.evictions
            if not moves or (one.namespace, one.gang) == gang.key
        ),
        min(one.until for one in reservations).timestamp(),
        moves,
    )
    if isinstance(mark, Reserved):
        mark.start = inf if first.starts is None else first.starts.timestamp()
        mark.groups = tuple(group for group, _ in places)
        model.reservations.add(mark)
    else:
        model.reservations.drop(gang.key)
        model.earmarks.add(mark)


def _shape_of(gang: Gang, reservation: Reservation) -> Shape | None:
    """Return the shape of the pods that room is for, None when the gang has no such task any more."""
    pod = gang.pods.get(reservation.member)
    if pod is not None:
        return pod.shape.bare
    return next((task.shape for task in gang.tasks if task.name == reservation.task), None)


def _group_of(gang: Gang, reservation: Reservation) -> str:
    """Return the group of the pods that room is for; empty: none."""
    at = gang.position(reservation.member)
    groups = () if at is None else gang.tasks[at[0]].groups
    return groups[at[1]] if at is not None and groups else ""


def _present(model: Model, about: GangRef | Decision) -> Gang | None:
    """Return the gang that this is about if it is still of this generation."""
    gang = model.gangs.get((about.namespace, about.name))
    same = gang is not None and (gang.contract.uid, gang.contract.generation) == (about.uid, about.generation)
    return gang if same else None


def _due(model: Model, now: datetime) -> float:
    return now.timestamp() + model.policy.patience.total_seconds()


def _back_off(model: Model, gang: Gang, result: DecisionApplied) -> None:
    gang.trouble = result.message or next((one.message for one in result.failures), "")
    gang.not_before = result.at + min(model.policy.retry_first * 2**gang.failures, model.policy.retry_most)
    gang.failures = min(gang.failures + 1, _DOUBLINGS)
    model.dirty[gang] = None


def _drop(model: Model, flight: Flight, names: list[str]) -> None:
    gang = model.gangs.get(flight.key)
    for name in model.flights.drop(flight, names):
        if gang is not None:
            model.show(gang, name)
