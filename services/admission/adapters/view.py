"""The rules' view of the cluster, folded from events: queues, jobs, and jobs admitted but not yet there."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from services.admission.core.view import JobInfo, QueueIndex, QueueInfo
from shared.events.contracts import Contract, JobAdmitted, JobRejected, JobState, QueueState

JobKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Expected:
    submission: str
    at: datetime


class LiveView(QueueIndex):
    """A :class:`services.admission.core.view.ClusterView` that events change."""

    def __init__(self, memory: timedelta) -> None:
        super().__init__()
        self._memory = memory
        self._jobs: dict[JobKey, JobInfo] = {}
        self._expected: dict[JobKey, _Expected] = {}
        self._admitted: dict[str, datetime] = {}

    def job(self, namespace: str, name: str) -> JobInfo | None:
        """Return the job that exists, or was admitted and will exist soon."""
        key = (namespace, name)
        known = self._jobs.get(key)
        if known is not None:
            return known
        expected = self._expected.get(key)
        return None if expected is None else JobInfo(None, expected.submission)

    def was_admitted(self, submission: str) -> bool:
        """Say whether this submission was admitted a short while ago."""
        return submission in self._admitted

    def apply(self, event: Contract, at: datetime) -> None:
        """Fold in an event published at ``at``; those about other things change nothing."""
        match event:
            case QueueState():
                self.put(_queue_info(event))
            case JobState():
                self._jobs[event.namespace, event.name] = JobInfo(
                    event.uid, event.submission, deleting=event.deleting
                )
                self._expected.pop((event.namespace, event.name), None)
            case JobAdmitted():
                meta = event.job.get("metadata") or {}
                self.expect(str(meta.get("namespace")), str(meta.get("name")), event.submission, at)
            case JobRejected():  # the controller's: it could not create what was admitted
                expected = self._expected.get((event.namespace, event.name))
                if expected is not None and expected.submission == event.submission:
                    del self._expected[event.namespace, event.name]
            case _:
                return

    def gone(self, kind: str, namespace: str, name: str) -> None:
        """Fold in that an object is gone."""
        if kind == "queue":
            self.remove(name)
        elif kind == "job":
            self._jobs.pop((namespace, name), None)
            self._expected.pop((namespace, name), None)

    def expect(self, namespace: str, name: str, submission: str, at: datetime) -> None:
        """Remember a submission that was admitted, and its job until it is seen."""
        self._admitted.pop(submission, None)
        self._admitted[submission] = at
        known = self._jobs.get((namespace, name))
        if known is None or known.submission != submission:
            self._expected.pop((namespace, name), None)
            self._expected[namespace, name] = _Expected(submission, at)

    def forget_old(self, now: datetime) -> None:
        """Forget what was admitted long ago."""
        oldest = now - self._memory
        # Both are in the order of their times, or nearly so.
        while self._admitted and next(iter(self._admitted.values())) < oldest:
            del self._admitted[next(iter(self._admitted))]
        while self._expected and next(iter(self._expected.values())).at < oldest:
            del self._expected[next(iter(self._expected))]


def _queue_info(event: QueueState) -> QueueInfo:
    return QueueInfo(
        name=event.name,
        parent=event.parent,
        state=event.state,
        capability=event.capability or {},
        deserved=event.deserved or {},
        guarantee=event.guarantee or {},
    )
