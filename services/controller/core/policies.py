"""What a job's policies order when something happens to its pods.

As in Volcano: the task's own policies come first, then the job's; the first that matches decides. A policy
matches an event by name or by ``*``, or a failed pod by the exit code of its first container. (``*`` does
not match Unknown here: a gang is Unknown whenever a member is missing, also while an order is making it
whole, and what happened to that member has been matched already.)

Events are found by looking at what is there, not at what changed, so that none is missed while the
controller is down: a pod of the present generation that has failed *is* the event, until the order it
set off has begun a new generation or taken the pod away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from services.controller.core.lifecycle import Trigger
from services.controller.core.model import PodView, Wanted
from shared.api.batch import JobEvent, LifecyclePolicy

_ORDERS: Final = {
    "AbortJob": Trigger.ABORT_JOB,
    "RestartJob": Trigger.RESTART_JOB,
    "RestartTask": Trigger.RESTART_TASK,
    "RestartPod": Trigger.RESTART_POD,
    "TerminateJob": Trigger.TERMINATE_JOB,
    "CompleteJob": Trigger.COMPLETE_JOB,
    "ResumeJob": Trigger.RESUME_JOB,
}
"""Actions that are carried out; RestartPartition comes with partitions."""


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that a policy may answer. ``pod`` is the one it happened to."""

    event: JobEvent
    task: str = ""
    pod: str = ""
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be done, and why."""

    trigger: Trigger
    reason: str
    message: str
    task: str = ""
    pod: str = ""
    command: str = ""
    """Id of the command that gave the order; empty for a policy's."""


def happenings(
    wanted: Wanted,
    pods: Sequence[PodView],
    lost: Sequence[PodView],
    generation: int,
    *,
    group_unknown: bool = False,
) -> Iterator[Happening]:
    """Yield what has happened to the pods of this generation, evictions first."""
    members = wanted.members() if lost else {}
    for pod in lost:
        ours = pod.out_of_sync or pod.name not in members
        if pod.generation == generation and not (pod.finished or ours):
            yield Happening(JobEvent.POD_EVICTED, pod.task, pod.name)
    present = [p for p in pods if p.generation == generation and not (p.deleting or p.out_of_sync)]
    for pod in present:
        if pod.phase == "Failed":
            yield Happening(JobEvent.POD_FAILED, pod.task, pod.name, pod.exit_code)
    for task in wanted.tasks:
        own = [pod for pod in present if pod.task == task.name]
        if task.replicas and sum(pod.phase == "Succeeded" for pod in own) >= task.replicas:
            yield Happening(JobEvent.TASK_COMPLETED, task.name)
        elif sum(pod.restarts for pod in own if not pod.finished) >= task.max_retry:
            yield Happening(JobEvent.TASK_FAILED, task.name)
    if group_unknown:
        yield Happening(JobEvent.UNKNOWN)


def order_for(wanted: Wanted, happening: Happening) -> Order | None:
    """Return what the policies order; None: nothing."""
    for policy in _policies(wanted, happening.task):
        if policy.timeout is None and _matches(policy, happening):
            trigger = _ORDERS.get(policy.action)
            if trigger is None:
                return None
            return Order(trigger, happening.event, _because(happening), happening.task, happening.pod)
    return None


def _policies(wanted: Wanted, task: str) -> Iterable[LifecyclePolicy]:
    for one in wanted.tasks:
        if one.name == task:
            yield from one.spec.policies
    yield from wanted.policies


def _matches(policy: LifecyclePolicy, happening: Happening) -> bool:
    if happening.event in policy.triggers:
        return True
    if JobEvent.ANY in policy.triggers and happening.event is not JobEvent.UNKNOWN:
        return True
    return policy.exit_code is not None and policy.exit_code == happening.exit_code


def _because(happening: Happening) -> str:
    if happening.event is JobEvent.POD_FAILED:
        code = "" if happening.exit_code is None else f" with exit code {happening.exit_code}"
        return f"pod {happening.pod} failed{code}"
    if happening.event is JobEvent.POD_EVICTED:
        return f"pod {happening.pod} was deleted"
    if happening.event is JobEvent.TASK_COMPLETED:
        return f"all pods of task {happening.task} succeeded"
    if happening.event is JobEvent.UNKNOWN:
        return "the gang has lost members"
    return f"containers of task {happening.task} were restarted too often"
