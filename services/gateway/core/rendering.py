"""From facts to views."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

from services.gateway.core.facts import Entry, Model
from services.gateway.core.incarnation import FINAL, RESTING, Incarnation, last_rejection
from services.gateway.core.timeline import Interval, bounds, intervals
from services.gateway.core.views import (
    EvictedPod,
    HistoryEntry,
    JobDetail,
    JobSummary,
    Links,
    NodeView,
    PhaseChange,
    PhaseTime,
    PlacedPod,
    Rejection,
    TrialView,
    Waiting,
)
from shared.events.contracts import DecisionApplied, DecisionOutcome, GangDecided, GangReport, TrialAnswered

_ENDING: Final = FINAL | {"Completing", "Terminating"}
_WHOLE_JOB: Final = {"job"}  # of a submission; a report's job is a name, which the address has


def links(namespace: str, name: str) -> Links:
    """Return the paths of a job's resources."""
    path = f"/v1/jobs/{quote(namespace, safe='')}/{quote(name, safe='')}"
    return Links(self=path, events=f"{path}/events", trace=f"{path}/trace")


def summary(job: Incarnation) -> JobSummary:
    """Return a job as a line of a list."""
    return JobSummary(**_summary(job))


def detail(job: Incarnation, model: Model) -> JobDetail:
    """Return everything about a job."""
    record, asked = job.record, job.submission
    refused = last_rejection(record)
    return JobDetail(
        **_summary(job),
        place=tuple(_place(job, model)),
        waiting=_waiting(job),
        timeline=tuple(_phase_time(one) for one in intervals(job)),
        changes=tuple(
            PhaseChange(
                at=change.event.at,
                previous=change.event.previous,
                phase=change.event.phase,
                generation=change.event.generation,
                reason=change.event.reason,
                message=change.event.message,
            )
            for change in job.changes
        ),
        violations=asked.violations if asked and job.rejected else (),
        last_rejection=Rejection(submission=refused.id, at=refused.rejected_at, violations=refused.violations)
        if refused and refused.rejected_at and refused is not asked
        else None,
        traceparent=job.traceparent,
        links=links(record.namespace, record.name),
    )


def _summary(job: Incarnation) -> dict[str, Any]:
    record, asked, state = job.record, job.submission, job.known_state
    last = job.changes[-1].event if job.changes else None
    report = _current_report(job)
    times = bounds(job)
    running = next((change.event.at for change in job.changes if change.event.phase == "Running"), None)
    values: dict[str, Any] = {
        "namespace": record.namespace,
        "name": record.name,
        "uid": job.life.uid if job.life else None,
        "phase": job.phase,
        "generation": job.generation,
        "started_at": running,
        "finished_at": times[1] if times and job.phase in RESTING else None,
        "deleted": job.deleted,
    }
    if asked:
        values |= {
            "submission": asked.id,
            "submitted_by": asked.submitted_by,
            "submitted_at": asked.submitted_at,
            "queue": asked.queue,
            "replicas": asked.replicas,
            "min_available": asked.min_available,
        }
    if last:
        values |= {
            "queue": last.queue,
            "retry_count": last.retry_count,
            "pods": last.pods,
            "reason": last.reason,
            "message": last.message,
        }
    if state:
        values |= {
            "queue": state.queue,
            "priority_class": state.priority_class,
            "replicas": state.replicas,
            "min_available": state.min_available,
            "requests": state.requests,
            "retry_count": state.retry_count,
            "urls": {} if job.deleted else state.urls,
            "submission": state.submission or values.get("submission"),
            "submitted_by": state.submitted_by or values.get("submitted_by", ""),
            "created_at": state.created_at,
            "started_at": running or state.started_at,
            "finished_at": state.finished_at or values["finished_at"],
            "deleting": state.deleting,
        }
        if state.phase == job.phase:
            values |= {"reason": state.reason, "message": state.message, "pods": state.pods}
    if report:
        values |= {
            "position": report.position,
            "reason": report.reason.code,
            "message": report.reason.message,
        }
    return values


def _current_report(job: Incarnation) -> GangReport | None:
    """Return the report about the present generation while the job waits."""
    if job.phase not in ("Pending", "Restarting") or job.deleted:
        return None
    for gang in job.gangs:
        report = gang.report
        if report is not None and report.gang.generation == job.generation:
            return report
    return None


