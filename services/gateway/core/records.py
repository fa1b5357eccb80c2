"""Finding and making the records that facts are kept in."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from services.gateway.core.facts import (
    Arrival,
    Entry,
    Gang,
    GangKey,
    JobKey,
    JobRecord,
    Life,
    Model,
    Submission,
)
from shared.api.names import podgroup_name
from shared.events import contracts as c

REPORTS_KEPT: Final = 50
"""Reports in a gang's history: they repeat themselves, the last ones matter."""
ENTRIES_KEPT: Final = 500
"""Entries of every other kind in one history."""

Changes = frozenset[JobKey]
"""The jobs whose view may have changed."""
NOTHING: Final[Changes] = frozenset()


def time_of(arrival: Arrival) -> datetime:
    """Return when the event was published; of a tombstone, the log's time."""
    return arrival.envelope.time if arrival.envelope else arrival.at


def job_record(model: Model, key: JobKey, time: datetime) -> JobRecord:
    """Return the record of a name, made if need be; ``time`` keeps it from being forgotten as old."""
    record = model.jobs.get(key)
    if record is None:
        record = model.jobs[key] = JobRecord(*key)
    if record.touched is None or time > record.touched:
        record.touched = time
    return record


def life_of(model: Model, record: JobRecord, uid: str) -> Life:
    """Return the life of a UID, made if need be, with the gang that its name implies."""
    life = record.lives.get(uid)
    if life is None:
        life = record.lives[uid] = Life(uid)
        owned_gang(model, (record.namespace, podgroup_name(record.name, uid)), record.key)
    return life


def submission_of(model: Model, record: JobRecord, submission: str) -> Submission:
    """Return a submission by id, made if need be."""
    model.submissions[submission] = record.key
    found = record.submissions.get(submission)
    if found is None:
        found = record.submissions[submission] = Submission(submission)
    return found


def gang_of(model: Model, key: GangKey, time: datetime | None = None) -> Gang:
    """Return a gang, made if need be; ``time`` as for a job."""
    gang = model.gangs.get(key)
    if gang is None:
        gang = model.gangs[key] = Gang(*key)
    if time is not None and (gang.touched is None or time > gang.touched):
        gang.touched = time
    return gang


def owned_gang(model: Model, key: GangKey, owner: JobKey) -> Gang:
    """Return a gang, made if need be, as its owner's."""
    gang = gang_of(model, key)
    gang.owner = owner
    return gang


def owner_of(gang: Gang) -> Changes:
    """Return the job whose view a change of the gang changes; nothing when it is not known yet."""
    return frozenset((gang.owner,)) if gang.owner else NOTHING


def remember(entries: list[Entry], arrival: Arrival, kind: str, time: datetime, data: c.Contract) -> Entry:
    """Add to a history, once for each place in the log, and keep the history bounded."""
    entry = Entry(arrival.topic, arrival.partition, arrival.offset, time, kind, data)
    place = (entry.topic, entry.partition, entry.offset)
    if any((seen.topic, seen.partition, seen.offset) == place for seen in reversed(entries)):
        return entry
    entries.append(entry)
    if sum(seen.kind == kind for seen in entries) > (REPORTS_KEPT if kind == "report" else ENTRIES_KEPT):
        entries.remove(next(seen for seen in entries if seen.kind == kind))
    return entry
