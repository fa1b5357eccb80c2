"""What a service hands to its collector, its registry and its log."""

from __future__ import annotations

import io
import json
import logging
from datetime import UTC, datetime, timedelta

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from prometheus_client import Counter

from shared.clock import SystemClock
from shared.telemetry.logs import JsonFormatter, Outage, TextFormatter
from shared.telemetry.phases import Phase, phase_span
from shared.telemetry.telemetry import Telemetry, from_environment

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
NOW = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)


class HandClock(SystemClock):
    """A clock whose reading is set by hand."""

    reading = 0.0

    def monotonic(self) -> float:
        return self.reading


def test_a_span_is_exported_with_exactly_its_ids_and_times() -> None:
    exporter = InMemorySpanExporter()
    telemetry = Telemetry("controller", exporter=exporter)
    span = phase_span(
        Phase.DECIDE,
        TRACE,
        NOW,
        NOW + timedelta(microseconds=1),
        attributes={"pumice.queue": "q"},
        links=("00-" + "ab" * 16 + "-" + "cd" * 8 + "-01", "rubbish"),
        error="refused",
    )
    telemetry.emit(span)
    (out,) = exporter.get_finished_spans()
    assert span is not None
    assert out.context is not None
    assert out.parent is not None
    assert f"{out.context.trace_id:032x}" == span.trace_id
    assert f"{out.context.span_id:016x}" == span.span_id
    assert f"{out.parent.span_id:016x}" == TRACE[36:52]
    assert out.start_time == 1767268800123456000
    assert out.end_time == out.start_time + 1000
    assert out.attributes == {"pumice.queue": "q"}
    assert [f"{link.context.span_id:016x}" for link in out.links] == ["cd" * 8]
    assert (out.status.status_code, out.status.description) == (StatusCode.ERROR, "refused")
    assert out.resource.attributes["service.name"] == "pumice-controller"
    assert json.loads(out.to_json())["name"] == "decide"


def test_an_unsampled_trace_is_not_exported() -> None:
    exporter = InMemorySpanExporter()
    Telemetry("controller", exporter=exporter).emit(phase_span(Phase.RUN, TRACE[:-1] + "0", NOW, NOW))
    assert exporter.get_finished_spans() == ()


def test_spans_go_nowhere_unless_a_collector_is_named() -> None:
    telemetry = from_environment("gateway", environ={})
    telemetry.emit(phase_span(Phase.RUN, TRACE, NOW, NOW))
    telemetry.shutdown()
    disabled = from_environment(
        "gateway", environ={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"}
    )
    disabled.shutdown()


def test_each_service_has_its_own_metrics() -> None:
    one, two = Telemetry("one"), Telemetry("two")
    Counter("pumice_things", "Things.", registry=one.registry).inc()
    assert "pumice_things_total 1.0" in one.exposition()
    assert "pumice_things" not in two.exposition()


def record(message: str, **extra: object) -> logging.LogRecord:
    log = logging.getLogger("pumice.gateway")
    return log.makeRecord(log.name, logging.INFO, "", 0, message, (), None, extra=extra)


def test_text_is_one_line_with_the_facts() -> None:
    line = TextFormatter().format(record("two\nlines", job="default/a", reason="not so good"))
    assert "\n" not in line
    assert line.endswith("INFO    gateway: two lines job=default/a reason='not so good'")


def test_json_is_one_object_a_line_with_the_facts() -> None:
    entry = json.loads(JsonFormatter().format(record("admitted", job="default/a", at=NOW)))
    assert entry["message"] == "admitted"
    assert (entry["level"], entry["service"], entry["job"]) == ("info", "gateway", "default/a")
    assert entry["at"].startswith("2026-01-01T12:00:00")


@pytest.fixture
def said() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def log(said: io.StringIO) -> logging.Logger:
    logger = logging.Logger("pumice.test")  # noqa: LOG001 - its own, so that no other test hears it
    logger.addHandler(logging.StreamHandler(said))
    return logger


def test_an_outage_is_said_once_and_its_end_once(said: io.StringIO, log: logging.Logger) -> None:
    clock = HandClock()
    outage = Outage("Kafka", log, clock)
    outage.back()
    outage.away("connection refused", name="k")
    outage.away("connection refused")
    assert outage.ongoing
    clock.reading = 12.34
    outage.back()
    outage.back()
    assert said.getvalue().splitlines() == [
        "Kafka is away, retrying: connection refused",
        "Kafka is back after 12.3 s",
    ]
    assert not outage.ongoing
