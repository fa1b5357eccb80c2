"""The phases of a job with their times, and its trace, from the facts.

The same spans as the services emit (``shared.telemetry.phases`` says what begins and ends each), so that
the waterfall can be drawn without a collector. A phase that goes on has no end yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from services.gateway.core.facts import Change, Decision, Gang
from services.gateway.core.incarnation import FINAL, Incarnation
from shared.events.contracts import DecisionApplied, DecisionOutcome
from shared.telemetry.phases import Phase
from shared.telemetry.spans import Attribute

_PLACED = (DecisionOutcome.APPLIED, DecisionOutcome.PARTIAL)
_ENDING = frozenset(("Completing", "Terminating"))


@dataclass(frozen=True, slots=True)
class Interval:
    """One phase. ``end`` None: it goes on. ``occurrence`` and ``generation`` go into the span's id."""

    phase: Phase
    start: datetime
    end: datetime | None
    generation: int = 0
    occurrence: str = ""
    error: str | None = None
    attributes: dict[str, Attribute] = field(default_factory=dict[str, Attribute])
    links: tuple[str, ...] = ()


def intervals(job: Incarnation) -> list[Interval]:
    """Return the phases of a job in order of their start."""
    found = [*_asked(job), *_created(job), *_scheduled(job), *_ran(job)]
    order = list(Phase)
    return sorted(found, key=lambda one: (one.start, order.index(one.phase), one.occurrence))


def bounds(job: Incarnation) -> tuple[datetime, datetime | None] | None:
    """Return the start and end of the whole; None when nothing is known of its start."""
    asked, state = job.submission, job.known_state
    starts = [
        asked.submitted_at if asked else None,
        state.created_at if state else None,
        job.changes[0].event.at if job.changes else None,
    ]
    start = next((time for time in starts if time is not None), None)
    if start is None:
        return None
    if job.rejected and asked:
        return start, asked.rejected_at
    finals = [change.event.at for change in job.changes if change.event.phase in FINAL]
    if finals:
        return start, finals[-1]
    return start, (state.finished_at if state else None)


def _asked(job: Incarnation) -> Iterator[Interval]:
    asked = job.submission
    if asked is None or asked.published is None or asked.submitted_at is None:
        return
    yield Interval(Phase.SUBMIT, asked.submitted_at, asked.appended_at)
    if asked.rejected_at:
        count = len(asked.violations)
        error = f"{count} violation{'' if count == 1 else 's'}"
        yield Interval(Phase.ADMIT, asked.published, asked.rejected_at, error=error)
    else:
        yield Interval(Phase.ADMIT, asked.published, asked.admitted_at)


def _created(job: Incarnation) -> Iterator[Interval]:
    asked, state = job.submission, job.known_state
    first = job.changes[0].event.at if job.changes else None
    begin = asked.admitted_at if asked else None
    if begin is None and state is not None:
        begin = state.created_at
    if begin is not None and not job.rejected:
        generation = job.changes[0].event.generation if job.changes else 0
        yield Interval(Phase.CREATE, begin, first, generation)


def _scheduled(job: Incarnation) -> Iterator[Interval]:
    """Queue, decide, bind and start of each generation."""
    by_generation: dict[int, list[tuple[Gang, Decision]]] = {}
    for gang, decision in job.decisions():
        by_generation.setdefault(decision.event.gang.generation, []).append((gang, decision))
    for generation in sorted({*by_generation, *_waiting_generations(job)}):
        yield from _generation(job, generation, by_generation.get(generation, []))


def _waiting_generations(job: Incarnation) -> set[int]:
    return {change.event.generation for change in job.changes if change.event.phase == "Pending"}


