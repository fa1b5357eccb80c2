"""The job controller's decision: from what is there to what is to be done about one job.

:func:`plan` is total and has no memory: what it needs to know of the past is in the objects. The shell
carries a plan out in the order of its fields. The status goes first when the phase or generation changes,
so that whoever comes after a crash knows why pods are being taken away.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from services.controller.core import lifecycle
from services.controller.core.gangs import reaches_minimum
from services.controller.core.lifecycle import FINAL, LIVE, IllegalTransition, Trigger
from services.controller.core.model import JSON, GroupView, PodView, Priorities, Wanted
from services.controller.core.podgroups import group_patch, group_phase, make_podgroup
from services.controller.core.pods import make_pod
from services.controller.core.policies import Order, happenings, order_for
from services.controller.core.status import Status, count_pods, tally
from shared.api.batch import JobPhase, JobReason
from shared.api.scheduling import PodGroupPhase
from shared.events.contracts import GangReport, PodCounts

_COMMANDS: Final = "pumice.dev/commands"
"""Key of ``controlledResources``: ids of the last commands, so that none is obeyed twice."""
_COMMANDS_KEPT: Final = 16
_INVALID: Final = "Invalid"
"""Reason in the status of a job that cannot be run as it is."""


@dataclass(frozen=True, slots=True)
class World:
    """Everything about one job at one moment."""

    wanted: Wanted
    status: Status
    group: GroupView | None
    pods: tuple[PodView, ...]
    lost: tuple[PodView, ...] = ()
    """Pods that somebody else took away since the last plan was carried out."""
    order: Order | None = None
    """A command."""
    priorities: Priorities = field(default_factory=Priorities)
    report: GangReport | None = None
    """Why the scheduler says that the gang waits."""
    decision: str = ""
    """Id of the last decision carried out."""
    problem: str | None = None
    not_applied: tuple[str, ...] = ()
    settled: bool = True
    """Whether no decision can be on its way any more that would create the missing members bound."""
    overdue: bool = False
    """Whether a part of the gang has held room for too long."""


@dataclass(frozen=True, slots=True)
class PhaseChange:
    """The job went from one phase (None: it is new) to another."""

    previous: JobPhase | None
    phase: JobPhase
    at: datetime
    reason: str
    message: str
    generation: int
    retries: int
    counts: PodCounts


@dataclass(frozen=True, slots=True)
class Note:
    """A Kubernetes event on the job."""

    reason: JobReason
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done, in this order."""

    status: Status
    changes: tuple[PhaseChange, ...] = ()
    urgent: bool = False
    """The status must be written before the rest is done; otherwise it may wait for more changes."""
    drop_group: bool = False
    make_group: JSON | None = None
    group_patch: JSON | None = None
    mark: tuple[PodView, ...] = ()
    """Pods to be marked before they are deleted, so that the order survives a crash."""
    delete: tuple[PodView, ...] = ()
    create: tuple[JSON, ...] = ()
    notes: tuple[Note, ...] = ()


def plan(world: World, now: datetime) -> Plan:
    """Decide what to do about a job."""
    moving = _Moving(world, now)
    if world.wanted.deleting:
        return Plan(world.status)
    if moving.status.phase is None:
        moving.begin()
    if not world.problem:
        moving.unblock()
    order = _order(world, moving.status)
    if order is not None:
        moving.obey(order)
    moving.settle()
    return _carry_out(world, moving, now)


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
    return not reaches_minimum(world.wanted, [pod.task for pod in bound])


def _order(world: World, status: Status) -> Order | None:
    if world.order is not None:
        return world.order
    if status.phase not in LIVE or world.problem:
        return None
    group = world.group
    seen = happenings(
        world.wanted,
        world.pods,
        # Before the gang is let in nothing can be evicted: what goes then is a decision taken back.
        world.lost if group is not None and group.admitted else (),
        status.generation,
        group_unknown=group is not None and group.phase is PodGroupPhase.UNKNOWN,
    )
    return next((order for one in seen if (order := order_for(world.wanted, one)) is not None), None)


