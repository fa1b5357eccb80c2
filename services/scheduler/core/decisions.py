"""What a cycle says, and the decisions whose outcome is not known yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from services.scheduler.core.numa import Cells
from services.scheduler.core.queues import Queue
from services.scheduler.core.shapes import Shape
from shared.events.contracts import Eviction, Reservation

Row = tuple[str, str, str, str | None]
"""pod, task, node, UID of the pod when it exists"""


@dataclass(slots=True, eq=False)
class Decision:
    """One gang's decision, whole."""

    number: str
    """Unique: pool, gang UID, generation and a count that never goes back."""
    namespace: str
    name: str
    uid: str
    generation: int
    enqueue: bool
    minimum: int
    rows: list[Row]
    decided_at: datetime
    waiting_since: datetime
    traceparent: str | None = None
    again: bool = False
    """Sent before, and no result came."""
    devices: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    """By pod that takes parts of devices: which of its node's."""
    cells: dict[str, Cells] = field(default_factory=dict[str, Cells])
    """By pod that has CPUs for itself: how many of which NUMA nodes."""
    evictions: tuple[Eviction, ...] = ()
    """Pods that leave for the gang. Such a decision places nothing: that comes when their room is free."""
    reservations: tuple[Reservation, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a cycle decided. ``unfinished``: the limit ended it; ``wake_at``: look again then."""

    decisions: list[Decision]
    unfinished: bool
    wake_at: datetime | None


@dataclass(slots=True, eq=False)
class Flight:
    """A decision in flight: pods that count on their nodes until the state shows them there."""

    decision: Decision
    queue: Queue
    pods: dict[str, tuple[int, Shape]] = field(default_factory=dict[str, tuple[int, Shape]])
    """By name: slot and shape of what is neither seen nor refused yet."""
    resolved: bool = False
    """Its result said that the pods left here were bound."""
    due: float = 0.0
    """When to ask what became of it (POSIX seconds)."""

    @property
    def key(self) -> tuple[str, str]:
        """The gang's namespace and name."""
        return self.decision.namespace, self.decision.name

    def of(self, uid: str, generation: int) -> bool:
        """Whether it is of this generation of the gang."""
        return self.decision.uid == uid and self.decision.generation == generation
