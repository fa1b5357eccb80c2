"""What happened, as it is told afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from services.simulation.core.store import Key
from services.simulation.core.timeline import Timeline, seconds


@dataclass(slots=True)
class GangRecord:
    """What became of a gang: times in seconds since the beginning, None: not yet."""

    phase: str = "Pending"
    reason: str = ""
    queue: str = ""
    queued_at: float | None = None
    estimated_start: float | None = None
    """As it was last told, while it waited."""
    started_at: float | None = None
    finished_at: float | None = None


@dataclass(frozen=True, slots=True)
class Evicted:
    """A pod that was taken away for another gang."""

    pod: str
    at: float
    beneficiary: str
    reason: str


@dataclass(slots=True)
class History:
    """Everything in order. Gangs are named as their jobs, or as their PodGroups where no job owns them."""

    timeline: Timeline
    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    bindings: dict[str, str] = field(default_factory=dict[str, str])
    devices: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """Numbers of the GPUs that a pod got parts of, in the order in which it asks for them."""
    numa: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    """CPUs that a pod has for itself, by the number of the NUMA node."""
    evicted: list[Evicted] = field(default_factory=list[Evicted])
    gangs: dict[str, GangRecord] = field(default_factory=dict[str, GangRecord])

    @property
    def at(self) -> float:
        """The present, in seconds."""
        return seconds(self.timeline.now)

    def tell(self, event: str, what: str, message: str = "", **more: Any) -> None:
        """Note an event about an object."""
        told = {"at": self.at, "event": event, "object": what, **more}
        self.events.append({**told, "message": message} if message else told)

    def gang(self, name: str) -> GangRecord:
        """Return the record of a gang."""
        return self.gangs.setdefault(name, GangRecord())

    def queued(self, name: str, queue: str) -> None:
        """Note that a gang can be scheduled."""
        record = self.gang(name)
        record.queue = queue
        if record.queued_at is None:
            record.queued_at = self.at
            self.tell("queued", f"Gang {name}", queue=queue)

    def started(self, name: str) -> None:
        """Note that a gang has got its place."""
        record = self.gang(name)
        record.reason = ""
        if record.started_at is None:
            record.started_at = self.at

    def waits(self, name: str, reason: str, *, is_news: bool, estimate: float | None) -> None:
        """Note why a gang waits, and when it may start; it is told when the kind of reason is another."""
        record = self.gang(name)
        record.reason = reason
        record.estimated_start = estimate
        if is_news:
            self.tell("waits", f"Gang {name}", reason)

    def phase(self, name: str, phase: str, reason: str, *, final: bool) -> None:
        """Note a gang's phase; ``reason`` is for one that waits or has failed."""
        record = self.gang(name)
        if record.phase != phase or (final and record.finished_at is None):
            self.tell("phase", f"Gang {name}", reason, phase=phase)
            if final:
                record.finished_at = self.at
                record.reason = reason
        record.phase = phase

    def bound(self, pod: str, node: str) -> None:
        """Note that a pod was put on a node."""
        self.bindings[pod] = node
        parts: dict[str, Any] = {"devices": self.devices, "numa": self.numa}
        told = {name: known[pod] for name, known in parts.items() if pod in known}
        self.tell("bound", f"Pod {pod}", node=node, **told)

    def evict(self, pod: str, beneficiary: str, reason: str) -> None:
        """Note that a pod is taken away for a gang."""
        self.evicted.append(Evicted(pod, self.at, beneficiary, reason))
        self.tell("evicted", f"Pod {pod}", reason, **{"for": beneficiary})


def spread(nodes: Iterable[str]) -> str:
    """Return how many pods went to which node, in words."""
    counts: dict[str, int] = {}
    for node in nodes:
        counts[node] = counts.get(node, 0) + 1
    return ", ".join(f"{count} on {node}" for node, count in counts.items())


def full_name(key: Key) -> str:
    """Return ``namespace/name``, or the name of what has no namespace."""
    return "/".join(filter(None, key))
