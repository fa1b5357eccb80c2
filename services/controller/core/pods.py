"""The pods of a job, as they are created."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from services.controller.core.claims import mount_claims
from services.controller.core.model import JSON, Task, Wanted
from services.controller.core.plugins import registry
from services.controller.core.status import Status
from shared.api import names
from shared.api.pods import PodSpec

_FROM_JOB: Final = (
    names.PREEMPTABLE,
    names.COOLDOWN_TIME,
    names.REVOCABLE_ZONE,
    names.JDB_MIN_AVAILABLE,
    names.JDB_MAX_UNAVAILABLE,
)
"""Annotations of the job that its pods take over."""
_LABELS_FROM_JOB: Final = (names.PREEMPTABLE, names.COOLDOWN_TIME, names.JOB_TYPE)


def pod_annotations(wanted: Wanted, task: Task) -> dict[str, str]:
    """Return the annotations that all pods of a task have: the template's, the job's that matter, its own."""
    annotations = dict(task.spec.template.metadata.annotations)
    annotations |= {key: wanted.annotations[key] for key in _FROM_JOB if key in wanted.annotations}
    if task.spec.topology_policy:
        annotations[names.NUMA_TOPOLOGY_POLICY] = task.spec.topology_policy
    return annotations


def placing_spec(wanted: Wanted, task: Task) -> PodSpec:
    """Return what the scheduler is told of a task's pods: the template as the pods are really made.

    The job's volumes name claims, and in the node's network the ports that plugins open are the node's.
    (Nothing else that is added to a template counts for placement.)
    """
    spec = task.spec.template.spec
    if wanted.spec.get("volumes") or (spec.host_network and wanted.spec.get("plugins")):
        return PodSpec.model_validate(make_pod(wanted, Status(), task, 0)["spec"])
    return spec


def make_pod(
    wanted: Wanted,
    status: Status,
    task: Task,
    index: int,
    *,
    node: str | None = None,
    told: Mapping[str, str] | None = None,
) -> JSON:
    """Return the body of a member's pod.

    With ``node`` it is created already bound; ``told`` are the annotations that say what it has there.
    """
    template = task.spec.template
    spec = template.spec.dump()
    spec.setdefault("schedulerName", wanted.scheduler)
    spec["schedulerName"] = spec["schedulerName"] or wanted.scheduler
    if spec.get("hostNetwork") and not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"
    mount_claims(wanted, spec)
    if node is not None:
        spec["nodeName"] = node
    pod: JSON = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": names.pod_name(wanted.name, task.name, index),
            "namespace": wanted.namespace,
            "labels": dict(template.metadata.labels) | _labels(wanted, task, index),
            "annotations": pod_annotations(wanted, task)
            | _annotations(wanted, status, task, index)
            | dict(told or {}),
            "ownerReferences": [wanted.owner_reference()],
        },
        "spec": spec,
    }
    registry.mutate(wanted, task, index, pod)
    return pod


def inherited_labels(wanted: Wanted, task: Task, index: int) -> dict[str, str]:
    """Return the labels that a pod has from its job, beside those that name it."""
    inherited = {key: wanted.labels[key] for key in _LABELS_FROM_JOB if key in wanted.labels}
    partition = task.partition(index)
    return inherited if partition is None else inherited | {names.PARTITION_ID: str(partition)}


def task_labels(wanted: Wanted, task: Task) -> dict[str, str]:
    """Return the labels that all pods of a task have."""
    labels = dict(task.spec.template.metadata.labels) | _labels(wanted, task, 0)
    return {key: value for key, value in labels.items() if key not in (names.TASK_INDEX, names.PARTITION_ID)}


def _labels(wanted: Wanted, task: Task, index: int) -> dict[str, str]:
    return inherited_labels(wanted, task, index) | {
        names.JOB_NAME: wanted.name,
        names.JOB_NAMESPACE: wanted.namespace,
        names.QUEUE_NAME: wanted.queue,
        names.TASK_SPEC: task.name,
        names.TASK_INDEX: str(index),
    }


def _annotations(wanted: Wanted, status: Status, task: Task, index: int) -> dict[str, str]:
    annotations = {
        names.GROUP_NAME: wanted.podgroup,
        names.JOB_NAME: wanted.name,
        names.JOB_VERSION: str(status.generation),
        names.JOB_RETRY_COUNT: str(status.retries),
        names.QUEUE_NAME: wanted.queue,
        names.TASK_SPEC: task.name,
        names.TASK_INDEX: str(index),
        names.TEMPLATE_UID: f"{wanted.name}-{task.name}",
    }
    if names.TRACEPARENT in wanted.annotations:
        annotations[names.TRACEPARENT] = wanted.annotations[names.TRACEPARENT]
    return annotations
