"""Rules for cron jobs, as Volcano's ``/cronjobs/validate`` has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from services.admission.core.formats import qualified_name
from services.admission.core.violations import Violation
from shared.api.cron import MAX_NAME, CronJob, CronJobSpec
from shared.api.schedules import names_zone, parse_schedule, parse_zone

_MACHINES_OWN: Final = "local"


def validate_cronjob(cron: CronJob) -> list[Violation]:
    """Return every reason why this cron job may not be."""
    return list(_rules(cron))


def _rules(cron: CronJob) -> Iterator[Violation]:
    name = cron.metadata.name
    if len(name) > MAX_NAME:
        message = f"has {len(name)} characters; {MAX_NAME} are allowed, as 11 are added for its jobs"
        yield Violation("invalid-name", "metadata.name", message)
    elif name and (problem := qualified_name(name)):
        yield Violation("invalid-name", "metadata.name", f'"{name[:80]}" {problem}')
    yield from _schedule(cron.spec)
    yield from _zone(cron.spec.time_zone)


def _schedule(spec: CronJobSpec) -> Iterator[Violation]:
    path, text = "spec.schedule", spec.schedule
    if not text:
        yield Violation("required", path, "schedule is required")
    elif names_zone(text):
        yield Violation("zone-in-schedule", path, "must not name a time zone: use spec.timeZone")
    else:
        try:
            parse_schedule(text)
        except ValueError as error:
            yield Violation("invalid-schedule", path, str(error))


def _zone(name: str | None) -> Iterator[Violation]:
    path = "spec.timeZone"
    if name is None:
        return
    if not name:
        yield Violation("invalid-time-zone", path, "must not be empty: leave it out, or name a zone")
    elif name.lower() == _MACHINES_OWN:
        message = f'"{name}" is another zone on every machine: name one, as Europe/Berlin'
        yield Violation("invalid-time-zone", path, message)
    else:
        try:
            parse_zone(name)
        except ValueError as error:
            yield Violation("invalid-time-zone", path, str(error))
