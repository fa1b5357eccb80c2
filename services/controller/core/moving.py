"""A job's status on its way through the transitions of one plan."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

from services.controller.core import lifecycle, marks
from services.controller.core.dependencies import waiting_tasks
from services.controller.core.lifecycle import LIVE, IllegalTransition, Trigger
from services.controller.core.plans import Note, PhaseChange, World
from services.controller.core.podview import PodView
from services.controller.core.policies import Order
from services.controller.core.status import count_pods, tally
from shared.api.batch import JobPhase, JobReason

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
        self._targets: tuple[str, ...] = marks.read_targets(world.status.controlled)

    def begin(self) -> None:
        """Give a new job its first phase, with the time of its creation."""
        self._move(JobPhase.PENDING, "", "", since=self.world.wanted.created_at)
        if self.world.not_applied:
            text = f"not applied: {', '.join(self.world.not_applied)}"
            self.status = replace(self.status, message=text)
            self.notes.append(Note(JobReason.PLUGIN_ERROR, text, warning=True))

    def obey(self, order: Order) -> bool:
        """Take an order's transition; False when it means nothing now: then only its record changes."""
        if order.command:
            if marks.knows_command(self.status.controlled, order.command):
                return False
            self._remember(marks.with_command(self.status.controlled, order.command))
        assert self.status.phase is not None  # noqa: S101 - begin() came first
        try:
            transition = lifecycle.step(self.status.phase, order.trigger)
        except IllegalTransition as error:
            self._object(order, str(error))
            return False
        if transition.kill is lifecycle.Kill.TARGET and not self._choose(order, transition):
            self._object(order, f"{order.trigger} is about none of the job's pods")
            return False  # or what it was about has gone by itself, and is made again anyway
        self.notes.append(_note(order))
        self._take(transition, order.reason, order.message)
        return True

    def unblock(self) -> None:
        """Forget why the job could not be run, once it can."""
        if self.status.reason == INVALID and self.status.phase is JobPhase.PENDING:
            self.status = replace(self.status, reason="", message="")

    def keep_marks(self, kept: tuple[marks.Mark, ...]) -> None:
        """Remember what timed policies wait about."""
        if kept or marks.HAPPENED in self.status.controlled:
            self._remember(marks.with_marks(self.status.controlled, kept))

    def settle(self) -> None:
        """Count, and follow the findings until they lead nowhere new."""
        while True:
            self._count()
            assert self.status.phase is not None  # noqa: S101
            trigger = self._finding(self.status.phase)
            if trigger is None:
                break
            self._take(lifecycle.step(self.status.phase, trigger), *self._why(trigger))
        if self._targets and not any(map(self.is_chosen, self.world.pods)):
            self._remember(marks.with_targets(self.status.controlled, ()))

    def leaving(self) -> tuple[PodView, ...]:
        """Return the pods that should not be there in this phase."""
        phase, wanted = self.status.phase, self.world.wanted
        if phase in LIVE:
            members = wanted.members()
            return tuple(p for p in self.world.pods if self._is_old(p) or p.name not in members)
        if phase is JobPhase.RESTARTING:
            return tuple(pod for pod in self.world.pods if self._is_old(pod))
        return tuple(pod for pod in self.world.pods if not pod.finished)

    def is_chosen(self, pod: PodView) -> bool:
        """Say whether a targeted restart has chosen a pod: one made before the retry that it counts as."""
        if pod.generation != self.status.generation:
            return False
        if pod.out_of_sync or not self._targets:
            return pod.out_of_sync
        made_before = pod.retry < self.status.retries
        return made_before and marks.is_target(self.world.wanted, pod, self._targets)

    def to_mark(self) -> tuple[PodView, ...]:
        """Return the chosen pods that do not carry Volcano's mark yet."""
        if not self._targets:
            return ()
        return tuple(p for p in self.world.pods if self.is_chosen(p) and not (p.deleting or p.out_of_sync))

    def _choose(self, order: Order, transition: lifecycle.Transition) -> bool:
        """Note whom a targeted restart is about; False when that is nobody."""
        name = _target(order)
        retries = self.status.retries + transition.retry
        if not any(
            pod.generation == self.status.generation
            and pod.retry < retries
            and not pod.out_of_sync
            and marks.is_target(self.world.wanted, pod, (name,))
            for pod in self.world.pods
        ):
            return False
        self._remember(marks.with_targets(self.status.controlled, (*self._targets, name)))
        return True

    def _object(self, order: Order, text: str) -> None:
        """Tell whoever gave a command that it came to nothing."""
        if order.command:
            self.notes.append(Note(JobReason.COMMAND_ISSUED, text, warning=True))

    def _remember(self, controlled: dict[str, str]) -> None:
        self.status = replace(self.status, controlled=controlled)
        self._targets = marks.read_targets(controlled)

    def _is_old(self, pod: PodView) -> bool:
        return pod.generation != self.status.generation or self.is_chosen(pod)

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
        wanted, pods = self.world.wanted, self.world.pods
        if self.world.problem and phase is JobPhase.PENDING:
            return None
        there = {pod.name for pod in pods}
        waiting = waiting_tasks(wanted, pods, self.status.generation)
        missing = sum(
            name not in there and task.name not in waiting for name, (task, _) in wanted.members().items()
        )
        return lifecycle.finding(phase, tally(wanted, self.status, missing))

    def _why(self, trigger: Trigger) -> tuple[str, str]:
        counts, wanted = self.status.counts, self.world.wanted
        if trigger is Trigger.DRAINED:
            return self.status.reason, self.status.message
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
            self._remember(marks.with_targets(marks.with_marks(self.status.controlled, ()), ()))
            self.status = replace(self.status, generation=self.status.generation + 1)
        if transition.retry:
            self.status = replace(self.status, retries=self.status.retries + 1)
        if transition.phase is not self.status.phase:
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


def _target(order: Order) -> str:
    if order.trigger is Trigger.RESTART_POD:
        return f"pod/{order.pod}"
    if order.trigger is Trigger.RESTART_PARTITION:
        return f"partition/{order.task}/{order.partition}"
    return f"task/{order.task}"


def _note(order: Order) -> Note:
    if order.command:
        return Note(JobReason.COMMAND_ISSUED, f"Start to execute command {order.trigger}: {order.message}")
    return Note(JobReason.EXECUTE_ACTION, f"Start to execute action {order.trigger}: {order.message}")
