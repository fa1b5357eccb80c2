"""What the job controller decides from and what it decides, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from services.controller.core.model import JSON, GroupView, Priorities, Wanted
from services.controller.core.podview import PodView
from services.controller.core.policies import Order
from services.controller.core.status import Status
from shared.api.batch import JobPhase, JobReason
from shared.events.contracts import GangReport, PodCounts


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
    problem_reason: JobReason = JobReason.POD_GROUP_ERROR
    """Reason of the Kubernetes event about the problem."""
    not_applied: tuple[str, ...] = ()
    settled: bool = True
    """Whether no decision can be on its way any more that would create the missing members bound."""
    overdue: bool = False
    """Whether a part of the gang has held room for too long."""
    ahead: timedelta = timedelta()
    """By how much the clock that stamps the objects is ahead of ours."""


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
    look_again: datetime | None = None
    """When a timed policy will be due."""
