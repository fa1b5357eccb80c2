"""From decisions and reports to records, and the spans that go with decisions."""

from __future__ import annotations

from datetime import datetime

from services.scheduler.core.decisions import Decision
from services.scheduler.core.gangs import Key
from shared.events import topics
from shared.events.codec import encode
from shared.events.contracts import CycleDecided, ExtenderAnswered, GangDecided, GangReport, NodesMeasured
from shared.events.envelope import Envelope
from shared.log.port import Record
from shared.telemetry.phases import Phase, job_attributes, phase_span
from shared.telemetry.spans import FinishedSpan

SOURCE = "/pumice/scheduler"


def decision_record(event: GangDecided, traceparent: str | None, now: datetime) -> Record:
    """Return the record of a decision; the envelope's id is the decision's."""
    return encode(
        topics.BIND_DECISIONS,
        event.pool.encode(),
        Envelope(
            id=event.decision,
            source=f"{SOURCE}/{event.pool}",
            time=now,
            data=event,
            subject=f"{event.gang.namespace}/{event.gang.name}",
            traceparent=traceparent,
        ),
    )


def cycle_record(event: CycleDecided, identifier: str) -> Record:
    """Return the record of a cycle; it lies beside the cycle's decisions."""
    return encode(
        topics.BIND_DECISIONS,
        event.pool.encode(),
        Envelope(id=identifier, source=f"{SOURCE}/{event.pool}", time=event.at, data=event),
    )


def measured_record(event: NodesMeasured, identifier: str) -> Record:
    """Return the record of what a pool's nodes really use."""
    return encode(
        topics.NODE_LOAD,
        event.pool.encode(),
        Envelope(id=identifier, source=f"{SOURCE}/{event.pool}", time=event.at, data=event),
    )


def report_record(report: GangReport, pool: str, identifier: str) -> Record:
    """Return the record of a report."""
    return encode(
        topics.SCHEDULING_REPORTS,
        topics.job_key(report.gang.namespace, report.gang.name),
        Envelope(
            id=identifier,
            source=f"{SOURCE}/{pool}",
            time=report.at,
            data=report,
            subject=f"{report.gang.namespace}/{report.gang.name}",
        ),
    )


def answer_record(event: ExtenderAnswered, identifier: str) -> Record:
    """Return the record of an extender's answer."""
    return encode(
        topics.EXTENDER_ANSWERS,
        topics.answer_key(event.pool, event.question),
        Envelope(id=identifier, source=f"{SOURCE}/{event.pool}", time=event.as_of, data=event),
    )


def report_end(key: Key) -> Record:
    """Return the tombstone of a gang that does not wait any more."""
    return Record(topics.SCHEDULING_REPORTS, topics.job_key(*key), None)


def decision_spans(
    decision: Decision, event: GangDecided, published: datetime, reason: str | None
) -> list[FinishedSpan]:
    """Return the spans ``queue`` and ``decide`` of a decision's job."""
    if decision.traceparent is None or decision.again:
        return []
    attributes = {
        **job_attributes(decision.namespace, decision.name, generation=decision.generation),
        "pumice.decision": decision.number,
        "pumice.pods": len(decision.rows),
    }
    waited = {**attributes, "pumice.last_reason": reason} if reason else attributes
    spans = [
        phase_span(
            Phase.QUEUE,
            decision.traceparent,
            decision.waiting_since,
            decision.decided_at,
            generation=decision.generation,
            occurrence=decision.number,
            attributes=waited,
        ),
        phase_span(
            Phase.DECIDE,
            decision.traceparent,
            decision.decided_at,
            published,
            generation=decision.generation,
            occurrence=decision.number,
            attributes=attributes,
            links=(event.cycle_traceparent,) if event.cycle_traceparent else (),
        ),
    ]
    return [span for span in spans if span is not None]
