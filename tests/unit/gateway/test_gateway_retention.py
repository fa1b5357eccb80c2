"""What the read model forgets."""

from __future__ import annotations

from datetime import timedelta

from services.gateway.core.incarnation import current
from services.gateway.core.readmodel import fold
from services.gateway.core.rendering import detail
from services.gateway.core.retention import LIVES_KEPT, prune
from tests.fixtures.gateway_story import Story, at
from tests.unit.gateway.conftest import arrivals

WEEK = timedelta(days=7)


def ended(name: str, base: float) -> list:
    story = Story(name, f"u-{name}", f"s-{name}", base=base).finished()
    story.gone(20)
    return story.said


def test_of_the_jobs_that_ended_the_last_ones_are_kept(folded) -> None:
    model = folded([message for number in range(5) for message in ended(f"j{number}", 100.0 * number)])
    assert prune(model, at(1000), keep_jobs=2, keep_for=WEEK) == 3
    assert set(model.jobs) == {("default", "j3"), ("default", "j4")}
    assert set(model.submissions) == {"s-j3", "s-j4"}
    assert {gang.owner for gang in model.gangs.values()} <= {("default", "j3"), ("default", "j4"), None}


def test_a_job_that_exists_is_never_forgotten(folded) -> None:
    model = folded(Story().finished().said)
    assert prune(model, at(0) + WEEK * 9, keep_jobs=0, keep_for=WEEK) == 0
    assert ("default", "train") in model.jobs


def test_what_was_never_answered_goes_with_time(folded) -> None:
    story = Story()
    story.submitted()
    model = folded(story.said)
    assert prune(model, at(60), keep_jobs=0, keep_for=WEEK) == 0
    assert prune(model, at(60) + WEEK, keep_jobs=0, keep_for=WEEK) == 1


def test_a_name_that_is_used_over_and_over_keeps_its_last_uses(folded) -> None:
    said = []
    for number in range(LIVES_KEPT + 5):
        story = Story("train", f"u-{number}", f"s-{number}", base=100.0 * number).finished()
        story.gone(20)
        refused = Story("train", "", f"r-{number}", base=100.0 * number + 50)
        refused.submitted()
        refused.rejected()
        said += [*story.said, *refused.said]
    model = folded(said)
    prune(model, at(0), keep_jobs=100, keep_for=WEEK)
    record = model.jobs["default", "train"]
    assert list(record.lives) == [f"u-{number}" for number in range(5, LIVES_KEPT + 5)]
    assert f"r-{LIVES_KEPT + 4}" in record.submissions
    assert "r-0" not in record.submissions
    assert "s-0" not in model.submissions


def test_a_report_that_comes_before_its_job_is_known_is_kept_for_it(folded) -> None:
    story = Story()
    model = folded([story.report(0.5)])
    prune(model, at(60), keep_jobs=100, keep_for=WEEK)
    for arrival in arrivals(Story().born().said):
        fold(model, arrival)
    waiting = detail(current(model, model.jobs["default", "train"]), model).waiting
    assert waiting is not None
    assert waiting.reason.code == "insufficient-resources"
