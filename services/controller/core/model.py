"""What the controller knows about one job, as values: the job as wanted, its status, group and pods.

Raw objects are read once into these; what a user left out is filled in as the admission service would
(a job applied by kubectl may not have passed it), without changing the object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import orjson
from pydantic import ValidationError

from services.controller.core.podview import number
from shared.api import names
from shared.api.batch import MOST_PODS, Job, JobSpec, LifecyclePolicy, TaskSpec
from shared.api.meta import ObjectMeta, parse_time
from shared.api.scheduling import PodGroupPhase
from shared.telemetry.spans import job_trace

JSON = dict[str, Any]
_SECOND: Final = timedelta(seconds=1)
_GROUP_PHASES: Final = {phase.value: phase for phase in PodGroupPhase}


@dataclass(frozen=True, slots=True)
class Task:
    """A role of a job. ``minimum`` is how many of its pods must run."""

    name: str
    replicas: int
    minimum: int
    spec: TaskSpec

    @property
    def max_retry(self) -> int:
        """Container restarts after which the task counts as failed."""
        return self.spec.max_retry or names.DEFAULT_MAX_RETRY

    @property
    def depends_on(self) -> Sequence[str]:
        """The tasks that come first."""
        return self.spec.depends_on.name if self.spec.depends_on else ()

    def partition(self, index: int) -> int | None:
        """Return the number of the partition that a pod belongs to; None: the task has no partitions."""
        policy = self.spec.partition_policy
        return None if policy is None else index // max(policy.partition_size, 1)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A job as its author wants it; the part that only a change of the spec or metadata changes."""

    namespace: str
    name: str
    uid: str
    queue: str
    scheduler: str
    min_available: int
    max_retry: int
    min_success: int | None
    priority_class: str
    tasks: tuple[Task, ...]
    policies: tuple[LifecyclePolicy, ...]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    """With its trace, also where nobody wrote that on the job."""
    created_at: datetime
    deleting: bool
    raw: JSON = field(repr=False)
    answered: frozenset[str] = frozenset()
    """Events that some policy names."""
    has_policies: bool = False
    in_order: bool = False
    """Whether some task waits for another."""

    @property
    def replicas(self) -> int:
        """Pods in all."""
        return sum(task.replicas for task in self.tasks)

    @property
    def task_minimums(self) -> int:
        """Sum of the tasks' minimums."""
        return sum(task.minimum for task in self.tasks)

    @property
    def spec(self) -> JSON:
        """The spec as written."""
        return self.raw.get("spec") or {}

    @property
    def podgroup(self) -> str:
        """Name of its PodGroup."""
        return names.podgroup_name(self.name, self.uid)

    def members(self) -> dict[str, tuple[Task, int]]:
        """Return each pod that should be there, by name: its task and index."""
        return {
            names.pod_name(self.name, task.name, index): (task, index)
            for task in self.tasks
            for index in range(task.replicas)
        }

    @property
    def scale(self) -> str:
        """What may change in a job that exists, as text: minimum, each task's size, priority."""
        tasks = ",".join(f"{task.replicas}/{task.minimum}" for task in self.tasks)
        return f"{self.min_available}:{tasks}:{self.priority_class}"

    def task(self, name: str) -> Task | None:
        """Return a task by its name."""
        return next((task for task in self.tasks if task.name == name), None)

    def owner_reference(self) -> JSON:
        """Return the reference that pods and podgroup carry: they go when the job goes."""
        return {
            "apiVersion": self.raw["apiVersion"],
            "kind": self.raw["kind"],
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


def read_job(raw: JSON) -> Wanted:
    """Read a Job. Raises pydantic's ValidationError when its types are wrong."""
    job = _read(raw)
    meta, spec = job.metadata, job.spec
    tasks = _tasks(spec.tasks, spec.priority_class_name)
    policies = [*spec.policies, *(policy for task in tasks for policy in task.spec.policies)]
    return Wanted(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        queue=spec.queue or names.DEFAULT_QUEUE,
        scheduler=spec.scheduler_name or names.DEFAULT_SCHEDULER,
        min_available=spec.min_available or sum(task.minimum for task in tasks),
        max_retry=spec.max_retry or names.DEFAULT_MAX_RETRY,
        min_success=spec.min_success,
        priority_class=spec.priority_class_name,
        tasks=tasks,
        policies=tuple(spec.policies),
        labels=meta.labels,
        annotations={**meta.annotations, **_trace(meta)},
        created_at=precise(meta.creation_timestamp, meta.annotations.get(names.SUBMITTED_AT)),
        deleting=meta.deletion_timestamp is not None,
        raw=raw,
        answered=frozenset(event for policy in policies for event in policy.triggers),
        has_policies=bool(policies),
        in_order=any(task.depends_on for task in tasks),
    )


def _read(raw: JSON) -> Job:
    """Read a Job. Specs written alike are read once: they are most of a job, and stay when it changes."""
    try:
        spec = _spec(orjson.dumps(raw["spec"]))
    except (KeyError, TypeError, ValidationError):  # left out, or wrong: that is to be said with its path
        return Job.model_validate(raw)
    job = Job.model_validate({key: value for key, value in raw.items() if key != "spec"})
    return job.model_copy(update={"spec": spec})


@lru_cache(maxsize=4096)
def _spec(text: bytes) -> JobSpec:
    """Return a spec as read. Many jobs may have it: it is never changed."""
    return JobSpec.model_validate(orjson.loads(text))


def _trace(meta: ObjectMeta) -> dict[str, str]:
    """Return the annotations of a job's trace: its submission's; of one that came by kubectl, from its UID.

    So nobody has to write them on such a job, and all that is made for it carries them.
    """
    known = meta.annotations
    trace = job_trace(meta.uid, known.get(names.TRACEPARENT), known.get(names.TRACESTATE))
    return {names.TRACEPARENT: trace.traceparent, names.TRACESTATE: trace.tracestate}


def precise(created: str | None, claimed: str | None) -> datetime:
    """Return when an object was created, to the microsecond if a note says so.

    The API server writes whole seconds, too coarse to order gangs by age. A note that contradicts them
    (anybody can write an annotation) counts only as far as they allow.
    """
    second = parse_time(created) if created else datetime.min.replace(tzinfo=UTC)
    try:
        moment = parse_time(claimed) if claimed else second
    except ValueError:
        return second
    return min(max(moment, second), second + _SECOND)


def _tasks(specs: Sequence[TaskSpec], priority_class: str) -> tuple[Task, ...]:
    """Read the tasks: up to one pod more than a job may have, so that no number of them is too large."""
    tasks: list[Task] = []
    left = MOST_PODS + 1
    for index, spec in enumerate(specs):
        tasks.append(_task(index, spec, min(spec.replicas, left), priority_class))
        left -= max(0, tasks[-1].replicas)
    return tuple(tasks)


def _task(index: int, spec: TaskSpec, replicas: int, priority_class: str) -> Task:
    """Read a task; its pods have the job's priority class unless their template names one, as in Volcano."""
    if priority_class and not spec.template.spec.priority_class_name:
        pod = spec.template.spec.model_copy(update={"priority_class_name": priority_class})
        spec = spec.model_copy(update={"template": spec.template.model_copy(update={"spec": pod})})
    partitions = spec.partition_policy
    if spec.min_available is not None:
        minimum = spec.min_available
    elif partitions and partitions.min_partitions:
        minimum = partitions.min_partitions * partitions.partition_size
    else:
        minimum = replicas
    return Task(spec.name or names.default_task_name(index), replicas, minimum, spec)


@dataclass(frozen=True, slots=True)
class GroupView:
    """A job's PodGroup."""

    name: str
    uid: str
    phase: PodGroupPhase
    generation: int
    deleting: bool
    ready_since: datetime
    """When this group was made: since when its gang can be scheduled."""
    raw: JSON = field(repr=False)
    scale: str = ""
    """The job's scale for which its spec was written."""
    shapes: str = ""
    """What the API server would make of its pods; see :mod:`services.controller.core.dryrun`."""

    @property
    def admitted(self) -> bool:
        """Whether pods may exist: some decision let the gang in."""
        return self.phase is not PodGroupPhase.PENDING


def read_group(raw: JSON, generation: int = 0) -> GroupView:
    """Read a PodGroup; a phase that nobody wrote yet, or that is unknown to us, is Pending.

    ``generation`` is its job's: one that Volcano made does not say its own, and went with its generation.
    """
    meta = raw["metadata"]
    annotations = meta.get("annotations") or {}
    phase: str = (raw.get("status") or {}).get("phase") or ""
    return GroupView(
        name=meta["name"],
        uid=meta["uid"],
        phase=_GROUP_PHASES.get(phase, PodGroupPhase.PENDING),
        generation=number(annotations[names.JOB_VERSION]) if names.JOB_VERSION in annotations else generation,
        deleting=bool(meta.get("deletionTimestamp")),
        ready_since=precise(meta.get("creationTimestamp"), annotations.get(names.READY_SINCE)),
        raw=raw,
        scale=annotations.get(names.SCALE) or "",
        shapes=annotations.get(names.SHAPES) or "",
    )


@dataclass(frozen=True, slots=True)
class Priorities:
    """The priority classes: value by name, and the value of the global default."""

    values: Mapping[str, int] = field(default_factory=dict[str, int])
    default: int = 0

    def of(self, name: str) -> int:
        """Return a class' value; the default's when it is empty or unknown."""
        return self.values.get(name, self.default)
