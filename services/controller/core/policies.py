"""What a job's policies order when something happens to its pods.

As in Volcano: the task's own policies come first, then the job's; the first that matches decides. A policy
matches an event by name or by ``*``, or a failed pod by the exit code of its first container. (``*`` does
not match Unknown and JobUpdated here: what made a gang Unknown has been matched already, and nobody who
wrote ``*`` meant a change of scale.) A policy for PodPending counts only when it has a timeout.

Events are found by looking at what is there, not at what changed, so that none is missed while the
controller is down: a pod of the present generation that has failed *is* the event, until the order it
set off has begun a new generation or taken the pod away. So a policy's *timeout* is no timer: the order is
due that long after the time which the objects give for the event (a pod's creation or end, a container's
last restart, or the mark that the status keeps of what leaves no object behind), and it is void when what
happened is no more to be seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from services.controller.core.happenings import Happening
from services.controller.core.lifecycle import Trigger
from services.controller.core.model import Wanted
from shared.api.batch import JobEvent, LifecyclePolicy
from shared.api.duration import parse_duration
from shared.api.meta import parse_time

_ORDERS: Final = {
    "AbortJob": Trigger.ABORT_JOB,
    "RestartJob": Trigger.RESTART_JOB,
    "RestartTask": Trigger.RESTART_TASK,
    "RestartPod": Trigger.RESTART_POD,
    "RestartPartition": Trigger.RESTART_PARTITION,
    "TerminateJob": Trigger.TERMINATE_JOB,
    "CompleteJob": Trigger.COMPLETE_JOB,
    "ResumeJob": Trigger.RESUME_JOB,
}
_BY_NAME_ONLY: Final = frozenset({JobEvent.UNKNOWN, JobEvent.JOB_UPDATED})
_NEVER: Final = datetime(9000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be done, and why."""

    trigger: Trigger
    reason: str
    message: str
    task: str = ""
    pod: str = ""
    partition: int | None = None
    command: str = ""
    """Id of the command that gave the order; empty for a policy's."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The order that a policy gives. ``timed`` when it has a timeout; then it is due at ``due``."""

    order: Order
    due: datetime
    timed: bool = False


def answer(wanted: Wanted, happening: Happening, now: datetime) -> Answer | None:
    """Return what the policies order; None: nothing."""
    for policy in _policies(wanted, happening.task):
        if not _matches(policy, happening):
            continue
        trigger = _ORDERS.get(policy.action)
        if trigger is None:
            return None
        order = _order(wanted, trigger, happening)
        if policy.timeout is None:
            return Answer(order, now)
        return Answer(order, _due(happening, policy.timeout, now), timed=True)
    return None


def _order(wanted: Wanted, trigger: Trigger, happening: Happening) -> Order:
    task = wanted.task(happening.task)
    return Order(
        trigger,
        happening.event,
        _because(happening),
        happening.task,
        happening.pod,
        None if task is None or happening.index is None else task.partition(happening.index),
    )


def _due(happening: Happening, timeout: str, now: datetime) -> datetime:
    since = parse_time(happening.since) if happening.since else now
    try:
        return since + parse_duration(timeout)
    except (ValueError, OverflowError):
        return _NEVER  # no such duration: the job was let in without admission


def _policies(wanted: Wanted, task: str) -> Iterable[LifecyclePolicy]:
    for one in wanted.tasks:
        if one.name == task:
            yield from one.spec.policies
    yield from wanted.policies


def _matches(policy: LifecyclePolicy, happening: Happening) -> bool:
    if happening.event is JobEvent.POD_PENDING and policy.timeout is None:
        return False
    if happening.event in policy.triggers:
        return True
    if JobEvent.ANY in policy.triggers and happening.event not in _BY_NAME_ONLY:
        return True
    return policy.exit_code is not None and policy.exit_code == happening.exit_code


def _because(happening: Happening) -> str:
    if happening.event is JobEvent.POD_FAILED:
        code = "" if happening.exit_code is None else f" with exit code {happening.exit_code}"
        return f"pod {happening.pod} failed{code}"
    if happening.event is JobEvent.TASK_FAILED:
        return f"containers of task {happening.task} were restarted too often"
    return _REASONS[happening.event].format(pod=happening.pod, task=happening.task)


_REASONS: Final = {
    JobEvent.POD_EVICTED: "pod {pod} was deleted",
    JobEvent.POD_PENDING: "pod {pod} has been pending too long",
    JobEvent.TASK_COMPLETED: "all pods of task {task} succeeded",
    JobEvent.UNKNOWN: "the gang has lost members and there is no room for others",
    JobEvent.JOB_UPDATED: "the job's scale was changed",
}


def bad_timeout(policy: LifecyclePolicy) -> str | None:
    """Return why a policy's timeout cannot be read."""
    try:
        timeout = parse_duration(policy.timeout) if policy.timeout is not None else timedelta()
    except ValueError as error:
        return str(error)
    return f"{policy.timeout}: a timeout is not negative" if timeout < timedelta() else None
