"""A job's status: read, counted anew, and written as the smallest merge patch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from services.controller.core.lifecycle import Tally
from services.controller.core.model import JSON, Wanted
from services.controller.core.podview import PodView
from shared.api.batch import JobPhase
from shared.api.duration import format_duration
from shared.api.meta import format_time, parse_time
from shared.events.contracts import PodCounts

_PHASES: Final = {phase.value: phase for phase in JobPhase}


@dataclass(frozen=True, slots=True)
class Condition:
    """When a phase was entered last."""

    phase: str
    at: str


@dataclass(frozen=True, slots=True)
class Status:
    """A job's status; ``phase`` None: nobody has written one yet."""

    phase: JobPhase | None = None
    reason: str = ""
    message: str = ""
    since: str = ""
    generation: int = 0
    retries: int = 0
    min_available: int = 0
    counts: PodCounts = field(default_factory=PodCounts)
    task_counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    running_duration: str = ""
    controlled: Mapping[str, str] = field(default_factory=dict[str, str])
    conditions: tuple[Condition, ...] = ()

    def entered(self, phase: JobPhase) -> datetime | None:
        """Return when a phase was entered last, to the second."""
        return next((parse_time(c.at) for c in reversed(self.conditions) if c.phase == phase), None)

    def move(self, phase: JobPhase, at: datetime, reason: str, message: str) -> Status:
        """Return the status in another phase; the phase's condition moves to the end."""
        text = format_time(at)
        duration = self.running_duration
        started = self.entered(JobPhase.RUNNING)
        if phase in (JobPhase.COMPLETED, JobPhase.FAILED) and started and self.phase is JobPhase.RUNNING:
            duration = format_duration(parse_time(text) - started)
        kept = tuple(c for c in self.conditions if c.phase != phase)
        return replace(
            self,
            phase=phase,
            reason=reason,
            message=message,
            since=text,
            running_duration=duration,
            conditions=(*kept, Condition(phase, text)),
        )


def read_status(raw: JSON) -> Status:
    """Read a Job's status subresource."""
    status = raw.get("status") or {}
    state = status.get("state") or {}
    phase: str = state.get("phase") or ""
    return Status(
        phase=_PHASES.get(phase),
        reason=state.get("reason") or "",
        message=state.get("message") or "",
        since=state.get("lastTransitionTime") or "",
        generation=status.get("version") or 0,
        retries=status.get("retryCount") or 0,
        min_available=status.get("minAvailable") or 0,
        counts=PodCounts(**{name: status.get(name) or 0 for name in PodCounts.model_fields}),
        task_counts={
            task: dict(entry.get("phase") or {})
            for task, entry in (status.get("taskStatusCount") or {}).items()
        },
        running_duration=status.get("runningDuration") or "",
        controlled=dict(status.get("controlledResources") or {}),
        conditions=tuple(
            Condition(c.get("status") or "", c.get("lastTransitionTime") or "")
            for c in status.get("conditions") or ()
        ),
    )


def write_status(status: Status) -> JSON:
    """Return the status as JSON; zeros and empty fields are left out, as Volcano does."""
    whole: JSON = {
        "state": _without_empty(
            {
                "phase": status.phase.value if status.phase else "",
                "reason": status.reason,
                "message": status.message,
                "lastTransitionTime": status.since,
            }
        ),
        "minAvailable": status.min_available,
        "version": status.generation,
        "retryCount": status.retries,
        "runningDuration": status.running_duration,
        "controlledResources": dict(status.controlled),
        "taskStatusCount": {task: {"phase": dict(counts)} for task, counts in status.task_counts.items()},
        "conditions": [{"status": c.phase, "lastTransitionTime": c.at} for c in status.conditions],
        **status.counts.model_dump(),
    }
    return _without_empty(whole)


def _without_empty(values: JSON) -> JSON:
    return {key: value for key, value in values.items() if value}


def merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> JSON | None:
    """Return the JSON merge patch (RFC 7386) from ``old`` to ``new``; None when they are equal."""
    patch: JSON = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if value == before:
            continue
        if isinstance(value, dict) and isinstance(before, dict):
            patch[key] = merge_patch(before, value)
        else:
            patch[key] = value
    return patch or None


def count_pods(
    pods: Iterable[PodView], leaving: frozenset[str]
) -> tuple[PodCounts, dict[str, dict[str, int]]]:
    """Count a job's pods, in all and by task; ``leaving`` are names which are to be deleted.

    A pod that is being deleted is terminating, whatever it did before: killed is not succeeded.
    """
    total: Counter[str] = Counter()
    by_task: dict[str, Counter[str]] = {}
    for pod in pods:
        if pod.deleting or pod.name in leaving:
            total["terminating"] += 1
            continue
        phase = pod.phase if pod.phase in ("Pending", "Running", "Succeeded", "Failed") else "Unknown"
        total[phase.lower()] += 1
        by_task.setdefault(pod.task, Counter())[phase] += 1
    return PodCounts(**total), {task: dict(sorted(c.items())) for task, c in sorted(by_task.items())}


def tally(wanted: Wanted, status: Status, missing: int) -> Tally:
    """Return the numbers that the lifecycle looks at."""
    counts = status.counts
    short = any(
        status.task_counts.get(task.name, {}).get("Succeeded", 0) < task.minimum for task in wanted.tasks
    )
    return Tally(
        pending=counts.pending,
        running=counts.running,
        succeeded=counts.succeeded,
        failed=counts.failed,
        unknown=counts.unknown,
        leaving=counts.terminating,
        missing=missing,
        replicas=wanted.replicas,
        minimum=wanted.min_available,
        min_success=wanted.min_success,
        task_minimums=wanted.task_minimums,
        task_short=short,
        retries=status.retries,
        max_retry=wanted.max_retry,
    )
