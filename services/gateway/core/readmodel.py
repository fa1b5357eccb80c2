"""The fold of the topics into the read model.

``fold`` changes the model in place and returns the jobs whose view may have changed. Its result does not
depend on how the topics are interleaved, and a record read twice changes nothing: facts are kept by
topic and joined when looked at (property-tested).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from services.gateway.core.digest import digest
from services.gateway.core.facts import Arrival, Change, Decision, Model, Submission, metadata_key
from services.gateway.core.records import (
    ENTRIES_KEPT,
    NOTHING,
    Changes,
    gang_of,
    job_record,
    life_of,
    owner_of,
    remember,
    submission_of,
    time_of,
)
from services.gateway.core.world import GONE, STATES, pod_seen
from shared.events import contracts as c
from shared.events import topics


def fold(model: Model, arrival: Arrival) -> Changes:
    """Take one record in; return the keys of the jobs it touches. What is of no interest is ignored."""
    if arrival.pod is not None:
        return pod_seen(model, arrival.pod)
    if arrival.envelope is None:
        return _tombstone(model, arrival)
    event = arrival.envelope.data
    if state := STATES.get(type(event)):
        return state(model, event)
    handler = _FOLDS.get(type(event))
    return handler(model, arrival, event) if handler else NOTHING


def _submitted(model: Model, arrival: Arrival, event: c.JobSubmitted) -> Changes:
    key = metadata_key(event.job)
    if key is None or arrival.envelope is None:
        return NOTHING
    record = job_record(model, key, time_of(arrival))
    submission = submission_of(model, record, arrival.envelope.id)
    if submission.published is None:
        submission.published = arrival.envelope.time
        submission.submitted_at = event.submitted_at or arrival.envelope.time
        submission.appended_at = max(arrival.at, submission.published)
        submission.submitted_by = event.submitted_by
        submission.traceparent = arrival.envelope.traceparent
        submission.tracestate = arrival.envelope.tracestate
        submission.digest = digest(event.job)
        _summarise(submission, event.job)
        remember(submission.entries, arrival, "submitted", submission.submitted_at, _slim(event))
    return frozenset((key,))


E = TypeVar("E", c.JobSubmitted, c.JobAdmitted)


def _slim(event: E) -> E:
    """Leave the whole object out of the history, which needs only that it was asked for."""
    return event.model_copy(update={"job": {}})


def _summarise(submission: Submission, job: Mapping[str, Any]) -> None:
    """Take from an unchecked object what a list shows, as far as it makes sense."""
    spec = job.get("spec")
    if not isinstance(spec, dict):
        return
    queue, minimum, tasks = spec.get("queue"), spec.get("minAvailable"), spec.get("tasks")
    submission.queue = queue if isinstance(queue, str) else ""
    replicas = (
        [task.get("replicas", 1) for task in tasks if isinstance(task, dict)]
        if isinstance(tasks, list)
        else []
    )
    submission.replicas = sum(count for count in replicas if isinstance(count, int) and count > 0)
    submission.min_available = minimum if isinstance(minimum, int) and minimum > 0 else submission.replicas


def _admitted(model: Model, arrival: Arrival, event: c.JobAdmitted) -> Changes:
    key = metadata_key(event.job)
    if key is None or arrival.envelope is None:
        return NOTHING
    record = job_record(model, key, time_of(arrival))
    submission = submission_of(model, record, event.submission)
    if submission.admitted_at is None:
        submission.admitted_at = arrival.envelope.time
        remember(submission.entries, arrival, "admitted", arrival.envelope.time, _slim(event))
    return frozenset((key,))


def _rejected(model: Model, arrival: Arrival, event: c.JobRejected) -> Changes:
    key = (event.namespace, event.name)
    record = job_record(model, key, time_of(arrival))
    submission = submission_of(model, record, event.submission)
    if submission.rejected_at is None:
        submission.rejected_at = time_of(arrival)
        submission.violations = event.violations
        remember(submission.entries, arrival, "rejected", time_of(arrival), event)
    return frozenset((key,))


def _command(model: Model, arrival: Arrival, event: c.CommandJob) -> Changes:
    key = (event.namespace, event.name)
    record = model.jobs.get(key)
    if record is None:
        record = job_record(model, key, time_of(arrival))
    entries = [entry for entry, _ in record.commands]
    entry = remember(entries, arrival, "command", time_of(arrival), event)
    if len(entries) > len(record.commands):
        record.commands.append((entry, event))
    elif entry not in entries:
        return NOTHING
    record.commands[:] = record.commands[-ENTRIES_KEPT:]
    return frozenset((key,))


def _phase(model: Model, arrival: Arrival, event: c.JobPhaseChanged) -> Changes:
    key = (event.namespace, event.name)
    record = job_record(model, key, event.at)
    life = life_of(model, record, event.uid)
    life.submission = life.submission or event.submission
    same = (event.generation, event.phase, event.at)
    if not any((seen.event.generation, seen.event.phase, seen.event.at) == same for seen in life.changes):
        life.changes.append(Change(event, time_of(arrival)))
        life.changes.sort(key=lambda change: (change.event.at, change.published))
        life.changes[:] = life.changes[-ENTRIES_KEPT:]
        remember(life.entries, arrival, "phase", event.at, event)
    return frozenset((key,))


def _decided(model: Model, arrival: Arrival, event: c.GangDecided) -> Changes:
    gang = gang_of(model, (event.gang.namespace, event.gang.name), event.decided_at)
    if event.decision not in gang.decisions:
        gang.decisions[event.decision] = Decision(event, time_of(arrival))
        remember(gang.entries, arrival, "decision", event.decided_at, event)
    return owner_of(gang)


def _applied(model: Model, arrival: Arrival, event: c.DecisionApplied) -> Changes:
    gang = gang_of(model, (event.gang.namespace, event.gang.name), event.at)
    if event.decision not in gang.results:
        gang.results[event.decision] = event
        remember(gang.entries, arrival, "result", event.at, event)
    return owner_of(gang)


def _report(model: Model, arrival: Arrival, event: c.GangReport) -> Changes:
    key = (event.gang.namespace, event.gang.name)
    gang = gang_of(model, key, event.at)
    if event.job:
        gang.owner = (event.gang.namespace, event.job)
    if arrival.key is not None:
        model.reports[arrival.key] = key
    gang.report = gang.last_report = event
    remember(gang.entries, arrival, "report", event.at, event)
    return owner_of(gang)


def _tombstone(model: Model, arrival: Arrival) -> Changes:
    if arrival.key is None:
        return NOTHING
    if arrival.topic == topics.SCHEDULING_REPORTS:
        gang = model.gangs.get(model.reports.pop(arrival.key, ("", "")))
        if gang is None:
            return NOTHING
        gang.report = None
        return owner_of(gang)
    if arrival.topic != topics.CLUSTER_STATE:
        return NOTHING
    kind, namespace, name = topics.parse_state_key(arrival.key)
    gone = GONE.get(kind)
    changes = gone(model, (namespace, name)) if gone else NOTHING
    if kind == "job":
        for key in changes:
            job_record(model, key, arrival.at)
    return changes


_FOLDS: Final[Mapping[type[c.Contract], Callable[[Model, Arrival, Any], Changes]]] = {
    c.JobSubmitted: _submitted,
    c.JobAdmitted: _admitted,
    c.JobRejected: _rejected,
    c.CommandJob: _command,
    c.JobPhaseChanged: _phase,
    c.GangDecided: _decided,
    c.DecisionApplied: _applied,
    c.GangReport: _report,
}
