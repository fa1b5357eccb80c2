"""Which job of a cron job is due, which go, and when to look again.

Kept from Volcano (and Kubernetes): names ``<cron>-<minutes since 1970>``, so that a start is never made
twice; a start that ``Forbid`` held back is made when the job before it ends, unless it is too late then;
of many missed starts only the last is made. Better than there: what was created before a crash and not
noted is found again, terminated jobs count as failed in the history, and waiting costs no look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from services.workflows.core.model import JSON, JobView, Note, new_job
from shared.api import names
from shared.api.batch import JobPhase
from shared.api.cron import API_VERSION, KIND, ConcurrencyPolicy, CronJob
from shared.api.meta import format_time, parse_time
from shared.api.schedules import Schedule, missed, names_zone, parse_schedule, parse_zone

MANY: Final = 100
"""More missed starts than this are reported: a wrong clock, or a service that was away for long."""


class CronReason(StrEnum):
    """Reasons of the Kubernetes events on a cron job."""

    SAW_COMPLETED_JOB = "SawCompletedJob"
    ORPHANED_JOB = "OrphanedJob"
    STALE_REFERENCE = "StaleReference"
    FAILED_DELETE = "FailedDelete"
    SUCCESSFUL_DELETE = "SuccessfulDelete"
    SUCCESSFUL_CREATE = "SuccessfulCreate"
    FORBID_CONCURRENT = "ForbidConcurrent"
    REPLACE_CONCURRENT = "ReplaceConcurrent"
    FAILED_CREATE = "FailedCreate"
    INVALID_SCHEDULE = "InvalidSchedule"
    INVALID_TIME_ZONE = "InvalidTimeZone"
    UNPARSEABLE_SCHEDULE = "UnParseableCronJobSchedule"
    UNSUPPORTED_SCHEDULE = "UnsupportedSchedule"
    FOREIGN_JOB = "ForeignJob"
    NAMESPACE_TERMINATING = "NamespaceTerminating"
    TOO_MANY_MISSED_TIMES = "TooManyMissedTimes"
    MISS_SCHEDULE = "MissSchedule"


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do: first the deletions, then (when those for it succeeded) the start, then the status."""

    status: JSON
    """The status without the start."""
    deletes: tuple[JobView, ...] = ()
    """Jobs that the history does not keep."""
    replaces: tuple[JobView, ...] = ()
    """Jobs that must go before the start."""
    start: Start | None = None
    notes: tuple[Note, ...] = ()
    again_at: datetime | None = None
    """When the next start is due."""


@dataclass(frozen=True, slots=True)
class Start:
    """A job to be made and the time that it is for."""

    job: JSON
    due: datetime

    @property
    def name(self) -> str:
        """The job's name."""
        return str(self.job["metadata"]["name"])


def decide(cron: CronJob, jobs: Sequence[JobView], now: datetime) -> Plan:
    """Decide about a cron job from the jobs that it controls."""
    notes: list[Note] = []
    active = _active(cron, jobs, notes)
    deletes = _beyond_history(cron, jobs)
    status = _status(cron, jobs, active)
    if cron.metadata.deletion_timestamp:
        return Plan(status)
    schedule = None if cron.spec.suspend else _schedule(cron, notes)
    if schedule is None:
        return Plan(status, deletes, notes=tuple(notes))
    since = parse_time(cron.status.last_schedule_time or cron.metadata.creation_timestamp or "")
    last = schedule.last(since, now)
    again_at = schedule.next(last or since)
    due = None if last is None else _in_time(cron, schedule, since, last, now, notes)
    if due is None:
        return Plan(status, deletes, notes=tuple(notes), again_at=again_at)
    name = job_name(cron.metadata.name, due)
    if any(job.name == name for job in jobs):
        status["lastScheduleTime"] = format_time(due)
        return Plan(status, deletes, notes=tuple(notes), again_at=again_at)
    if active and cron.spec.concurrency_policy == ConcurrencyPolicy.FORBID:
        text = "Skipping job creation because another job is already running"
        notes.append(Note(CronReason.FORBID_CONCURRENT, f"{text} (due {format_time(due)})", warning=True))
        return Plan(status, deletes, notes=tuple(notes), again_at=again_at)
    replaces: tuple[JobView, ...] = ()
    if active and cron.spec.concurrency_policy == ConcurrencyPolicy.REPLACE:
        notes.append(Note(CronReason.REPLACE_CONCURRENT, "Replacing active job for CronJob", warning=True))
        replaces = tuple(job for job in active if not job.deleting)
    start = Start(_job(cron, name, due), due)
    return Plan(status, deletes, replaces, start, tuple(notes), again_at)


def started(plan: Plan, start: Start, job: JobView) -> JSON:
    """Return the status after a start."""
    gone = {one.uid for one in plan.replaces}
    active = [one for one in plan.status.get("active", ()) if one["uid"] not in gone]
    return {**plan.status, "active": [*active, _reference(job)], "lastScheduleTime": format_time(start.due)}


