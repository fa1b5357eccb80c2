"""One service's telemetry: spans out to a collector, metrics in a registry, a logger.

Spans are handed to OpenTelemetry's processors as finished SDK spans, made here and not by a tracer: their
ids and times are functions of events (see ``spans``), which a tracer would choose by itself.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from shared.clock import Clock
from shared.telemetry.logs import ROOT, Outage, setup_logging
from shared.telemetry.spans import FinishedSpan, SpanStatus, TraceContext, parse_traceparent

__all__ = ["Telemetry", "from_environment", "setup_logging"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SCOPE: Final = InstrumentationScope("pumice")
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_CODES: Final = {
    SpanStatus.UNSET: StatusCode.UNSET,
    SpanStatus.OK: StatusCode.OK,
    SpanStatus.ERROR: StatusCode.ERROR,
}


class Telemetry:
    """What a service measures and says.

    ``exporter`` gets each span at once (tests: OpenTelemetry's InMemorySpanExporter); ``processor`` is
    for everything else. Without either, spans go nowhere. ``registry`` is the service's own: never
    Prometheus' global one, so that several services live in one process.
    """

    def __init__(
        self,
        service: str,
        *,
        registry: CollectorRegistry | None = None,
        exporter: SpanExporter | None = None,
        processor: SpanProcessor | None = None,
    ) -> None:
        self.service = service
        self.registry = registry if registry is not None else CollectorRegistry()
        self.log = logging.getLogger(f"{ROOT}.{service}")
        self._processor = SimpleSpanProcessor(exporter) if exporter is not None else processor
        self._resource = Resource.create({"service.name": f"pumice-{service}"})

    def emit(self, span: FinishedSpan | None) -> None:
        """Hand a finished span on; None and spans of an unsampled trace are dropped."""
        if self._processor is not None and span is not None and span.sampled:
            self._processor.on_end(_readable(span, self._resource))

    def outage(self, what: str, clock: Clock) -> Outage:
        """Return a helper that says once that ``what`` is away and once that it is back."""
        return Outage(what, self.log, clock)

    def exposition(self) -> str:
        """Return the metrics in Prometheus' text format (``text/plain; version=0.0.4``)."""
        return generate_latest(self.registry).decode()

    def shutdown(self) -> None:
        """Send what is left and stop. May block for some seconds when the collector is away."""
        if self._processor is not None:
            self._processor.shutdown()


def from_environment(
    service: str, *, registry: CollectorRegistry | None = None, environ: Mapping[str, str] = os.environ
) -> Telemetry:
    """Return telemetry that sends spans by OTLP over HTTP when OpenTelemetry's own variables say where.

    Endpoint, headers, time-outs and batch sizes are those of the OpenTelemetry specification
    (``OTEL_EXPORTER_OTLP_ENDPOINT``, ``OTEL_BSP_…``); ``OTEL_SDK_DISABLED=true`` turns it off.
    """
    wanted = any(environ.get(name) for name in _ENDPOINTS)
    if not wanted or environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return Telemetry(service, registry=registry)
    # Only needed with a collector, and slow to import.
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return Telemetry(service, registry=registry, processor=BatchSpanProcessor(OTLPSpanExporter()))


def _nanoseconds(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1) * 1000


def _context(context: TraceContext, *, remote: bool) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED if context.sampled else TraceFlags.DEFAULT)
    return SpanContext(
        int(context.trace_id, 16), int(context.span_id, 16), is_remote=remote, trace_flags=flags
    )


def _readable(span: FinishedSpan, resource: Resource) -> ReadableSpan:
    own = TraceContext(span.trace_id, span.span_id, span.sampled)
    parent = TraceContext(span.trace_id, span.parent_id, span.sampled) if span.parent_id else None
    links = [parse_traceparent(link) for link in span.links]
    code = _CODES[span.status]
    return ReadableSpan(
        name=span.name,
        context=_context(own, remote=False),
        parent=_context(parent, remote=True) if parent else None,
        resource=resource,
        attributes=dict(span.attributes),
        links=[Link(_context(link, remote=True)) for link in links if link],
        kind=SpanKind.INTERNAL,
        status=Status(code, span.message if code is StatusCode.ERROR and span.message else None),
        start_time=_nanoseconds(span.start),
        end_time=_nanoseconds(span.end),
        instrumentation_scope=_SCOPE,
    )
