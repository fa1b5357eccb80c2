"""Which of the things that had a name is meant, and how far it has come."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from services.gateway.core.facts import Change, Decision, Entry, Gang, JobRecord, Life, Model, Submission
from shared.api.names import podgroup_name
from shared.events.contracts import JobState
from shared.telemetry.spans import job_trace

SUBMITTED: Final = "Submitted"
ADMITTED: Final = "Admitted"
REJECTED: Final = "Rejected"
FINAL: Final = frozenset(("Completed", "Failed", "Terminated"))
"""Phases that a job does not leave. An Aborted job can be resumed."""
RESTING: Final = FINAL | {"Aborted"}
"""Phases in which none of its pods run any more."""
_EVER: Final = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Incarnation:
    """A submission and the object made from it; one of them may be missing."""

    record: JobRecord
    submission: Submission | None
    life: Life | None
    gangs: tuple[Gang, ...] = ()

    @property
    def state(self) -> JobState | None:
        """The object as it exists now."""
        state = self.record.state
        return state if state is not None and self.life is not None and state.uid == self.life.uid else None

    @property
    def known_state(self) -> JobState | None:
        """The object as it exists now or was last seen."""
        return self.state or (self.life.last_state if self.life else None)

    @property
    def deleted(self) -> bool:
        """Whether the object existed and does not any more."""
        return self.life is not None and self.life.uid in self.record.past

    @property
    def changes(self) -> list[Change]:
        """The changes of phase, oldest first."""
        return self.life.changes if self.life else []

    @property
    def phase(self) -> str:
        """The job's phase; before it is created, ``Submitted``, ``Admitted`` or ``Rejected``."""
        state = self.known_state
        last = self.changes[-1].event if self.changes else None
        if state is not None and (last is None or state.changed_at >= last.at):
            return state.phase
        if last is not None:
            return last.phase
        if self.submission is None or self.submission.rejected_at:
            return REJECTED
        return ADMITTED if self.submission.admitted_at else SUBMITTED

    @property
    def rejected(self) -> bool:
        """Whether it was refused and so never existed."""
        return self.life is None and self.submission is not None and self.submission.rejected_at is not None

    @property
    def over(self) -> bool:
        """Whether nothing more is to come."""
        return self.rejected or self.deleted or self.phase in FINAL

    @property
    def started(self) -> bool:
        """Whether it runs or has run."""
        return any(change.event.phase == "Running" for change in self.changes) or self.phase == "Running"

    @property
    def generation(self) -> int:
        """The present generation of the gang."""
        state = self.known_state
        seen = [change.event.generation for change in self.changes]
        return max([*seen, state.generation if state else 0])

    @property
    def traceparent(self) -> str | None:
        """The trace context of the job; None for one that was made by kubectl and is not traced yet."""
        state = self.known_state
        if state is not None and state.traceparent:
            return state.traceparent
        if self.submission is None or self.submission.published is None:
            return None
        asked = self.submission
        return job_trace(asked.id, asked.traceparent, asked.tracestate).traceparent

    def decisions(self) -> list[tuple[Gang, Decision]]:
        """Return the decisions about its gangs, oldest first."""
        found = [(gang, decision) for gang in self.gangs for decision in gang.decisions.values()]
        return sorted(found, key=lambda pair: (pair[1].event.decided_at, pair[1].event.decision))

    def history(self) -> list[Entry]:
        """Return everything that happened to it, in order of time."""
        entries = [*self._own_entries(), *(entry for gang in self.gangs for entry in gang.entries)]
        return sorted(entries, key=lambda entry: (entry.time, entry.topic, entry.partition, entry.offset))

    def _own_entries(self) -> Iterator[Entry]:
        if self.submission:
            yield from self.submission.entries
        if self.life:
            yield from self.life.entries
        begin, end = self._span()
        for entry, command in self.record.commands:
            mine = command.uid == self.life.uid if command.uid and self.life else begin <= entry.time < end
            if mine:
                yield entry

    def _span(self) -> tuple[datetime, datetime]:
        """Return the time in which a command to the name meant this incarnation."""
        begin = _begin(self.submission, self.life)
        later = [start for start in _beginnings(self.record) if start > begin]
        return begin, min(later, default=datetime.max.replace(tzinfo=UTC))


def _begin(submission: Submission | None, life: Life | None) -> datetime:
    known = [
        submission.submitted_at if submission else None,
        life.created_at if life else None,
        life.changes[0].event.at if life and life.changes else None,
    ]
    return min((time for time in known if time is not None), default=_EVER)


def _beginnings(record: JobRecord) -> list[datetime]:
    return [_begin(record.submissions.get(life.submission or ""), life) for life in record.lives.values()]


def current(model: Model, record: JobRecord) -> Incarnation:
    """Return the incarnation that the name means: what exists, else what was last heard of.

    A submission that was refused means nothing while another one of the name is on its way.
    """
    if record.state is not None:
        return of_life(model, record, record.lives[record.state.uid])
    options = [of_life(model, record, life) for life in record.lives.values()]
    with_life = {option.submission.id for option in options if option.submission}
    options += [
        Incarnation(record, submission, None)
        for submission in record.submissions.values()
        if submission.id not in with_life
    ]
    if not options:  # only a command was heard of
        return Incarnation(record, None, None)
    coming = any(option.life is None and not option.rejected for option in options)
    return max((option for option in options if not (coming and option.rejected)), key=_last_heard)


def _last_heard(option: Incarnation) -> tuple[datetime, str]:
    submission = option.submission
    times = [
        option.life.changes[-1].event.at if option.life and option.life.changes else None,
        option.life.created_at if option.life else None,
        submission.submitted_at if submission else None,
        submission.rejected_at if submission else None,
        submission.admitted_at if submission else None,
    ]
    tie = option.life.uid if option.life else (submission.id if submission else "")
    return max((time for time in times if time is not None), default=_EVER), tie


def of_submission(model: Model, submission: str) -> Incarnation | None:
    """Return the incarnation that a submission became; None when the submission is unknown."""
    key = model.submissions.get(submission)
    record = model.jobs.get(key) if key else None
    if record is None or submission not in record.submissions:
        return None
    for life in record.lives.values():
        if life.submission == submission:
            return of_life(model, record, life)
    return Incarnation(record, record.submissions[submission], None)


def of_life(model: Model, record: JobRecord, life: Life) -> Incarnation:
    """Return the incarnation that a life is."""
    names = sorted(podgroups_of(record, life))
    gangs = (model.gangs.get((record.namespace, name)) for name in names)
    return Incarnation(
        record, record.submissions.get(life.submission or ""), life, tuple(gang for gang in gangs if gang)
    )


def podgroups_of(record: JobRecord, life: Life) -> set[str]:
    """Return the names that a life's PodGroups have, or would have."""
    names = {podgroup_name(record.name, life.uid)}
    if life.last_state is not None and life.last_state.podgroup:
        names.add(life.last_state.podgroup)
    return names


def last_rejection(record: JobRecord) -> Submission | None:
    """Return the last submission under the name that was refused."""
    refused = [submission for submission in record.submissions.values() if submission.rejected_at]
    return max(refused, key=lambda submission: (submission.rejected_at or _EVER, submission.id), default=None)


def exists(model: Model, record: JobRecord) -> bool:
    """Say whether the name means something that is there or on its way (a command can reach it)."""
    now = current(model, record)
    return not (now.rejected or now.deleted or (now.life is None and now.submission is None))
