"""A trace run by the scheduling core: jobs arrive, are placed, run for as long as they did, and end.

The model is told the same facts as in production, without objects and controllers in between: a trace of a
hundred thousand jobs is a matter of minutes. The work is in proportion to what happens, not to who waits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from services.scheduler.core.cycle import decide
from services.scheduler.core.events import event_of
from services.scheduler.core.model import Model
from services.scheduler.core.policy import Policy
from services.scheduler.core.results import apply_result
from services.simulation.core.gates import Gate
from services.simulation.core.ledger import JobRecord, Ledger, Series, by_queue
from services.simulation.core.timeline import BEGINNING, Timeline, seconds
from services.simulation.core.trace import Trace, TraceJob
from shared.events import contracts as c

GPU: Final = "nvidia.com/gpu"
_NAMESPACE: Final = "trace"
_CORES: Final = 96
"""A node's CPU cores."""
_MEMORY_GIB: Final = 1024
"""A node's memory."""
_GIB: Final = 1 << 30
_PODS: Final = 1000
_TICK: Final = timedelta(microseconds=1)
_MOST_NAMED: Final = 5
_IDLE_WAKES: Final = 1000
"""Times that the scheduler looks again, with nothing else left to happen, before that is the end."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Equal nodes of ``node`` GPUs; the last one has what is left of ``gpus``."""

    gpus: int
    node: int = 8

    @property
    def nodes(self) -> dict[str, int]:
        """Return the GPUs of each node by name."""
        whole, rest = divmod(self.gpus, self.node)
        sizes = [self.node] * whole + ([rest] if rest else [])
        return {f"node-{number:05}": size for number, size in enumerate(sizes)}


@dataclass(slots=True)
class TraceOutcome:
    """What became of a trace."""

    records: list[JobRecord]
    series: Series
    summary: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """Return the figures in all and by queue."""
        return {**self.summary, "queues": by_queue(self.records)}

    def unstarted(self) -> list[str]:
        """Say in a line which jobs never start: the first of them, by line of the trace."""
        jobs = [one.job for one in self.records if one.started is None]
        named = ", ".join(
            f"{job.name} (line {job.number}: {job.gpus} GPUs, queue {job.queue})"
            for job in jobs[:_MOST_NAMED]
        )
        more = f" and {len(jobs) - _MOST_NAMED} more" if len(jobs) > _MOST_NAMED else ""
        return [f"never started: {named}{more}"] if jobs else []


@dataclass(slots=True)
class _Running:
    record: JobRecord
    places: list[tuple[str, str, int]] = field(default_factory=list[tuple[str, str, int]])
    """Pod, node, GPUs."""
    run: int = 0
    """How often it was evicted: the generation of its gang."""
    gang: c.Gang | None = None


