"""Schedules of cron jobs, read as Volcano reads them: five fields, ``@daily`` and the like, ``@every 90m``.

One thing is better than in Volcano and Kubernetes. Where the clock is put forward, what was to start in
the hour that is skipped starts right after it and not a day (or a year) later; where it is put back, what
starts at a fixed hour starts once. That is how Debian's cron has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, Protocol
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from shared.api.duration import parse_duration

_DESCRIPTORS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY: Final = "@every "
_ZONE: Final = re.compile(r"(?:CRON_)?TZ=(\S*)\s+(.*)", re.ASCII)
_DAY, _WEEKDAY = 2, 4
_RANGES: Final = {_DAY: "1-31", _WEEKDAY: "0-6"}
_WORDS: Final = re.compile(r"[0-9A-Za-z*?,/-]+", re.ASCII)
_SUNDAY_IS_SEVEN: Final = re.compile(r"(?:^|[,-])7(?![0-9])")
_NOT_VOLCANOS: Final = re.compile(r"(?<!JU)L|W(?!ED)", re.IGNORECASE)


class Schedule(Protocol):
    """Moments at which something starts, each a whole second, in UTC."""

    def next(self, moment: datetime) -> datetime | None:
        """Return the first start after ``moment`` (a schedule of intervals counts from there), if any."""
        ...

    def last(self, since: datetime, until: datetime) -> datetime | None:
        """Return the last start after ``since`` and not after ``until``, if any."""
        ...


def missed(schedule: Schedule, since: datetime, until: datetime, limit: int) -> int:
    """Count the starts after ``since`` and not after ``until``, up to ``limit``."""
    moment = since
    for number in range(limit):
        following = schedule.next(moment)
        if following is None or following > until:
            return number
        moment = following
    return limit


def parse_schedule(text: str, zone: tzinfo = UTC) -> Schedule:
    """Read a schedule; a ``TZ=`` or ``CRON_TZ=`` before it wins over ``zone``. Raises ValueError."""
    if (own := _ZONE.fullmatch(text)) is not None:
        zone, text = parse_zone(own[1]), own[2]
    if text.startswith(_EVERY):
        return Interval.of(text.removeprefix(_EVERY))
    fields = _DESCRIPTORS.get(text, text).split()
    if text.startswith("@") and text not in _DESCRIPTORS:
        raise ValueError(f"{text!r} is not known: write @hourly, @daily, @weekly, @monthly or @every 90m")
    if len(fields) != 5:  # noqa: PLR2004 - said in the message
        raise ValueError(f"expected exactly 5 fields, found {len(fields)}: {text!r}")
    return Fields(_checked(" ".join(_rewritten(at, field) for at, field in enumerate(fields)), text), zone)


def names_zone(text: str) -> bool:
    """Say whether a schedule has its zone in itself, which Volcano reads but does not want."""
    return "TZ" in text


def parse_zone(name: str) -> tzinfo:
    """Read the name of a time zone; UTC when it is empty, as in Go. Raises ValueError, for people."""
    if name in ("", "UTC"):
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(f"unknown time zone {name!r}: write a name as Europe/Berlin") from error


@dataclass(frozen=True, slots=True)
class Interval:
    """A start every so often (``@every``), counted from the last one."""

    every: timedelta

    @classmethod
    def of(cls, text: str) -> Interval:
        """Read ``1h30m``; parts of a second are cut, and less than a second is one."""
        every = parse_duration(text)
        return cls(max(timedelta(seconds=1), timedelta(seconds=every // timedelta(seconds=1))))

    def next(self, moment: datetime) -> datetime | None:
        """Return ``moment`` and the interval."""
        return moment.astimezone(UTC).replace(microsecond=0) + self.every

    def last(self, since: datetime, until: datetime) -> datetime | None:
        """Return the last whole number of intervals after ``since``."""
        start = since.astimezone(UTC).replace(microsecond=0)
        number = (until - start) // self.every
        return start + number * self.every if number > 0 else None


@dataclass(frozen=True, slots=True)
class Fields:
    """Minute, hour, day of month, month and day of week, in a zone."""

    text: str
    zone: tzinfo

    def next(self, moment: datetime) -> datetime | None:
        """Return the first start after ``moment``."""
        return next(self._after(moment), None)

    def last(self, since: datetime, until: datetime) -> datetime | None:
        """Return the last start after ``since`` and not after ``until``."""
        end = until.astimezone(self.zone).replace(microsecond=0)
        before = next(CronSim(self.text, end + timedelta(seconds=1), reverse=True), None)
        # In an hour that comes twice, the way back can overlook the start that the way forward finds.
        found = since if before is None else max(since, before.astimezone(UTC) - timedelta(seconds=1))
        last = None
        for start in self._after(found):
            if start > until:
                break
            last = start
        return last

    def _after(self, moment: datetime) -> Iterator[datetime]:
        starts = CronSim(self.text, moment.astimezone(self.zone).replace(microsecond=0))
        latest = moment
        for start in starts:
            if (found := start.astimezone(UTC)) > latest:
                yield found
                latest = found


def _rewritten(at: int, field: str) -> str:
    """Write a field so that the library understands by it what Volcano does.

    ``?`` is a star. A star with a step does not count as a star where both days are given, and Sunday is 0
    only, so that ``1/2`` ends at Saturday.
    """
    if _WORDS.fullmatch(field) is None:
        raise ValueError(f"{field!r} is not a field of a schedule")
    terms = field.replace("?", "*").split(",")
    if any(term in ("*", "*/1") for term in terms):
        return "*"
    return ",".join(_rewritten_term(at, term) for term in terms)


def _rewritten_term(at: int, term: str) -> str:
    span, slash, step = term.partition("/")
    if not slash:
        return term
    first, dash, end = span.partition("-")
    if span == "*" and at in _RANGES:
        span = _RANGES[at]
    elif dash and first == end:
        return first
    elif at == _WEEKDAY and not dash and span != "*":
        span = f"{span}-6"
    return f"{span}/{step}"


def _checked(text: str, written: str) -> str:
    """Return the text when the library reads it. Raises ValueError with what was written."""
    if _NOT_VOLCANOS.search(text):
        raise ValueError(f"L and W are not understood: {written!r}")
    if _SUNDAY_IS_SEVEN.search(text.split()[_WEEKDAY]):
        raise ValueError(f"day of week 7 is above the maximum, Sunday is 0: {written!r}")
    try:
        CronSim(text, datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        problem = str(error)
        raise ValueError(f"{problem[:1].lower()}{problem[1:]}: {written!r}") from error
    return text
