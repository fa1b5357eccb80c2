"""The rules for jobs, new and changed.

They are Volcano's validating webhook's and the CRD's ranges. Where Volcano stops at the first mistake
of a kind, all are reported here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from services.admission.core.changes import differences
from services.admission.core.formats import dns_subdomain, qualified_name
from services.admission.core.plugins import plugin_rules
from services.admission.core.policies import duration_rule, policy_rules
from services.admission.core.reach import expose_rules
from services.admission.core.tasks import at_least, number_rules, task_rules, topology_rules
from services.admission.core.view import QueueView
from services.admission.core.violations import Violation, did_you_mean, listing
from shared.api.batch import MOST_PODS, Job, JobSpec, VolumeSpec
from shared.api.names import EXPOSE, ROOT_QUEUE

_QUEUE: Final = "spec.queue"


def validate_job(job: Job, view: QueueView, old: Job | None = None) -> list[Violation]:
    """Return every reason why this job may not be created, or why ``old`` may not become it.

    Defaults are expected to have been applied.
    """
    return list(_create(job, view) if old is None else _update(old, job))


def _create(job: Job, view: QueueView) -> Iterator[Violation]:
    spec = job.spec
    if problem := qualified_name(job.metadata.name):
        yield Violation("invalid-name", "metadata.name", f'"{job.metadata.name[:80]}" {problem}')
    yield from _ranges(spec)
    yield from topology_rules(spec.network_topology, "spec.networkTopology")
    yield from task_rules(job)
    yield from _minimum(spec)
    yield from policy_rules(spec.policies, "spec.policies")
    yield from plugin_rules(job)
    yield from _volumes(spec.volumes)
    yield from expose_rules(job)
    if spec.running_estimate is not None:
        yield from duration_rule(spec.running_estimate, "spec.runningEstimate")
    yield from queue_rules(spec.queue, view)


def _ranges(spec: JobSpec) -> Iterator[Violation]:
    yield from at_least(spec.min_available, "spec.minAvailable", 0)
    yield from at_least(spec.max_retry, "spec.maxRetry", 0)
    yield from at_least(spec.ttl_seconds_after_finished, "spec.ttlSecondsAfterFinished", 0)
    yield from at_least(spec.min_success, "spec.minSuccess", 1)


def _minimum(spec: JobSpec) -> Iterator[Violation]:
    total = sum(max(0, task.replicas) for task in spec.tasks)
    if total > MOST_PODS:
        yield Violation("too-many-pods", "spec.tasks", f"{total} pods in all; a job has at most {MOST_PODS}")
    if spec.tasks and spec.min_available > total:
        yield Violation(
            "min-available-above-replicas",
            "spec.minAvailable",
            f"{spec.min_available} is more than the replicas of all tasks, {total}",
        )


def _volumes(volumes: list[VolumeSpec]) -> Iterator[Violation]:
    paths: set[str] = set()
    for index, volume in enumerate(volumes):
        at = f"spec.volumes[{index}]"
        mount, name = volume.mount_path, volume.volume_claim_name
        if not mount:
            yield Violation("required", f"{at}.mountPath", "mountPath is required")
        elif ":" in mount:
            yield Violation("invalid", f"{at}.mountPath", f'"{mount[:80]}" must not contain a colon')
        elif mount in paths:
            message = f'"{mount[:80]}" is the mountPath of another volume'
            yield Violation("duplicate-mount-path", f"{at}.mountPath", message)
        paths.add(mount)
        if volume.volume_claim is None and not name:
            message = "needs volumeClaimName (a claim that exists) or volumeClaim (one to be made)"
            yield Violation("volume-without-claim", at, message)
        if name and volume.volume_claim is not None:
            message = "excludes volumeClaim: name a claim that exists, or describe one to be made"
            yield Violation("volume-claim-conflict", f"{at}.volumeClaimName", message)
        if name and (problem := dns_subdomain(name)):
            yield Violation("invalid", f"{at}.volumeClaimName", f'"{name[:80]}" {problem}')


def open_queue_rules(name: str, view: QueueView) -> Iterator[Violation]:
    """Work goes to a queue that exists and is open."""
    queue = view.queue(name)
    if queue is None:
        advice = did_you_mean(name, _queues_for_jobs(view)) or f": {_use_another(view)}"
        yield Violation("queue-not-found", _QUEUE, f'there is no queue "{name[:80]}"{advice}')
    elif queue.state != "Open":
        advice = f"open it (pumice queue open {name}), or {_use_another(view)}"
        yield Violation("queue-not-open", _QUEUE, f'queue "{name}" is {queue.state.lower()}: {advice}')


def queue_rules(name: str, view: QueueView) -> Iterator[Violation]:
    """Jobs go to a queue that exists, is open and has no queues below it."""
    yield from open_queue_rules(name, view)
    if view.queue(name) is None:
        return
    if name == ROOT_QUEUE:
        yield Violation("queue-is-root", _QUEUE, f"the root queue takes no jobs: {_use_another(view)}")
    elif children := view.children(name):
        below = listing(child.name for child in children)
        message = f'queue "{name}" has queues below it and takes no jobs itself: use one of {below}'
        yield Violation("queue-not-leaf", _QUEUE, message)


def _queues_for_jobs(view: QueueView) -> list[str]:
    open_names = [queue.name for queue in view.queues() if queue.state == "Open" and queue.name != ROOT_QUEUE]
    return [name for name in open_names if not view.children(name)]


def _use_another(view: QueueView) -> str:
    names = _queues_for_jobs(view)
    return f"use one of {listing(names)}" if names else "no queue takes jobs now"


def _update(old: Job, new: Job) -> Iterator[Violation]:
    if new.metadata.annotations.get(EXPOSE) != old.metadata.annotations.get(EXPOSE):
        yield from expose_rules(new)
    if not any(differences(old.spec, new.spec, "spec")):
        return  # labels, annotations, finalizers: those who clean up must never be stopped
    yield from at_least(new.spec.min_available, "spec.minAvailable", 0)
    yield from topology_rules(new.spec.network_topology, "spec.networkTopology")
    for index, task in enumerate(new.spec.tasks):
        yield from number_rules(task, f"spec.tasks[{index}]")
    yield from _minimum(new.spec)
    if len(old.spec.tasks) != len(new.spec.tasks):
        message = f"tasks may not be added or removed: there were {len(old.spec.tasks)}"
        yield Violation("immutable", "spec.tasks", message)
        return
    for path in differences(_comparable(old.spec), _comparable(new.spec), "spec"):
        yield Violation(
            "immutable",
            path,
            "may not change; only minAvailable, priorityClassName and replicas and minAvailable of tasks may",
        )


def _comparable(spec: JobSpec) -> JobSpec:
    """Return the spec with what may change taken out, and the names that the controller fills in."""
    tasks = [task.model_copy(update={"replicas": 0, "min_available": None}) for task in spec.tasks]
    volumes = [
        volume if volume.volume_claim is None else volume.model_copy(update={"volume_claim_name": ""})
        for volume in spec.volumes
    ]
    return spec.model_copy(
        update={"tasks": tasks, "volumes": volumes, "min_available": 0, "priority_class_name": ""}
    )