class TraceRun:
    """One run. With a ``gate`` jobs are shown to the scheduler one after another."""

    def __init__(
        self, trace: Trace, cluster: Cluster, policy: Policy | None = None, gate: Gate | None = None
    ) -> None:
        self._cluster = cluster
        self._gate = gate
        self._model = Model(policy=policy)
        self._timeline = Timeline()
        times = [job.arrival for job in trace.jobs] or [0.0]
        self._first = min(times)
        self._ledger = Ledger(cluster.nodes, self._first, max(times))
        self._jobs = {_key(job): _Running(JobRecord(job)) for job in trace.jobs}
        self._shapes: dict[tuple[int, float, float, int], c.Shape] = {}
        self._tell_cluster({job.queue for job in trace.jobs})
        for key, one in self._jobs.items():
            self._timeline.add(_moment(one.record.job.arrival), partial(self._arrive, key))

    def run(self) -> TraceOutcome:
        """Run until nothing is left to happen."""
        idle, wake = 0, None
        while True:
            planned = self._timeline.next()
            now = min((at for at in (planned, wake) if at is not None), default=None)
            if now is None or (planned is None and (idle > _IDLE_WAKES or not self._model.unplaced)):
                break
            idle = 0 if planned is not None else idle + 1
            self._ledger.advance(seconds(now))
            self._timeline.advance(now)
            wake = self._settle()
        records = [one.record for one in self._jobs.values()]
        return TraceOutcome(records, self._ledger.series, self._ledger.summary(records, self._first))

    def _tell_cluster(self, queues: Iterable[str]) -> None:
        room = {"cpu": _CORES * 1000, "memory": _MEMORY_GIB * _GIB, "pods": _PODS}
        for name, gpus in self._cluster.nodes.items():
            self._model.apply_node(c.NodeState(name=name, allocatable={**room, GPU: gpus}))
        for name in queues:
            self._model.apply_queue(c.QueueState(name=name))

    # ------------------------------------------------------------------ deciding

    def _settle(self) -> datetime | None:
        """Place what can be placed now; return when the scheduler will look again."""
        if self._gate is None:
            return self._decide()[1]
        while (job := self._gate.next()) is not None:
            self._submit(_key(job))
            if self._decide()[0]:
                self._gate.placed(job)
            else:
                self._model.remove_podgroup(_NAMESPACE, _key(job))
                self._gate.refused(job)
        return None

    def _decide(self) -> tuple[int, datetime | None]:
        """Decide and carry out until there is nothing to decide; return how many gangs were placed."""
        count = 0
        while True:
            outcome = decide(self._model, self._timeline.now)
            for decision in outcome.decisions:
                self._carry_out(event_of(decision, self._model.pool, 0, None))
            count += sum(bool(decision.rows) for decision in outcome.decisions)
            if not outcome.decisions and not outcome.unfinished:
                return count, outcome.wake_at and max(outcome.wake_at, self._timeline.now + _TICK)

    def _carry_out(self, decision: c.GangDecided) -> None:
        for eviction in decision.evictions:
            self._evict(eviction.pod.rpartition("-")[0])
        if decision.bindings:
            self._start(decision)
        apply_result(
            self._model,
            c.DecisionApplied(
                decision=decision.decision,
                pool=decision.pool,
                gang=decision.gang,
                outcome=c.DecisionOutcome.APPLIED,
                at=self._timeline.now,
            ),
        )

    # ------------------------------------------------------------------ the life of a job

    def _arrive(self, key: str) -> None:
        job = self._jobs[key].record.job
        self._ledger.arrive(job)
        if self._gate is None:
            self._submit(key)
        else:
            self._gate.arrive(job)

    def _submit(self, key: str, phase: str = "Pending") -> None:
        one = self._jobs[key]
        if one.gang is None:
            one.gang = self._gang(key, one)
        self._model.apply_podgroup(
            c.PodGroupState(namespace=_NAMESPACE, name=key, uid=key, phase=phase, gang=one.gang)
        )

    def _start(self, decision: c.GangDecided) -> None:
        key, now = decision.gang.name, self._timeline.now
        one = self._jobs[key]
        job = one.record.job
        if one.record.started is None:
            one.record.started = seconds(now)
        sizes = self._sizes(key, job)
        for binding in decision.bindings:
            gpus = sizes[binding.pod]
            one.places.append((binding.pod, binding.node, gpus))
            self._ledger.take(binding.node, gpus)
            self._model.apply_pod(
                c.PodState(
                    namespace=_NAMESPACE,
                    name=binding.pod,
                    uid=f"{binding.pod}-{one.run}",
                    gang=key,
                    task=binding.task,
                    generation=one.run,
                    queue=job.queue,
                    node=binding.node,
                    phase="Running",
                    shape=self._shape(gpus, job),
                    created_at=now,
                    started_at=now,
                )
            )
        self._ledger.start(job)
        self._submit(key, "Running")
        self._timeline.add(now + timedelta(seconds=job.duration), partial(self._end, key, one.run))

    def _end(self, key: str, run: int) -> None:
        one = self._jobs[key]
        if one.run != run:
            return  # it was evicted meanwhile
        one.record.ended = seconds(self._timeline.now)
        self._free(key, one)
        one.gang = None
        if self._gate is not None:
            self._gate.changed(one.record.job)

    def _evict(self, key: str) -> None:
        """Take a job's pods away; it waits anew, and will run from its beginning."""
        one = self._jobs[key]
        if not one.places:
            return  # for another of its pods
        one.record.evictions += 1
        self._free(key, one)
        one.run += 1
        one.gang = None
        self._ledger.arrive(one.record.job)
        self._submit(key)

    def _free(self, key: str, one: _Running) -> None:
        for pod, node, gpus in one.places:
            self._model.remove_pod(_NAMESPACE, pod)
            self._ledger.take(node, -gpus)
        one.places.clear()
        self._model.remove_podgroup(_NAMESPACE, key)
        self._ledger.stop(one.record.job)

    # ------------------------------------------------------------------ a job as a gang

    def _sizes(self, key: str, job: TraceJob) -> dict[str, int]:
        """Return the GPUs of each pod by name."""
        return {f"{key}-{index}": gpus for index, gpus in enumerate(job.pods(self._cluster.node))}

    def _gang(self, key: str, one: _Running) -> c.Gang:
        job = one.record.job
        tasks: dict[int, list[c.Member]] = {}
        for index, (pod, gpus) in enumerate(self._sizes(key, job).items()):
            tasks.setdefault(gpus, []).append(c.Member(pod=pod, index=index))
        now = self._timeline.now
        return c.Gang(
            namespace=_NAMESPACE,
            name=key,
            uid=key,
            generation=one.run,
            job=key,
            queue=job.queue,
            priority=job.priority,
            min_member=sum(map(len, tasks.values())),
            run_seconds=job.declared or None,
            tasks=tuple(
                c.GangTask(
                    name=f"gpus-{gpus}",
                    shape=self._shape(gpus, job),
                    members=tuple(members),
                    minimum=len(members),
                )
                for gpus, members in tasks.items()
            ),
            created_at=_moment(job.arrival),
            ready_since=now if one.run else _moment(job.arrival),
        )

    def _shape(self, gpus: int, job: TraceJob) -> c.Shape:
        key = (gpus, job.cpus, job.memory_gib, job.priority)
        shape = self._shapes.get(key)
        if shape is None:
            each = max(gpus, 1)
            amounts = {
                "cpu": int(job.cpus * 1000 * each),
                "memory": int(job.memory_gib * _GIB * each),
                GPU: gpus,
            }
            shape = self._shapes[key] = c.Shape(
                requests={name: amount for name, amount in amounts.items() if amount}, priority=job.priority
            )
        return shape


def _key(job: TraceJob) -> str:
    return f"{job.number:08}"


def _moment(at: float) -> datetime:
    return BEGINNING + timedelta(seconds=at)
