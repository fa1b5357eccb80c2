"""Lists of jobs and queues: one summary a job, kept until the fold says that the job changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from services.gateway.core.facts import JobKey, Model
from services.gateway.core.incarnation import current
from services.gateway.core.rendering import summary
from services.gateway.core.views import JobSummary, QueueView


class Listing:
    """The summaries of all jobs. Equivalent to making each anew at every look, except in cost."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._known: dict[JobKey, JobSummary | None] = {}

    def changed(self, keys: Iterable[JobKey]) -> None:
        """Forget the summaries of jobs that changed."""
        for key in keys:
            self._known.pop(key, None)

    def clear(self) -> None:
        """Forget all summaries."""
        self._known.clear()

    def _summary(self, key: JobKey) -> JobSummary | None:
        """Return a job's summary; None when the name means nothing (only a command was heard of)."""
        if key not in self._known:
            job = current(self._model, self._model.jobs[key])
            nothing = job.life is None and job.submission is None
            self._known[key] = None if nothing else summary(job)
        return self._known[key]

    def jobs(
        self, *, namespace: str | None = None, queue: str | None = None, phases: frozenset[str] = frozenset()
    ) -> Iterator[JobSummary]:
        """Yield the jobs that match, in order of namespace and name; deleted ones are history, not listed."""
        for key in sorted(self._model.jobs):
            if namespace is not None and key[0] != namespace:
                continue
            job = self._summary(key)
            if job is None or job.deleted or (queue is not None and job.queue != queue):
                continue
            if not phases or job.phase in phases:
                yield job

    def queues(self) -> list[QueueView]:
        """Return all queues with what they hold, by name."""
        jobs: dict[str, dict[str, int]] = {}
        for key, record in self._model.jobs.items():
            if record.state is not None and (job := self._summary(key)) is not None:
                counts = jobs.setdefault(job.queue, {})
                counts[job.phase] = counts.get(job.phase, 0) + 1
        use = self._model.queue_use
        return [
            QueueView(
                **queue.model_dump(exclude={"uid", "created_at"}),
                allocated=use.amounts.get(name, {}),
                pods=use.counts.get(name, 0),
                jobs=jobs.get(name, {}),
            )
            for name, queue in sorted(self._model.queues.items())
        ]
