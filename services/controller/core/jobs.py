"""The job controller's decision: from what is there to what is to be done about one job.

:func:`plan` is total and has no memory: what it needs to know of the past is in the objects. The shell
carries a plan out in the order of its fields. The status goes first when the phase or generation changes,
so that whoever comes after a crash knows why pods are being taken away.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from services.controller.core.controlled import recorded, unrelated
from services.controller.core.dependencies import waiting_tasks
from services.controller.core.gangs import reaches_minimum
from services.controller.core.lifecycle import FINAL, LIVE
from services.controller.core.listening import follow_policies
from services.controller.core.model import JSON, GroupView
from services.controller.core.moving import INVALID, Moving
from services.controller.core.plans import Note, Plan, World
from services.controller.core.podgroups import (
    first_phase,
    group_patch,
    group_phase,
    make_podgroup,
    spec_patch,
)
from services.controller.core.pods import make_pod
from services.controller.core.podview import PodView
from services.controller.core.status import Status
from shared.api.batch import JobPhase
from shared.api.scheduling import PodGroupPhase


def plan(world: World, now: datetime) -> Plan:
    """Decide what to do about a job."""
    moving = Moving(world, now)
    if world.wanted.deleting:
        return Plan(world.status)
    if moving.status.phase is None:
        moving.begin()
    if not world.problem:
        moving.unblock()
    if world.order is not None:
        moving.obey(world.order)
    again = follow_policies(world, moving, now)
    moving.settle()
    return replace(_carry_out(world, moving, now), look_again=again)


def part_bound(world: World) -> bool:
    """Say whether a gang that never started holds room with fewer pods than its minimum."""
    group = world.group
    if (
        group is None
        or group.phase is not PodGroupPhase.INQUEUE
        or group.generation != world.status.generation
    ):
        return False
    bound = [p for p in world.pods if p.generation == group.generation and p.node and not p.deleting]
    if not any(pod.holds_room for pod in bound):
        return False
    waiting = waiting_tasks(world.wanted, world.pods, group.generation)
    return not reaches_minimum(world.wanted, [pod.task for pod in bound], waiting)


def _carry_out(world: World, moving: Moving, now: datetime) -> Plan:
    status, wanted, group = moving.status, world.wanted, world.group
    if world.problem and status.phase is JobPhase.PENDING and group is None:
        return _blocked(world, moving)
    status = moving.status = recorded(wanted, status)
    delete = {pod.name: pod for pod in moving.leaving() if not pod.deleting}
    drop = group is not None and not group.deleting and _is_stale(group, status)
    phase = None if group is None or drop else _group_phase(world, status, group)
    create: tuple[JSON, ...] = ()
    if phase is PodGroupPhase.PENDING:
        delete |= {pod.name: pod for pod in _holding(world, status) if not pod.deleting}
    elif phase is not None and status.phase in LIVE and world.settled:
        create = _missing(world, status)
    return Plan(
        status=status,
        changes=tuple(moving.changes),
        urgent=_urgent(world.status, moving),
        drop_group=drop,
        make_group=_new_group(world, status, now) if status.phase in LIVE and group is None else None,
        group_patch=_group_patch(world, status, group, phase, now) if group and phase else None,
        mark=moving.to_mark(),
        delete=tuple(delete.values()),
        create=create,
        notes=tuple(moving.notes),
    )


def _blocked(world: World, moving: Moving) -> Plan:
    """A job that cannot be run stays Pending and says why."""
    text = world.problem or ""
    status = replace(moving.status, reason=INVALID, message=text)
    notes = [*moving.notes, Note(world.problem_reason, text, warning=True)]
    told = world.status.message == text
    return Plan(status, tuple(moving.changes), notes=() if told else tuple(notes))


def _urgent(before: Status, moving: Moving) -> bool:
    after = moving.status
    moved = any(change.previous is not None for change in moving.changes)
    news = unrelated(after.controlled).items() - before.controlled.items()
    return moved or before.generation != after.generation or bool(news)


def _is_stale(group: GroupView, status: Status) -> bool:
    """Whether the group is of an older generation; the last one of a finished job stays for the record."""
    return group.generation != status.generation and status.phase not in FINAL


def _new_group(world: World, status: Status, now: datetime) -> JSON:
    phase = first_phase(world.pods, status.generation)
    return make_podgroup(world.wanted, status.generation, world.priorities, now, phase)


def _group_phase(world: World, status: Status, group: GroupView) -> PodGroupPhase:
    if status.phase in FINAL:
        return PodGroupPhase.COMPLETED if group.admitted else group.phase
    if world.overdue and part_bound(world):
        return PodGroupPhase.PENDING
    return group_phase(group, world.wanted, world.pods)


def _group_patch(
    world: World, status: Status, group: GroupView, phase: PodGroupPhase, now: datetime
) -> JSON | None:
    counts = status.counts.model_dump()
    patch = group_patch(group, phase, counts=counts, report=world.report, decision=world.decision, now=now)
    if status.phase in FINAL or group.scale == world.wanted.scale:
        return patch
    return {**(patch or {}), **spec_patch(group, world.wanted, world.priorities)}


def _holding(world: World, status: Status) -> tuple[PodView, ...]:
    """Return what a gang that is not admitted still holds: the rest of a decision taken back."""
    return tuple(p for p in world.pods if p.generation == status.generation and p.holds_room)


def _missing(world: World, status: Status) -> tuple[JSON, ...]:
    there = {pod.name for pod in world.pods}
    waiting = waiting_tasks(world.wanted, world.pods, status.generation)
    return tuple(
        make_pod(world.wanted, status, task, index)
        for name, (task, index) in world.wanted.members().items()
        if name not in there and task.name not in waiting
    )