class _Moving:
    """The status on its way through the transitions of one plan."""

    def __init__(self, world: World, now: datetime) -> None:
        self.world = world
        self.now = now
        self.status = world.status
        self.changes: list[PhaseChange] = []
        self.notes: list[Note] = []
        self.targets: frozenset[str] = frozenset(pod.name for pod in world.pods if pod.out_of_sync)
        self.marked: tuple[PodView, ...] = ()

    def begin(self) -> None:
        """Give a new job its first phase, with the time of its creation."""
        self._move(JobPhase.PENDING, "", "", since=self.world.wanted.created_at)
        if self.world.not_applied:
            text = f"not applied by this version: {', '.join(self.world.not_applied)}"
            self.status = replace(self.status, message=text)
            self.notes.append(Note(JobReason.PLUGIN_ERROR, text, warning=True))

    def obey(self, order: Order) -> None:
        """Take an order's transition; an order that means nothing now changes nothing but its record."""
        known = [one for one in self.status.controlled.get(_COMMANDS, "").split(",") if one]
        if order.command:
            if order.command in known:
                return
            kept = ",".join([*known, order.command][-_COMMANDS_KEPT:])
            self.status = replace(self.status, controlled={**self.status.controlled, _COMMANDS: kept})
        assert self.status.phase is not None  # noqa: S101 - begin() came first
        try:
            transition = lifecycle.step(self.status.phase, order.trigger)
        except IllegalTransition as error:
            if order.command:
                self.notes.append(Note(JobReason.COMMAND_ISSUED, str(error), warning=True))
            return
        if transition.kill is lifecycle.Kill.TARGET:
            self.marked = tuple(pod for pod in self.world.pods if _is_target(pod, order))
            if not self.marked:
                return  # what it was about has gone by itself, and is made again anyway
            self.targets |= {pod.name for pod in self.marked}
        self.notes.append(_note(order))
        self._take(transition, order.reason, order.message)

    def unblock(self) -> None:
        """Forget why the job could not be run, once it can."""
        if self.status.reason == _INVALID and self.status.phase is JobPhase.PENDING:
            self.status = replace(self.status, reason="", message="")

    def settle(self) -> None:
        """Count, and follow the findings until they lead nowhere new."""
        while True:
            self._count()
            assert self.status.phase is not None  # noqa: S101
            trigger = self._finding(self.status.phase)
            if trigger is None:
                return
            self._take(lifecycle.step(self.status.phase, trigger), *self._why(trigger))

    def leaving(self) -> tuple[PodView, ...]:
        """Return the pods that should not be there in this phase."""
        phase, wanted = self.status.phase, self.world.wanted
        if phase in LIVE:
            members = wanted.members()
            return tuple(p for p in self.world.pods if self._is_old(p) or p.name not in members)
        if phase is JobPhase.RESTARTING:
            return tuple(pod for pod in self.world.pods if self._is_old(pod))
        return tuple(pod for pod in self.world.pods if not pod.finished)

    def _is_old(self, pod: PodView) -> bool:
        return pod.generation != self.status.generation or pod.name in self.targets

    def _count(self) -> None:
        leaving = frozenset(pod.name for pod in self.leaving())
        counts, by_task = count_pods(self.world.pods, leaving)
        self.status = replace(
            self.status,
            counts=counts,
            task_counts=by_task,
            min_available=self.world.wanted.min_available,
        )

    def _finding(self, phase: JobPhase) -> Trigger | None:
        if self.world.problem and phase is JobPhase.PENDING:
            return None
        there = {pod.name for pod in self.world.pods}
        missing = sum(name not in there for name in self.world.wanted.members())
        return lifecycle.finding(phase, tally(self.world.wanted, self.status, missing))

    def _why(self, trigger: Trigger) -> tuple[str, str]:
        counts, wanted = self.status.counts, self.world.wanted
        if trigger is Trigger.RETRIES_SPENT:
            return (
                "MaxRetryExceeded",
                f"restarted {self.status.retries} times, maxRetry is {wanted.max_retry}",
            )
        if trigger in (Trigger.SUCCEEDED, Trigger.FAILED):
            return "", f"{counts.succeeded} pods succeeded and {counts.failed} failed of {wanted.replicas}"
        return "", ""

    def _take(self, transition: lifecycle.Transition, reason: str, message: str) -> None:
        if transition.new_generation:
            self.status = replace(self.status, generation=self.status.generation + 1)
        if transition.retry:
            self.status = replace(self.status, retries=self.status.retries + 1)
        self._move(transition.phase, reason, message, since=self.now)

    def _move(self, phase: JobPhase, reason: str, message: str, *, since: datetime) -> None:
        previous = self.status.phase
        self.status = self.status.move(phase, since, reason, message)
        status = self.status
        self.changes.append(
            PhaseChange(
                previous, phase, self.now, reason, message, status.generation, status.retries, status.counts
            )
        )


