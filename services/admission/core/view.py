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


class QueueView(Protocol):
    """The queues that a decision is made against."""

    def queue(self, name: str) -> QueueInfo | None:
        """Return the queue of this name."""
        ...

    def queues(self) -> Iterable[QueueInfo]:
        """Return every queue."""
        ...

    def children(self, name: str) -> Sequence[QueueInfo]:
        """Return the queues right below one, by name."""
        ...


class World(QueueView, Protocol):
    """What webhooks know: queues, and the queue that a namespace names."""

    def namespace_queue(self, namespace: str) -> str:
        """Return the queue in a namespace's annotation ``scheduling.volcano.sh/queue-name``, or nothing."""
        ...


class ClusterView(QueueView, Protocol):
    """What the topic knows: queues, and jobs that exist or will soon."""

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
    namespaces: Mapping[str, str] = field(default_factory=dict[str, str])
    """The queues that namespaces name."""

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

    def namespace_queue(self, namespace: str) -> str:
        """Return the queue that a namespace names, or nothing."""
        return self.namespaces.get(namespace, "")


class QueueIndex:
    """Queues by name and by the queue above them; they come and go."""

    def __init__(self) -> None:
        self._queues: dict[str, QueueInfo] = {}
        self._children: dict[str, dict[str, QueueInfo]] = {}

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

    def put(self, queue: QueueInfo) -> None:
        """Add a queue, or replace the one of its name."""
        self.remove(queue.name)
        self._queues[queue.name] = queue
        if queue.above:
            self._children.setdefault(queue.above, {})[queue.name] = queue

    def remove(self, name: str) -> None:
        """Take a queue out, if it is there."""
        old = self._queues.pop(name, None)
        if old is not None and old.above:
            self._children[old.above].pop(name, None)
