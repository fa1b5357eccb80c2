"""What the read model forgets, so that its memory stays bounded.

Jobs that exist in Kubernetes are never forgotten. Of those that ended, the last ``keep_jobs`` younger than
``keep_for`` stay; what was asked for and never heard of again goes after ``keep_for`` as well.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from services.gateway.core.facts import JobRecord, Model
from services.gateway.core.incarnation import current, podgroups_of

LIVES_KEPT: Final = 10
"""Objects and submissions kept under one name."""
DECISIONS_KEPT: Final = 200
"""Decisions kept about one gang."""
_EVER: Final = datetime(1, 1, 1, tzinfo=UTC)


def settle(model: Model) -> None:
    """Once all topics were read: a job without a state among them does not exist any more.

    A tombstone may have been compacted away, so that its absence is all that is left of it. A state that
    comes later takes this back.
    """
    for record in model.jobs.values():
        exists = record.state.uid if record.state else None
        record.past |= {uid for uid in record.lives if uid != exists}


def prune(model: Model, now: datetime, *, keep_jobs: int, keep_for: timedelta) -> int:
    """Forget what is too old or too much; return how many jobs went."""
    oldest = now - keep_for
    ended: list[JobRecord] = []
    gone: list[JobRecord] = []
    for record in model.jobs.values():
        _trim(model, record)
        if record.state is not None:
            continue
        if (record.touched or _EVER) < oldest:
            gone.append(record)
        elif current(model, record).over:
            ended.append(record)
    ended.sort(key=lambda record: (record.touched or _EVER, record.key), reverse=True)
    gone += ended[keep_jobs:]
    for record in gone:
        _forget(model, record)
    _forget_gangs(model, oldest)
    return len(gone)


def _trim(model: Model, record: JobRecord) -> None:
    """Of a name that is used again and again, keep the last uses."""
    if len(record.lives) <= LIVES_KEPT and len(record.submissions) <= LIVES_KEPT:
        return
    kept = record.state.uid if record.state else None
    past = [life for life in record.lives.values() if life.uid != kept]
    past.sort(key=lambda life: life.changes[-1].event.at if life.changes else life.created_at or _EVER)
    for life in past[: -LIVES_KEPT or None]:
        del record.lives[life.uid]
        record.past.discard(life.uid)
    linked = {life.submission for life in record.lives.values()}
    loose = [asked for asked in record.submissions.values() if asked.id not in linked]
    loose.sort(key=lambda asked: asked.submitted_at or asked.rejected_at or asked.admitted_at or _EVER)
    for asked in loose[: -LIVES_KEPT or None]:
        del record.submissions[asked.id]
        model.submissions.pop(asked.id, None)


def _forget(model: Model, record: JobRecord) -> None:
    del model.jobs[record.key]
    for life in record.lives.values():
        for name in podgroups_of(record, life):
            gang = model.gangs.get((record.namespace, name))
            if gang is not None and not gang.exists:
                del model.gangs[record.namespace, name]
    for submission in record.submissions:
        model.submissions.pop(submission, None)


def _forget_gangs(model: Model, oldest: datetime) -> None:
    for key, gang in list(model.gangs.items()):
        for decision in list(gang.decisions)[:-DECISIONS_KEPT]:
            del gang.decisions[decision]
            gang.results.pop(decision, None)
        # What is told of a gang may come before its job is known, and is not told again.
        orphan = gang.owner is None or gang.owner not in model.jobs
        if orphan and not gang.exists and (gang.touched or _EVER) < oldest:
            del model.gangs[key]
    for record_key, gang_key in list(model.reports.items()):
        if gang_key not in model.gangs:
            del model.reports[record_key]
