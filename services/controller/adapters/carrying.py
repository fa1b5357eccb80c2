"""Carries a plan about a job out: events, statuses, podgroup, pods, and word to the scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Final

import orjson

from services.controller.adapters.dependents import Dependents
from services.controller.adapters.dry_runs import SETTLES, DryRuns
from services.controller.adapters.hands import Hands, together
from services.controller.adapters.memory import Memory
from services.controller.adapters.publisher import change_ids, ready_id
from services.controller.adapters.views import job_key
from services.controller.core.dependents import NEEDED
from services.controller.core.dryrun import is_to_be_asked, tells_shapes, with_shapes
from services.controller.core.gangs import complete_enough, unplaced
from services.controller.core.holding import as_report, oversized
from services.controller.core.jobs import plan
from services.controller.core.limits import Change
from services.controller.core.model import Wanted
from services.controller.core.plans import Note, Plan, World
from services.controller.core.status import merge_patch, write_status
from shared.api import names
from shared.api import resources as r
from shared.api.batch import JobReason
from shared.errors import AlreadyExists, Refused, TooLarge
from shared.events.contracts import Gang
from shared.kube.port import JSON
from shared.telemetry.spans import hashed_id

_FEW: Final = 20
"""Jobs that are asked about again when less of a quota is used; the others follow in their time."""
_TROUBLE_PAUSE: Final = 10.0
"""Seconds until a job is looked at again that something stands in the way of which nobody watches."""


class Carrier:
    """Does what the core planned; ``look_again(key, seconds)`` has a job looked at once more."""

    def __init__(
        self,
        hands: Hands,
        dependents: Dependents,
        dry_runs: DryRuns,
        look_again: Callable[[str, float], None],
    ) -> None:
        self._hands = hands
        self._dependents = dependents
        self._dry_runs = dry_runs
        self._look_again = look_again
        self._refused: dict[str, dict[str, None]] = {}
        """Jobs that wait because their pods would be refused, by namespace."""

    def limits_changed(self, namespace: str, change: Change) -> None:
        """Have jobs looked at that may be let in now; of those that a quota holds, some after the others."""
        self._dry_runs.doubt(namespace, change)
        keys = list(self._refused.get(namespace, ()))[:_FEW]
        if change is Change.RULES:
            jobs = self._hands.views.store(r.JOBS)
            keys = [job_key(where, name) for where, name in jobs if where == namespace]
        for key in keys:
            self._refused.get(namespace, {}).pop(key, None)
            self._look_again(key, SETTLES)

    async def carry_out(self, key: str, raw: JSON, world: World, memory: Memory) -> None:
        """Plan and do. Raises what the world answers; done again later, nothing is done twice."""
        hands, wanted = self._hands, world.wanted
        now = hands.clock.now()
        memory.begin(world.status)
        world, shapes = await self._ask(key, world, memory)
        todo = await self._with_dependents(key, world, now, memory)
        if shapes is not None:
            todo = with_shapes(todo, world.group, shapes)
        if todo.look_again is not None:
            self._look_again(key, (todo.look_again - now).total_seconds())
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
        if todo.status.phase not in NEEDED and not wanted.deleting:
            await self._dependents.keep(wanted, todo.status.phase, partial(self._note, wanted, memory))
        await self._announce(key, wanted, memory)

    async def _ask(self, key: str, world: World, memory: Memory) -> tuple[World, str | None]:
        """Ask what the API server would make of pods that are to be announced; None: there is no news.

        Where it would refuse them, a gang that is not announced yet waits; one that is keeps its place, and
        is told of when its pods are made.
        """
        namespace = world.wanted.namespace
        self._refused.get(namespace, {}).pop(key, None)
        if not is_to_be_asked(world):
            return world, None
        now = self._hands.clock.monotonic()
        basis = (world.wanted.raw["metadata"].get("generation"), self._dry_runs.version(namespace))
        if world.group is not None and memory.asked is not None and memory.asked[0] == basis:
            left = self._dry_runs.holds_until(namespace, memory.asked[1]) - now
            if left > 0:
                self._look_again(key, left)
                return world, None
        verdict = await self._dry_runs.ask(world)
        due = verdict.due
        if verdict.refused and world.group is not None:  # it waits anyway, and so may thousands beside it
            due = max(due, now + self._hands.settings.dry_run_seconds)
        memory.asked = (basis, due)
        self._look_again(key, self._dry_runs.holds_until(namespace, due) - now)
        if not verdict.refused:
            return world, verdict.shapes
        if world.group is None:
            self._refused.setdefault(namespace, {})[key] = None
            world = replace(world, problem=verdict.refused, problem_reason=JobReason.FAILED_CREATE)
        else:
            self._note(world.wanted, memory, Note(JobReason.FAILED_CREATE, verdict.refused, warning=True))
        return world, None

    async def _with_dependents(self, key: str, world: World, now: datetime, memory: Memory) -> Plan:
        """Plan, and have there what the job's pods need before its PodGroup and pods are made."""
        todo = plan(world, now)
        if world.wanted.deleting or world.problem or todo.status.phase not in NEEDED:
            return todo
        tell = partial(self._note, world.wanted, memory)
        trouble = await self._dependents.keep(world.wanted, todo.status.phase, tell)
        if trouble is None:
            return todo
        self._look_again(key, _TROUBLE_PAUSE)
        if todo.make_group is None:  # its pods are there: they go on as they can
            tell(Note(trouble.reason, trouble.message, warning=True))
            return todo
        return plan(replace(world, problem=trouble.message, problem_reason=trouble.reason), now)

    async def _keep_group(self, world: World, todo: Plan, memory: Memory) -> None:
        """Delete the PodGroup of an older generation, make a missing one."""
        api, namespace = self._hands.api, world.wanted.namespace
        if todo.drop_group and world.group is not None:
            await api.delete(r.PODGROUPS, namespace, world.group.name, uid=world.group.uid)
        if todo.make_group is not None:
            try:
                await api.create(r.PODGROUPS, namespace, todo.make_group)
            except AlreadyExists:  # made before, and the answer was lost
                await api.read(r.PODGROUPS, namespace, todo.make_group["metadata"]["name"])
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
        for _, change in new:
            await self._hands.run_times.changed(world.wanted, todo.status, change)
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
            memory.status.end()
            return
        moves = group is not None and "phase" in ((todo.group_patch or {}).get("status") or {})
        taken_back = moves and bool(todo.delete)
        if not (todo.urgent or taken_back or tells_shapes(todo)) and self._may_wait(key, memory):
            return
        memory.status.end()
        if status is not None:
            body = {"metadata": {"uid": wanted.uid}, "status": status}
            await self._hands.api.patch(r.JOBS, wanted.namespace, wanted.name, body, subresource="status")
        if todo.group_patch is not None and group is not None:
            metadata = {**(todo.group_patch.get("metadata") or {}), "uid": group.uid}
            body = {**todo.group_patch, "metadata": metadata}
            await self._hands.api.patch(r.PODGROUPS, wanted.namespace, group.name, body)
            self._hands.tell_start(group, body, wanted.min_available)

    def _may_wait(self, key: str, memory: Memory) -> bool:
        left = memory.status.left(self._hands.clock.monotonic(), self._hands.settings.status_delay_seconds)
        if left > 0:
            self._look_again(key, left)
        return left > 0

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
            if problem := self._hands.views.gang_problem(key):
                text = f"what the job asks for cannot be read: {problem}"
                self._note(wanted, memory, Note(JobReason.POD_GROUP_ERROR, text, warning=True))
            memory.announced, memory.announced_unplaced = None, frozenset()
            return
        if gang != memory.announced:
            self._hands.observer.touch(r.PODGROUPS, wanted.namespace, gang.name)
        waiting = unplaced(gang, self._hands.views.pods(wanted))
        news = gang != memory.announced or bool(waiting - memory.announced_unplaced)
        if waiting and news and complete_enough(gang):
            content = hashed_id(8, orjson.dumps([gang.model_dump_json(), sorted(waiting)]).decode())
            try:
                await asyncio.gather(
                    self._hands.observer.flush(),
                    self._hands.publisher.ready(wanted, gang, ready_id(gang, content)),
                )
            except TooLarge as error:
                self._hands.observer.refuse(gang, error)
        memory.announced, memory.announced_unplaced = gang, waiting
        self._tell_refusal(gang, memory)

    def _tell_refusal(self, gang: Gang, memory: Memory) -> None:
        """Have the PodGroup say that the gang is too large for the log, if it is."""
        refused, shown = self._hands.observer.refusal_of(gang), memory.reports.shown
        if refused is None:
            return
        held = oversized(sum(len(task.members) for task in gang.tasks), refused)
        if shown is None or shown.reason.code != held.code:
            now = self._hands.clock.now()
            memory.reports.newer = as_report(gang.ref, gang.queue, gang.ready_since, held, now)

    def _note(self, wanted: Wanted, memory: Memory, note: Note) -> None:
        """Write a Kubernetes event, unless the same was written since the job's last restart."""
        said = f"{note.reason}:{note.message}"
        if said not in memory.noted:
            memory.noted.add(said)
            self._hands.recorder.note(wanted, note)
