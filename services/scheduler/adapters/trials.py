"""Answers trials from a pool's model."""

from __future__ import annotations

from datetime import datetime

from services.scheduler.core.model import Model
from services.scheduler.core.trial import try_out
from shared.events.contracts import QueueState, TrialAnswered, TrialOutcome, TrialReady


def answered(model: Model, event: TrialReady, now: datetime) -> TrialAnswered:
    """Say what would be decided about a gang. Raises PluginError."""
    found = try_out(model, event.gang, now)
    outcome = TrialOutcome.STARTS
    if found.report is not None:
        outcome = TrialOutcome.WAITS
    elif found.evictions:
        outcome = TrialOutcome.EVICTS
    return TrialAnswered(
        trial=event.trial,
        outcome=outcome,
        bindings=found.bindings,
        evictions=found.evictions,
        later=found.later,
        report=found.report,
        at=now,
    )


def nowhere(event: TrialReady, now: datetime) -> TrialAnswered:
    """Answer for a pool that nobody has heard of: it has no nodes."""
    model = Model(event.gang.pool)
    model.apply_queue(QueueState(name=event.gang.queue))
    return answered(model, event, now)
