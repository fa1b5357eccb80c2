"""What the gateway answers, as models.

They are lenient, so that an older client works with a newer server: fields which they do not know are
kept (and printed by ``-o json``), and every field that may be missing has a default. Times are in UTC;
amounts are in base units (CPU in milli-CPU, memory in bytes, everything else in counts).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Resources = dict[str, int | float]

COMPLETED: Final = "Completed"
REJECTED: Final = "Rejected"
ENDED: Final = frozenset({COMPLETED, "Failed", "Terminated", "Aborted", REJECTED})
"""Phases in which nothing more happens by itself. An Aborted (suspended) job can be resumed."""
STARTED: Final = frozenset({"Running", "Completing"}) | ENDED
UNBORN: Final = frozenset({"", "Submitted"})
"""Phases before the job is admitted."""


class Model(BaseModel):
    """Base of the answers: camelCase on the wire, unknown fields kept."""

    model_config = ConfigDict(extra="allow", populate_by_name=True, alias_generator=to_camel, frozen=True)

    def dump(self) -> dict[str, Any]:
        """Return what the server sent, as JSON values."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class PodCounts(Model):
    """A job's pods by what they are doing."""

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0


class Placement(Model):
    """Where one pod of a job is."""

    pod: str = ""
    task: str = ""
    index: int | None = None
    node: str | None = None
    phase: str = ""
    releasing: bool = False


class Reason(Model):
    """Why a job waits: a stable code, a sentence with numbers, the numbers, and what can be done."""

    code: str = ""
    message: str = ""
    numbers: dict[str, Any] = Field(default_factory=dict)
    next_step: str = ""


class Waiting(Model):
    """Why a job waits, and its place in its queue."""

    reason: Reason = Reason()
    """The dominant obstacle."""
    details: tuple[Reason, ...] = ()
    """The other obstacles, most important first."""
    position: int | None = None
    """1 is the head of its queue."""
    queue_length: int | None = None
    waiting_since: datetime | None = None
    estimated_start: datetime | None = None
    """As likely as not it starts sooner; None: nobody can say."""
    estimated_start_p90: datetime | None = None
    """Nine times of ten it starts sooner."""
    outlook: str = ""
    """Whose end makes room; or why nobody can say when it starts."""
    as_of: datetime | None = None


class Leaving(Model):
    """A pod that would leave for a job."""

    namespace: str = ""
    pod: str = ""
    reason: str = ""


class Trial(Model):
    """What would become of a job if it were submitted now. Nothing was done."""

    namespace: str = ""
    name: str = ""
    outcome: str = ""
    """``starts``, ``evicts`` (it starts once others have left for it) or ``waits``."""
    place: tuple[Placement, ...] = ()
    """Where the pods of its minimum would go."""
    later: int = 0
    """Pods beyond the minimum: they take what room there is afterwards."""
    evicted: tuple[Leaving, ...] = ()
    waiting: Waiting | None = None


class PhaseTime(Model):
    """A phase of the way, with its time. ``end`` None: it goes on."""

    phase: str = ""
    generation: int = 0
    start: datetime
    end: datetime | None = None
    seconds: float | None = None
    error: str | None = None


class PhaseChange(Model):
    """A change of the Job object's phase."""

    at: datetime
    previous: str = ""
    phase: str = ""
    generation: int = 0
    reason: str = ""
    message: str = ""


class ViolationView(Model):
    """One reason why a job was not admitted."""

    code: str = ""
    path: str = ""
    message: str = ""


class JobView(Model):
    """A job as the gateway knows it. A list leaves ``place``, ``waiting`` and what follows out."""

    namespace: str = "default"
    name: str
    uid: str | None = None
    queue: str = "default"
    phase: str = ""
    reason: str = ""
    message: str = ""
    generation: int = 0
    min_available: int = 0
    replicas: int = 0
    requests: Resources = Field(default_factory=dict)
    retry_count: int = 0
    pods: PodCounts = PodCounts()
    priority_class: str = ""
    position: int | None = None
    """Its place in the queue while it waits; 1 is the head."""
    urls: dict[str, str] = Field(default_factory=dict)
    """Where its exposed ports are reached, by name."""
    submission: str | None = None
    submitted_by: str = ""
    deleting: bool = False
    deleted: bool = False
    """It is history: the job is gone."""
    submitted_at: datetime | None = None
    created_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    place: tuple[Placement, ...] = ()
    waiting: Waiting | None = None
    timeline: tuple[PhaseTime, ...] = ()
    changes: tuple[PhaseChange, ...] = ()
    violations: tuple[ViolationView, ...] = ()

    @property
    def admitted(self) -> bool:
        """Whether the job was admitted."""
        return self.phase not in UNBORN and self.phase != REJECTED

    @property
    def started(self) -> bool:
        """Whether its minimum of pods runs, or the job is past that."""
        return self.phase in STARTED

    @property
    def ended(self) -> bool:
        """Whether nothing more happens by itself."""
        return self.phase in ENDED

    @property
    def succeeded(self) -> bool:
        """Whether it went through to Completed."""
        return self.phase == COMPLETED


class Commanded(Model):
    """A command that the server has taken. ``done`` is known only of one that was waited for."""

    id: str = ""
    namespace: str = ""
    name: str = ""
    action: str = ""
    phase: str = ""
    """The job's phase when the answer was given; ``Deleted`` when it is gone."""
    done: bool = False


class QueueCommanded(Model):
    """A command to a queue that the server has taken. ``done`` is known only of one that was waited for."""

    id: str = ""
    name: str = ""
    action: str = ""
    state: str = ""
    """The queue's state when the answer was given."""
    done: bool = False


class PoolCommanded(Model):
    """A command to a node pool's scheduler that the server has taken."""

    id: str = ""
    pool: str = ""
    action: str = ""


class JobEvent(Model):
    """Something that happened to a job.

    ``kind`` is ``submitted``, ``admitted``, ``rejected``, ``command``, ``phase``, ``decision``, ``result`` or
    ``report``, and ``data`` has the fields of that event. ``id`` is its place in the stream.
    """

    id: str = ""
    kind: str = ""
    time: datetime | None = None
    data: dict[str, Any] = Field(default_factory=dict)


class QueueView(Model):
    """A queue: its limits and what it holds."""

    name: str
    parent: str = ""
    state: str = ""
    weight: int | None = None
    priority: int = 0
    capability: Resources | None = None
    deserved: Resources | None = None
    guarantee: Resources | None = None
    allocated: Resources = Field(default_factory=dict)
    pods: int = 0
    jobs: dict[str, int] = Field(default_factory=dict)
    """Jobs that exist, by phase."""


class NodeView(Model):
    """A node: what it has and what is taken."""

    name: str
    pool: str = ""
    ready: bool = True
    unschedulable: bool = False
    labels: dict[str, str] = Field(default_factory=dict)
    allocatable: Resources = Field(default_factory=dict)
    allocated: Resources = Field(default_factory=dict)
    free: Resources = Field(default_factory=dict)
    pods: int = 0


class Span(Model):
    """A phase of a job in its trace. ``end`` None: it goes on. Ids are lower-case hex."""

    span_id: str = ""
    parent_id: str | None = None
    name: str = ""
    service: str = ""
    start: datetime
    end: datetime | None = None
    attributes: dict[str, Any] = Field(default_factory=dict)
    status: str = ""
    message: str = ""


class Trace(Model):
    """The one trace of a job; the first span is its root."""

    trace_id: str = ""
    namespace: str = ""
    name: str = ""
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """A job at one moment while it is followed, and the event that told of it (None: the first look)."""

    job: JobView
    event: JobEvent | None = None
