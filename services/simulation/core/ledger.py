"""What a trace's run is measured by: waits, the use of GPUs, shares, and how free GPUs lie.

Utilisation is exact; shares and fragmentation are looked at at equal distances of time.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from services.scheduler.core.division import fill
from services.simulation.core.plots import Point
from services.simulation.core.trace import TraceJob

_LOOKS: Final = 2000
_P95: Final = 0.95


@dataclass(slots=True)
class JobRecord:
    """A job's times, in seconds."""

    job: TraceJob
    started: float | None = None
    ended: float | None = None
    evictions: int = 0


@dataclass(slots=True)
class Series:
    """What was seen at each look: hours and values."""

    used: list[Point] = field(default_factory=list[Point])
    waiting: list[Point] = field(default_factory=list[Point])
    share_error: list[Point] = field(default_factory=list[Point])
    fragmentation: list[Point] = field(default_factory=list[Point])


class Ledger:
    """Keeps the accounts. ``nodes``: GPUs of each node; times go forward."""

    def __init__(self, nodes: Mapping[str, int], first: float, last: float) -> None:
        self.total = sum(nodes.values())
        self.used = 0
        self.series = Series()
        self._size = dict(nodes)
        self._free = dict(nodes)
        self._broken = 0
        """Free GPUs on nodes that are used in part."""
        self._held: dict[str, int] = {}
        self._wanted: dict[str, int] = {}
        self._waiting = 0
        self._area = self._loaded_area = 0.0
        self._now = self._ended = first
        """Now, and when a job stopped last."""
        self._last = last
        self._step = max(last - first, 1.0) / _LOOKS
        self._look = first + self._step

    def advance(self, now: float) -> None:
        """Account for the time until ``now``, in which nothing changed."""
        while self._look <= min(now, self._last):
            self._see(self._look)
            self._look += self._step
        loaded = max(0.0, min(now, self._last) - self._now)
        self._area += self.used * (now - self._now)
        self._loaded_area += self.used * loaded
        self._now = now

    def arrive(self, job: TraceJob) -> None:
        """A job waits."""
        self._waiting += 1
        self._wanted[job.queue] = self._wanted.get(job.queue, 0) + job.gpus

    def start(self, job: TraceJob) -> None:
        """A job runs."""
        self._waiting -= 1
        self._wanted[job.queue] -= job.gpus
        self._held[job.queue] = self._held.get(job.queue, 0) + job.gpus

    def stop(self, job: TraceJob) -> None:
        """A job runs no more."""
        self._ended = self._now
        self._held[job.queue] -= job.gpus

    def take(self, node: str, gpus: int) -> None:
        """A pod takes GPUs of a node (negative: gives them back)."""
        free = self._free[node]
        self._broken -= free if free < self._size[node] else 0
        self._free[node] = free = free - gpus
        self._broken += free if free < self._size[node] else 0
        self.used += gpus

    @property
    def fragmentation(self) -> float:
        """The part of the free GPUs that is on nodes used in part: no whole-node pod can have it."""
        free = self.total - self.used
        return self._broken / free if free else 0.0

    @property
    def share_error(self) -> float:
        """What queues lack of their fair shares in all, as a part of the cluster."""
        queues = [(held, held + self._wanted.get(name, 0)) for name, held in self._held.items()]
        queues += [(0, wanted) for name, wanted in self._wanted.items() if name not in self._held]
        level = fill(self.total, [(1.0, 0.0, float(wants)) for _, wants in queues if wants])
        return sum(max(0.0, min(level, wants) - held) for held, wants in queues) / self.total

    def _see(self, at: float) -> None:
        hours = at / 3600
        self.series.used.append((hours, self.used))
        self.series.waiting.append((hours, self._waiting))
        self.series.share_error.append((hours, self.share_error))
        self.series.fragmentation.append((hours, self.fragmentation))

    def summary(self, records: Sequence[JobRecord], first: float) -> dict[str, Any]:
        """Return the figures of the whole run."""
        ended = [one for one in records if one.ended is not None and one.started is not None]
        waits = [one.started - one.job.arrival for one in records if one.started is not None]
        loaded = (self._last - first) * self.total
        whole = (self._ended - first) * self.total
        return {
            "jobs": len(records),
            "started": len(waits),
            "ended": len(ended),
            "evictions": sum(one.evictions for one in records),
            "wait_s": spread(waits),
            "completion_s": spread([one.ended - one.job.arrival for one in ended if one.ended is not None]),
            "utilisation": round(self._loaded_area / loaded, 6) if loaded else 0.0,
            "utilisation_to_the_end": round(self._area / whole, 6) if whole else 0.0,
            "share_error": _mean(self.series.share_error),
            "fragmentation": _mean(self.series.fragmentation),
            "makespan_s": round(self._ended - first, 3),
        }


def by_queue(records: Sequence[JobRecord]) -> dict[str, Any]:
    """Return each queue's jobs, GPU hours and waits."""
    queues: dict[str, list[JobRecord]] = {}
    for one in records:
        queues.setdefault(one.job.queue, []).append(one)
    return {
        name: {
            "jobs": len(own),
            "gpu_hours": round(sum(one.job.gpus * one.job.duration for one in own) / 3600, 1),
            "wait_s": spread([one.started - one.job.arrival for one in own if one.started is not None]),
        }
        for name, own in sorted(queues.items())
    }


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return mean, median, 95th percentile (nearest rank) and the largest; nothing of no values."""
    if not values:
        return {}
    ordered = sorted(values)
    figures = {
        "mean": statistics.fmean(ordered),
        "median": statistics.median(ordered),
        "p95": ordered[min(len(ordered) - 1, int(_P95 * len(ordered)))],
        "max": ordered[-1],
    }
    return {name: round(value, 3) for name, value in figures.items()}


def _mean(points: Sequence[Point]) -> float:
    return round(statistics.fmean(value for _, value in points), 6) if points else 0.0
