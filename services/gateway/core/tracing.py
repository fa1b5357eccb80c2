"""A job's trace, as the services emit it, with what goes on now."""

from __future__ import annotations

from datetime import datetime

from services.gateway.core.incarnation import Incarnation
from services.gateway.core.rendering import seconds_between, summary
from services.gateway.core.timeline import Interval, bounds, intervals
from services.gateway.core.views import SpanView, TraceView
from shared.telemetry.phases import SERVICE_OF, job_attributes
from shared.telemetry.spans import SpanStatus, parse_traceparent, phase_span_id, root_parent


def trace(job: Incarnation) -> TraceView | None:
    """Return a job's trace so far; None when it has none."""
    context, times = parse_traceparent(job.traceparent), bounds(job)
    if context is None or times is None or job.traceparent is None:
        return None
    record, (start, end) = job.record, times
    failed = job.rejected or job.phase == "Failed"
    root = SpanView(
        span_id=context.span_id,
        parent_id=root_parent(job.submission.tracestate) if job.submission else None,
        name="job",
        service="controller",
        start=start,
        end=end,
        seconds=seconds_between(start, end),
        status=_status(end, failed=failed),
        message=job.phase,
        attributes=job_attributes(
            record.namespace,
            record.name,
            queue=summary(job).queue,
            uid=job.life.uid if job.life else "",
        ),
    )
    spans = [_span(one, job.traceparent, context.span_id) for one in intervals(job)]
    return TraceView(
        trace_id=context.trace_id, namespace=record.namespace, name=record.name, spans=(root, *spans)
    )


def _status(end: datetime | None, *, failed: bool) -> str:
    if failed:
        return SpanStatus.ERROR.value
    return (SpanStatus.UNSET if end is None else SpanStatus.OK).value


def _span(one: Interval, traceparent: str, parent: str) -> SpanView:
    end = None if one.end is None else max(one.start, one.end)
    return SpanView(
        span_id=phase_span_id(traceparent, one.phase, one.generation, one.occurrence),
        parent_id=parent,
        name=one.phase.value,
        service=SERVICE_OF[one.phase],
        start=one.start,
        end=end,
        seconds=seconds_between(one.start, end),
        status=_status(end, failed=one.error is not None),
        message=one.error or "",
        attributes=one.attributes,
        links=one.links,
    )
