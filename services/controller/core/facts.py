"""Objects to ``cluster-state`` facts: trimmed to what scheduling and views need.

Each is a function of the objects alone, so that a fact is published only when it has changed, also
over a restart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from services.controller.core.devices import held_parts, node_devices, requests_of
from services.controller.core.exposing import read_urls
from services.controller.core.model import JSON, Wanted
from services.controller.core.nodegroups import read_groups, read_limits
from services.controller.core.podview import owner_job, read_pod
from services.controller.core.shapes import marks_of
from services.controller.core.status import Status
from shared.api import names
from shared.api.core import Node, PriorityClass
from shared.api.duration import parse_duration
from shared.api.meta import parse_time
from shared.api.podspec import resource_list
from shared.api.scheduling import Queue
from shared.api.topology import HyperNode
from shared.events import contracts as c
from shared.events.contracts import Gang, JobState, NodeState, PodGroupState, PodState, QueueState, Shape

_EFFECTS = frozenset({"NoSchedule", "PreferNoSchedule", "NoExecute"})


_LARGE_IMAGE: Final = 23 << 20
"""Smaller ones do not matter to where pods run."""


def node_state(
    raw: JSON,
    volume_limits: Mapping[str, int] | None = None,
    free_volumes: Mapping[str, int] | None = None,
    *,
    numa: c.NumaTopology | None = None,
    claimable: Mapping[str, int] | None = None,
) -> NodeState:
    """Return a node's fact; of volumes that it takes, and has free, and of NUMA nodes others than it tell.

    ``claimable`` are its devices that claims are for, by kind: to the scheduler resources like others.
    """
    node = Node.model_validate(raw)
    ready = next((condition.status for condition in node.status.conditions if condition.type == "Ready"), "")
    labels = node.metadata.labels
    return NodeState(
        name=node.metadata.name,
        pool=labels.get(names.NODE_POOL) or "default",
        labels=dict(sorted(labels.items())),
        taints=tuple(
            c.Taint.model_validate({"key": taint.key, "value": taint.value, "effect": taint.effect})
            for taint in node.spec.taints
            if taint.effect in _EFFECTS
        ),
        unschedulable=node.spec.unschedulable,
        ready=ready == "True",
        allocatable=dict(sorted({**resource_list(node.status.allocatable), **(claimable or {})}.items())),
        devices=node_devices(raw),
        numa=numa,
        volume_limits=dict(volume_limits or {}),
        free_volumes=dict(free_volumes or {}),
        images={
            name: image.size_bytes
            for image in node.status.images
            if image.size_bytes >= _LARGE_IMAGE
            for name in sorted(image.names)
        },
    )


def pod_state(
    raw: JSON,
    shape: Shape,
    schedulers: frozenset[str],
    group: tuple[str, str] | None = None,
    budgets: tuple[str, ...] = (),
    devices: Sequence[c.Device] = (),
    numa: tuple[c.NumaCpus, ...] = (),
) -> PodState:
    """Return a pod's fact; any pod takes room, whosever it is.

    ``group`` is the PodGroup and queue of a pod of ours that no Job owns; a Job's pods say theirs.
    ``budgets`` are the PodDisruptionBudgets that protect it, ``devices`` those of its node, ``numa`` the CPUs
    that it has for itself.
    """
    view = read_pod(raw)
    meta, spec = raw["metadata"], raw.get("spec") or {}
    annotations = meta.get("annotations") or {}
    return PodState(
        namespace=meta["namespace"],
        name=view.name,
        uid=view.uid,
        gang=group[0] if group else annotations.get(names.GROUP_NAME),
        task=view.task,
        index=view.index,
        generation=view.generation if owner_job(raw) else 0,
        queue=group[1] if group else annotations.get(names.QUEUE_NAME, ""),
        node=view.node,
        phase=view.phase,
        releasing=view.deleting,
        ours=spec.get("schedulerName") in schedulers,
        shape=shape,
        device_parts=held_parts(raw, requests_of(shape), devices) if shape.devices else (),
        numa=numa,
        created_at=parse_time(meta["creationTimestamp"]),
        started_at=view.started_at,
        scheduled_at=_scheduled_at(raw),
        cooldown=_cooldown(marks_of(raw)),
        budgets=budgets,
    )


def _scheduled_at(raw: JSON) -> datetime | None:
    """Return when a pod got its node, as its condition says."""
    conditions = (raw.get("status") or {}).get("conditions") or ()
    found: JSON = next((one for one in conditions if one.get("type") == "PodScheduled"), {})
    return _time(found.get("lastTransitionTime")) if found.get("status") == "True" else None


def _cooldown(annotations: Mapping[str, str]) -> float:
    """Return for how many seconds a pod is not to be evicted; what cannot be read asks for none."""
    try:
        return max(0.0, parse_duration(annotations.get(names.COOLDOWN_TIME, "0")).total_seconds())
    except ValueError:
        return 0.0


def queue_state(raw: JSON) -> QueueState:
    """Return a queue's fact; a resource that ``capability`` does not name is not limited."""
    queue = Queue.model_validate(raw)
    spec, name = queue.spec, queue.metadata.name
    guarantee = spec.guarantee.resource
    limits, fault = read_limits(queue)
    return QueueState(
        name=name,
        uid=queue.metadata.uid,
        parent="" if name == names.ROOT_QUEUE else spec.parent or names.ROOT_QUEUE,
        state=(queue.status.state or "Open"),
        weight=spec.weight or 1,
        priority=spec.priority,
        reclaimable=spec.reclaimable is not False,
        capability=resource_list(spec.capability) if spec.capability else None,
        deserved=resource_list(spec.deserved) if spec.deserved else None,
        guarantee=resource_list(guarantee) if guarantee else None,
        created_at=_time(queue.metadata.creation_timestamp),
        node_groups=read_groups(queue),
        node_group_limits=limits,
        node_group_fault=fault,
    )


