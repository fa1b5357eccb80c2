"""What earlier jobs of a template tell: when those that declared nothing may end, and who may run in a shadow."""

from __future__ import annotations

from datetime import timedelta
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.core.learned import LEAST, Learned, Quantiles
from services.scheduler.core.policy import Backfill, Policy
from shared.events import contracts as c
from tests.scenarios.scenario import finishes, job, node, passes, queue, reports, submits
from tests.scenarios.world import START, World

TEN = tuple(float(60 * minutes) for minutes in (1, 2, 3, 4, 5, 6, 7, 8, 9, 30))
"""Half of them ran no longer than 5 minutes, nine of ten no longer than 9."""


def ran(*seconds: float, queue: str = "default", at: float = 0) -> c.TemplateRunTimes:
    return c.TemplateRunTimes(
        queue=queue,
        template="t",
        seconds=seconds,
        jobs=tuple(str(number) for number in range(len(seconds))),
        as_of=START + timedelta(seconds=at),
    )


def of_template(name: str, gpu: int = 4, **wants: object) -> c.Gang:
    gang = job(name, gang=1, gpu=gpu, **wants)  # type: ignore[arg-type]
    return gang.model_copy(update={"template": "t"})


def told(*, after: float = 0.0, runs: float | None = None, **learned: object) -> c.GangReport:
    """Return what is told of a job that waits for one of the template, so long after that began."""
    world = World()
    world.queue(queue("default"))
    world.node(node("n1", gpu=4))
    world.model.apply_run_times(ran(*TEN, **learned))  # type: ignore[arg-type]
    world.submit(of_template("a", runs=runs))
    world.settle()
    world.submit(of_template("b", at=1))
    world.settle()
    world.pass_time(after)
    return reports(world)["b"]


def starts(report: c.GangReport) -> tuple[float | None, float | None]:
    half, most = report.estimated_start, report.estimated_start_p90
    return (
        None if half is None else (half - START).total_seconds(),
        None if most is None else (most - START).total_seconds(),
    )


def test_who_declared_nothing_is_expected_to_run_as_long_as_earlier_jobs_did() -> None:
    report = told()
    assert starts(report) == (300, 540)
    assert report.outlook == "when ns/a ends on n1, by the run times of earlier jobs"


def test_who_has_run_longer_than_half_of_them_is_expected_to_take_as_long_as_nine_of_ten() -> None:
    assert starts(told(after=301)) == (540, 540)


def test_of_one_that_has_run_longer_than_nine_of_ten_nobody_can_say_when_it_ends() -> None:
    report = told(after=541)
    assert starts(report) == (None, None)
    assert report.outlook.startswith("nobody can say when")


def test_what_is_declared_counts_and_not_what_was_learned() -> None:
    report = told(runs=60)
    assert starts(report) == (60, 60)
    assert "earlier jobs" not in report.outlook


def test_what_was_learned_in_another_queue_says_nothing() -> None:
    assert starts(told(queue="other")) == (None, None)


def test_gangs_that_come_after_each_other_take_their_time_by_either_reading() -> None:
    world = World()
    world.queue(queue("default"))
    world.node(node("n1", gpu=4))
    world.model.apply_run_times(ran(*TEN))
    for number in range(3):
        world.submit(of_template(f"j{number}", at=number))
        world.settle()
    found = reports(world)
    assert starts(found["j1"]) == (300, 540)
    assert starts(found["j2"]) == (600, 1080)


@pytest.mark.parametrize(("learned", "runs_there"), [(True, True), (False, False)])
def test_a_learned_run_time_lets_a_gang_into_a_shadow_only_where_that_is_chosen(
    *, learned: bool, runs_there: bool
) -> None:
    world = World(Policy(backfill=Backfill(learned=learned)))
    world.queue(queue("default"))
    world.node(node("n1", gpu=4))
    world.model.apply_run_times(ran(*TEN))
    for gang in (
        job("first", gang=1, gpu=2, runs=3600),
        job("second", gang=1, gpu=2, runs=1800),
        job("large", gang=1, gpu=4),
    ):
        world.submit(gang)
    world.settle()
    for step in (passes(301), finishes("second"), submits(of_template("short", gpu=2, at=301))):
        step(world)
        world.settle()
    there = [pod.node for pod in world.members(("ns", "short")) if pod.node]
    assert bool(there) is runs_there


@pytest.mark.parametrize(("before", "enters"), [(540 + 30 + 1, True), (540 + 29, False)])
def test_nine_of_ten_earlier_jobs_would_have_ended_before_the_reserved_gang_starts(
    *, before: float, enters: bool
) -> None:
    world = World(Policy(backfill=Backfill(learned=True)))
    world.queue(queue("default"))
    world.node(node("n1", gpu=4))
    world.model.apply_run_times(ran(*TEN))
    for gang in (
        job("first", gang=1, gpu=2, runs=301 + before),
        job("second", gang=1, gpu=2, runs=302),
        job("large", gang=1, gpu=4),
    ):
        world.submit(gang)
    world.settle()
    for step in (passes(301), finishes("second"), submits(of_template("short", gpu=2, at=301))):
        step(world)
        world.settle()
    assert any(pod.node for pod in world.members(("ns", "short"))) is enters


# ---------------------------------------------------------------------- quantiles


def quantiles(*seconds: float) -> Quantiles | None:
    learned = Learned()
    learned.note(ran(*seconds))
    return learned.of(of_template("x"))


@given(st.lists(st.integers(0, 10**6).map(float), min_size=LEAST, max_size=40))
def test_quantiles_are_the_least_that_so_many_did_not_pass(seconds: list[float]) -> None:
    found = quantiles(*seconds)
    assert found is not None
    for part, value in ((5, found.half), (9, found.most)):
        enough = [
            one for one in sorted(seconds) if sum(s <= one for s in seconds) * 10 >= part * len(seconds)
        ]
        assert value == enough[0]


def test_too_few_run_times_say_nothing() -> None:
    assert quantiles(*[1.0] * (LEAST - 1)) is None
    assert quantiles(*[1.0] * LEAST) == Quantiles(1.0, 1.0)


def test_what_was_told_earlier_does_not_replace_what_is_known_and_a_deletion_does() -> None:
    learned = Learned()
    learned.note(ran(*[9.0] * LEAST, at=10))
    learned.note(ran(*[1.0] * LEAST, at=5))
    assert learned.of(of_template("x")) == Quantiles(9.0, 9.0)
    learned.forget("default", "t")
    assert learned.of(of_template("x")) is None


@pytest.mark.parametrize(
    ("now", "ends"), [(0, (10, 20)), (9, (10, 20)), (10, (20, 20)), (19, (20, 20)), (20, (inf, inf))]
)
def test_who_has_run_for_a_while_ends_by_the_next_quantile(now: float, ends: tuple[float, float]) -> None:
    assert Quantiles(10.0, 20.0).ends(0.0, now) == ends
