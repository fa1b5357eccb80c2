"""The life of a job, as a table.

Theory of operation
===================
A job is in one *phase*. Two kinds of triggers move it. *Orders* come from outside: a command of the
user, or a policy of the job that a pod's fate set off. *Findings* come from counting the job's pods;
:func:`finding` says what the counts mean in a phase.

    Pending      the gang waits for its place, or its pods start
    Running      at least the minimum runs or has ended
    Restarting   pods are taken away so that they can be made again
    Aborting, Aborted          suspended: pods go, finished ones stay; only a resume leads out
    Completing, Completed      done: by itself, by ``minSuccess``, or by order
    Terminating, Terminated    stopped by order, for good
    Failed       ended without success, or out of retries

A transition may *kill*: ``ALL`` takes every pod and begins a new generation, ``UNFINISHED`` keeps those
which have ended (their logs matter) and begins a new generation too, so that whatever was decided for
the old one is void; ``TARGET`` takes the pods that the order is about and keeps the generation.
A transition may also count as a *retry*. A trigger without an entry is an :class:`IllegalTransition` and
changes nothing.

This is Volcano's machine with two differences. A resume does not count as a retry (there, three
suspensions use up ``maxRetry``). And a job that is restarting obeys: there, every order but a targeted
restart becomes one more restart, so that a job which fails again and again cannot be suspended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Final

from shared.api.batch import JobPhase
from shared.errors import PumiceError


class Trigger(StrEnum):
    """What moves a job: orders (Volcano's action names), then findings."""

    ABORT_JOB = "AbortJob"
    RESTART_JOB = "RestartJob"
    RESTART_TASK = "RestartTask"
    RESTART_POD = "RestartPod"
    RESTART_PARTITION = "RestartPartition"
    TERMINATE_JOB = "TerminateJob"
    COMPLETE_JOB = "CompleteJob"
    RESUME_JOB = "ResumeJob"

    ENOUGH_STARTED = "enough pods started"
    TOO_FEW_ACTIVE = "too few pods active"
    SUCCEEDED = "pods ended: success"
    FAILED = "pods ended: failure"
    CLEARED = "old pods gone"
    DRAINED = "no pod active"
    RETRIES_SPENT = "no retries left"


ORDERS: Final = frozenset(
    {
        Trigger.ABORT_JOB,
        Trigger.RESTART_JOB,
        Trigger.RESTART_TASK,
        Trigger.RESTART_POD,
        Trigger.RESTART_PARTITION,
        Trigger.TERMINATE_JOB,
        Trigger.COMPLETE_JOB,
        Trigger.RESUME_JOB,
    }
)
"""The triggers that a user may give, by command or policy."""
TARGETED: Final = frozenset({Trigger.RESTART_TASK, Trigger.RESTART_POD, Trigger.RESTART_PARTITION})
"""Orders about some of a job's pods."""


class Kill(Enum):
    """Which pods a transition takes away."""

    NONE = "none"
    TARGET = "target"
    UNFINISHED = "unfinished"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Transition:
    """Where a trigger leads, and what happens on the way."""

    phase: JobPhase
    kill: Kill = Kill.NONE
    retry: bool = False

    @property
    def new_generation(self) -> bool:
        """Whether what was decided for the job's pods so far is void."""
        return self.kill in (Kill.ALL, Kill.UNFINISHED)


class IllegalTransition(PumiceError):  # noqa: N818 - the field's word
    """The trigger means nothing in this phase; nothing was changed."""

    def __init__(self, phase: JobPhase, trigger: Trigger) -> None:
        super().__init__(f"{trigger} means nothing to a job that is {phase}")
        self.phase = phase
        self.trigger = trigger


_ABORT: Final = Transition(JobPhase.ABORTING, Kill.UNFINISHED)
_COMPLETE: Final = Transition(JobPhase.COMPLETING, Kill.UNFINISHED)
_TERMINATE: Final = Transition(JobPhase.TERMINATING, Kill.UNFINISHED)
_RESTART: Final = Transition(JobPhase.RESTARTING, Kill.ALL, retry=True)
_RESTART_SOME: Final = Transition(JobPhase.RESTARTING, Kill.TARGET, retry=True)
_RESUME: Final = Transition(JobPhase.RESTARTING, Kill.ALL)
_RESTART_SOME_MORE: Final = Transition(JobPhase.RESTARTING, Kill.TARGET)

_ENDING_ORDERS: Final = {
    Trigger.ABORT_JOB: _ABORT,
    Trigger.COMPLETE_JOB: _COMPLETE,
    Trigger.TERMINATE_JOB: _TERMINATE,
}
_ORDERS_OF_A_LIVE_JOB: Final = {
    **_ENDING_ORDERS,
    Trigger.RESTART_JOB: _RESTART,
    **dict.fromkeys((Trigger.RESTART_TASK, Trigger.RESTART_POD, Trigger.RESTART_PARTITION), _RESTART_SOME),
}
_ORDERS_WHILE_RESTARTING: Final = {
    **_ENDING_ORDERS,
    Trigger.RESTART_JOB: _RESUME,
    **dict.fromkeys(
        (Trigger.RESTART_TASK, Trigger.RESTART_POD, Trigger.RESTART_PARTITION), _RESTART_SOME_MORE
    ),
}
"""A restart that is ordered while another is under way joins it: the same retry."""

TRANSITIONS: Final[Mapping[JobPhase, Mapping[Trigger, Transition]]] = MappingProxyType(
    {
        JobPhase.PENDING: {
            Trigger.ENOUGH_STARTED: Transition(JobPhase.RUNNING),
            **_ORDERS_OF_A_LIVE_JOB,
        },
        JobPhase.RUNNING: {
            Trigger.SUCCEEDED: Transition(JobPhase.COMPLETED),
            Trigger.FAILED: Transition(JobPhase.FAILED),
            Trigger.TOO_FEW_ACTIVE: Transition(JobPhase.PENDING),
            **_ORDERS_OF_A_LIVE_JOB,
        },
        JobPhase.RESTARTING: {
            Trigger.RETRIES_SPENT: Transition(JobPhase.FAILED),
            Trigger.CLEARED: Transition(JobPhase.PENDING),
            **_ORDERS_WHILE_RESTARTING,
        },
        JobPhase.ABORTING: {
            Trigger.DRAINED: Transition(JobPhase.ABORTED),
            Trigger.RESUME_JOB: _RESUME,
        },
        JobPhase.ABORTED: {Trigger.RESUME_JOB: _RESUME},
        JobPhase.COMPLETING: {Trigger.DRAINED: Transition(JobPhase.COMPLETED)},
        JobPhase.TERMINATING: {Trigger.DRAINED: Transition(JobPhase.TERMINATED)},
        JobPhase.COMPLETED: {},
        JobPhase.TERMINATED: {},
        JobPhase.FAILED: {},
    }
)
"""What each trigger does in each phase; what is not here is illegal."""

LIVE: Final = frozenset({JobPhase.PENDING, JobPhase.RUNNING})
"""Phases in which the job wants its pods to be there."""
OBEYING: Final = LIVE | {JobPhase.RESTARTING}
"""Phases in which the job's policies answer what happens to its pods."""
FINAL: Final = frozenset({JobPhase.COMPLETED, JobPhase.TERMINATED, JobPhase.FAILED})
"""Phases that a job never leaves."""


def step(phase: JobPhase, trigger: Trigger) -> Transition:
    """Return the transition. Raises IllegalTransition."""
    try:
        return TRANSITIONS[phase][trigger]
    except KeyError:
        raise IllegalTransition(phase, trigger) from None


@dataclass(frozen=True, slots=True)
class Tally:
    """A job's pods in numbers, and the thresholds which they are compared with.

    ``leaving`` are pods that are being deleted or still have to be; ``missing`` are members without a
    pod. ``task_short`` says that some task has fewer successes than its own minimum.
    """

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    unknown: int = 0
    leaving: int = 0
    missing: int = 0
    replicas: int = 0
    minimum: int = 0
    min_success: int | None = None
    task_minimums: int = 0
    task_short: bool = False
    retries: int = 0
    max_retry: int = 3


def finding(phase: JobPhase, tally: Tally) -> Trigger | None:
    """Say what the counts mean in this phase; None: nothing new."""
    if phase is JobPhase.PENDING:
        started = tally.running + tally.succeeded + tally.failed
        return Trigger.ENOUGH_STARTED if 0 < tally.minimum <= started or _nothing_wanted(tally) else None
    if phase is JobPhase.RUNNING:
        return _finding_while_running(tally)
    if phase is JobPhase.RESTARTING:
        if tally.retries >= tally.max_retry:
            return Trigger.RETRIES_SPENT
        return Trigger.CLEARED if tally.replicas - tally.leaving >= tally.minimum else None
    if phase in (JobPhase.ABORTING, JobPhase.COMPLETING, JobPhase.TERMINATING):
        active = tally.pending + tally.running + tally.unknown + tally.leaving
        return None if active else Trigger.DRAINED
    return None


def _nothing_wanted(tally: Tally) -> bool:
    return tally.replicas == 0 and tally.minimum == 0


def _finding_while_running(tally: Tally) -> Trigger | None:
    if tally.replicas == 0:
        return None
    if tally.min_success is not None and tally.succeeded >= tally.min_success:
        return Trigger.SUCCEEDED
    if tally.succeeded + tally.failed >= tally.replicas:
        short = tally.minimum >= tally.task_minimums and tally.task_short
        enough = tally.min_success is None and tally.succeeded >= tally.minimum
        return Trigger.SUCCEEDED if enough and not short else Trigger.FAILED
    if tally.pending + tally.missing > tally.replicas - tally.minimum:
        return Trigger.TOO_FEW_ACTIVE
    return None
