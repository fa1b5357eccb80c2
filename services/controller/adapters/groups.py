"""The podgroup controller: PodGroups that no Job owns, and the plain pods in them.

It makes the PodGroup that a pod of ours lacks, tells the scheduler of each gang, keeps the PodGroups' status
true, and says on waiting pods why they wait. Who makes the pods is somebody else: nothing here
creates or replaces one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import Counter

from services.controller.adapters.adopting import Adopter
from services.controller.adapters.hands import Hands, together
from services.controller.adapters.pausing import Reports, Since
from services.controller.adapters.plain import PlainGangs
from services.controller.adapters.pod_marks import PodMarks
from services.controller.adapters.views import job_key
from services.controller.core import holding
from services.controller.core.holding import Held
from services.controller.core.members import MemberPod, group_of, own_group
from services.controller.core.model import JSON
from services.controller.core.plainapply import part_held
from services.controller.core.plaingangs import PlainGroup, ready_to_decide
from services.controller.core.plainstatus import plain_phase, plain_status_patch
from services.controller.core.podview import owner_job
from shared.api import names
from shared.api import resources as r
from shared.api.scheduling import PodGroupPhase
from shared.errors import TooLarge
from shared.events.contracts import GangRef, GangReport
from shared.keyed import KeyedQueue, retry_level
from shared.kube.port import Resource

_OPEN: Final = "Open"
_MANY: Final = 100
_SECONDS_A_MEMBER: Final = 0.0002
"""How long a group of many pods rests between two looks, for each pod; a look costs a tenth of that."""
_MISSING: Final = 5.0
"""Seconds until pods say that their PodGroup is not there: integrations make both at the same time."""


@dataclass(slots=True)
class _Memory:
    """What is remembered of a group between two looks. All of it can be lost."""

    uid: str
    looked: float = float("-inf")
    announced: bool = False
    reports: Reports = field(default_factory=Reports)
    """What holds the gang, if something does, else what the scheduler said last."""
    said: GangReport | None = None
    """What the scheduler said last: it does not repeat itself."""
    decision: str = ""
    status: Since = field(default_factory=Since)
    """A status that may wait is not written."""
    empty: Since = field(default_factory=Since)
    """It has no pods."""
    partial: Since = field(default_factory=Since)
    """A part of the gang holds room."""


class GroupController:
    """Looks at one PodGroup at a time; its key is ``namespace/name``."""

    def __init__(self, hands: Hands, gangs: PlainGangs) -> None:
        self._hands = hands
        self._gangs = gangs
        self._schedulers = frozenset(hands.settings.scheduler_names)
        self._queue = KeyedQueue(
            self._handle, clock=hands.clock, workers=hands.settings.workers, on_retry=self._retried
        )
        self._adopter = Adopter(hands)
        self._marks = PodMarks(hands, gangs, self._adopter, why=self._why, on_retry=self._retried)
        self._memories: dict[str, _Memory] = {}
        self._held: dict[str, Held] = {}
        """What holds the pods of a group, whether it is there or not."""
        self._missing: dict[str, Since] = {}
        """Groups that pods name and that are not there."""
        self._count: Final = Counter(
            "pumice_controller_held_podgroups",
            "Times that pods were found to wait for something else than room, by what holds them.",
            ["reason"],
            registry=hands.telemetry.registry,
        )
        self._blocked: dict[str, set[str]] = {}
        """Groups without pods, by the queue that is not open for them."""

    # ------------------------------------------------------------------ what happens

    def changed(self, resource: Resource, old: JSON | None, new: JSON | None) -> None:
        """Note a change of an object that groups depend on."""
        if resource is r.PODS:
            for pod in (old, new):
                group = None if pod is None else group_of(pod, self._schedulers)
                if pod is not None and group is not None:
                    self._queue.add(job_key(pod["metadata"]["namespace"], group))
        elif resource is r.PODGROUPS:
            self._group_changed(old, new)
        elif resource is r.QUEUES:
            name = ((new or old) or {})["metadata"]["name"]
            for key in (*self._blocked.pop(name, ()), *self._adopter.refused):
                self._queue.add(key)
        elif resource is r.PRIORITYCLASSES:
            for key in self._memories:
                self._queue.add(key)

    def _group_changed(self, old: JSON | None, new: JSON | None) -> None:
        obj = new or old
        if obj is None or owner_job(obj):
            return
        namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
        self._queue.add(job_key(namespace, name))
        if _queue_of(old) != _queue_of(new):
            for pod in self._hands.views.group_pods(namespace, name):
                self._hands.observer.touch(r.PODS, namespace, pod.view.name)

    def take_report(self, report: GangReport) -> None:
        """Note why a gang of plain pods waits."""
        key = job_key(report.gang.namespace, report.gang.name)
        raw = self._hands.views.get(r.PODGROUPS, report.gang.namespace, report.gang.name)
        if raw is not None and raw["metadata"]["uid"] == report.gang.uid:
            memory = self._memory(key, report.gang.uid)
            memory.said = report
            if not self._holds(key):
                memory.reports.newer = report
            self._queue.add(key)

    def touch(self, key: str) -> None:
        """Have a group looked at soon."""
        self._queue.add(key)

    def decided(self, key: str, decision: str = "") -> None:
        """Note that a decision about a group was dealt with; named, it was carried out."""
        memory = self._memories.get(key)
        if memory is not None and decision:
            memory.decision = decision
        self._queue.add(key)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._queue.run())
            group.create_task(self._marks.run())

    # ------------------------------------------------------------------ one group

    async def _handle(self, key: str) -> None:
        async with self._hands.locks(lock_of(key)):
            await self._look(key)

    async def _look(self, key: str) -> None:
        namespace, _, name = key.partition("/")
        views, now = self._hands.views, self._hands.clock.monotonic()
        raw = views.get(r.PODGROUPS, namespace, name)
        if raw is not None and owner_job(raw):
            return
        pods = views.group_pods(namespace, name)
        if raw is None:
            self._forget(key, pods)
            await self._without_group(key, pods)
            return
        self._missing.pop(key, None)
        memory = self._memory(key, raw["metadata"]["uid"])
        rest = memory.looked + _SECONDS_A_MEMBER * len(pods) - now
        if len(pods) > _MANY and rest > 0:
            self._queue.add_after(key, rest)
            return
        memory.looked = now
        if self._gangs.refresh(namespace, name):
            self._hands.observer.touch(r.PODGROUPS, namespace, name)
        group = self._gangs.group(namespace, name)
        if group is None:
            self._hold(key, holding.unreadable_podgroup(name, self._gangs.problem(namespace, name)), raw)
            self._marks.look(key, pods)
            return
        if group.view.deleting:
            return
        self._notice(key, group, pods, memory)
        if await self._take_back(key, group, pods, memory):
            return
        await self._announce(group, pods, memory)
        self._show_report(key, group, memory)
        await self._write_status(key, group, pods, memory)
        await self._sweep(key, group, pods, memory)
        self._marks.look(key, pods)

    def _memory(self, key: str, uid: str) -> _Memory:
        memory = self._memories.get(key)
        if memory is None or memory.uid != uid:
            memory = self._memories[key] = _Memory(uid)
        return memory

    def _why(self, key: str) -> tuple[Held | None, GangReport | None]:
        """Return what holds a group's pods, and what the scheduler said of their gang."""
        memory = self._memories.get(key)
        return self._held.get(key), None if memory is None or self._holds(key) else memory.reports.shown

    def _holds(self, key: str) -> bool:
        """Whether something holds the whole of a group."""
        held = self._held.get(key)
        return held is not None and held.whole

    # ------------------------------------------------------------------ what holds a group

    async def _without_group(self, key: str, pods: Sequence[MemberPod]) -> None:
        """Make the group that pods lack; what an integration names, and does not make, they say."""
        try:
            await self._adopter.adopt(key, pods)
        finally:
            held = self._missing_group(key, pods)
            self._hold(key, held, None)
            if held is not None:
                self._marks.look(key, pods)

    def _missing_group(self, key: str, pods: Sequence[MemberPod]) -> Held | None:
        namespace, _, name = key.partition("/")
        waiting = [pod for pod in pods if pod.waits]
        refused = self._adopter.refused.get(key)
        if refused is not None and waiting:
            return holding.refused_podgroup(refused)
        if not waiting or any(own_group(pod.raw) == name for pod in waiting):
            self._missing.pop(key, None)
            return None
        left = self._missing.setdefault(key, Since()).left(self._hands.clock.monotonic(), _MISSING)
        if left > 0:
            self._queue.add_after(key, left)
            return None
        return holding.no_podgroup(namespace, name, (pod.view.name for pod in waiting))

    def _notice(self, key: str, group: PlainGroup, pods: Sequence[MemberPod], memory: _Memory) -> None:
        """Find out whether something else than room holds the gang; then that is shown, not the report."""
        waiting, before = any(pod.waits for pod in pods), self._holds(key)
        held = self._obstacle(group, pods) if waiting else None if pods else self._shut(group)
        if not waiting and held is None:
            memory.said = None
            memory.reports.forget()
        if not self._hold(key, held, group.view.raw):
            return
        if held is not None and held.whole:
            gang = GangRef(namespace=group.namespace, name=group.view.name, uid=group.view.uid)
            since, now = group.view.ready_since, self._hands.clock.now()
            memory.reports.newer = holding.as_report(gang, group.queue, since, held, now)
        elif before:
            memory.reports.forget()
            memory.reports.newer = memory.said

    def _shut(self, group: PlainGroup) -> Held | None:
        """Return why a group is not let in whose pods somebody makes only then."""
        if group.adopted or group.view.phase is not PodGroupPhase.PENDING:
            return None
        state = self._state_of(group.queue)
        return None if state == _OPEN else holding.shut_queue(group.queue, state)

    def _obstacle(self, group: PlainGroup, pods: Sequence[MemberPod]) -> Held | None:
        namespace, name = group.namespace, group.view.name
        gang = self._gangs.of(namespace, name)
        refused = None if gang is None else self._hands.observer.refusal_of(gang)
        if refused is not None:
            return holding.oversized(sum(pod.living for pod in pods), refused)
        unreadable = self._gangs.unreadable(namespace, name)
        waiting = {pod.view.name for pod in pods if pod.waits} & unreadable.keys()
        if not waiting:
            return None
        short = gang is None or not ready_to_decide(gang, pods)
        return holding.unreadable_pods({name: unreadable[name] for name in waiting}, short=short)

    def _hold(self, key: str, held: Held | None, raw: JSON | None) -> bool:
        """Note what holds a group, and say it once; False when that is as before."""
        before = self._held.get(key)
        if held is None:
            self._held.pop(key, None)
        else:
            self._held[key] = held
            if before is None or before.message != held.message:
                self._count.labels(held.code).inc()
                self._hands.telemetry.log.warning("pods wait: %s", held.message, extra={"podgroup": key})
                if raw is not None:
                    self._hands.recorder.record(raw, "Unschedulable", held.message, warning=True)
        return held != before

    def _forget(self, key: str, pods: Sequence[MemberPod]) -> None:
        namespace, _, name = key.partition("/")
        self._gangs.refresh(namespace, name)
        self._memories.pop(key, None)
        if not pods:
            self._adopter.forget(key)
            self._held.pop(key, None)
            self._missing.pop(key, None)
        for keys in self._blocked.values():
            keys.discard(key)
        self._queue.forget(key)

    async def _announce(self, group: PlainGroup, pods: Sequence[MemberPod], memory: _Memory) -> None:
        """Say once that the gang can be scheduled."""
        gang = self._gangs.of(group.namespace, group.view.name)
        if memory.announced or gang is None or not ready_to_decide(gang, pods):
            return
        observer = self._hands.observer
        if observer.refusal_of(gang) is None:
            try:
                await asyncio.gather(observer.flush(), self._hands.publisher.plain_ready(gang))
            except TooLarge as error:
                observer.refuse(gang, error)
            else:
                memory.announced = True

    async def _take_back(
        self, key: str, group: PlainGroup, pods: Sequence[MemberPod], memory: _Memory
    ) -> bool:
        """Give back what a part of a gang holds that never started, when no decision completes it for long.

        As when a decision was carried out in part before a crash, and is lost. A pod that nobody would make
        again stays.
        """
        held = part_held(group, pods)
        if not held:
            memory.partial.end()
            return False
        left = memory.partial.left(self._hands.clock.monotonic(), self._hands.settings.partial_grace_seconds)
        if left > 0:
            self._queue.add_after(key, left)
            return False
        memory.partial.end()
        await self._hands.api.set_phase(group.namespace, group.view, PodGroupPhase.PENDING)
        await together(
            self._hands.api.delete(r.PODS, group.namespace, pod.view.name, uid=pod.view.uid) for pod in held
        )
        return True

    # ------------------------------------------------------------------ what is written

    def _show_report(self, key: str, group: PlainGroup, memory: _Memory) -> None:
        """Show the newest report: at once when the reason is another, else now and then."""
        reports, report = memory.reports, memory.reports.newer
        if report is None:
            return
        now = self._hands.clock.monotonic()
        left, is_news = reports.left(now), reports.is_news
        if left > 0:
            self._queue.add_after(key, left)
            return
        reports.turn(now, self._hands.settings.report_pause_seconds)
        if is_news and not self._holds(key):
            self._hands.recorder.record(group.view.raw, "Unschedulable", report.reason.message, warning=True)

    async def _write_status(
        self, key: str, group: PlainGroup, pods: Sequence[MemberPod], memory: _Memory
    ) -> None:
        """Write the status: at once when the phase is another, else a little later."""
        may_enter = not group.adopted and self._is_open(key, group)
        phase = plain_phase(group, pods, queue_open=may_enter)
        patch = plain_status_patch(
            group,
            phase,
            pods,
            report=memory.reports.shown,
            decision=memory.decision,
            now=self._hands.clock.now(),
        )
        if patch is None:
            memory.status.end()
            return
        if phase is group.view.phase:
            clock, settings = self._hands.clock, self._hands.settings
            left = memory.status.left(clock.monotonic(), settings.status_delay_seconds)
            if left > 0:
                self._queue.add_after(key, left)
                return
        memory.status.end()
        body = {"metadata": {"uid": group.view.uid}, **patch}
        await self._hands.api.patch(r.PODGROUPS, group.namespace, group.view.name, body)
        self._hands.tell_start(group.view, body, group.minimum)

    def _is_open(self, key: str, group: PlainGroup) -> bool:
        is_open = self._state_of(group.queue) == _OPEN
        if not is_open and group.view.phase is PodGroupPhase.PENDING:
            self._blocked.setdefault(group.queue, set()).add(key)
        return is_open

    def _state_of(self, name: str) -> str:
        """Return a queue's state; empty when there is no such queue."""
        queue = self._hands.views.get(r.QUEUES, "", name)
        return "" if queue is None else (queue.get("status") or {}).get("state") or _OPEN

    async def _sweep(self, key: str, group: PlainGroup, pods: Sequence[MemberPod], memory: _Memory) -> None:
        """Delete a group that we made and whose pods are all gone: an owner scaled to nothing."""
        if pods or not group.adopted:
            memory.empty.end()
            return
        left = memory.empty.left(self._hands.clock.monotonic(), self._hands.settings.empty_group_seconds)
        if left > 0:
            self._queue.add_after(key, left)
            return
        await self._hands.api.delete(r.PODGROUPS, group.namespace, group.view.name, uid=group.view.uid)

    def _retried(self, key: str, error: Exception, failures: int) -> None:
        self._hands.telemetry.log.log(
            retry_level(error, failures),
            "a podgroup is looked at again: %s",
            error,
            extra={"podgroup": key, "tries": failures},
        )


def lock_of(key: str) -> str:
    """Return the name of the lock of a group: a job may have the same key."""
    return f"podgroup:{key}"


def _queue_of(group: JSON | None) -> str | None:
    return None if group is None else (group.get("spec") or {}).get("queue") or names.DEFAULT_QUEUE
