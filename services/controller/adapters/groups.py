"""The podgroup controller: PodGroups that no Job owns, and the plain pods in them.

It makes the PodGroup that a pod of ours lacks, tells the scheduler of each gang, keeps the PodGroups' status
true, and says on waiting pods that no node takes them. Who makes the pods is somebody else: nothing here
creates or replaces one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from services.controller.adapters.hands import Hands, together
from services.controller.adapters.plain import PlainGangs
from services.controller.adapters.views import job_key
from services.controller.core.adoption import changed_spec, make_podgroup, owner_of
from services.controller.core.members import PREFIX, MemberPod, group_of, own_group
from services.controller.core.model import JSON
from services.controller.core.plainapply import part_held
from services.controller.core.plaingangs import PlainGroup, ready_to_decide
from services.controller.core.plainstatus import plain_phase, plain_status_patch, unschedulable_patch
from services.controller.core.podview import owner_job
from shared.api import names
from shared.api import resources as r
from shared.api.scheduling import PodGroupPhase
from shared.errors import AlreadyExists, Conflict, NotFound, Refused
from shared.events.contracts import GangReport
from shared.keyed import KeyedQueue
from shared.kube.port import Patch, Resource

_MANY: Final = 100
_SECONDS_A_MEMBER: Final = 0.0002
"""How long a group of many pods rests between two looks, for each pod; a look costs a tenth of that."""
_SPEC_PAUSE: Final = 5.0
"""Least time, in seconds, between two looks at an owner because its group got new pods."""
_AT_ONCE: Final = 8
"""Pods of a group that are written on at the same time: bindings must not wait behind them."""


@dataclass(slots=True)
class _Memory:
    """What is remembered of a group between two looks. All of it can be lost."""

    uid: str
    looked: float = float("-inf")
    announced: bool = False
    report: GangReport | None = None
    next_report: GangReport | None = None
    report_due: float = 0.0
    decision: str = ""
    status_due: float | None = None
    empty_since: float | None = None
    partial_since: float | None = None
    owner_read: float = float("-inf")


class GroupController:
    """Looks at one PodGroup at a time; its key is ``namespace/name``."""

    def __init__(self, hands: Hands, gangs: PlainGangs) -> None:
        self._hands = hands
        self._gangs = gangs
        self._schedulers = frozenset(hands.settings.scheduler_names)
        self._queue = KeyedQueue(
            self._handle, clock=hands.clock, workers=hands.settings.workers, on_retry=self._retried
        )
        self._telling = KeyedQueue(self._tell_pods, clock=hands.clock, workers=2, on_retry=self._retried)
        self._memories: dict[str, _Memory] = {}
        self._made: dict[str, float] = {}
        """When we made a group that is not seen yet."""
        self._blocked: dict[str, set[str]] = {}
        """Groups without pods, by the queue that is not open for them."""
        self._refused: set[str] = set()

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
            for key in self._blocked.pop(name, ()):
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
        memory = self._memories.get(key)
        if memory is not None and memory.uid == report.gang.uid:
            memory.next_report = report
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
            group.create_task(self._telling.run())

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
            self._forget(key)
            await self._adopt(key, pods)
            return
        memory = self._memory(key, raw)
        rest = memory.looked + _SECONDS_A_MEMBER * len(pods) - now
        if len(pods) > _MANY and rest > 0:
            self._queue.add_after(key, rest)
            return
        memory.looked = now
        if self._gangs.refresh(namespace, name):
            self._hands.observer.touch(r.PODGROUPS, namespace, name)
        group = self._gangs.group(namespace, name)
        if group is None or group.view.deleting:
            return
        waiting = any(pod.waits for pod in pods)
        if not waiting:
            memory.report = memory.next_report = None
        if await self._take_back(key, group, pods, memory):
            return
        await self._announce(group, pods, memory)
        self._show_report(key, group, memory)
        await self._write_status(key, group, pods, memory)
        await self._sweep(key, group, pods, memory)
        if (waiting and memory.report is not None) or any(_is_new(pod) for pod in pods):
            self._telling.add(key)

    def _memory(self, key: str, raw: JSON) -> _Memory:
        uid = raw["metadata"]["uid"]
        memory = self._memories.get(key)
        if memory is None or memory.uid != uid:
            memory = self._memories[key] = _Memory(uid)
            memory.owner_read = self._made.pop(key, float("-inf"))
        return memory

    def _forget(self, key: str) -> None:
        namespace, _, name = key.partition("/")
        self._gangs.refresh(namespace, name)
        self._memories.pop(key, None)
        self._refused.discard(key)
        for keys in self._blocked.values():
            keys.discard(key)
        self._queue.forget(key)

    async def _adopt(self, key: str, pods: Iterable[MemberPod]) -> None:
        """Make the PodGroup of pods that have none; what an integration names it makes itself."""
        namespace, _, name = key.partition("/")
        founders = [pod for pod in pods if pod.living and own_group(pod.raw) == name]
        if not founders:
            return
        pod = min(founders, key=lambda one: one.created)
        owner = await self._owner(pod)
        self._made[key] = self._hands.clock.monotonic()
        try:
            body = make_podgroup(pod.raw, owner, self._hands.clock.now())
            await self._hands.api.create(r.PODGROUPS, namespace, body)
        except AlreadyExists:
            await self._hands.api.read(r.PODGROUPS, namespace, name)
        except ValueError as error:
            self._say_refused(key, pod, f"the pod cannot be read: {error}")
        except Refused as error:
            self._say_refused(key, pod, f"Failed to create PodGroup {name}: {error}")
            raise
        else:
            self._refused.discard(key)

    def _say_refused(self, key: str, pod: MemberPod, text: str) -> None:
        if key not in self._refused:
            self._refused.add(key)
            self._hands.recorder.tell(pod.raw, "PodGroupError", text, warning=True)

    async def _owner(self, pod: MemberPod) -> JSON | None:
        """Read the owner whose annotations count, if it is there."""
        found = owner_of(pod.raw)
        if found is None:
            return None
        resource, name = found
        try:
            return await self._hands.api.read(resource, pod.raw["metadata"]["namespace"], name)
        except (NotFound, Refused):  # gone meanwhile; or a role that does not allow it: as if it said nothing
            return None

    async def _announce(self, group: PlainGroup, pods: Sequence[MemberPod], memory: _Memory) -> None:
        """Say once that the gang can be scheduled."""
        if memory.announced:
            return
        gang = self._gangs.of(group.namespace, group.view.name)
        if gang is not None and ready_to_decide(gang, pods):
            await asyncio.gather(self._hands.observer.flush(), self._hands.publisher.plain_ready(gang))
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
            memory.partial_since = None
            return False
        now = self._hands.clock.monotonic()
        if memory.partial_since is None:
            memory.partial_since = now
        left = memory.partial_since + self._hands.settings.partial_grace_seconds - now
        if left > 0:
            self._queue.add_after(key, left)
            return False
        memory.partial_since = None
        body = {"metadata": {"uid": group.view.uid}, "status": {"phase": PodGroupPhase.PENDING.value}}
        await self._hands.api.patch(r.PODGROUPS, group.namespace, group.view.name, body)
        await together(
            self._hands.api.delete(r.PODS, group.namespace, pod.view.name, uid=pod.view.uid) for pod in held
        )
        return True

    # ------------------------------------------------------------------ what is written

    def _show_report(self, key: str, group: PlainGroup, memory: _Memory) -> None:
        """Show the newest report: at once when the reason is another, else now and then."""
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
            self._hands.recorder.tell(group.view.raw, "Unschedulable", report.reason.message, warning=True)

    async def _write_status(
        self, key: str, group: PlainGroup, pods: Sequence[MemberPod], memory: _Memory
    ) -> None:
        """Write the status: at once when the phase is another, else a little later."""
        may_enter = not self._is_ours(group) and self._is_open(key, group)
        phase = plain_phase(group, pods, queue_open=may_enter)
        patch = plain_status_patch(
            group, phase, pods, report=memory.report, decision=memory.decision, now=self._hands.clock.now()
        )
        if patch is None:
            memory.status_due = None
            return
        if phase is group.view.phase:
            now = self._hands.clock.monotonic()
            if memory.status_due is None:
                memory.status_due = now + self._hands.settings.status_delay_seconds
            if now < memory.status_due:
                self._queue.add_after(key, memory.status_due - now)
                return
        memory.status_due = None
        body = {"metadata": {"uid": group.view.uid}, **patch}
        await self._hands.api.patch(r.PODGROUPS, group.namespace, group.view.name, body)

    def _is_open(self, key: str, group: PlainGroup) -> bool:
        queue = self._hands.views.get(r.QUEUES, "", group.queue)
        is_open = queue is not None and ((queue.get("status") or {}).get("state") or "Open") == "Open"
        if not is_open and group.view.phase is PodGroupPhase.PENDING:
            self._blocked.setdefault(group.queue, set()).add(key)
        return is_open

    async def _renew(self, group: PlainGroup, pod: MemberPod) -> None:
        patch = changed_spec(group.view.raw, pod.raw, await self._owner(pod))
        if patch is not None:
            body = {"metadata": {"uid": group.view.uid}, **patch}
            await self._hands.api.patch(r.PODGROUPS, group.namespace, group.view.name, body)

    async def _sweep(self, key: str, group: PlainGroup, pods: Sequence[MemberPod], memory: _Memory) -> None:
        """Delete a group that we made and whose pods are all gone: an owner scaled to nothing."""
        if pods or not self._is_ours(group):
            memory.empty_since = None
            return
        now = self._hands.clock.monotonic()
        if memory.empty_since is None:
            memory.empty_since = now
        left = memory.empty_since + self._hands.settings.empty_group_seconds - now
        if left > 0:
            self._queue.add_after(key, left)
            return
        await self._hands.api.delete(r.PODGROUPS, group.namespace, group.view.name, uid=group.view.uid)

    def _is_ours(self, group: PlainGroup) -> bool:
        """Whether it was made for pods that had none, here or by Volcano."""
        return group.view.name.startswith(PREFIX)

    async def _tell_pods(self, key: str) -> None:
        """Write on pods which group they are of, and on waiting ones that no node takes them."""
        namespace, _, name = key.partition("/")
        group, memory = self._gangs.group(namespace, name), self._memories.get(key)
        if group is None or memory is None:
            return
        pods = self._hands.views.group_pods(namespace, name)
        new = [pod for pod in pods if _is_new(pod)]
        now = self._hands.clock.monotonic()
        if new and self._is_ours(group) and now >= memory.owner_read + _SPEC_PAUSE:
            # With new pods their owner may say something new.
            memory.owner_read = now
            await self._renew(group, max(new, key=lambda pod: pod.created))
        note = {"annotations": {names.GROUP_NAME: name}}
        await self._write_some(
            namespace, ((pod, {"metadata": {"uid": pod.view.uid, **note}}, None) for pod in new)
        )
        if memory.report is not None:
            message, at = memory.report.reason.message, self._hands.clock.now()
            patches = ((pod, unschedulable_patch(pod, message, at), "status") for pod in pods)
            await self._write_some(namespace, ((pod, body, sub) for pod, body, sub in patches if body))

    async def _write_some(
        self, namespace: str, patches: Iterable[tuple[MemberPod, JSON, str | None]]
    ) -> None:
        left = iter(patches)
        while some := list(islice(left, _AT_ONCE)):
            await together(self._write(namespace, pod, body, subresource) for pod, body, subresource in some)

    async def _write(self, namespace: str, pod: MemberPod, body: JSON, subresource: str | None) -> None:
        try:
            await self._hands.api.patch(
                r.PODS, namespace, pod.view.name, body, kind=Patch.STRATEGIC, subresource=subresource
            )
        except (NotFound, Conflict):
            return  # it is gone, or another one: that one is told by itself

    def _retried(self, key: str, error: Exception, failures: int) -> None:
        log = self._hands.telemetry.log
        level = log.warning if failures in (3, 30) else log.debug
        level("a podgroup is looked at again: %s", error, extra={"podgroup": key, "tries": failures})


def _is_new(pod: MemberPod) -> bool:
    """Whether it does not say yet which group it is of."""
    return pod.living and not pod.annotated


def lock_of(key: str) -> str:
    """Return the name of the lock of a group: a job may have the same key."""
    return f"podgroup:{key}"


def _queue_of(group: JSON | None) -> str | None:
    return None if group is None else (group.get("spec") or {}).get("queue") or names.DEFAULT_QUEUE