def _waiting(job: Incarnation) -> Waiting | None:
    report = _current_report(job)
    return None if report is None else _waits(report)


def _waits(report: GangReport) -> Waiting:
    return Waiting(
        reason=report.reason,
        details=report.details,
        position=report.position,
        queue_length=report.queue_length,
        waiting_since=report.waiting_since,
        estimated_start=report.estimated_start,
        estimated_start_p90=report.estimated_start_p90,
        outlook=report.outlook,
        as_of=report.at,
    )


def trial_view(answer: TrialAnswered, namespace: str, name: str) -> TrialView:
    """Return what would become of a job."""
    return TrialView(
        namespace=namespace,
        name=name,
        outcome=answer.outcome.value,
        place=tuple(PlacedPod(pod=one.pod, task=one.task, node=one.node) for one in answer.bindings),
        later=answer.later,
        evicted=tuple(
            EvictedPod(namespace=one.namespace, pod=one.pod, reason=one.reason) for one in answer.evictions
        ),
        waiting=None if answer.report is None else _waits(answer.report),
    )


def _place(job: Incarnation, model: Model) -> list[PlacedPod]:
    """Return the pods: those that exist, and for those that ended where the decision had put them."""
    placed: dict[str, PlacedPod] = {}
    carried_out = _carried_out(job)
    # A job that ends begins a new generation, which is never placed.
    last = max((event.gang.generation for event, _ in carried_out), default=0)
    generation = last if job.phase in _ENDING else job.generation
    for event, result in carried_out:
        if event.gang.generation == generation:
            task_of = {binding.pod: binding.task for binding in event.bindings}
            for bound in result.bound:
                placed[bound.pod] = PlacedPod(pod=bound.pod, task=task_of.get(bound.pod, ""), node=bound.node)
    for gang in job.gangs:
        for pod in model.pods_of.get((gang.namespace, gang.name), {}).values():
            placed[pod.name] = PlacedPod(
                pod=pod.name,
                task=pod.task,
                index=pod.index,
                node=pod.node,
                phase=pod.phase,
                releasing=pod.releasing,
            )
    return sorted(placed.values(), key=lambda pod: (pod.task, pod.index or 0, pod.pod))


def _carried_out(job: Incarnation) -> list[tuple[GangDecided, DecisionApplied]]:
    """Return the decisions that placed pods, oldest first."""
    found: list[tuple[GangDecided, DecisionApplied]] = []
    for gang, decision in job.decisions():
        result = gang.results.get(decision.event.decision)
        if result is not None and result.outcome in (DecisionOutcome.APPLIED, DecisionOutcome.PARTIAL):
            found.append((decision.event, result))
    return found


def seconds_between(start: datetime, end: datetime | None) -> float | None:
    """Return the time between, never below zero; None when it goes on."""
    return None if end is None else max(0.0, (end - start).total_seconds())


def _phase_time(one: Interval) -> PhaseTime:
    return PhaseTime(
        phase=one.phase.value,
        generation=one.generation,
        start=one.start,
        end=one.end,
        seconds=seconds_between(one.start, one.end),
        error=one.error,
    )


def history_entry(entry: Entry) -> HistoryEntry:
    """Return an entry as the data of a server-sent event; a whole Job object is left out."""
    data = entry.data.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=_WHOLE_JOB)
    return HistoryEntry(kind=entry.kind, time=entry.time, data=data)


def nodes(model: Model) -> list[NodeView]:
    """Return all nodes with what is allocated and free, by name."""
    views: list[NodeView] = []
    for name, node in sorted(model.nodes.items()):
        used, pods = model.node_use.amounts.get(name, {}), model.node_use.counts.get(name, 0)
        # The number of pods is a resource of a node that no pod requests.
        counted = {"pods": pods} if "pods" in node.allocatable else {}
        used = dict.fromkeys(node.allocatable, 0) | used | counted
        views.append(
            NodeView(
                name=name,
                pool=node.pool,
                ready=node.ready,
                unschedulable=node.unschedulable,
                labels=node.labels,
                taints=tuple(taint.model_dump(by_alias=True) for taint in node.taints),
                allocatable=node.allocatable,
                allocated=used,
                free={resource: amount - used[resource] for resource, amount in node.allocatable.items()},
                pods=pods,
            )
        )
    return views