def job_name(cron: str, due: datetime) -> str:
    """Return the name of the job that is due at a time."""
    return f"{cron}-{int(due.timestamp()) // 60}"


def _active(cron: CronJob, jobs: Sequence[JobView], notes: list[Note]) -> list[JobView]:
    """Return the unfinished jobs that this cron job started; note what differs from its status."""
    known = {reference.uid for reference in cron.status.active}
    present = {job.uid: job for job in jobs}
    active: list[JobView] = []
    for job in sorted(jobs, key=lambda job: (job.created_at, job.name)):
        if job.finished:
            if job.uid in known:
                text = f"Saw completed job: {job.name} in active, remove"
                notes.append(Note(CronReason.SAW_COMPLETED_JOB, text))
        elif job.uid in known or names.CRONJOB_SCHEDULED_TIMESTAMP in job.annotations:
            active.append(job)
        else:
            text = f"Detected orphaned job forgotten or not managed: {job.name} (UID: {job.uid})"
            notes.append(Note(CronReason.ORPHANED_JOB, text, warning=True))
    for reference in cron.status.active:
        if reference.uid not in present:
            text = f'Active job "{reference.name}" no longer exists (UID: {reference.uid})'
            notes.append(Note(CronReason.STALE_REFERENCE, text, warning=True))
    return active


def _beyond_history(cron: CronJob, jobs: Sequence[JobView]) -> tuple[JobView, ...]:
    """Return the finished jobs that are more than the history keeps, oldest first."""
    ended = sorted((job for job in jobs if job.finished), key=lambda job: (job.created_at, job.name))
    completed = [job for job in ended if job.phase == JobPhase.COMPLETED]
    others = [job for job in ended if job.phase != JobPhase.COMPLETED]
    gone: list[JobView] = []
    for kept, limit in (
        (completed, cron.spec.successful_jobs_history_limit),
        (others, cron.spec.failed_jobs_history_limit),
    ):
        if limit is not None:
            gone += kept[: max(0, len(kept) - limit)]
    return tuple(job for job in gone if not job.deleting)


def _status(cron: CronJob, jobs: Sequence[JobView], active: Sequence[JobView]) -> JSON:
    status: JSON = {"active": [_reference(job) for job in active]}
    if cron.status.last_schedule_time:
        status["lastScheduleTime"] = cron.status.last_schedule_time
    ends = [job.changed_at for job in jobs if job.phase == JobPhase.COMPLETED and job.changed_at is not None]
    if cron.status.last_successful_time:
        ends.append(parse_time(cron.status.last_successful_time))
    if ends:
        status["lastSuccessfulTime"] = format_time(max(ends))
    return status


def _schedule(cron: CronJob, notes: list[Note]) -> Schedule | None:
    text = cron.spec.schedule
    try:
        zone = parse_zone(cron.spec.time_zone or "")
    except ValueError as error:
        notes.append(Note(CronReason.INVALID_TIME_ZONE, str(error), warning=True))
        return None
    if names_zone(text):
        advice = "A time zone in the schedule is not officially supported: use spec.timeZone"
        notes.append(Note(CronReason.UNSUPPORTED_SCHEDULE, f"{advice} (schedule {text!r})", warning=True))
    try:
        return parse_schedule(text, zone)
    except ValueError as error:
        notes.append(Note(CronReason.UNPARSEABLE_SCHEDULE, f"unparseable schedule: {error}", warning=True))
        return None


def _in_time(
    cron: CronJob, schedule: Schedule, since: datetime, last: datetime, now: datetime, notes: list[Note]
) -> datetime | None:
    """Return the last start unless it is too late for it, in whole seconds."""
    deadline = cron.spec.starting_deadline_seconds
    begin = since
    if deadline is not None:
        earliest = now.replace(microsecond=0) - timedelta(seconds=deadline)
        if last < earliest:
            text = f"Missed the start of {format_time(last)}: it is more than {deadline} s ago"
            notes.append(Note(CronReason.MISS_SCHEDULE, text, warning=True))
            return None
        begin = max(since, earliest - timedelta(seconds=1))
    if missed(schedule, begin, now, MANY + 1) > MANY:
        text = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clocks"
        notes.append(Note(CronReason.TOO_MANY_MISSED_TIMES, text, warning=True))
    return last


def _job(cron: CronJob, name: str, due: datetime) -> JSON:
    template = cron.spec.job_template
    zone = parse_zone(cron.spec.time_zone or "")
    local = due.astimezone(zone).isoformat(timespec="seconds")
    stamp = local.removesuffix("+00:00") + "Z" if local.endswith("+00:00") else local
    return new_job(
        cron,
        KIND,
        API_VERSION,
        name=name,
        spec=template.spec.dump(),
        labels=template.metadata.labels,
        annotations={**template.metadata.annotations, names.CRONJOB_SCHEDULED_TIMESTAMP: stamp},
    )


def _reference(job: JobView) -> JSON:
    return {
        "apiVersion": API_VERSION,
        "kind": "Job",
        "namespace": job.namespace,
        "name": job.name,
        "uid": job.uid,
    }
