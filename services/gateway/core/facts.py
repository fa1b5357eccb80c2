"""What the gateway knows, as it was told: facts by job, gang, pod, node and queue.

A name may be used again, so a record of a job name holds *submissions* (by the id of their event) and
*lives* (by the UID of the object in Kubernetes). Facts of different topics are kept apart and joined only
when they are looked at: topics are ordered per key, not among each other, and no order between them
may change what is seen in the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from shared.events.contracts import (
    CommandJob,
    Contract,
    DecisionApplied,
    GangDecided,
    GangReport,
    JobPhaseChanged,
    JobState,
    NodeState,
    QueueState,
    Resources,
    Violation,
)
from shared.events.envelope import Envelope

JobKey = tuple[str, str]
"""Namespace and name of a job."""

GangKey = tuple[str, str]
"""Namespace and name of a PodGroup."""


@dataclass(slots=True)
class PodFact:
    """A pod that exists; of its shape only the requests, shared between equal pods. Never changed once kept.

    (Not ``frozen``: making it would cost twice as much, and there are many.)
    """

    namespace: str
    name: str
    uid: str
    gang: str | None
    task: str
    index: int
    generation: int
    queue: str
    node: str | None
    phase: str
    releasing: bool
    requests: Resources
    started_at: datetime | None


@dataclass(frozen=True, slots=True)
class Arrival:
    """A record of the log as it was read. ``at`` is the log's time.

    A pod's state may come as ``pod`` instead of in an envelope; with neither, it is a tombstone.
    """

    topic: str
    partition: int
    offset: int
    at: datetime
    key: bytes | None
    envelope: Envelope[Contract] | None
    pod: PodFact | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened to a job, with its place in the log. ``time`` is when the event says it did."""

    topic: str
    partition: int
    offset: int
    time: datetime
    kind: str
    data: Contract


@dataclass(slots=True)
class Submission:
    """One request for a job. What is None has not been read yet; ``published`` is the event's time."""

    id: str
    digest: str = ""
    published: datetime | None = None
    submitted_at: datetime | None = None
    appended_at: datetime | None = None
    submitted_by: str = ""
    traceparent: str | None = None
    tracestate: str | None = None
    queue: str = ""
    replicas: int = 0
    min_available: int = 0
    admitted_at: datetime | None = None
    rejected_at: datetime | None = None
    violations: tuple[Violation, ...] = ()
    entries: list[Entry] = field(default_factory=list[Entry])


@dataclass(frozen=True, slots=True)
class Change:
    """A change of phase and when it was published."""

    event: JobPhaseChanged
    published: datetime


@dataclass(slots=True)
class Life:
    """One object in Kubernetes under the name."""

    uid: str
    submission: str | None = None
    traceparent: str | None = None
    created_at: datetime | None = None
    changes: list[Change] = field(default_factory=list[Change])
    last_state: JobState | None = None
    entries: list[Entry] = field(default_factory=list[Entry])


@dataclass(slots=True)
class JobRecord:
    """All that is known under one job name. ``state`` is the object that exists now."""

    namespace: str
    name: str
    submissions: dict[str, Submission] = field(default_factory=dict[str, Submission])
    lives: dict[str, Life] = field(default_factory=dict[str, Life])
    commands: list[tuple[Entry, CommandJob]] = field(default_factory=list[tuple[Entry, CommandJob]])
    state: JobState | None = None
    past: set[str] = field(default_factory=set[str])
    """UIDs that existed and do not any more."""
    touched: datetime | None = None

    @property
    def key(self) -> JobKey:
        """Namespace and name."""
        return (self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision and when it was published."""

    event: GangDecided
    published: datetime


@dataclass(slots=True)
class Gang:
    """What is known of a PodGroup. ``ready`` says since when each generation could be scheduled."""

    namespace: str
    name: str
    owner: JobKey | None = None
    exists: bool = False
    ready: dict[int, datetime] = field(default_factory=dict[int, datetime])
    decisions: dict[str, Decision] = field(default_factory=dict[str, Decision])
    results: dict[str, DecisionApplied] = field(default_factory=dict[str, DecisionApplied])
    report: GangReport | None = None
    last_report: GangReport | None = None
    entries: list[Entry] = field(default_factory=list[Entry])
    touched: datetime | None = None


@dataclass(slots=True)
class Totals:
    """Sums of requests and a count, by some name."""

    amounts: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    counts: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, name: str, requests: Resources, sign: int) -> None:
        """Add (or with ``sign`` -1 take away) one pod's requests; what falls to nothing is dropped."""
        amounts = self.amounts.setdefault(name, {})
        for resource, amount in requests.items():
            total = amounts.get(resource, 0) + sign * amount
            if total:
                amounts[resource] = total
            else:
                amounts.pop(resource, None)
        count = self.counts.get(name, 0) + sign
        if count:
            self.counts[name] = count
        else:
            self.counts.pop(name, None)
            self.amounts.pop(name, None)


def _no_pods() -> dict[GangKey, dict[str, PodFact]]:
    return {}


@dataclass(slots=True)
class Model:
    """The read model's state, changed only by ``readmodel.fold`` and ``retention.prune``."""

    jobs: dict[JobKey, JobRecord] = field(default_factory=dict[JobKey, JobRecord])
    submissions: dict[str, JobKey] = field(default_factory=dict[str, JobKey])
    gangs: dict[GangKey, Gang] = field(default_factory=dict[GangKey, Gang])
    reports: dict[bytes, GangKey] = field(default_factory=dict[bytes, GangKey])
    nodes: dict[str, NodeState] = field(default_factory=dict[str, NodeState])
    queues: dict[str, QueueState] = field(default_factory=dict[str, QueueState])
    pods: dict[tuple[str, str], PodFact] = field(default_factory=dict[tuple[str, str], PodFact])
    pods_of: dict[GangKey, dict[str, PodFact]] = field(default_factory=_no_pods)
    node_use: Totals = field(default_factory=Totals)
    queue_use: Totals = field(default_factory=Totals)
    requests: dict[tuple[tuple[str, int], ...], Resources] = field(
        default_factory=dict[tuple[tuple[str, int], ...], Resources]
    )
    """Equal requests of pods, kept once."""

    def submission(self, id: str) -> Submission | None:  # noqa: A002 - CloudEvents' word
        """Return a submission by its event's id."""
        key = self.submissions.get(id)
        record = self.jobs.get(key) if key else None
        return record.submissions.get(id) if record else None


def metadata_key(job: dict[str, Any]) -> JobKey | None:
    """Return the key of a raw Job; None when it names none."""
    metadata = job.get("metadata")
    if not isinstance(metadata, dict):
        return None
    name, namespace = metadata.get("name"), metadata.get("namespace") or "default"
    if not isinstance(name, str) or not name or not isinstance(namespace, str):
        return None
    return (namespace, name)
