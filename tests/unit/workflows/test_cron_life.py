"""Cron jobs in virtual time: starts at the right moments, once each, whatever happens in between."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from shared.api import resources as r
from shared.api.meta import parse_time
from shared.errors import Refused, Unavailable

pytestmark = pytest.mark.looptime
TEMPLATE = {
    "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
    "spec": {
        "queue": "gold",
        "tasks": [{"name": "main", "replicas": 1, "template": {"spec": {"containers": []}}}],
    },
}
MINUTE = 60


def cron(w, name: str = "c", schedule: str = "* * * * *", **spec) -> None:
    w.put(r.CRONJOBS, name, spec={"schedule": schedule, "jobTemplate": TEMPLATE, **spec})


async def running(make, *arguments, **settings):
    w = make(*arguments, **settings)
    await w.start()
    return w


def created(w) -> list[datetime]:
    return sorted(parse_time(job["metadata"]["creationTimestamp"]) for job in w.cluster.all(r.JOBS))


def active(w, name: str = "c") -> list[str]:
    return [one["name"] for one in w.status(r.CRONJOBS, name).get("active", [])]


async def test_each_minute_has_its_job_with_volcanos_name_and_marks(world):
    w = await running(world)
    cron(w)
    await w.pass_time(3 * MINUTE + 1)
    minutes = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()) // 60
    assert w.jobs() == [f"c-{minutes + n}" for n in (1, 2, 3)]
    meta = w.cluster.one(r.JOBS, f"c-{minutes + 1}")["metadata"]
    assert meta["annotations"] == {
        "note": "b",
        "volcano.sh/cronjob-scheduled-timestamp": "2026-03-01T12:01:00Z",
    }
    assert meta["labels"] == {"team": "a"}
    [owner] = meta["ownerReferences"]
    assert (owner["kind"], owner["apiVersion"], owner["name"]) == (
        "CronJob",
        "batch.volcano.sh/v1alpha1",
        "c",
    )
    assert w.cluster.one(r.JOBS, f"c-{minutes + 1}")["spec"] == TEMPLATE["spec"]
    status = w.status(r.CRONJOBS, "c")
    assert status["lastScheduleTime"] == "2026-03-01T12:03:00Z"
    assert active(w) == w.jobs()
    assert all(moment.second == 0 for moment in created(w))


async def test_starts_follow_the_zone_through_the_change_of_its_clocks(world):
    zone = ZoneInfo("Europe/Berlin")
    w = await running(world, datetime(2026, 3, 28, tzinfo=UTC))
    cron(w, "night", "30 2 * * *", timeZone="Europe/Berlin")
    await w.pass_time(timedelta(days=3).total_seconds())
    local = [moment.astimezone(zone).isoformat() for moment in created(w)]
    assert local == ["2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]
    annotations = [job["metadata"]["annotations"] for job in w.cluster.all(r.JOBS)]
    assert annotations[1]["volcano.sh/cronjob-scheduled-timestamp"] == "2026-03-29T03:00:00+02:00"


async def test_in_the_hour_that_comes_twice_a_fixed_time_starts_once(world):
    w = await running(world, datetime(2026, 10, 24, 12, tzinfo=UTC))
    cron(w, "night", "30 2 * * *", timeZone="Europe/Berlin")
    await w.pass_time(timedelta(days=2).total_seconds())
    assert [moment.isoformat() for moment in created(w)] == [
        "2026-10-25T00:30:00+00:00",
        "2026-10-26T01:30:00+00:00",
    ]


async def test_waiting_for_a_start_costs_no_write_and_finished_jobs_are_noted(world):
    w = await running(world)
    cron(w, schedule="0 * * * *")
    await w.pass_time(61 * MINUTE)
    [job] = w.jobs()
    assert active(w) == [job]
    before = w.cluster.writes.total()
    await w.pass_time(30 * MINUTE)
    assert w.cluster.writes.total() == before
    w.phase(job, "Completed")
    await w.until(lambda: active(w) == [])
    assert w.status(r.CRONJOBS, "c")["lastSuccessfulTime"] == "2026-03-01T13:31:00Z"
    assert w.events("SawCompletedJob") == [f"SawCompletedJob: Saw completed job: {job} in active, remove"]


async def test_allow_lets_jobs_run_beside_each_other(world):
    w = await running(world)
    cron(w, concurrencyPolicy="Allow")
    await w.pass_time(3 * MINUTE + 1)
    assert len(active(w)) == 3


async def test_forbid_holds_a_start_back_and_makes_it_when_the_job_before_ends(world):
    w = await running(world)
    cron(w, concurrencyPolicy="Forbid")
    await w.pass_time(3 * MINUTE + 1)
    [first] = w.jobs()
    assert len(w.events("ForbidConcurrent")) == 2
    w.phase(first, "Completed")
    await w.until(lambda: len(w.jobs()) == 2)
    assert w.status(r.CRONJOBS, "c")["lastScheduleTime"] == "2026-03-01T12:03:00Z"
    assert len(active(w)) == 1


async def test_replace_deletes_the_running_job_and_starts_the_next(world):
    w = await running(world)
    cron(w, concurrencyPolicy="Replace")
    await w.pass_time(MINUTE + 1)
    [first] = w.jobs()
    await w.pass_time(MINUTE)
    [second] = w.jobs()
    assert second != first
    assert active(w) == [second]
    assert w.events("ReplaceConcurrent") == ["ReplaceConcurrent: Replacing active job for CronJob"]
    assert w.events("SuccessfulDelete") == [f'SuccessfulDelete: Deleted job "{first}"']
    assert w.events("StaleReference") == []


async def test_the_history_keeps_the_newest_jobs_of_each_kind(world):
    w = await running(world)
    cron(w, successfulJobsHistoryLimit=2, failedJobsHistoryLimit=1)
    for number in range(8):
        await w.pass_time(MINUTE)
        await w.until(lambda: active(w))
        w.phase(active(w)[0], ("Completed", "Completed", "Failed", "Terminated")[number % 4])
    await w.pass_time(1)
    phases = [job["status"]["state"]["phase"] for job in w.cluster.all(r.JOBS)]
    assert phases == ["Completed", "Completed", "Terminated"]


async def test_a_suspended_one_starts_nothing_and_goes_on_with_the_last_missed_start(world):
    w = await running(world)
    cron(w, suspend=True)
    await w.pass_time(5 * MINUTE + 1)
    assert w.jobs() == []
    w.cluster.change(r.CRONJOBS, "default", "c", {"spec": {"suspend": False}})
    await w.until(w.jobs)
    await w.pass_time(1)
    assert len(w.jobs()) == 1
    assert w.status(r.CRONJOBS, "c")["lastScheduleTime"] == "2026-03-01T12:05:00Z"


async def test_after_a_long_absence_one_job_is_made_and_many_missed_starts_are_said(world):
    w = world()
    cron(w)
    await w.pass_time(150 * MINUTE + 30)
    await w.start()
    await w.until(w.jobs)
    await w.pass_time(10)
    assert len(w.jobs()) == 1
    assert w.status(r.CRONJOBS, "c")["lastScheduleTime"] == "2026-03-01T14:30:00Z"
    assert len(w.events("TooManyMissedTimes")) == 1


async def test_a_start_that_is_too_late_is_not_made_and_said(world):
    w = world()
    cron(w, schedule="0 * * * *", startingDeadlineSeconds=120)
    await w.pass_time(63 * MINUTE)
    await w.start()
    await w.until(lambda: w.events("MissSchedule"))
    await w.pass_time(MINUTE)
    assert w.jobs() == []
    assert len(w.events("MissSchedule")) == 1
    await w.pass_time(60 * MINUTE)
    assert len(w.jobs()) == 1


async def test_a_deadline_of_zero_seconds_still_starts_in_time(world):
    w = await running(world)
    cron(w, startingDeadlineSeconds=0)
    await w.pass_time(2 * MINUTE + 1)
    assert len(w.jobs()) == 2


async def test_a_changed_schedule_counts_at_once(world):
    w = await running(world)
    cron(w, schedule="0 0 1 1 *")
    await w.pass_time(MINUTE)
    w.cluster.change(r.CRONJOBS, "default", "c", {"spec": {"schedule": "5 12 * * *"}})
    await w.pass_time(5 * MINUTE)
    assert [moment.isoformat() for moment in created(w)] == ["2026-03-01T12:05:00+00:00"]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"schedule": "nonsense"}, "UnParseableCronJobSchedule"),
        ({"timeZone": "Mars/Olympus"}, "InvalidTimeZone"),
    ],
)
async def test_a_schedule_that_cannot_be_read_is_said_once_and_starts_when_mended(world, spec, reason):
    w = await running(world)
    cron(w, **spec)
    await w.until(lambda: w.events(reason))
    await w.pass_time(10 * MINUTE)
    assert len(w.events(reason)) == 1
    assert w.jobs() == []
    w.cluster.change(r.CRONJOBS, "default", "c", {"spec": {"schedule": "* * * * *", "timeZone": "UTC"}})
    await w.until(w.jobs, seconds=2 * MINUTE)


async def test_a_zone_in_the_schedule_is_obeyed_and_warned_of(world):
    w = await running(world)
    cron(w, schedule="TZ=Asia/Kolkata 0 18 * * *")
    await w.pass_time(60 * MINUTE)
    assert [moment.isoformat() for moment in created(w)] == ["2026-03-01T12:30:00+00:00"]
    assert len(w.events("UnsupportedSchedule")) == 1


async def test_a_restart_between_a_start_and_its_note_makes_no_second_job(world):
    w = await running(world)
    fail = True

    async def fails(verb, resource, _name):
        if verb == "patch" and resource is r.CRONJOBS and fail:
            raise Unavailable("away")

    cron(w)
    w.cluster.before = fails
    await w.pass_time(MINUTE + 10)
    [job] = w.jobs()
    await w.stop()
    fail = False
    await w.start()
    await w.until(lambda: active(w) == [job])
    assert w.status(r.CRONJOBS, "c")["lastScheduleTime"] == "2026-03-01T12:01:00Z"
    assert w.cluster.writes["create", "jobs"] == 1
    assert w.events("OrphanedJob") == []


async def test_a_name_that_is_anothers_is_said_and_the_next_start_is_made(world):
    w = await running(world)
    minutes = int(datetime(2026, 3, 1, 12, 1, tzinfo=UTC).timestamp()) // 60
    w.put(r.JOBS, f"c-{minutes}", spec={"tasks": []})
    cron(w)
    await w.pass_time(2 * MINUTE + 1)
    assert w.events("ForeignJob") == [f"ForeignJob: Job c-{minutes} exists but is not owned by this CronJob"]
    assert active(w) == [f"c-{minutes + 1}"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            "jobs is forbidden: unable to create new content in namespace a because it is being terminated",
            "NamespaceTerminating",
        ),
        ("spec.tasks: Required value", "FailedCreate"),
    ],
)
async def test_a_refused_start_is_said_and_tried_again(world, answer, reason):
    w = await running(world)
    refusals = 1

    async def refuse(verb, resource, _name):
        nonlocal refusals
        if verb == "create" and resource is r.JOBS and refusals:
            refusals -= 1
            raise Refused(answer)

    w.cluster.before = refuse
    cron(w)
    await w.pass_time(MINUTE + 5)
    assert len(w.events(reason)) == 1
    assert len(w.jobs()) == 1


async def test_an_old_job_that_may_not_be_deleted_does_not_keep_the_next_from_starting(world):
    w = await running(world)

    async def refuse(verb, resource, _name):
        if verb == "delete" and resource is r.JOBS:
            raise Refused("no")

    w.cluster.before = refuse
    cron(w, successfulJobsHistoryLimit=0)
    for _ in range(3):
        await w.pass_time(MINUTE)
        await w.until(lambda: active(w))
        w.phase(active(w)[0], "Completed")
    await w.pass_time(50)
    assert len(w.jobs()) == 3
    assert len(w.events("FailedDelete")) <= 3


async def test_a_running_job_that_may_not_be_deleted_keeps_its_replacement_from_starting(world):
    w = await running(world)

    async def refuse(verb, resource, _name):
        if verb == "delete" and resource is r.JOBS:
            raise Refused("no")

    w.cluster.before = refuse
    cron(w, concurrencyPolicy="Replace")
    await w.pass_time(2 * MINUTE + 30)
    [job] = w.jobs()
    assert active(w) == [job]
    assert len(w.events("FailedDelete")) == 1
    w.cluster.before = _allow
    await w.until(lambda: w.jobs() != [job], seconds=40)
    assert active(w) == w.jobs()


async def _allow(_verb, _resource, _name):
    return None


async def test_a_job_that_somebody_deletes_leaves_the_active_ones(world):
    w = await running(world)
    cron(w, schedule="0 * * * *")
    await w.pass_time(60 * MINUTE + 1)
    [job] = w.jobs()
    w.cluster.remove(r.JOBS, "default", job)
    await w.until(lambda: active(w) == [])
    assert len(w.events("StaleReference")) == 1
    await w.pass_time(10 * MINUTE)
    assert w.jobs() == []


async def test_an_unknown_job_of_its_own_is_warned_of_and_does_not_count(world):
    w = await running(world)
    cron(w, concurrencyPolicy="Forbid")
    uid = w.cluster.one(r.CRONJOBS, "c")["metadata"]["uid"]
    owner = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "CronJob",
        "name": "c",
        "uid": uid,
        "controller": True,
    }
    w.put(r.JOBS, "by-hand", spec={"tasks": []}, ownerReferences=[owner])
    await w.until(lambda: w.events("OrphanedJob"))
    await w.pass_time(MINUTE + 1)
    assert len(active(w)) == 1


async def test_intervals_start_from_the_last_one(world):
    w = await running(world)
    cron(w, schedule="@every 90s")
    await w.pass_time(6 * MINUTE + 1)
    assert [(moment.minute, moment.second) for moment in created(w)] == [(1, 30), (3, 0), (4, 30), (6, 0)]


async def test_a_deleted_one_starts_nothing(world):
    w = await running(world)
    cron(w)
    await w.pass_time(MINUTE + 1)
    w.cluster.remove(r.CRONJOBS, "default", "c")
    await w.pass_time(10 * MINUTE)
    assert w.jobs() == []