def _carry_out(world: World, moving: _Moving, now: datetime) -> Plan:
    status, wanted, group = moving.status, world.wanted, world.group
    if world.problem and status.phase is JobPhase.PENDING and group is None:
        return _blocked(world, moving)
    delete = {pod.name: pod for pod in moving.leaving() if not pod.deleting}
    drop = group is not None and not group.deleting and _is_stale(group, status)
    make = status.phase in LIVE and group is None
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
        make_group=make_podgroup(wanted, status.generation, world.priorities, now) if make else None,
        group_patch=_group_patch(world, status, group, phase, now) if group and phase else None,
        mark=moving.marked,
        delete=tuple(delete.values()),
        create=create,
        notes=tuple(moving.notes),
    )


def _blocked(world: World, moving: _Moving) -> Plan:
    """A job that cannot be run stays Pending and says why."""
    text = world.problem or ""
    status = replace(moving.status, reason=_INVALID, message=text)
    notes = [*moving.notes, Note(JobReason.POD_GROUP_ERROR, text, warning=True)]
    told = world.status.message == text
    return Plan(status, tuple(moving.changes), notes=() if told else tuple(notes))


def _urgent(before: Status, moving: _Moving) -> bool:
    after = moving.status
    moved = any(change.previous is not None for change in moving.changes)
    return moved or before.generation != after.generation or before.controlled != after.controlled


def _is_stale(group: GroupView, status: Status) -> bool:
    """Whether the group is of an older generation; the last one of a finished job stays for the record."""
    return group.generation != status.generation and status.phase not in FINAL


def _group_phase(world: World, status: Status, group: GroupView) -> PodGroupPhase:
    if status.phase in FINAL:
        return PodGroupPhase.COMPLETED if group.admitted else group.phase
    if world.overdue and part_bound(world):
        return PodGroupPhase.PENDING
    return group_phase(group, world.wanted.min_available, world.pods)


def _group_patch(
    world: World, status: Status, group: GroupView, phase: PodGroupPhase, now: datetime
) -> JSON | None:
    counts = status.counts.model_dump()
    return group_patch(group, phase, counts=counts, report=world.report, decision=world.decision, now=now)


def _holding(world: World, status: Status) -> tuple[PodView, ...]:
    """Return what a gang that is not admitted still holds: the rest of a decision taken back."""
    return tuple(p for p in world.pods if p.generation == status.generation and p.holds_room)


def _missing(world: World, status: Status) -> tuple[JSON, ...]:
    there = {pod.name for pod in world.pods}
    return tuple(
        make_pod(world.wanted, status, task, index)
        for name, (task, index) in world.wanted.members().items()
        if name not in there
    )


def _is_target(pod: PodView, order: Order) -> bool:
    if order.trigger is Trigger.RESTART_POD:
        return pod.name == order.pod
    return pod.task == order.task


def _note(order: Order) -> Note:
    if order.command:
        return Note(JobReason.COMMAND_ISSUED, f"Start to execute command {order.trigger}: {order.message}")
    return Note(JobReason.EXECUTE_ACTION, f"Start to execute action {order.trigger}: {order.message}")
