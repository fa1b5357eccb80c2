"""The job controller: looks at one job at a time and carries out what the core plans."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, replace
from typing import Any

import orjson

from services.controller.adapters.api import Api
from services.controller.adapters.keyed import RETRIED, KeyedLocks, KeyedQueue
from services.controller.adapters.memory import Memories, Memory
from services.controller.adapters.observer import Observer, as_view
from services.controller.adapters.publisher import Publisher, change_ids, ready_id
from services.controller.adapters.recorder import Recorder
from services.controller.adapters.trail import Trail
from services.controller.adapters.views import Views, job_key
from services.controller.core import checks
from services.controller.core.gangs import complete_enough, unplaced
from services.controller.core.jobs import Note, Plan, World, part_bound, plan
from services.controller.core.lifecycle import FINAL
from services.controller.core.model import PodView, Wanted, owner_job, read_pod
from services.controller.core.policies import Order
from services.controller.core.status import Status, merge_patch, write_status
from services.controller.settings import ControllerSettings
from shared.api import names
from shared.api import resources as r
from shared.api.batch import JobReason
from shared.clock import Clock
from shared.errors import Refused
from shared.events.contracts import GangReport, PodState
from shared.kube.port import JSON, Resource
from shared.telemetry.spans import hashed_id, job_trace
from shared.telemetry.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class Hands:
    """What the job controller and the applier work with."""

    settings: ControllerSettings
    clock: Clock
    views: Views
    api: Api
    observer: Observer
    publisher: Publisher
    recorder: Recorder
    trail: Trail
    telemetry: Telemetry
    memories: Memories
    locks: KeyedLocks


class JobController:
    """Keeps jobs, podgroups, pods and statuses true; one job is never handled twice at the same time."""

    def __init__(self, hands: Hands) -> None:
        self._hands = hands
        self._queue = KeyedQueue(
            self._handle,
            clock=hands.clock,
            workers=hands.settings.workers,
            on_retry=self._retried,
        )
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
                self.touch(key)
        elif resource is r.QUEUES:
            for key in self._blocked:
                self.touch(key)

    def vanished(self, pods: Iterable[PodState]) -> None:
        """Note pods that went while nobody looked, from what was last published about them."""
        metas = [raw["metadata"] for raw in self._hands.views.store(r.JOBS).values()]
        owners = {(m["namespace"], names.podgroup_name(m["name"], m["uid"])): m for m in metas}
        for pod in pods:
            meta = owners.get((pod.namespace, pod.gang or ""))
            if meta is not None:
                self._pod_gone(job_key(meta["namespace"], meta["name"]), meta["uid"], as_view(pod))

    def _pod_gone(self, key: str, uid: str, pod: PodView) -> None:
        entry = self._hands.views.job(key)
        if entry is None or entry.uid != uid:
            return
        memory = self._hands.memories.of(key, uid)
        if pod.uid in memory.ours:
            memory.ours.discard(pod.uid)
        elif not pod.finished:
            memory.lost[pod.uid] = pod

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
            await self._sync(key, None)

    async def _sync(self, key: str, order: Order | None) -> None:
        hands = self._hands
        entry = hands.views.job(key)
        if entry is None:
            self._forget(key)
            return
        if entry.wanted is not None and not entry.wanted.deleting and _has_no_trace(entry.wanted):
            await self._begin_trace(entry.wanted)
            entry = hands.views.job(key) or entry
        wanted = entry.wanted
        if wanted is None:
            hands.telemetry.log.warning("a job whose types are wrong is left alone", extra={"job": key})
            return
        memory = hands.memories.of(key, wanted.uid)
        memory.wanted = wanted
        lost = dict(memory.lost)
        world = self._world(key, wanted, entry.status, memory, order)
        world = replace(world, lost=tuple(lost.values()))
        await self._carry_out(key, entry.raw, world, memory)
        for uid in lost:
            memory.lost.pop(uid, None)

    def _forget(self, key: str) -> None:
        memory = self._hands.memories.forget(key)
        if memory is not None:
            self._hands.trail.deleted(memory, self._hands.clock.now())
        self._queue.forget(key)
        self._blocked.discard(key)

    async def _begin_trace(self, wanted: Wanted) -> None:
        """Give a job that came by kubectl its trace."""
        known = wanted.annotations
        trace = job_trace(wanted.uid, known.get(names.TRACEPARENT), known.get(names.TRACESTATE))
        annotations = {names.TRACEPARENT: trace.traceparent, names.TRACESTATE: trace.tracestate}
        body = {"metadata": {"uid": wanted.uid, "annotations": annotations}}
        await self._hands.api.patch(r.JOBS, wanted.namespace, wanted.name, body)

    def _world(self, key: str, wanted: Wanted, status: Status, memory: Memory, order: Order | None) -> World:
        views = self._hands.views
        group = views.group(wanted)
        problem = None
        if group is None:
            schedulers = self._hands.settings.scheduler_names
            problem = checks.problem(wanted, views.store(r.QUEUES), schedulers)
        self._blocked.discard(key)
        if problem is not None:
            self._blocked.add(key)
        memory.ended = status.phase in FINAL
        self._show_report(key, wanted, memory)
        decided_here = memory.decided_generation == status.generation
        world = World(
            wanted=wanted,
            status=status,
            group=group,
            pods=views.pods(wanted),
            order=order,
            priorities=views.priorities,
            report=memory.report,
            decision=memory.decision,
            problem=problem,
            not_applied=checks.not_applied(wanted),
            settled=decided_here or self._hands.clock.monotonic() >= self._settled_at,
        )
        if not world.settled and group is not None and group.admitted:
            self._queue.add_after(key, self._settled_at - self._hands.clock.monotonic())
        return replace(world, overdue=self._is_overdue(key, world, memory))

    def take_report(self, key: str, wanted: Wanted, report: GangReport) -> None:
        """Note why a gang waits; a report whose gang was placed meanwhile is late."""
        memory = self._hands.memories.of(key, wanted.uid)
        if memory.decided_generation != report.gang.generation:
            memory.next_report = report
            self.touch(key)

    def _show_report(self, key: str, wanted: Wanted, memory: Memory) -> None:
        """Show the newest report: at once when the reason is another, else now and then (numbers change)."""
        report = memory.next_report
        if report is None:
            return
        now = self._hands.clock.monotonic()
        is_news = memory.report is None or memory.report.reason.code != report.reason.code
        if not is_news and now < memory.report_due:
            self._queue.add_after(key, memory.report_due - now)
            return
        memory.report, memory.next_report = report, None
        memory.report_due = now + self._hands.settings.report_pause_seconds
        if is_news:
            text = f"PodGroup {wanted.podgroup} unschedulable: {report.reason.message}"
            self._hands.recorder.note(wanted, Note(JobReason.POD_GROUP_PENDING, text, warning=True))

    def _is_overdue(self, key: str, world: World, memory: Memory) -> bool:
        """Whether a part of the gang holds room, and no decision has come for too long."""
        if not part_bound(world):
            memory.partial_since = None
            return False
        now = self._hands.clock.monotonic()
        if memory.partial_since is None:
            memory.partial_since = now
        left = memory.partial_since + self._hands.settings.partial_grace_seconds - now
        if left > 0:
            self._queue.add_after(key, left)
        return left <= 0

    async def _carry_out(self, key: str, raw: JSON, world: World, memory: Memory) -> None:
        hands, wanted = self._hands, world.wanted
        todo = plan(world, hands.clock.now())
        for note in todo.notes:
            self._note(wanted, memory, note)
        if todo.urgent:
            await self._tell_phases(world, todo, memory)
            await self._write_statuses(key, raw, world, todo, memory)
            await self._keep_group(world, todo, memory)
        else:
            await together([self._tell_phases(world, todo, memory), self._keep_group(world, todo, memory)])
            await self._write_statuses(key, raw, world, todo, memory)
        await self._change_pods(wanted, todo, memory)
        await self._announce(key, wanted, memory)

    async def _keep_group(self, world: World, todo: Plan, memory: Memory) -> None:
        """Delete the PodGroup of an older generation, make a missing one."""
        api, namespace = self._hands.api, world.wanted.namespace
        if todo.drop_group and world.group is not None:
            await api.delete(r.PODGROUPS, namespace, world.group.name, uid=world.group.uid)
        if todo.make_group is not None:
            try:
                await api.create(r.PODGROUPS, namespace, todo.make_group)
            except Refused as error:
                text = f"Failed to create PodGroup, err: {error}"
                self._note(world.wanted, memory, Note(JobReason.POD_GROUP_ERROR, text, warning=True))
                raise

    async def _tell_phases(self, world: World, todo: Plan, memory: Memory) -> None:
        """Publish changes of phase before they are stored: then none is lost in a crash."""
        before = world.status
        base = (before.phase.value if before.phase else "", before.since, before.generation)
        ids = change_ids(world.wanted.uid, base, todo.changes)
        new = [pair for pair in zip(ids, todo.changes, strict=True) if pair[0] not in memory.told]
        if not new:
            return
        await self._hands.publisher.phases(world.wanted, new)
        published = self._hands.clock.now()
        for event_id, change in new:
            memory.told.add(event_id)
            self._hands.trail.changed(world.wanted, memory, before, change, published)

    async def _write_statuses(self, key: str, raw: JSON, world: World, todo: Plan, memory: Memory) -> None:
        """Write job and podgroup status: at once when a phase is at stake, else a little later."""
        wanted, group = world.wanted, world.group
        status = merge_patch(raw.get("status") or {}, write_status(todo.status))
        if status is None and todo.group_patch is None:
            memory.status_due = None
            return
        moves = group is not None and "phase" in ((todo.group_patch or {}).get("status") or {})
        taken_back = moves and bool(todo.delete)
        if not (todo.urgent or taken_back) and self._may_wait(key, memory):
            return
        memory.status_due = None
        if status is not None:
            body = {"metadata": {"uid": wanted.uid}, "status": status}
            await self._hands.api.patch(r.JOBS, wanted.namespace, wanted.name, body, subresource="status")
        if todo.group_patch is not None and group is not None:
            body = {"metadata": {"uid": group.uid}, **todo.group_patch}
            await self._hands.api.patch(r.PODGROUPS, wanted.namespace, group.name, body)

    def _may_wait(self, key: str, memory: Memory) -> bool:
        now = self._hands.clock.monotonic()
        if memory.status_due is None:
            memory.status_due = now + self._hands.settings.status_delay_seconds
        if now >= memory.status_due:
            return False
        self._queue.add_after(key, memory.status_due - now)
        return True

    async def _change_pods(self, wanted: Wanted, todo: Plan, memory: Memory) -> None:
        api, namespace = self._hands.api, wanted.namespace
        marks = {"annotations": {names.CONTROLLER_OUT_OF_SYNC: "true"}}
        await together(
            api.patch(r.PODS, namespace, pod.name, {"metadata": {"uid": pod.uid, **marks}})
            for pod in todo.mark
            if not (pod.deleting or pod.out_of_sync)
        )
        memory.ours |= {pod.uid for pod in todo.delete}
        try:
            await together(api.delete(r.PODS, namespace, pod.name, uid=pod.uid) for pod in todo.delete)
        except Refused as error:
            self._note(wanted, memory, Note(JobReason.FAILED_DELETE, str(error), warning=True))
            raise
        try:
            await together(api.create(r.PODS, namespace, body) for body in todo.create)
        except Refused as error:
            self._note(wanted, memory, Note(JobReason.FAILED_CREATE, str(error), warning=True))
            raise

    async def _announce(self, key: str, wanted: Wanted, memory: Memory) -> None:
        """Say that the gang can be scheduled, when there is something new to place."""
        gang = self._hands.views.gang(key)
        if gang is None:
            memory.announced, memory.announced_unplaced = None, frozenset()
            return
        waiting = unplaced(gang, self._hands.views.pods(wanted))
        news = gang != memory.announced or bool(waiting - memory.announced_unplaced)
        if waiting and news and complete_enough(gang):
            content = hashed_id(8, orjson.dumps([gang.model_dump_json(), sorted(waiting)]).decode())
            await asyncio.gather(
                self._hands.observer.flush(),
                self._hands.publisher.ready(wanted, gang, ready_id(gang, content)),
            )
        memory.announced, memory.announced_unplaced = gang, waiting

    def _note(self, wanted: Wanted, memory: Memory, note: Note) -> None:
        """Write a Kubernetes event, unless the same was written about this job."""
        said = f"{note.reason}:{note.message}"
        if said not in memory.noted:
            memory.noted.add(said)
            self._hands.recorder.note(wanted, note)

    def _retried(self, key: str, error: Exception, failures: int) -> None:
        level = self._hands.telemetry.log.warning if failures in (3, 30) else self._hands.telemetry.log.debug
        level("a job is looked at again: %s", error, extra={"job": key, "tries": failures})


def _has_no_trace(wanted: Wanted) -> bool:
    return names.TRACEPARENT not in wanted.annotations or names.TRACESTATE not in wanted.annotations


async def together(work: Iterable[Coroutine[Any, Any, Any]]) -> None:
    """Run all to their end, then raise the first error that is not the world's, else the first."""
    results = await asyncio.gather(*work, return_exceptions=True)
    errors = [result for result in results if isinstance(result, BaseException)]
    if errors:
        raise next((error for error in errors if not isinstance(error, RETRIED)), errors[0])
