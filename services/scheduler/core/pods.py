"""A pod that exists, as far as it matters here."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Final

from services.scheduler.core.shapes import Shape
from shared.events.contracts import PodState
from shared.events.contracts import Shape as ShapeContract

ENDED: Final = frozenset({"Succeeded", "Failed"})
CRITICAL: Final = 2_000_000_000
"""Priority of the classes system-cluster-critical and above."""
CRITICAL_NAMESPACE: Final = "kube-system"


@dataclass(slots=True, eq=False)
class Pod:
    """``slot`` is that of its node, -1 when it holds no room (not bound, or ended)."""

    uid: str
    shape: Shape
    slot: int
    gang: tuple[str, str] | None
    generation: int
    queue: str
    phase: str
    releasing: bool
    """Being deleted, as its state says."""
    gated: bool
    priority: int = 0
    rank: int = 0
    """Its priority or its gang's, whichever is the higher."""
    preemptable: bool = True
    """It is ours, and its owner does not forbid to evict it."""
    revocable: bool = False
    """It may run where it may have to go at a certain hour."""
    images: tuple[str, ...] = ()
    critical: bool = False
    scheduled: float = 0.0
    """When it was bound (POSIX seconds)."""
    cooldown: float = 0.0
    """Seconds after that in which it asks not to be evicted."""
    since: float = 0.0
    """When it began (POSIX seconds): the youngest is evicted first."""
    ends: float = inf
    """When it ends at the latest, as its gang declared (POSIX seconds)."""
    budgets: tuple[str, ...] = ()
    doomed: bool = False
    """A decision evicts it, and its state does not say so yet."""

    @property
    def leaving(self) -> bool:
        """It holds its room, but not for long."""
        return self.releasing or self.doomed


def is_gated(shape: ShapeContract) -> bool:
    """Whether a pod is not to be placed yet: it has gates, or one of its claims is in no state for it."""
    return shape.scheduling_gated or bool(shape.volumes is not None and shape.volumes.waits_for)


def make_pod(state: PodState, shape: Shape, slot: int, gang: tuple[str, str] | None, *, doomed: bool) -> Pod:
    """Return the pod of a state."""
    created = state.created_at.timestamp()
    scheduled = created if state.scheduled_at is None else state.scheduled_at.timestamp()
    return Pod(
        state.uid,
        shape,
        slot,
        gang,
        state.generation,
        state.queue,
        state.phase,
        state.releasing,
        is_gated(state.shape),
        state.shape.priority,
        preemptable=state.shape.preemptable and state.ours,
        revocable=state.shape.revocable,
        images=state.shape.images,
        critical=state.shape.priority >= CRITICAL or state.namespace == CRITICAL_NAMESPACE,
        scheduled=scheduled,
        cooldown=state.cooldown,
        since=scheduled if state.started_at is None else state.started_at.timestamp(),
        budgets=state.budgets,
        doomed=doomed,
    )
