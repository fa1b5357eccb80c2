"""Which waiting jobs of a trace the scheduler is shown: all, or one after another as a baseline has it.

The baselines place by the same core; they differ in who is next, and in who has to wait for whom.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush
from typing import Protocol

from services.simulation.core.trace import TraceJob


class Gate(Protocol):
    """Says who is tried next. After something changed everybody may be tried again."""

    def arrive(self, job: TraceJob) -> None:
        """A job waits from now on."""
        ...

    def next(self) -> TraceJob | None:
        """Return the job to be tried now; None: nobody."""
        ...

    def placed(self, job: TraceJob) -> None:
        """The job that was tried runs."""
        ...

    def refused(self, job: TraceJob) -> None:
        """The job that was tried has no room."""
        ...

    def changed(self, job: TraceJob) -> None:
        """A job has ended, and left its room."""
        ...


class FirstInFirstOut:
    """In order of arrival, over all queues; who does not fit holds up everybody behind."""

    def __init__(self) -> None:
        self._waiting: deque[TraceJob] = deque()
        self._stopped = False

    def arrive(self, job: TraceJob) -> None:
        """A job waits from now on."""
        self._waiting.append(job)

    def next(self) -> TraceJob | None:
        """Return the first, unless it was refused and nothing has changed."""
        return None if self._stopped or not self._waiting else self._waiting[0]

    def placed(self, job: TraceJob) -> None:
        """The first one runs."""
        assert self._waiting.popleft() is job  # noqa: S101 - the only one shown

    def refused(self, job: TraceJob) -> None:
        """Everybody waits for the first."""
        del job
        self._stopped = True

    def changed(self, job: TraceJob) -> None:
        """The first one is tried again."""
        del job
        self._stopped = False


class DominantShare:
    """The queue with the least GPUs first (dominant resource fairness of one resource), in it by arrival.

    A queue whose first job does not fit is passed over until something changes.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, deque[TraceJob]] = {}
        self._held: dict[str, int] = {}
        self._order: list[tuple[int, str]] = []
        self._listed: set[str] = set()
        self._passed: set[str] = set()

    def arrive(self, job: TraceJob) -> None:
        """A job waits from now on."""
        self._waiting.setdefault(job.queue, deque()).append(job)
        self._list(job.queue)

    def next(self) -> TraceJob | None:
        """Return the first job of the queue with the least."""
        while self._order:
            held, queue = self._order[0]
            if queue in self._passed or not self._waiting[queue] or held != self._held.get(queue, 0):
                heappop(self._order)
                self._listed.discard(queue)
                self._list(queue)
                continue
            return self._waiting[queue][0]
        return None

    def placed(self, job: TraceJob) -> None:
        """The queue has more now."""
        self._waiting[job.queue].popleft()
        self._held[job.queue] = self._held.get(job.queue, 0) + job.gpus

    def refused(self, job: TraceJob) -> None:
        """The queue is passed over."""
        self._passed.add(job.queue)

    def changed(self, job: TraceJob) -> None:
        """Every queue is looked at again."""
        self._held[job.queue] -= job.gpus
        self._passed.clear()
        self._order = [(self._held.get(queue, 0), queue) for queue, jobs in self._waiting.items() if jobs]
        self._listed = {queue for _, queue in self._order}
        heapify(self._order)

    def _list(self, queue: str) -> None:
        if queue not in self._listed and queue not in self._passed and self._waiting[queue]:
            self._listed.add(queue)
            heappush(self._order, (self._held.get(queue, 0), queue))
