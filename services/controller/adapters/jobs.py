"""The job controller: looks at one job at a time and carries out what the core plans."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from services.controller.adapters.carrying import Carrier
from services.controller.adapters.dependents import Dependents
from services.controller.adapters.dry_runs import DryRuns
from services.controller.adapters.hands import Hands
from services.controller.adapters.memory import Memory
from services.controller.adapters.observer import as_view
from services.controller.adapters.views import job_key
from services.controller.core import checks
from services.controller.core.dependents import KINDS, concerns_jobs
from services.controller.core.jobs import part_bound
from services.controller.core.lifecycle import FINAL
from services.controller.core.limits import Change
from services.controller.core.model import GroupView, Wanted
from services.controller.core.plans import Note, World
from services.controller.core.podgroups import let_in
from services.controller.core.podview import PodView, owner_job, read_pod
from services.controller.core.policies import Order
from services.controller.core.status import Status
from shared.api import names
from shared.api import resources as r
from shared.api.batch import JobReason
from shared.api.scheduling import PodGroupPhase
from shared.errors import Refused
from shared.events.contracts import GangReport, PodState
from shared.keyed import KeyedQueue, retry_level
from shared.kube.port import JSON, Resource

_PLACED: Final = frozenset({PodGroupPhase.RUNNING, PodGroupPhase.COMPLETED})


class JobController:
    """Keeps jobs, podgroups, pods and statuses true; one job is never handled twice at the same time."""

    def __init__(self, hands: Hands, dependents: Dependents, dry_runs: DryRuns) -> None:
        self._hands = hands
        self._dependents = dependents
        self._queue = KeyedQueue(
            self._handle,
            clock=hands.clock,
            workers=hands.settings.workers,
            on_retry=self._retried,
        )
        self._carrier = Carrier(hands, dependents, dry_runs, self._queue.add_after)
        hands.memories.replaced = self._gone
        self._blocked: set[str] = set()
        self._settled_at = 0.0

    def touch(self, key: str) -> None:
        """Have a job looked at soon."""
        self._queue.add(key)

    def changed(self, resource: Resource, old: JSON | None, new: JSON | None) -> None:
        """Note a change of an object that jobs depend on."""
        obj = new or old
        if obj is None:
            return
        if resource is r.JOBS:
            self.touch(job_key(obj["metadata"]["namespace"], obj["metadata"]["name"]))
        elif resource in (r.PODS, r.PODGROUPS):
            owner = owner_job(obj)
            if owner is not None:
                key = job_key(obj["metadata"]["namespace"], owner[0])
                if resource is r.PODS and new is None:
                    self._pod_gone(key, owner[1], read_pod(obj))
                elif resource is r.PODS and obj["metadata"].get("deletionTimestamp"):
                    self._pod_leaves(key, owner[1], read_pod(obj))
                self.touch(key)
        elif resource in (r.QUEUES, r.PRIORITYCLASSES):
            for key in self._blocked:
                self.touch(key)
        elif resource in KINDS:
            self._dependent_changed(old, new)

    def _dependent_changed(self, old: JSON | None, new: JSON | None) -> None:
        obj = new or old
        if obj is None:
            return
        owner, namespace = owner_job(obj), obj["metadata"]["namespace"]
        if owner is None:  # perhaps the claim that somebody waits for
            for key in self._blocked:
                if key.startswith(f"{namespace}/"):
                    self.touch(key)
        elif concerns_jobs(old, new):
            self.touch(job_key(namespace, owner[0]))

    def limits_changed(self, namespace: str, change: Change) -> None:
        """Note that pods which are to be made may come out otherwise, or be let in."""
        self._carrier.limits_changed(namespace, change)

    def vanished(self, pods: Iterable[PodState]) -> None:
        """Note pods that went while nobody looked, from what was last published about them."""
        metas = [raw["metadata"] for raw in self._hands.views.store(r.JOBS).values()]
        owners = {(m["namespace"], names.podgroup_name(m["name"], m["uid"])): m for m in metas}
        for pod in pods:
            meta = owners.get((pod.namespace, pod.gang or ""))
            if meta is not None:
                self._pod_gone(job_key(meta["namespace"], meta["name"]), meta["uid"], as_view(pod))

    def _pod_leaves(self, key: str, uid: str, pod: PodView) -> None:
        """Note a pod that does not go by itself: how it ends is said before it is gone."""
        entry = self._hands.views.job(key)
        if pod.taken and entry is not None and entry.uid == uid:
            self._hands.memories.of(key, uid).taken.add(pod.uid)

    def _pod_gone(self, key: str, uid: str, pod: PodView) -> None:
        entry = self._hands.views.job(key)
        if entry is None or entry.uid != uid:
            return
        memory = self._hands.memories.of(key, uid)
        taken = pod.taken or pod.uid in memory.taken
        memory.taken.discard(pod.uid)
        if pod.uid in memory.ours:
            memory.ours.discard(pod.uid)
        elif taken or not pod.finished:
            memory.lost[pod.uid] = pod
            if entry.wanted is not None and entry.wanted.has_policies:
                self._hands.observer.hold(key.partition("/")[0], pod.name)

    async def run(self) -> None:
        """Work until cancelled."""
        self._settled_at = self._hands.clock.monotonic() + self._hands.settings.settle_seconds
        for namespace, name in self._hands.views.store(r.JOBS):
            self.touch(job_key(namespace, name))
        await self._queue.run()

    async def obey(self, key: str, order: Order, uid: str | None) -> bool:
        """Carry a command out; False when there is no such job."""
        async with self._hands.locks(key):
            entry = self._hands.views.job(key)
            if entry is None or (uid is not None and entry.uid != uid):
                return False
            await self._sync(key, order)
        return True

    async def _handle(self, key: str) -> None:
        async with self._hands.locks(key):
            memory = self._hands.memories.get(key)
            await self._sync(key, None if memory is None else memory.ultimatum)

    async def _sync(self, key: str, order: Order | None) -> None:
        hands = self._hands
        entry = hands.views.job(key)
        if entry is None:
            self._forget(key)
            return
        wanted = entry.wanted
        memory = hands.memories.of(key, entry.uid)
        if wanted is None:
            if entry.problem not in memory.noted:
                memory.noted.add(entry.problem)
                text = f"the job cannot be read, and is left alone: {entry.problem}"
                hands.telemetry.log.warning(text, extra={"job": key})
                hands.recorder.record(entry.raw, JobReason.POD_GROUP_ERROR.value, text, warning=True)
            return
        memory.wanted = wanted
        lost = dict(memory.lost)
        world = self._world(key, wanted, entry.status, memory, order)
        world = replace(world, lost=tuple(lost.values()))
        await self._carrier.carry_out(key, entry.raw, world, memory)
        memory.worked("requests")
        if order is memory.ultimatum:
            memory.ultimatum = None
        self._let_go(wanted.namespace, memory, lost)

    def _let_go(self, namespace: str, memory: Memory, lost: Iterable[str]) -> None:
        """Forget lost pods: what their loss set off is written down."""
        for uid in lost:
            pod = memory.lost.pop(uid, None)
            if pod is not None:
                self._hands.observer.release(namespace, pod.name)

    def _forget(self, key: str) -> None:
        memory = self._hands.memories.forget(key)
        if memory is not None:
            self._gone(key, memory)
        self._queue.forget(key)
        self._blocked.discard(key)

    def _gone(self, key: str, memory: Memory) -> None:
        self._let_go(key.partition("/")[0], memory, tuple(memory.lost))
        self._hands.trail.deleted(memory, self._hands.clock.now())
        self._dependents.forget_job(memory.uid)

    def _world(self, key: str, wanted: Wanted, status: Status, memory: Memory, order: Order | None) -> World:
        views = self._hands.views
        group, pods = views.group(wanted), views.pods(wanted)
        if group is not None:
            group = let_in(group, wanted, pods, placed=memory.is_placed(group))
        problem, reason = None, JobReason.POD_GROUP_ERROR
        if group is None:
            schedulers = self._hands.settings.scheduler_names
            problem = checks.problem(wanted, views.store(r.QUEUES), schedulers, views.priorities)
            if problem is None and (trouble := self._dependents.trouble(wanted)) is not None:
                problem, reason = trouble.message, trouble.reason
        self._blocked.discard(key)
        if problem is not None:
            self._blocked.add(key)
        memory.ended = status.phase in FINAL
        self._show_report(key, wanted, memory, group)
        decided_here = memory.decided_generation == status.generation
        world = World(
            wanted=wanted,
            status=status,
            group=group,
            pods=pods,
            order=order,
            priorities=views.priorities,
            report=memory.reports.shown,
            decision=memory.decision,
            problem=problem,
            problem_reason=reason,
            not_applied=checks.not_applied(wanted, views.policy_text(self._hands.settings.policy_key)),
            settled=decided_here or self._hands.clock.monotonic() >= self._settled_at,
            ahead=self._hands.api.ahead,
        )
        if not world.settled and group is not None and group.admitted:
            self._queue.add_after(key, self._settled_at - self._hands.clock.monotonic())
        return replace(world, overdue=self._is_overdue(key, world, memory))

    def take_report(self, key: str, wanted: Wanted, report: GangReport) -> None:
        """Note why a gang waits; a report whose gang was placed meanwhile is late."""
        memory = self._hands.memories.of(key, wanted.uid)
        other = memory.decided_generation != report.gang.generation
        if other or memory.decided_at is None or report.at > memory.decided_at:
            memory.reports.newer = report
            self.touch(key)

    def _show_report(self, key: str, wanted: Wanted, memory: Memory, group: GroupView | None) -> None:
        """Show the newest report: at once when the reason is another, else now and then (numbers change).

        Of a gang that runs it is kept for the case that it loses members.
        """
        reports, report = memory.reports, memory.reports.newer
        if report is None or group is None or group.phase in _PLACED:
            return
        now = self._hands.clock.monotonic()
        left, is_news = reports.left(now), reports.is_news
        if left > 0:
            self._queue.add_after(key, left)
            return
        reports.turn(now, self._hands.settings.report_pause_seconds)
        if is_news:
            text = f"PodGroup {wanted.podgroup} unschedulable: {report.reason.message}"
            self._hands.recorder.note(wanted, Note(JobReason.POD_GROUP_PENDING, text, warning=True))
            self._hands.recorder.record(group.raw, "Unschedulable", report.reason.message, warning=True)

    def _is_overdue(self, key: str, world: World, memory: Memory) -> bool:
        """Whether a part of the gang holds room, and no decision has come for too long."""
        if not part_bound(world):
            memory.partial.end()
            return False
        left = memory.partial.left(self._hands.clock.monotonic(), self._hands.settings.partial_grace_seconds)
        if left > 0:
            self._queue.add_after(key, left)
        return left <= 0

    def _retried(self, key: str, error: Exception, failures: int) -> None:
        memory = self._hands.memories.get(key)
        if memory is not None and isinstance(error, Refused):
            limit = self._hands.settings.max_requeues
            memory.refused("requests", str(error), now=self._hands.clock.monotonic(), limit=limit)
        self._hands.telemetry.log.log(
            retry_level(error, failures),
            "a job is looked at again: %s",
            error,
            extra={"job": key, "tries": failures},
        )
