"""Schedules of cron jobs: Volcano's language, and Debian's rules where clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.api.schedules import Schedule, missed, names_zone, parse_schedule, parse_zone

BERLIN = ZoneInfo("Europe/Berlin")


def starts(text: str, zone: str, begin: str, number: int) -> list[str]:
    """Return the first starts after a local time, as local times with their offset."""
    schedule, local = parse_schedule(text, parse_zone(zone)), ZoneInfo(zone)
    moment, found = datetime.fromisoformat(begin).replace(tzinfo=local), []
    for _ in range(number):
        moment = schedule.next(moment)
        assert moment.tzinfo is UTC
        found.append(moment.astimezone(local).isoformat(timespec="minutes"))
    return found


@pytest.mark.parametrize(
    ("text", "same_as"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
        ("0 0 ? * ?", "0 0 * * *"),
        ("0 0 * jan,JUL Mon-fri", "0 0 * 1,7 1-5"),
        ("0 0 * * 1/2", "0 0 * * 1,3,5"),
        ("0 0 20/5 * *", "0 0 20,25,30 * *"),
        ("0 0 3-3/2 * *", "0 0 3 * *"),
        ("0 0 1,* * 1", "0 0 * * 1"),
    ],
)
def test_these_mean_the_same(text: str, same_as: str):
    assert starts(text, "UTC", "2026-05-01T00:00", 12) == starts(same_as, "UTC", "2026-05-01T00:00", 12)


def test_both_days_given_means_either_and_a_star_with_a_step_counts_as_given():
    assert starts("0 0 13 * 5", "UTC", "2026-01-31T00:00", 3) == [
        "2026-02-06T00:00+00:00",
        "2026-02-13T00:00+00:00",
        "2026-02-20T00:00+00:00",
    ]
    assert starts("0 0 */10 * 1", "UTC", "2026-10-25T00:00", 3) == [
        "2026-10-26T00:00+00:00",
        "2026-10-31T00:00+00:00",
        "2026-11-01T00:00+00:00",
    ]


def test_what_falls_into_the_skipped_hour_starts_right_after_it():
    assert starts("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", 2) == [
        "2026-03-29T03:00+02:00",
        "2026-03-30T02:30+02:00",
    ]


def test_a_fixed_hour_that_comes_twice_starts_once_and_every_hour_starts_in_both():
    assert starts("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", 2) == [
        "2026-10-25T02:30+02:00",
        "2026-10-26T02:30+01:00",
    ]
    assert starts("30 * * * *", "Europe/Berlin", "2026-10-25T02:00", 3) == [
        "2026-10-25T02:30+02:00",
        "2026-10-25T02:30+01:00",
        "2026-10-25T03:30+01:00",
    ]


def test_the_zone_decides_and_one_in_the_schedule_wins():
    assert starts("0 9 * * *", "Asia/Kolkata", "2026-01-01T00:00", 1) == ["2026-01-01T09:00+05:30"]
    own = parse_schedule("CRON_TZ=Asia/Kolkata 0 9 * * *", BERLIN)
    assert own.next(datetime(2026, 1, 1, tzinfo=UTC)) == datetime(2026, 1, 1, 3, 30, tzinfo=UTC)
    assert own == parse_schedule("TZ=Asia/Kolkata 0 9 * * *", UTC)
    assert names_zone("TZ=UTC 0 9 * * *")
    assert not names_zone("0 9 * * *")


def test_intervals_count_from_the_last_start():
    schedule = parse_schedule("@every 1h30m")
    begin = datetime(2026, 1, 1, 0, 0, 0, 700_000, tzinfo=UTC)
    whole = begin.replace(microsecond=0)
    assert schedule.next(begin) == whole + timedelta(minutes=90)
    assert schedule.last(begin, whole + timedelta(minutes=89)) is None
    assert schedule.last(begin, whole + timedelta(hours=5)) == whole + timedelta(hours=4, minutes=30)
    assert parse_schedule("@every 10ms").next(whole) == whole + timedelta(seconds=1)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "exactly 5 fields"),
        ("* * * *", "exactly 5 fields, found 4"),
        ("0 * * * * *", "exactly 5 fields, found 6"),
        ("60 * * * *", "bad minute"),
        ("* 24 * * *", "bad hour"),
        ("0 0 0 * *", "bad day-of-month"),
        ("0 0 30 2 *", "bad day-of-month"),
        ("0 0 * 13 *", "bad month"),
        ("0 0 * * 8", "bad day-of-week"),
        ("0 0 * * 7", "Sunday is 0"),
        ("0 0 * * 5-7", "Sunday is 0"),
        ("0 0 * * 5L", "not understood"),
        ("0 0 LW * *", "not understood"),
        ("0 0 * * 1#2", "not a field"),
        ("5-1 * * * *", "bad minute"),
        ("*/0 * * * *", "bad minute"),
        ("*/ * * * *", "bad minute"),
        ("٣ * * * *", "not a field"),
        ("@dayly", "not known"),
        ("@every soon", "not a duration"),
        ("TZ=Mars/Olympus 0 0 * * *", "unknown time zone"),
    ],
)
def test_what_is_no_schedule_is_refused_with_a_reason(text: str, problem: str):
    with pytest.raises(ValueError, match=problem):
        parse_schedule(text)


@pytest.mark.parametrize("name", ["Mars/Olympus", "Local", "/etc/passwd", "../x", "Europe"])
def test_what_is_no_zone_is_refused(name: str):
    with pytest.raises(ValueError, match="unknown time zone"):
        parse_zone(name)


def test_an_empty_zone_is_utc():
    assert parse_zone("") is UTC


def plainly_last(schedule: Schedule, since: datetime, until: datetime) -> datetime | None:
    """Walk from the beginning."""
    last, moment = None, schedule.next(since)
    while moment is not None and moment <= until:
        last, moment = moment, schedule.next(moment)
    return last


EXPRESSIONS = st.sampled_from([
    "30 2 * * *", "0 0 * * *", "*/20 2 * * *", "0 */3 * * *", "15 1-3 * * *", "0 0 1 * 1", "45 23 * * 6",
    "0 2 29 2 *", "59 1 * 3,10 0", "@every 7h", "* * * * *",
])  # fmt: skip
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Beirut"])
CHANGES = [
    datetime(2026, 3, 29, 1, tzinfo=UTC),
    datetime(2026, 10, 25, 1, tzinfo=UTC),
    datetime(2026, 11, 1, 6, tzinfo=UTC),
]


@settings(deadline=None, max_examples=150)
@given(EXPRESSIONS, ZONES, st.sampled_from(CHANGES), st.integers(-200_000, 200_000), st.integers(0, 300_000))
def test_the_last_start_is_the_last_of_all_starts(text, zone, around, offset, span):
    schedule = parse_schedule(text, parse_zone(zone))
    since = around + timedelta(seconds=offset, milliseconds=offset % 1000)
    until = since + timedelta(seconds=span if text != "* * * * *" else span % 20_000)
    assert schedule.last(since, until) == plainly_last(schedule, since, until)


@given(EXPRESSIONS, ZONES, st.sampled_from(CHANGES), st.integers(-200_000, 200_000))
def test_the_next_start_is_later_and_a_whole_second(text, zone, around, offset):
    moment = around + timedelta(seconds=offset, milliseconds=500)
    found = parse_schedule(text, parse_zone(zone)).next(moment)
    assert found > moment
    assert found.microsecond == 0


def test_missed_starts_are_counted_up_to_a_limit():
    schedule, since = parse_schedule("* * * * *"), datetime(2026, 1, 1, tzinfo=UTC)
    assert missed(schedule, since, since + timedelta(seconds=59), 101) == 0
    assert missed(schedule, since, since + timedelta(minutes=3), 101) == 3
    assert missed(schedule, since, since + timedelta(days=300), 101) == 101