def _generation(
    job: Incarnation, generation: int, decided: list[tuple[Gang, Decision]]
) -> Iterator[Interval]:
    waits_since = _ready(job, generation)
    placed_at: datetime | None = None
    for gang, decision in decided:
        event, result = decision.event, gang.results.get(decision.event.decision)
        once = event.decision
        if waits_since is not None:
            yield _queue(job, generation, waits_since, event.decided_at, once)
        links = (event.cycle_traceparent,) if event.cycle_traceparent else ()
        counts: dict[str, Attribute] = {
            "pumice.decision": once,
            "pumice.bindings": len(event.bindings),
            "pumice.cycle": event.cycle,
        }
        if placed_at is None:  # later ones only add members beyond the minimum
            published = max(event.decided_at, decision.published)
            yield Interval(
                Phase.DECIDE, event.decided_at, published, generation, once, attributes=counts, links=links
            )
        if result is None or result.outcome is not DecisionOutcome.REFUSED:
            yield _bind(decision, result, generation)
        waits_since = None
        if result is not None and result.outcome in _PLACED:
            placed_at = placed_at or result.at
        elif result is not None and placed_at is None:
            waits_since = result.at
    if waits_since is not None and placed_at is None and generation == job.generation:
        ends = _after(job, generation, waits_since)
        yield _queue(job, generation, waits_since, ends, "")
    if placed_at is not None:
        yield Interval(Phase.START, placed_at, _after(job, generation, placed_at), generation)


def _queue(
    job: Incarnation, generation: int, start: datetime, end: datetime | None, occurrence: str
) -> Interval:
    attributes: dict[str, Attribute] = {}
    for gang in job.gangs:
        report = gang.last_report
        if report is not None and report.gang.generation == generation:
            attributes = {"pumice.reason": report.reason.code, "pumice.message": report.reason.message}
    return Interval(Phase.QUEUE, start, end, generation, occurrence, attributes=attributes)


def _bind(decision: Decision, result: DecisionApplied | None, generation: int) -> Interval:
    event = decision.event
    error: str | None = None
    attributes: dict[str, Attribute] = {"pumice.decision": event.decision}
    if result is not None:
        attributes |= {"pumice.outcome": result.outcome.value, "pumice.bound": len(result.bound)}
        if result.outcome not in _PLACED:
            error = result.message or result.outcome.value
    end = result.at if result else None
    return Interval(Phase.BIND, decision.published, end, generation, event.decision, error, attributes)


def _ready(job: Incarnation, generation: int) -> datetime | None:
    """Return since when a generation could be scheduled."""
    for gang in job.gangs:
        if generation in gang.ready:
            return gang.ready[generation]
    for change in job.changes:
        if change.event.generation == generation and change.event.phase == "Pending":
            return change.event.at
    return None


def _after(job: Incarnation, generation: int, since: datetime) -> datetime | None:
    """Return when a generation first ran, or left its wait otherwise, after ``since``."""
    for change in job.changes:
        later = change.event.generation > generation or change.event.phase != "Pending"
        if change.event.at >= since and change.event.generation >= generation and later:
            return change.event.at
    return None


def _ran(job: Incarnation) -> Iterator[Interval]:
    """Run, retry and finish."""
    runs: dict[int, int] = {}
    for number, change in enumerate(job.changes):
        following = job.changes[number + 1] if number + 1 < len(job.changes) else None
        event, end = change.event, following.event.at if following else None
        if event.phase == "Running":
            again = runs.get(event.generation, 0)
            runs[event.generation] = again + 1
            yield Interval(Phase.RUN, event.at, end, event.generation, str(again) if again else "")
        elif event.phase == "Restarting":
            retries: dict[str, Attribute] = {"pumice.retry": event.retry_count, "pumice.reason": event.reason}
            yield Interval(Phase.RETRY, event.at, end, event.generation, attributes=retries)
        elif event.phase in FINAL:
            yield _finish(job, number, change)


def _finish(job: Incarnation, number: int, change: Change) -> Interval:
    """From the phase that began the end (killing pods) to the publication of the final one."""
    before = job.changes[number - 1].event if number else None
    start = before.at if before is not None and before.phase in _ENDING else change.event.at
    error = (
        (change.event.message or change.event.reason or "failed") if change.event.phase == "Failed" else None
    )
    return Interval(Phase.FINISH, start, max(start, change.published), change.event.generation, error=error)
