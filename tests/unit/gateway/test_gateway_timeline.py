"""Phases and traces, from the facts."""

from __future__ import annotations

from services.gateway.core.facts import Model
from services.gateway.core.incarnation import Incarnation, current
from services.gateway.core.timeline import intervals
from services.gateway.core.tracing import trace
from shared.telemetry.phases import Phase
from shared.telemetry.spans import parse_traceparent, phase_span_id
from tests.fixtures.gateway_story import CYCLE, Story, at


def job_of(model: Model, name: str = "train") -> Incarnation:
    return current(model, model.jobs["default", name])


def test_the_phases_of_a_finished_job_follow_each_other_without_gaps(folded) -> None:
    found = intervals(job_of(folded(Story().finished().said)))
    assert [one.phase.value for one in found] == [
        "submit",
        "admit",
        "create",
        "queue",
        "decide",
        "bind",
        "start",
        "run",
        "finish",
    ]
    assert all(one.end is not None for one in found)
    by_phase = {one.phase: one for one in found}
    for before, after in (("queue", "decide"), ("decide", "bind"), ("bind", "start"), ("start", "run")):
        assert by_phase[Phase(before)].end == by_phase[Phase(after)].start


def test_what_goes_on_has_no_end(folded) -> None:
    story = Story().born()
    story.report(0.5)
    last = intervals(job_of(folded(story.said)))[-1]
    assert (last.phase, last.start, last.end) == (Phase.QUEUE, at(0.3), None)
    assert last.attributes["pumice.reason"] == "insufficient-resources"


def test_a_decision_that_was_taken_back_is_followed_by_another_wait(folded) -> None:
    story = Story().born()
    story.decided(1, "d-1")
    story.applied(1.2, "d-1", "rolled-back")
    story.decided(2, "d-2")
    story.applied(2.2, "d-2")
    found = intervals(job_of(folded(story.said)))
    waits = [(one.start, one.end) for one in found if one.phase is Phase.QUEUE]
    assert waits == [(at(0.3), at(1)), (at(1.2), at(2))]
    binds = [one.error for one in found if one.phase is Phase.BIND]
    assert binds == ["node n0 is full", None]


def test_a_restart_is_a_retry_and_a_new_generation_of_waiting(folded) -> None:
    story = Story().placed()
    story.phase("Restarting", 5, previous="Running", generation=1)
    story.phase("Pending", 6, previous="Restarting", generation=1)
    story.group(6, generation=1)
    story.decided(7, "d-2", generation=1)
    story.applied(7.1, "d-2", generation=1)
    story.phase("Running", 8, generation=1)
    found = [(one.phase.value, one.generation) for one in intervals(job_of(folded(story.said)))]
    assert found[-6:] == [
        ("retry", 1),
        ("queue", 1),
        ("decide", 1),
        ("bind", 1),
        ("start", 1),
        ("run", 1),
    ]
    assert ("run", 0) in found


def test_a_rejected_jobs_trace_ends_with_its_admission(folded) -> None:
    story = Story()
    story.submitted()
    story.rejected(0.5, "queue", "replicas")
    found = intervals(job_of(folded(story.said)))
    assert [(one.phase, one.error) for one in found] == [(Phase.SUBMIT, None), (Phase.ADMIT, "2 violations")]


def test_a_trace_has_one_root_and_the_ids_that_the_services_emit(folded) -> None:
    story = Story().finished()
    view = trace(job_of(folded(story.said)))
    context = parse_traceparent(story.trace)
    assert view is not None
    assert context is not None
    root, *phases = view.spans
    assert (view.trace_id, root.span_id, root.parent_id) == (context.trace_id, context.span_id, None)
    assert (root.start, root.end, root.status) == (at(0), at(10.5), "ok")
    assert {span.parent_id for span in phases} == {root.span_id}
    assert len({span.span_id for span in view.spans}) == len(view.spans)
    decide = next(span for span in phases if span.name == "decide")
    assert decide.span_id == phase_span_id(story.trace, "decide", 0, "u-1-d-1")
    assert decide.links == (CYCLE,)
    assert decide.service == "scheduler"


def test_a_job_made_by_kubectl_is_traced_from_its_creation(folded) -> None:
    story = Story("applied", "u-k", "")
    story.phase("Pending", 0.2, previous="")
    story.state("Pending", 0.2)
    view = trace(job_of(folded(story.said), "applied"))
    assert view is not None
    assert [span.name for span in view.spans] == ["job", "create", "queue"]


def test_a_failed_job_is_an_error(folded) -> None:
    story = Story().placed()
    story.phase("Failed", 9, previous="Running")
    view = trace(job_of(folded(story.said)))
    assert view is not None
    assert view.spans[0].status == "error"
