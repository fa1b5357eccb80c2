"""The queue controller: keeps the states of queues true and obeys commands to them.

A queue is looked at when it, its parent, or the number of its podgroups in use changes. How many podgroups a
queue has by phase is a metric, not a part of its status, as in Volcano: it changes with every job, and
``vcctl queue list`` counts podgroups itself.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from prometheus_client import Gauge

from services.controller.adapters.hands import Hands
from services.controller.adapters.start import ensure_queues
from services.controller.core.model import JSON
from services.controller.core.queues import (
    QueuePlan,
    QueueTrigger,
    QueueView,
    parent_of,
    plan_queue,
    read_queue,
)
from shared.api import names
from shared.api import resources as r
from shared.api.scheduling import PodGroupPhase, QueueState
from shared.errors import NotFound, Refused
from shared.events.consuming import Message
from shared.events.contracts import CommandQueue, QueueAction
from shared.keyed import KeyedQueue, retry_level

_TRIGGERS: Final = {QueueAction.OPEN: QueueTrigger.OPEN, QueueAction.CLOSE: QueueTrigger.CLOSE}
_COMPLETED: Final = PodGroupPhase.COMPLETED.value


class QueueController:
    """Looks at one queue at a time."""

    def __init__(self, hands: Hands) -> None:
        self._hands = hands
        self._queue = KeyedQueue(self._handle, clock=hands.clock, workers=4, on_retry=self._retried)
        self._counts: dict[str, Counter[str]] = {}
        """Podgroups by queue and phase."""
        self._orders: dict[str, list[QueueTrigger]] = {}
        """Commands whose object is deleted and which are not carried out yet."""
        self._gauge: Final = Gauge(
            "pumice_controller_queue_podgroups",
            "PodGroups by queue and phase (volcano_queue_pod_group_*_count).",
            ["queue", "phase"],
            registry=hands.telemetry.registry,
        )

    # ------------------------------------------------------------------ what happens

    def queue_changed(self, old: JSON | None, new: JSON | None) -> None:
        """Note a change of a queue: it and those below it are looked at."""
        obj = new or old
        if obj is None:
            return
        name = obj["metadata"]["name"]
        self._queue.add(name)
        if old is None or new is None or read_queue(old).state is not read_queue(new).state:
            for child in self._hands.views.child_queues(name):
                self._queue.add(child)

    def group_changed(self, old: JSON | None, new: JSON | None) -> None:
        """Count a podgroup in the queue and phase that it is in now."""
        before, after = _place(old), _place(new)
        if before == after:
            return
        for place, change in ((before, -1), (after, 1)):
            if place is not None:
                self._count(*place, change)

    def _count(self, queue: str, phase: str, change: int) -> None:
        counts = self._counts.setdefault(queue, Counter())
        counts[phase] += change
        if counts[phase] > 0:
            self._gauge.labels(queue, phase).set(counts[phase])
        else:
            del counts[phase]
            self._gauge.remove(queue, phase)
        if not counts:
            del self._counts[queue]
        if change < 0 and not self._in_use(queue):
            self._queue.add(queue)

    def _in_use(self, queue: str) -> int:
        counts = self._counts.get(queue, Counter[str]())
        return counts.total() - counts[_COMPLETED]

    # ------------------------------------------------------------------ commands

    def command_object(self, command: JSON) -> None:
        """Have a Command object about a queue obeyed; it was deleted, and comes once."""
        target = command["target"]
        queue = self._hands.views.get(r.QUEUES, "", target.get("name") or "")
        is_meant = queue is not None and target.get("uid") in (None, "", queue["metadata"]["uid"])
        if is_meant:
            self._orders.setdefault(target["name"], []).append(QueueTrigger(command["action"]))
            self._queue.add(target["name"])

    async def command(self, message: Message) -> None:
        """Obey a command that came by topic. Raises Conflict and Unavailable to be tried again."""
        event = message.envelope.data
        if not isinstance(event, CommandQueue):
            return
        try:
            async with self._hands.locks(_lock_of(event.name)):
                found = await self._look(event.name, _TRIGGERS[event.action])
        except (NotFound, Refused) as error:
            found = False
            self._hands.telemetry.log.warning("a queue's command was refused: %s", error)
        if not found:
            self._hands.telemetry.log.info("a command found no such queue", extra={"queue": event.name})

    # ------------------------------------------------------------------ one queue

    async def run(self) -> None:
        """Work until cancelled."""
        await self._queue.run()

    async def _handle(self, name: str) -> None:
        async with self._hands.locks(_lock_of(name)):
            while orders := self._orders.get(name):
                await self._look(name, orders[0])
                orders.pop(0)
            self._orders.pop(name, None)
            await self._look(name, None)

    async def _look(self, name: str, command: QueueTrigger | None) -> bool:
        """Bring a queue to the state that it should have; False when there is none of that name."""
        views = self._hands.views
        raw = views.get(r.QUEUES, "", name)
        if raw is None:
            if name in (names.ROOT_QUEUE, names.DEFAULT_QUEUE):
                await ensure_queues(self._hands.api, views)
            return False
        above = views.get(r.QUEUES, "", parent_of(raw))
        queue = read_queue(raw)
        parent = None if above is None else read_queue(above)
        plan = plan_queue(queue, parent, self._in_use(name), command)
        for note in plan.notes:
            self._hands.recorder.record(raw, note.reason, note.message, warning=note.warning)
        await self._write(queue, plan)
        return True

    async def _write(self, queue: QueueView, plan: QueuePlan) -> None:
        """Write mark and state so that a crash in between leaves what the next look sets right."""
        if plan.state is QueueState.OPEN:
            await self._write_state(queue, plan)
            await self._write_object(queue, plan)
        else:
            await self._write_object(queue, plan)
            await self._write_state(queue, plan)

    async def _write_state(self, queue: QueueView, plan: QueuePlan) -> None:
        if plan.state is not None:
            body = {"metadata": {"uid": queue.uid}, "status": {"state": plan.state.value}}
            await self._hands.api.patch(r.QUEUES, None, queue.name, body, subresource="status")

    async def _write_object(self, queue: QueueView, plan: QueuePlan) -> None:
        if plan.mark is None and plan.parent is None:
            return
        body: JSON = {"metadata": {"uid": queue.uid}}
        if plan.mark is not None:
            body["metadata"]["annotations"] = {names.CLOSED_BY_PARENT: plan.mark}
        if plan.parent is not None:
            body["spec"] = {"parent": plan.parent}
        await self._hands.api.patch(r.QUEUES, None, queue.name, body)

    def _retried(self, key: str, error: Exception, failures: int) -> None:
        self._hands.telemetry.log.log(
            retry_level(error, failures),
            "a queue is looked at again: %s",
            error,
            extra={"queue": key, "tries": failures},
        )


def _place(group: JSON | None) -> tuple[str, str] | None:
    """Return a podgroup's queue and phase."""
    if group is None:
        return None
    queue = (group.get("spec") or {}).get("queue") or names.DEFAULT_QUEUE
    return queue, (group.get("status") or {}).get("phase") or PodGroupPhase.PENDING.value


def _lock_of(queue: str) -> str:
    return f"queue:{queue}"
