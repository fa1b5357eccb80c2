"""What the rules know of the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from shared.api.names import ROOT_QUEUE

Amounts = Mapping[str, int]
"""Resources in base units (CPU in milli-CPU)."""


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """A queue, as far as rules look at it."""

    name: str
    parent: str = ""
    state: str = "Open"
    capability: Amounts = field(default_factory=dict[str, int])
    deserved: Amounts = field(default_factory=dict[str, int])
    guarantee: Amounts = field(default_factory=dict[str, int])
    allocated_pods: int = 0
    hierarchy: str = ""
    """The annotation ``volcano.sh/hierarchy``."""

    @property
    def above(self) -> str:
        """The queue above; empty for the root, which is above every queue without a parent."""
        return "" if self.name == ROOT_QUEUE else self.parent or ROOT_QUEUE


@dataclass(frozen=True, slots=True)
class JobInfo:
    """A job of that name: it exists (``uid``), or was admitted and will exist soon (no ``uid``)."""

    uid: str | None
    submission: str | None
    deleting: bool = False


class ClusterView(Protocol):
    """The queues and jobs that a decision is made against."""

    def queue(self, name: str) -> QueueInfo | None:
        """Return the queue of this name."""
        ...

    def queues(self) -> Iterable[QueueInfo]:
        """Return every queue."""
        ...

    def children(self, name: str) -> Sequence[QueueInfo]:
        """Return the queues right below one, by name."""
        ...

    def job(self, namespace: str, name: str) -> JobInfo | None:
        """Return the job that has this name."""
        ...

    def was_admitted(self, submission: str) -> bool:
        """Say whether this submission was admitted a short while ago, whatever became of its job."""
        ...


@dataclass(frozen=True, slots=True)
class FixedView:
    """A view of given queues and jobs (by ``(namespace, name)``)."""

    all_queues: tuple[QueueInfo, ...] = ()
    jobs: Mapping[tuple[str, str], JobInfo] = field(default_factory=dict[tuple[str, str], JobInfo])
    admitted: frozenset[str] = frozenset()

    def queue(self, name: str) -> QueueInfo | None:
        """Return the queue of this name."""
        return next((queue for queue in self.all_queues if queue.name == name), None)

    def queues(self) -> Iterable[QueueInfo]:
        """Return every queue."""
        return self.all_queues

    def children(self, name: str) -> Sequence[QueueInfo]:
        """Return the queues right below one, by name."""
        below = (queue for queue in self.all_queues if queue.above == name)
        return sorted(below, key=lambda queue: queue.name)

    def job(self, namespace: str, name: str) -> JobInfo | None:
        """Return the job that has this name."""
        return self.jobs.get((namespace, name))

    def was_admitted(self, submission: str) -> bool:
        """Say whether this submission was admitted a short while ago."""
        return submission in self.admitted
