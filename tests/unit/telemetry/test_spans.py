"""Spans are functions of events."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.telemetry.phases import Phase, job_span, phase_span
from shared.telemetry.spans import (
    SpanStatus,
    TraceContext,
    format_traceparent,
    job_trace,
    new_traceparent,
    parse_traceparent,
    phase_span_id,
    root_parent,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ASKER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    "text",
    [
        "",
        None,
        "rubbish",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-extra",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
    ],
)
def test_an_invalid_traceparent_is_no_context(text: str | None) -> None:
    assert parse_traceparent(text) is None


def test_a_later_version_is_read_by_its_first_fields() -> None:
    assert parse_traceparent("01" + ASKER[2:] + "-more") == TraceContext(
        ASKER[3:35], ASKER[36:52], sampled=True
    )


@given(st.binary(min_size=16, max_size=16), st.binary(min_size=8, max_size=8), st.booleans())
def test_a_context_survives_writing_and_reading(trace: bytes, span: bytes, sampled: bool) -> None:
    context = TraceContext(trace.hex(), span.hex(), sampled)
    expected = context if any(trace) and any(span) else None
    assert parse_traceparent(format_traceparent(context)) == expected


def test_a_new_trace_uses_the_given_randomness_and_is_never_zero() -> None:
    answers = iter([bytes(16), bytes(8), b"\x01" * 16, b"\x02" * 8])
    assert new_traceparent(lambda size: next(answers)) == f"00-{'01' * 16}-{'02' * 8}-01"
    first, second = (new_traceparent(random.Random(7).randbytes) for _ in range(2))
    assert first == second


def test_a_job_without_an_asker_begins_its_own_trace_named_by_its_submission() -> None:
    trace = job_trace("s-1")
    assert trace == job_trace("s-1")
    assert trace.traceparent != job_trace("s-2").traceparent
    assert root_parent(trace.tracestate) is None


def test_a_job_joins_the_askers_trace_below_its_span() -> None:
    trace = job_trace("s-1", ASKER, "vendor=x")
    context = parse_traceparent(trace.traceparent)
    assert context is not None
    assert context.trace_id == ASKER[3:35]
    assert context.span_id != ASKER[36:52]
    assert root_parent(trace.tracestate) == ASKER[36:52]
    assert "vendor=x" in trace.tracestate


def test_a_jobs_own_context_is_taken_over_unchanged_by_every_later_service() -> None:
    trace = job_trace("s-1", ASKER)
    assert job_trace("another seed", *trace) == trace


def test_an_unsampled_asker_makes_an_unsampled_job() -> None:
    context = parse_traceparent(job_trace("s-1", ASKER[:-1] + "0").traceparent)
    assert context is not None
    assert not context.sampled


@given(
    st.lists(
        st.tuples(st.sampled_from(list(Phase)), st.integers(0, 3), st.sampled_from(["", "d1", "d2"])),
        unique=True,
    )
)
def test_different_phases_have_different_ids(keys: list[tuple[Phase, int, str]]) -> None:
    ids = [phase_span_id(ASKER, *key) for key in keys]
    assert len(set(ids)) == len(keys)
    assert ids == [phase_span_id(ASKER, *key) for key in keys]


def test_phases_are_children_of_the_root_which_is_a_child_of_the_asker() -> None:
    trace = job_trace("s-1", ASKER)
    root = job_span(trace.traceparent, NOW, NOW + timedelta(seconds=9), tracestate=trace.tracestate)
    run = phase_span(Phase.RUN, trace.traceparent, NOW, NOW + timedelta(seconds=5), generation=1)
    assert root is not None
    assert run is not None
    assert (run.trace_id, run.parent_id) == (root.trace_id, root.span_id)
    assert root.parent_id == ASKER[36:52]


def test_an_end_before_the_start_becomes_the_start() -> None:
    span = phase_span(Phase.BIND, ASKER, NOW, NOW - timedelta(milliseconds=3))
    assert span is not None
    assert span.end == span.start == NOW


def test_an_error_marks_its_span() -> None:
    span = phase_span(Phase.ADMIT, ASKER, NOW, NOW, error="3 violations")
    assert span is not None
    assert (span.status, span.message) == (SpanStatus.ERROR, "3 violations")


def test_a_job_whose_traceparent_cannot_be_read_has_no_spans() -> None:
    assert phase_span(Phase.RUN, "rubbish", NOW, NOW) is None
    assert job_span("rubbish", NOW, NOW) is None
