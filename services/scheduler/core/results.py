"""What becomes of decisions.

A pod in flight counts on its node and in its queue until

- the state shows it on a node, in that generation: the pod itself counts from then on, until it ends;
- the decision's result refuses it, or says that this pod was not bound;
- its result says bound, and the pod is not seen within the policy's patience (it ended meanwhile);
- no result comes within that patience: the decision is sent again, which is harmless, or given up when
  its gang is gone.

So a lost result or state keeps room for a bounded time, and never for ever. The gang's going alone
frees nothing: its pods may be being bound at this moment.
"""

from __future__ import annotations

from datetime import datetime

from services.scheduler.core.decisions import Decision, Flight
from services.scheduler.core.gangs import Gang
from services.scheduler.core.model import Model
from services.scheduler.core.pods import ENDED
from shared.events.contracts import DecisionApplied, DecisionOutcome, GangDecided, GangRef, Reason

_DOUBLINGS = 16


def apply_result(model: Model, result: DecisionApplied) -> None:
    """Take in what became of a decision; one that is not in flight (any more) changes nothing."""
    flight = model.flights.by_number.get(result.decision)
    if flight is None:
        return
    gang = _present(model, result.gang)
    match result.outcome:
        case DecisionOutcome.APPLIED | DecisionOutcome.PARTIAL:
            _drop(model, flight, [failure.pod for failure in result.failures])
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


def give_up(model: Model, decision: Decision, why: Reason) -> None:
    """Take back a decision that cannot be published, and hold its gang until it is another one."""
    flight = model.flights.by_number.get(decision.number)
    if flight is not None:
        _drop(model, flight, list(flight.pods))
    gang = model.gangs.get((decision.namespace, decision.name))
    if gang is not None and (gang.contract.uid, gang.contract.generation) == (
        decision.uid,
        decision.generation,
    ):
        gang.enqueued = False
        gang.held = why
        model.dirty[gang] = None


def adopt(model: Model, event: GangDecided, now: datetime) -> None:
    """Count a decision of an earlier scheduler that may not be carried out yet (at the start)."""
    gang = _present(model, event.gang)
    if gang is None or event.decision in model.flights.by_number or event.pool != model.pool:
        return
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
    )
    flight = Flight(decision, model.queues.get(gang.contract.queue))
    model.flights.launch(flight, _due(model, now))
    for name, _, node, _ in decision.rows:
        at = gang.position(name)
        pod = gang.pods.get(name)
        seen = pod is not None and (pod.slot >= 0 or pod.phase in ENDED)
        if at is None or seen or model.flights.has(gang.contract.ref, name):
            continue
        shape = gang.tasks[at[0]].shape if pod is None else pod.shape
        placed = model.devices.on(shape, decision.devices.get(name, ()))
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


def _present(model: Model, ref: GangRef) -> Gang | None:
    """Return the gang if it is still of this generation."""
    gang = model.gangs.get((ref.namespace, ref.name))
    same = gang is not None and (gang.contract.uid, gang.contract.generation) == (ref.uid, ref.generation)
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
