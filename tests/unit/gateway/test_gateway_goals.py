"""Waits, commands, and where a stream of events goes on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.core.cursor import Cursor
from services.gateway.core.facts import Entry
from services.gateway.core.goals import Goal, carried_out, impossible, reached
from services.gateway.core.incarnation import current, of_submission
from shared.events import topics
from shared.events.contracts import JobAction, QueueState
from tests.fixtures.gateway_story import Story, at


def reached_goals(model) -> set[Goal]:
    return {goal for goal in Goal if reached(goal, of_submission(model, "s-1"))}


def test_a_wait_ends_when_the_job_has_come_that_far(folded) -> None:
    story = Story()
    story.submitted()
    assert reached_goals(folded(story.said)) == set()
    story.admitted()
    assert reached_goals(folded(story.said)) == {Goal.ADMITTED}
    assert reached_goals(folded(Story().placed().said)) == {Goal.ADMITTED, Goal.RUNNING}
    assert reached_goals(folded(Story().finished().said)) == set(Goal)


def test_a_rejection_and_a_deletion_end_every_wait(folded) -> None:
    refused = Story()
    refused.rejected()
    assert reached_goals(folded(refused.said)) == set(Goal)
    deleted = Story().born()
    deleted.gone(3)
    assert reached_goals(folded(deleted.said)) == set(Goal)


def test_a_suspended_job_has_finished_for_a_wait(folded) -> None:
    story = Story().placed()
    story.phase("Aborted", 5, previous="Aborting")
    assert reached_goals(folded(story.said)) == set(Goal)


@pytest.mark.parametrize(
    ("phase", "suspend", "resume"),
    [
        ("Pending", True, False),
        ("Running", True, False),
        ("Restarting", True, False),
        ("Aborting", False, True),
        ("Aborted", False, True),
        ("Completed", False, False),
        ("Failed", False, False),
        ("Terminated", False, False),
    ],
)
def test_a_command_is_refused_when_the_phase_makes_no_sense_of_it(
    folded, phase: str, suspend: bool, resume: bool
) -> None:
    story = Story().born()
    story.state(phase, 5)
    job = current(model := folded(story.said), model.jobs["default", "train"])
    assert (impossible(JobAction.SUSPEND, job) is None) is suspend
    assert (impossible(JobAction.RESUME, job) is None) is resume
    assert impossible(JobAction.DELETE, job) is None


def test_a_command_is_done_when_the_job_shows_it(folded) -> None:
    key = ("default", "train")
    story = Story().placed()
    model = folded(story.said)
    assert not any(carried_out(action, model, key, "u-1") for action in (JobAction.SUSPEND, JobAction.DELETE))
    story.state("Aborted", 5)
    model = folded(story.said)
    assert carried_out(JobAction.SUSPEND, model, key, "u-1")
    assert not carried_out(JobAction.RESUME, model, key, "u-1")
    story.gone(6)
    assert carried_out(JobAction.DELETE, folded(story.said), key, "u-1")
    again = Story(uid="u-2", submission="s-2", base=20).born()
    assert carried_out(JobAction.DELETE, folded([*story.said, *again.said]), key, "u-1")


places = st.tuples(
    st.sampled_from([topics.JOB_SUBMITTED, topics.JOB_LIFECYCLE, topics.BIND_DECISIONS]),
    st.integers(0, 3),
    st.integers(0, 50),
)


def entries(found: list[tuple[str, int, int]]) -> list[Entry]:
    return [Entry(*place, at(0), "phase", QueueState(name="x")) for place in sorted(set(found))]


@given(st.lists(places), st.integers(0, 60))
def test_a_stream_that_is_cut_anywhere_goes_on_with_exactly_what_was_not_sent(
    found: list[tuple[str, int, int]], cut: int
) -> None:
    everything = entries(found)
    cursor = Cursor()
    for entry in everything[:cut]:
        cursor.advance(entry)
    again = Cursor.parse(cursor.text())
    assert again.seen == cursor.seen
    assert again.unseen(everything) == everything[cut:]


@pytest.mark.parametrize("text", ["", "rubbish", "l0", "q0:1", "l:1", "l0:x", "lx:1", "l0:-1", ",,,"])
def test_an_id_that_makes_no_sense_starts_from_the_beginning(text: str) -> None:
    assert Cursor.parse(text).seen == {}
