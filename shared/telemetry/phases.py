"""The spans of a job's life, each as a function of the events that begin and end it.

The service that sees a phase end emits its span; the gateway draws the same spans from the topics. The
phases of one generation follow each other without gaps, so the waterfall accounts for all of the time,
the log's included:

==========  ==========  =======================================  ======================================
phase       service     begins                                   ends
==========  ==========  =======================================  ======================================
submit      gateway     the request came in                      the log has the submission
admit       admission   JobSubmitted: the envelope's time        JobAdmitted/JobRejected: its time
create      controller  JobAdmitted: the envelope's time         the first JobPhaseChanged: ``at``
queue       scheduler   the gang's ``readySince``                GangDecided: ``decidedAt``
decide      scheduler   GangDecided: ``decidedAt`` (the cycle)   GangDecided: the envelope's time
bind        controller  GangDecided: the envelope's time         DecisionApplied: ``at``
start       controller  DecisionApplied: ``at``                  JobPhaseChanged to Running: ``at``
run         controller  JobPhaseChanged to Running: ``at``       the next JobPhaseChanged: ``at``
retry       controller  JobPhaseChanged to Restarting: ``at``    JobPhaseChanged to Pending: ``at``
finish      controller  the phase that ends the job: ``at``      the final phase was published
job         controller  the job was submitted                    the final phase: ``at``
==========  ==========  =======================================  ======================================

``job`` is the root; all others are its children.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final

from shared.telemetry.spans import (
    Attribute,
    FinishedSpan,
    SpanStatus,
    parse_traceparent,
    phase_span_id,
    root_parent,
)


class Phase(StrEnum):
    """A phase of a job's life, as a span's name."""

    SUBMIT = "submit"
    ADMIT = "admit"
    CREATE = "create"
    QUEUE = "queue"
    DECIDE = "decide"
    BIND = "bind"
    START = "start"
    RUN = "run"
    RETRY = "retry"
    FINISH = "finish"


SERVICE_OF: Final[Mapping[Phase, str]] = {
    Phase.SUBMIT: "gateway",
    Phase.ADMIT: "admission",
    Phase.CREATE: "controller",
    Phase.QUEUE: "scheduler",
    Phase.DECIDE: "scheduler",
    Phase.BIND: "controller",
    Phase.START: "controller",
    Phase.RUN: "controller",
    Phase.RETRY: "controller",
    Phase.FINISH: "controller",
}
"""The service that emits each phase."""


def phase_span(
    phase: Phase,
    traceparent: str,
    start: datetime,
    end: datetime,
    *,
    generation: int = 0,
    occurrence: str = "",
    attributes: Mapping[str, Attribute] | None = None,
    links: tuple[str, ...] = (),
    error: str | None = None,
) -> FinishedSpan | None:
    """Return the span of one phase; None when the job's traceparent cannot be read.

    ``queue``, ``decide`` and ``bind`` pass the decision's id as ``occurrence``. ``error`` says what went
    wrong and marks the span. Clocks of two machines differ a little: an end before the start becomes it.
    """
    context = parse_traceparent(traceparent)
    if context is None:
        return None
    return FinishedSpan(
        trace_id=context.trace_id,
        span_id=phase_span_id(traceparent, phase, generation, occurrence),
        parent_id=context.span_id,
        name=phase.value,
        service=SERVICE_OF[phase],
        start=start,
        end=max(start, end),
        attributes=dict(attributes or {}),
        links=links,
        status=SpanStatus.ERROR if error is not None else SpanStatus.OK,
        message=error or "",
        sampled=context.sampled,
    )


def job_span(
    traceparent: str,
    start: datetime,
    end: datetime,
    *,
    tracestate: str | None = None,
    attributes: Mapping[str, Attribute] | None = None,
    error: str | None = None,
) -> FinishedSpan | None:
    """Return the root span of a job that ended; None when its traceparent cannot be read."""
    context = parse_traceparent(traceparent)
    if context is None:
        return None
    return FinishedSpan(
        trace_id=context.trace_id,
        span_id=context.span_id,
        parent_id=root_parent(tracestate),
        name="job",
        service="controller",
        start=start,
        end=max(start, end),
        attributes=dict(attributes or {}),
        status=SpanStatus.ERROR if error is not None else SpanStatus.OK,
        message=error or "",
        sampled=context.sampled,
    )


def job_attributes(
    namespace: str, name: str, *, queue: str = "", uid: str = "", generation: int | None = None
) -> dict[str, Attribute]:
    """Return the attributes by which a span's job is found in a collector; empty ones are left out."""
    attributes: dict[str, Attribute] = {"pumice.job.namespace": namespace, "pumice.job.name": name}
    if queue:
        attributes["pumice.queue"] = queue
    if uid:
        attributes["pumice.job.uid"] = uid
    if generation is not None:
        attributes["pumice.job.generation"] = generation
    return attributes
