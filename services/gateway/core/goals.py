"""What a request with ``?wait=`` waits for."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from services.gateway.core.facts import JobRecord, Model
from services.gateway.core.incarnation import RESTING, Incarnation, current
from shared.events.contracts import JobAction, QueueAction

SHUT: Final = frozenset({"Closed", "Closing"})
"""States of a queue that takes no new jobs."""


class Goal(StrEnum):
    """How far a submitted job must have come. A rejection ends every wait."""

    ADMITTED = "admitted"
    RUNNING = "running"
    FINISHED = "finished"


def reached(goal: Goal, job: Incarnation | None) -> bool:
    """Say whether a job has come that far, or will never: it was rejected, ended or deleted before."""
    if job is None:
        return False
    if job.over or (goal is not Goal.ADMITTED and job.phase in RESTING):
        return True
    if goal is Goal.ADMITTED:
        return job.life is not None or (job.submission is not None and job.submission.admitted_at is not None)
    return goal is Goal.RUNNING and job.started


def impossible(action: JobAction, job: Incarnation) -> str | None:
    """Say why a command makes no sense, as far as the read model knows; None: it may be possible."""
    phase = job.phase
    if action is JobAction.SUSPEND:
        if phase in RESTING:
            return f"the job is {phase}: there is nothing left to suspend"
        if phase == "Aborting":
            return "the job is being suspended already"
    if action is JobAction.RESUME and phase not in ("Aborted", "Aborting"):
        return f"the job is {phase}, not suspended"
    return None


def carried_out(action: JobAction, model: Model, key: tuple[str, str], uid: str | None) -> bool:
    """Say whether a command has done what it should to the job that was meant."""
    record: JobRecord | None = model.jobs.get(key)
    if record is None:
        return True
    job = current(model, record)
    if uid is not None and (job.life is None or job.life.uid != uid):
        return True
    if action is JobAction.DELETE:
        return job.deleted
    if action is JobAction.SUSPEND:
        return job.phase in RESTING or job.deleted
    return job.phase not in ("Aborted", "Aborting") or job.deleted


def queue_obeyed(action: QueueAction, model: Model, name: str) -> bool:
    """Say whether a command to a queue has done what it should; a queue that is gone needs nothing more."""
    queue = model.queues.get(name)
    if queue is None:
        return True
    return queue.state in SHUT if action is QueueAction.CLOSE else queue.state == "Open"
