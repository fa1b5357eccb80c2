"""The decision about a cron job: a table of moments, and what holds for all of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.workflows.core.cron import decide, job_name, started
from services.workflows.core.model import JobView, read_job
from shared.api.cron import CronJob
from shared.api.meta import format_time, parse_time

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def cron(
    last: datetime | None = None, created: datetime = NOON, active: list[JobView] | None = None, **spec
) -> CronJob:
    status: dict = {"active": [{"name": job.name, "uid": job.uid, "namespace": "n"} for job in active or []]}
    if last is not None:
        status["lastScheduleTime"] = format_time(last)
    return CronJob.model_validate(
        {
            "metadata": {
                "name": "c",
                "namespace": "n",
                "uid": "u",
                "creationTimestamp": format_time(created),
            },
            "spec": {"schedule": "*/10 * * * *", "jobTemplate": {"spec": {}}, **spec},
            "status": status,
        }
    )


def job(at: datetime, phase: str = "Running", name: str = "", changed: datetime | None = None) -> JobView:
    name = name or job_name("c", at)
    return JobView(
        namespace="n",
        name=name,
        uid=f"uid-{name}",
        phase=phase,
        created_at=at,
        changed_at=changed,
        owner_uid="u",
        annotations={"volcano.sh/cronjob-scheduled-timestamp": "x"},
        minimums={},
        counts={},
        status={},
    )


@pytest.mark.parametrize(
    ("seconds", "last", "due"),
    [
        (0, None, None),
        (599, None, None),
        (600, None, 10),
        (601, None, 10),
        (1199, None, 10),
        (1200, 10, 20),
        (1199, 10, None),
        (3600 * 5 + 1, 10, 300),
    ],
)
def test_the_last_start_that_is_due_is_made_once(seconds, last, due):
    plan = decide(
        cron(None if last is None else NOON + timedelta(minutes=last)), [], NOON + timedelta(seconds=seconds)
    )
    assert (plan.start and plan.start.due) == (None if due is None else NOON + timedelta(minutes=due))


@pytest.mark.parametrize("policy", ["Allow", "Forbid", "Replace"])
def test_the_next_look_is_at_the_next_start_whatever_the_policy(policy):
    running = job(NOON + timedelta(minutes=10))
    now = NOON + timedelta(minutes=25)
    plan = decide(cron(running.created_at, active=[running], concurrencyPolicy=policy), [running], now)
    assert plan.again_at == NOON + timedelta(minutes=30)


@pytest.mark.parametrize(
    ("deadline", "seconds_late", "starts"), [(0, 0, True), (0, 1, False), (30, 30, True), (30, 31, False)]
)
def test_a_deadline_counts_whole_seconds(deadline, seconds_late, starts):
    now = NOON + timedelta(minutes=10, seconds=seconds_late, milliseconds=900)
    plan = decide(cron(startingDeadlineSeconds=deadline), [], now)
    assert (plan.start is not None) is starts
    assert [note.reason for note in plan.notes] == ([] if starts else ["MissSchedule"])


def test_many_missed_starts_within_the_deadline_are_said_and_the_last_is_made():
    now = NOON + timedelta(minutes=10 * 101)
    assert [note.reason for note in decide(cron(), [], now).notes] == ["TooManyMissedTimes"]
    assert decide(cron(), [], now).start is not None
    assert decide(cron(startingDeadlineSeconds=1200), [], now).notes == ()
    assert decide(cron(), [], NOON + timedelta(minutes=10 * 100)).notes == ()


def test_a_job_that_exists_is_not_made_again_though_the_status_does_not_know_it():
    made = job(NOON + timedelta(minutes=10))
    plan = decide(cron(), [made], NOON + timedelta(minutes=11))
    assert plan.start is None
    assert plan.status["lastScheduleTime"] == "2026-03-01T12:10:00Z"
    assert [one["uid"] for one in plan.status["active"]] == [made.uid]


def test_the_last_success_is_the_latest_end_of_a_completed_job():
    ends = [NOON + timedelta(minutes=n) for n in (3, 9, 5)]
    jobs = [job(end, "Completed", name=f"c-{n}", changed=end) for n, end in enumerate(ends)]
    plan = decide(cron(last=NOON), jobs, NOON + timedelta(minutes=9, seconds=30))
    assert plan.status["lastSuccessfulTime"] == "2026-03-01T12:09:00Z"
    failed = [replace(one, phase="Failed") for one in jobs]
    assert "lastSuccessfulTime" not in decide(cron(), failed, NOON).status


@pytest.mark.parametrize(
    ("limits", "kept"),
    [
        ({}, ["c0", "c1", "c2", "f0", "f1", "t2"]),
        ({"successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 1}, ["c2", "t2"]),
        ({"successfulJobsHistoryLimit": 0}, ["f0", "f1", "t2"]),
        ({"failedJobsHistoryLimit": 0}, ["c0", "c1", "c2"]),
    ],
)
def test_the_history_limits_count_the_completed_and_the_others(limits, kept):
    def at(n: int) -> datetime:
        return NOON + timedelta(seconds=n)

    jobs = [job(at(n), "Completed", name=f"c{n}") for n in range(3)]
    jobs += [job(at(n), "Failed", name=f"f{n}") for n in range(2)] + [job(at(2), "Terminated", name="t2")]
    plan = decide(cron(**limits), jobs, NOON)
    assert sorted({one.name for one in jobs} - {one.name for one in plan.deletes}) == kept


def test_aborted_jobs_are_active_since_they_can_be_resumed():
    aborted = job(NOON, "Aborted")
    plan = decide(cron(concurrencyPolicy="Forbid", active=[aborted]), [aborted], NOON + timedelta(minutes=10))
    assert plan.start is None
    assert plan.status["active"]


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(["*/10 * * * *", "@every 7m", "0 */2 * * *", "30 2 * * *"]),
    st.sampled_from(["Allow", "Forbid", "Replace"]),
    st.lists(st.integers(1, 5000), min_size=1, max_size=12),
    st.sampled_from(["UTC", "Europe/Berlin"]),
)
def test_no_start_is_made_twice_and_each_is_later_than_the_one_before(schedule, policy, steps, zone):
    now, status, jobs, dues = datetime(2026, 3, 28, 20, tzinfo=UTC), {}, [], []
    for step in steps:
        now += timedelta(seconds=step)
        body = cron(
            created=datetime(2026, 3, 28, 20, tzinfo=UTC),
            schedule=schedule,
            concurrencyPolicy=policy,
            timeZone=zone,
        )
        body = CronJob.model_validate({**body.dump(), "status": status})
        plan = decide(body, jobs, now)
        jobs = [one for one in jobs if one not in (*plan.deletes, *plan.replaces)]
        status = plan.status
        if plan.start is not None:
            raw = plan.start.job
            raw = {
                **raw,
                "metadata": {**raw["metadata"], "uid": f"{len(dues)}", "creationTimestamp": format_time(now)},
            }
            jobs.append(read_job(raw))
            status = started(plan, plan.start, jobs[-1])
            dues.append(plan.start.due)
        again = decide(CronJob.model_validate({**body.dump(), "status": status}), jobs, now)
        assert again.start is None
        assert again.status == status
        assert plan.again_at is not None
        assert plan.again_at > now
    assert dues == sorted(set(dues))
    if dues:
        assert parse_time(status["lastScheduleTime"]) == dues[-1]
