"""A job's status on its way through the transitions of one plan."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

from services.controller.core import lifecycle
from services.controller.core.lifecycle import LIVE, IllegalTransition, Trigger
from services.controller.core.model import PodView
from services.controller.core.plans import Note, PhaseChange, World
from services.controller.core.policies import Order
from services.controller.core.status import count_pods, tally
from shared.api.batch import JobPhase, JobReason

_COMMANDS: Final = "pumice.dev/commands"
"""Key of ``controlledResources``: ids of the last commands, so that none is obeyed twice."""
_COMMANDS_KEPT: Final = 16
INVALID: Final = "Invalid"
"""Reason in the status of a job that cannot be run as it is."""


class Moving:
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
        if self.status.reason == INVALID and self.status.phase is JobPhase.PENDING:
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


def _is_target(pod: PodView, order: Order) -> bool:
    if order.trigger is Trigger.RESTART_POD:
        return pod.name == order.pod
    return pod.task == order.task


def _note(order: Order) -> Note:
    if order.command:
        return Note(JobReason.COMMAND_ISSUED, f"Start to execute command {order.trigger}: {order.message}")
    return Note(JobReason.EXECUTE_ACTION, f"Start to execute action {order.trigger}: {order.message}")
