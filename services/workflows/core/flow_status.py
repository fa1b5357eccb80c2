"""A flow's status: its jobs by their state, each job's life, and the flow's phase."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from services.workflows.core.flow_graph import job_name
from services.workflows.core.model import JSON, JobView
from shared.api.batch import JobPhase
from shared.api.flow import FlowPhase, JobFlow
from shared.api.meta import format_time

_LISTS: Final[Mapping[str, str]] = {
    JobPhase.PENDING: "pendingJobs",
    JobPhase.RUNNING: "runningJobs",
    JobPhase.FAILED: "failedJobs",
    JobPhase.COMPLETED: "completedJobs",
    JobPhase.TERMINATED: "terminatedJobs",
}
_UNLISTED: Final[frozenset[str]] = frozenset({JobPhase.COMPLETING, JobPhase.TERMINATING})
"""In no list, as in Volcano."""


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """A flow's status and what was read from it."""

    body: JSON
    phase: FlowPhase
    completed: frozenset[str]
    """Jobs that are complete, also those that are gone since."""


def flow_status(flow: JobFlow, jobs: Mapping[str, JobView], *, invalid: bool = False) -> FlowStatus:
    """Return the status of a flow from its jobs and what its status remembers of those that are gone."""
    steps = list(dict.fromkeys(job_name(flow.metadata.name, step.name) for step in flow.spec.flows))
    ended = {
        ending: [name for name in stored if name not in jobs]
        for ending, stored in (
            (JobPhase.COMPLETED, flow.status.completed_jobs),
            (JobPhase.FAILED, flow.status.failed_jobs),
            (JobPhase.TERMINATED, flow.status.terminated_jobs),
        )
    }
    ordered = sorted(jobs, key=lambda name: (steps.index(name) if name in steps else len(steps), name))
    lists = {_LISTS[ending]: gone for ending, gone in ended.items()}
    for name in ordered:
        at = jobs[name].phase
        if at not in _UNLISTED:
            lists.setdefault(_LISTS.get(at, "unKnowJobs"), []).append(name)
    completed = frozenset(lists["completedJobs"])
    failed = bool(lists["failedJobs"] or lists["terminatedJobs"])
    phase = _phase(flow, steps, lists, completed, failed=failed or invalid)
    body: JSON = {field: listed for field, listed in lists.items() if listed}
    body["state"] = {"phase": phase.value}
    remembered = {name for gone in ended.values() for name in gone}
    if jobs or remembered:
        body["jobStatusList"] = _lives(flow, [jobs[name] for name in ordered])
        body["conditions"] = _conditions(flow, jobs, remembered)
    return FlowStatus(body, phase, completed)


def _phase(
    flow: JobFlow,
    steps: list[str],
    lists: Mapping[str, list[str]],
    completed: frozenset[str],
    *,
    failed: bool,
) -> FlowPhase:
    if flow.status.state.phase is FlowPhase.SUCCEED:
        return FlowPhase.SUCCEED
    if failed:
        return FlowPhase.FAILED
    if completed.issuperset(steps):
        return FlowPhase.SUCCEED
    if flow.metadata.deletion_timestamp:
        return FlowPhase.TERMINATING
    begun = completed or lists.get("runningJobs") or flow.status.state.phase is FlowPhase.RUNNING
    return FlowPhase.RUNNING if begun else FlowPhase.PENDING


def _conditions(flow: JobFlow, jobs: Mapping[str, JobView], remembered: set[str]) -> JSON:
    conditions = {name: one.dump() for name, one in flow.status.conditions.items() if name in remembered}
    for name, job in jobs.items():
        condition: JSON = {"createTime": format_time(job.created_at)}
        if job.phase:
            condition["phase"] = job.phase
        for field in ("runningDuration", "taskStatusCount"):
            if job.status.get(field):
                condition[field] = job.status[field]
        conditions[name] = condition
    return conditions


def _lives(flow: JobFlow, jobs: list[JobView]) -> list[JSON]:
    """Return what became of each job; entries stay where they are, also those of jobs that are gone."""
    lives = {one.name: one.dump() for one in flow.status.job_status_list}
    for job in jobs:
        before = lives.get(job.name, {})
        if before.get("startTimestamp") != format_time(job.created_at):
            before = {}  # another job of that name
        life: JSON = {"name": job.name, "startTimestamp": format_time(job.created_at)}
        if job.phase:
            life["state"] = job.phase
        if job.finished and job.changed_at is not None:
            life["endTimestamp"] = format_time(job.changed_at)
        if job.status.get("retryCount"):
            life["restartCount"] = job.status["retryCount"]
        if histories := _histories(before.get("runningHistories") or [], job):
            life["runningHistories"] = histories
        lives[job.name] = life
    return list(lives.values())


def _histories(before: list[JSON], job: JobView) -> list[JSON]:
    """Return the phases of a job so far, each with its beginning and end."""
    if not job.phase or (before and before[-1].get("state") == job.phase):
        return before
    at = format_time(job.changed_at or job.created_at)
    closed = [*before[:-1], {**before[-1], "endTimestamp": at}] if before else []
    return [*closed, {"state": job.phase, "startTimestamp": at}]
