"""Spans and metrics of the controller's part in a job's life."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from services.controller.adapters.memory import Memory
from services.controller.core.lifecycle import FINAL
from services.controller.core.model import JSON, Wanted
from services.controller.core.plans import PhaseChange
from services.controller.core.status import Status
from shared.api import names
from shared.api.batch import JobPhase
from shared.events.contracts import DecisionApplied, DecisionOutcome
from shared.telemetry.phases import Phase, job_attributes, job_span, phase_span
from shared.telemetry.telemetry import Telemetry

_ENDS_A_JOB: Final = FINAL | {JobPhase.COMPLETING, JobPhase.TERMINATING}
_LATENCIES: Final = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


class Trail:
    """Emits a span when what it describes has ended; the times come from events, and so do the ids."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        registry = telemetry.registry
        self._changes: Final = Counter(
            "pumice_controller_phase_changes",
            "Jobs that entered a phase.",
            ["phase"],
            registry=registry,
        )
        self._jobs: Final = Gauge(
            "pumice_controller_jobs", "Jobs that exist, by phase.", ["phase"], registry=registry
        )
        self._decisions: Final = Counter(
            "pumice_controller_decisions",
            "Decisions by what became of them (applied, partial, rolled-back, refused).",
            ["outcome"],
            registry=registry,
        )
        self._bind_seconds: Final = Histogram(
            "pumice_controller_bind_seconds",
            "From a decision to its last binding, in seconds.",
            buckets=_LATENCIES,
            registry=registry,
        )

    def changed(
        self, wanted: Wanted, memory: Memory, status: Status, change: PhaseChange, published: datetime
    ) -> None:
        """A job has entered a phase; ``status`` is its status before."""
        self._changes.labels(change.phase.value).inc()
        times, phase = memory.times, change.phase
        since = times.get(change.previous or "") or (
            status.entered(change.previous) if change.previous else None
        )
        times[phase.value] = change.at
        if change.previous is None:
            if memory.admitted_at is not None:
                self._span(Phase.CREATE, wanted, memory.admitted_at, change)
            return
        if phase is JobPhase.RUNNING and "bound" in times:
            self._span(Phase.START, wanted, times.pop("bound"), change)
        if change.previous is JobPhase.RUNNING and since is not None:
            self._span(Phase.RUN, wanted, since, change)
        if change.previous is JobPhase.RESTARTING and since is not None:
            self._span(Phase.RETRY, wanted, since, change)
        if phase in _ENDS_A_JOB:
            times.setdefault("ending", change.at)
        if phase in FINAL:
            self._ended(wanted, times.pop("ending"), change, published)

    def job_seen(self, old: JSON | None, new: JSON | None) -> None:
        """Count a job's phase as the API server has it."""
        before, after = _phase(old), _phase(new)
        if before != after:
            if before is not None:
                self._jobs.labels(before).dec()
            if after is not None:
                self._jobs.labels(after).inc()

    def deleted(self, memory: Memory, now: datetime) -> None:
        """A job is gone; one that had not ended ends its trace here."""
        wanted = memory.wanted
        if wanted is None or memory.ended:
            return
        self._telemetry.emit(
            job_span(
                wanted.annotations.get(names.TRACEPARENT, ""),
                wanted.created_at,
                now,
                tracestate=wanted.annotations.get(names.TRACESTATE),
                attributes={**_attributes(wanted), "pumice.job.phase": "Deleted"},
                error="the job was deleted before its end",
            )
        )

    def applied(
        self, wanted: Wanted | None, memory: Memory | None, result: DecisionApplied, decided: datetime
    ) -> None:
        """A decision was carried out or refused; ``decided`` is the time of its envelope."""
        self._decisions.labels(result.outcome.value).inc()
        if wanted is None or memory is None or result.outcome is DecisionOutcome.REFUSED:
            return
        failed = result.message if result.outcome is DecisionOutcome.ROLLED_BACK else None
        self._bind_seconds.observe(max(0.0, (result.at - decided).total_seconds()))
        if failed is None and result.bound:
            memory.times.setdefault("bound", result.at)
        self._telemetry.emit(
            phase_span(
                Phase.BIND,
                wanted.annotations.get(names.TRACEPARENT, ""),
                decided,
                result.at,
                generation=result.gang.generation,
                occurrence=result.decision,
                attributes={**_attributes(wanted), "pumice.pods": len(result.bound)},
                error=failed,
            )
        )

    def _span(self, phase: Phase, wanted: Wanted, start: datetime, change: PhaseChange) -> None:
        before = change.generation - (1 if change.phase is not JobPhase.PENDING and _bumps(change) else 0)
        self._telemetry.emit(
            phase_span(
                phase,
                wanted.annotations.get(names.TRACEPARENT, ""),
                start,
                change.at,
                generation=before,
                attributes=_attributes(wanted),
            )
        )

    def _ended(self, wanted: Wanted, ending: datetime, change: PhaseChange, published: datetime) -> None:
        traceparent = wanted.annotations.get(names.TRACEPARENT, "")
        failed = change.phase is JobPhase.FAILED
        error = (change.reason or change.message or "failed") if failed else None
        self._telemetry.emit(
            phase_span(
                Phase.FINISH,
                traceparent,
                ending,
                published,
                generation=change.generation,
                attributes=_attributes(wanted),
            )
        )
        self._telemetry.emit(
            job_span(
                traceparent,
                wanted.created_at,
                change.at,
                tracestate=wanted.annotations.get(names.TRACESTATE),
                attributes={**_attributes(wanted), "pumice.job.phase": change.phase.value},
                error=error,
            )
        )


def _phase(job: JSON | None) -> str | None:
    if job is None:
        return None
    return ((job.get("status") or {}).get("state") or {}).get("phase") or JobPhase.PENDING.value


def _bumps(change: PhaseChange) -> bool:
    """Whether this change began a new generation: what ended with it belongs to the one before."""
    return change.phase in (
        JobPhase.RESTARTING,
        JobPhase.ABORTING,
        JobPhase.COMPLETING,
        JobPhase.TERMINATING,
    )


def _attributes(wanted: Wanted) -> dict[str, str | bool | int | float]:
    return job_attributes(wanted.namespace, wanted.name, queue=wanted.queue, uid=wanted.uid)
