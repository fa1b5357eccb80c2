"""What the API shows, as models: they serialise the answers and make the OpenAPI document.

Times are RFC 3339 in UTC; CPU is in milli-CPU, memory in bytes, everything else in counts.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from shared.events.contracts import PodCounts, Reason, Resources, Violation


class View(BaseModel):
    """Base of the answers: camelCase on the wire."""

    model_config = ConfigDict(frozen=True, populate_by_name=True, alias_generator=to_camel)

    def encoded(self) -> bytes:
        """Return the JSON text."""
        return self.model_dump_json(by_alias=True).encode()


class Links(View):
    """Where to go on from here."""

    self: str
    events: str
    trace: str


class Accepted(View):
    """A submission that is in the log."""

    submission: str
    namespace: str
    name: str
    traceparent: str
    links: Links


class CommandAccepted(View):
    """A command that is in the log."""

    id: str
    namespace: str
    name: str
    action: str
    phase: str
    """The job's phase as known when the answer was given."""
    done: bool = False


class JobSummary(View):
    """A job in a list."""

    namespace: str
    name: str
    uid: str | None = None
    phase: str
    """Submitted, Admitted, Rejected, or the phase of the Job object."""
    queue: str = ""
    priority_class: str = ""
    replicas: int = 0
    min_available: int = 0
    pods: PodCounts = PodCounts()
    requests: Resources = {}
    generation: int = 0
    retry_count: int = 0
    position: int | None = None
    reason: str = ""
    message: str = ""
    urls: dict[str, str] = {}
    """Where its exposed ports are reached, by name."""
    submission: str | None = None
    submitted_by: str = ""
    submitted_at: datetime | None = None
    created_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    deleting: bool = False
    deleted: bool = False


class PlacedPod(View):
    """A pod of a job and where it is. ``phase`` empty: known from the decision only."""

    pod: str
    task: str = ""
    index: int | None = None
    node: str | None = None
    phase: str = ""
    releasing: bool = False


class Waiting(View):
    """Why a job does not run yet."""

    reason: Reason
    details: tuple[Reason, ...] = ()
    position: int
    queue_length: int
    waiting_since: datetime
    estimated_start: datetime | None = None
    """As likely as not sooner; null: nobody can say."""
    estimated_start_p90: datetime | None = None
    outlook: str = ""
    """Whose end makes room; or why nobody can say when it starts."""
    as_of: datetime


class EvictedPod(View):
    """A pod that would leave for a job."""

    namespace: str
    pod: str
    reason: str


class TrialView(View):
    """What would become of a job if it were submitted now. Nothing was done."""

    namespace: str
    name: str
    outcome: str
    """``starts``, ``evicts`` (it starts once others have left for it) or ``waits``."""
    place: tuple[PlacedPod, ...] = ()
    """Where the pods of its minimum would go."""
    later: int = 0
    """Pods beyond the minimum: they take what room there is afterwards."""
    evicted: tuple[EvictedPod, ...] = ()
    waiting: Waiting | None = None


class PhaseTime(View):
    """A phase of the way, with its time. ``end`` null: it goes on."""

    phase: str
    generation: int
    start: datetime
    end: datetime | None
    seconds: float | None
    error: str | None = None


class PhaseChange(View):
    """A change of the Job object's phase."""

    at: datetime
    previous: str
    phase: str
    generation: int
    reason: str = ""
    message: str = ""


class Rejection(View):
    """A submission that was refused, and every reason."""

    submission: str
    at: datetime
    violations: tuple[Violation, ...]


class JobDetail(JobSummary):
    """Everything about a job."""

    place: tuple[PlacedPod, ...] = ()
    waiting: Waiting | None = None
    timeline: tuple[PhaseTime, ...] = ()
    changes: tuple[PhaseChange, ...] = ()
    violations: tuple[Violation, ...] = ()
    last_rejection: Rejection | None = None
    traceparent: str | None = None
    links: Links


class JobList(View):
    """A page of jobs, in order of namespace and name."""

    items: tuple[JobSummary, ...]
    next_page: str | None = Field(default=None, serialization_alias="continue")
    """Pass it as ``continue`` to get the next page; null: this was the last."""
    total: int
    """How many match in all."""


class HistoryEntry(View):
    """One thing that happened to a job; the data of a server-sent event."""

    kind: str
    time: datetime
    data: dict[str, Any]


class SpanView(View):
    """A span of a job's trace. ``end`` null: it goes on."""

    span_id: str
    parent_id: str | None
    name: str
    service: str
    start: datetime
    end: datetime | None
    seconds: float | None
    status: str
    message: str = ""
    attributes: dict[str, Any] = {}
    links: tuple[str, ...] = ()


class TraceView(View):
    """The one trace of a job; the first span is its root."""

    trace_id: str
    namespace: str
    name: str
    spans: tuple[SpanView, ...]


class QueueView(View):
    """A queue and what it holds."""

    name: str
    parent: str = ""
    state: str
    weight: int
    priority: int
    reclaimable: bool
    capability: Resources | None = None
    deserved: Resources | None = None
    guarantee: Resources | None = None
    allocated: Resources = {}
    pods: int = 0
    jobs: dict[str, int] = {}
    """Jobs that exist, by phase."""


class QueueList(View):
    """All queues, by name."""

    items: tuple[QueueView, ...]


class QueueCommandAccepted(View):
    """A command to a queue that the log has."""

    id: str
    name: str
    action: str
    state: str
    """The queue's state as known when the answer was given; empty when it is gone."""
    done: bool = False


class PoolCommandAccepted(View):
    """A command to a node pool's scheduler that the log has."""

    id: str
    pool: str
    action: str


class NodeView(View):
    """A node and what it holds."""

    name: str
    pool: str
    ready: bool
    unschedulable: bool
    labels: dict[str, str]
    taints: tuple[dict[str, Any], ...] = ()
    allocatable: Resources
    allocated: Resources
    free: Resources
    pods: int


class NodeList(View):
    """All nodes, by name."""

    items: tuple[NodeView, ...]
