"""The defaults of a new job, as Volcano's mutating webhook sets them. Applying them twice changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from services.admission.core.plugins import MPI, NEED_SVC, SSH, SVC
from shared.api.batch import Job, TaskSpec
from shared.api.names import DEFAULT_MAX_RETRY, DEFAULT_QUEUE, DEFAULT_SCHEDULER, default_task_name


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a job gets where it says nothing, and what it may not have."""

    queue: str = DEFAULT_QUEUE
    scheduler: str = DEFAULT_SCHEDULER
    max_retry: int = DEFAULT_MAX_RETRY
    namespace: str = "default"
    host_paths: tuple[str, ...] = ()
    """Paths of nodes below which jobs may mount."""


def apply_defaults(job: Job, settings: Defaults) -> Job:
    """Return the job with its defaults; what it says stays."""
    spec = job.spec
    tasks = [_task(task, index, settings) for index, task in enumerate(spec.tasks)]
    changes: dict[str, Any] = {}
    if not spec.queue:
        changes["queue"] = settings.queue
    if not spec.scheduler_name:
        changes["scheduler_name"] = settings.scheduler
    if spec.max_retry == 0:
        changes["max_retry"] = settings.max_retry
    if tasks != spec.tasks:
        changes["tasks"] = tasks
    if spec.min_available == 0 and (least := sum(_least(task) for task in tasks)):
        changes["min_available"] = least
    if (plugins := _plugins(spec.plugins)) != spec.plugins:
        changes["plugins"] = plugins
    if not job.metadata.namespace:
        metadata = job.metadata.model_copy(update={"namespace": settings.namespace})
        job = job.model_copy(update={"metadata": metadata})
    return job.model_copy(update={"spec": spec.model_copy(update=changes)}) if changes else job


def derived_numbers(job: Job) -> set[str]:
    """Return the paths of numbers which defaults compute from others: a mistake in them is the others'."""
    derived = {
        f"spec.tasks[{index}].minAvailable"
        for index, task in enumerate(job.spec.tasks)
        if task.min_available is None
    }
    return derived | {"spec.minAvailable"} if job.spec.min_available == 0 else derived


def _task(task: TaskSpec, index: int, settings: Defaults) -> TaskSpec:
    changes: dict[str, Any] = {}
    if not task.name:
        changes["name"] = default_task_name(index)
    if task.min_available is None:
        changes["min_available"] = _least(task)
    if task.max_retry == 0:
        changes["max_retry"] = settings.max_retry
    pod = task.template.spec
    if pod.host_network and not pod.dns_policy:
        # Without it a pod in the node's network could not resolve the names of services.
        spec = pod.model_copy(update={"dns_policy": "ClusterFirstWithHostNet"})
        changes["template"] = task.template.model_copy(update={"spec": spec})
    return task.model_copy(update=changes) if changes else task


def _least(task: TaskSpec) -> int:
    if task.min_available is not None:
        return task.min_available
    partitions = task.partition_policy
    if partitions is not None and partitions.min_partitions > 0:
        return partitions.min_partitions * partitions.partition_size
    return task.replicas


def _plugins(plugins: dict[str, list[str]]) -> dict[str, list[str]]:
    needed = [SVC] if NEED_SVC & plugins.keys() else []
    if MPI in plugins:
        needed.append(SSH)
    return {**plugins, **{name: [] for name in needed if name not in plugins}}