def priority_class_state(raw: JSON) -> c.PriorityClassState:
    """Return a priority class' fact."""
    one = PriorityClass.model_validate(raw)
    return c.PriorityClassState(
        name=one.metadata.name,
        value=one.value,
        global_default=one.global_default,
        preemption_policy=one.preemption_policy or "PreemptLowerPriority",
    )


def policy_state(raw: JSON, key: str) -> c.PolicyState | None:
    """Return what a ConfigMap has under ``key``; None when it does not have it."""
    text = (raw.get("data") or {}).get(key)
    if text is None:
        return None
    meta = raw["metadata"]
    return c.PolicyState(
        namespace=meta["namespace"],
        name=meta["name"],
        key=key,
        text=text,
        resource_version=meta.get("resourceVersion") or "",
    )


def hypernode_state(raw: JSON) -> c.HyperNodeState:
    """Return a hypernode's fact. Raises pydantic's ValidationError when its types are wrong."""
    return c.HyperNodeState(name=raw["metadata"]["name"], spec=HyperNode.model_validate(raw).spec.dump())


def podgroup_state(raw: JSON, gang: Gang | None, annotations: Mapping[str, str]) -> PodGroupState:
    """Return a PodGroup's fact; ``annotations`` are its job's."""
    meta = raw["metadata"]
    return PodGroupState(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        phase=(raw.get("status") or {}).get("phase") or "Pending",
        gang=gang,
        traceparent=annotations.get(names.TRACEPARENT),
    )


def job_state(wanted: Wanted, status: Status, requests: Mapping[str, int]) -> JobState:
    """Return a job's fact. ``requests`` is the sum over all its pods, in base units."""
    phase = status.phase or "Pending"
    since = _time(status.since) or wanted.created_at
    return JobState(
        namespace=wanted.namespace,
        name=wanted.name,
        uid=wanted.uid,
        generation=status.generation,
        queue=wanted.queue,
        phase=phase,
        reason=status.reason,
        message=status.message,
        min_available=max(0, wanted.min_available),
        replicas=wanted.replicas,
        requests=dict(requests),
        retry_count=status.retries,
        pods=status.counts,
        priority_class=wanted.priority_class,
        podgroup=wanted.podgroup,
        urls=read_urls(wanted.annotations),
        submission=wanted.annotations.get(names.SUBMISSION_ID),
        submitted_by=wanted.annotations.get(names.SUBMITTED_BY, ""),
        traceparent=wanted.annotations.get(names.TRACEPARENT),
        deleting=wanted.deleting,
        created_at=wanted.created_at,
        changed_at=since,
        started_at=next((parse_time(one.at) for one in status.conditions if one.phase == "Running"), None),
        finished_at=since if phase in ("Completed", "Failed", "Terminated") else None,
    )


def _time(text: str | None) -> datetime | None:
    return parse_time(text) if text else None
