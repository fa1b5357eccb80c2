"""The rules' view of the cluster, folded from events: queues, jobs, and jobs admitted but not yet there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from services.admission.core.view import JobInfo, QueueInfo
from shared.events.contracts import Contract, JobAdmitted, JobRejected, JobState, QueueState

JobKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Expected:
    submission: str
    at: datetime


class LiveView:
    """A :class:`services.admission.core.view.ClusterView` that events change."""

    def __init__(self, memory: timedelta) -> None:
        self._memory = memory
        self._queues: dict[str, QueueInfo] = {}
        self._children: dict[str, dict[str, QueueInfo]] = {}
        self._jobs: dict[JobKey, JobInfo] = {}
        self._expected: dict[JobKey, _Expected] = {}
        self._admitted: dict[str, datetime] = {}

    def queue(self, name: str) -> QueueInfo | None:
        """Return the queue of this name."""
        return self._queues.get(name)

    def queues(self) -> Iterable[QueueInfo]:
        """Return every queue."""
        return self._queues.values()

    def children(self, name: str) -> Sequence[QueueInfo]:
        """Return the queues right below one, by name."""
        below = self._children.get(name)
        return [below[child] for child in sorted(below)] if below else ()

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
                self._put_queue(_queue_info(event))
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

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Fold in that an object is gone."""
        if kind == "queue":
            self._take_queue(name)
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

    def _put_queue(self, queue: QueueInfo) -> None:
        self._take_queue(queue.name)
        self._queues[queue.name] = queue
        if queue.above:
            self._children.setdefault(queue.above, {})[queue.name] = queue

    def _take_queue(self, name: str) -> None:
        old = self._queues.pop(name, None)
        if old is not None and old.above:
            self._children[old.above].pop(name, None)


def _queue_info(event: QueueState) -> QueueInfo:
    return QueueInfo(
        name=event.name,
        parent=event.parent,
        state=event.state,
        capability=event.capability or {},
        deserved=event.deserved or {},
        guarantee=event.guarantee or {},
    )
