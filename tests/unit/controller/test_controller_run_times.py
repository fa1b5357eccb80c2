"""For how long a gang runs at most, as the scheduler is told."""

from __future__ import annotations

import pytest

from services.controller.core.gangs import run_seconds
from shared.api import names
from tests.unit.controller.test_controller_grouping import gang
from tests.unit.controller.worlds import task


def with_deadline(name, replicas, seconds):
    one = task(name, replicas)
    one["template"]["spec"]["activeDeadlineSeconds"] = seconds
    return one


@pytest.mark.parametrize(
    ("annotation", "deadlines", "told"),
    [
        (None, [], None),
        (None, [60, 90], 90.0),
        (None, [60, None], None),
        ("10m", [60, None], 600.0),
        ("1h30m", [60], 5400.0),
        ("soon", [60], 60.0),
        ("-5m", [60], 60.0),
        ("0s", [], None),
    ],
)
def test_the_annotation_says_the_run_time_else_the_last_deadline_if_every_pod_has_one(
    annotation, deadlines, told
):
    assert run_seconds({} if annotation is None else {names.RUN_TIME: annotation}, deadlines) == told


def test_a_job_tells_the_largest_deadline_of_its_templates():
    told = gang(tasks=[with_deadline("a", 1, 60), with_deadline("b", 2, 600)])
    assert told.run_seconds == 600.0


def test_a_job_with_a_template_without_deadline_tells_none_unless_that_has_no_pods():
    assert gang(tasks=[with_deadline("a", 1, 60), task("b")]).run_seconds is None
    assert gang(tasks=[with_deadline("a", 1, 60), task("b", 0)]).run_seconds == 60.0
