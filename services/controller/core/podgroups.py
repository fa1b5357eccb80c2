"""A job's PodGroup: as it is created, and its status as pods come and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from services.controller.core.dependencies import gang_minimum, to_come
from services.controller.core.holding import in_full
from services.controller.core.model import JSON, GroupView, Priorities, Task, Wanted
from services.controller.core.podview import PodView
from services.controller.core.shapes import priority_of
from services.controller.core.status import merge_patch
from shared.api import names
from shared.api.batch import PartitionPolicySpec
from shared.api.meta import format_time
from shared.api.pods import PodSpec
from shared.api.podspec import Amounts, pod_amounts
from shared.api.quantity import Quantity
from shared.api.scheduling import PodGroupPhase, PodGroupReason
from shared.events.contracts import GangReport

_NOT_INHERITED: Final = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})
_NATIVE: Final = ("cpu", "memory", "ephemeral-storage")
_UNSCHEDULABLE: Final = "Unschedulable"
_SCHEDULED: Final = "Scheduled"
STARTED: Final = frozenset({PodGroupPhase.RUNNING, PodGroupPhase.UNKNOWN, PodGroupPhase.COMPLETED})
"""Phases of a gang that has run."""
_REASONS: Final = {
    "waiting-for-members": PodGroupReason.NOT_ENOUGH_TASKS,
    "scheduling-gated": PodGroupReason.NOT_ENOUGH_TASKS,
    "pod-unreadable": PodGroupReason.NOT_ENOUGH_TASKS,
}
"""Reasons of the scheduler's reports in Volcano's words; the others are about room."""
_FOLLOWS_JOB: Final = frozenset({"minMember", "minTaskMember", "minResources", "priorityClassName"})


def make_podgroup(
    wanted: Wanted,
    generation: int,
    priorities: Priorities,
    now: datetime,
    phase: PodGroupPhase = PodGroupPhase.PENDING,
) -> JSON:
    """Return the body of a job's PodGroup.

    The phase is in it from the start: the kind has no status subresource, so one write does. Annotations
    are the job's, as in Volcano, without kubectl's copy of the whole manifest.
    """
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": wanted.podgroup,
            "namespace": wanted.namespace,
            "labels": dict(wanted.labels),
            "annotations": {
                **{k: v for k, v in wanted.annotations.items() if k not in _NOT_INHERITED},
                names.JOB_VERSION: str(generation),
                names.READY_SINCE: format_time(now, micro=True),
                names.SCALE: wanted.scale,
            },
            "ownerReferences": [wanted.owner_reference()],
        },
        "spec": _spec(wanted, priorities),
        "status": {"phase": phase.value},
    }


def first_phase(pods: Collection[PodView], generation: int) -> PodGroupPhase:
    """Return the phase in which a generation's PodGroup is made.

    Where pods of that generation have a node, there was one before, and somebody deleted it: they stay.
    """
    bound = any(pod.generation == generation and pod.node and not pod.deleting for pod in pods)
    return PodGroupPhase.INQUEUE if bound else PodGroupPhase.PENDING


def let_in(group: GroupView, wanted: Wanted, pods: Collection[PodView], *, placed: bool = False) -> GroupView:
    """Return the group as its gang is: a Pending one is Inqueue where pods of its generation were bound.

    Pods that are created bound say by themselves that a decision let their gang in; its PodGroup says so when
    its status is written next. ``placed`` says that one did whose pods may be gone again.
    """
    if group.admitted:
        return group
    own = [pod for pod in pods if pod.generation == group.generation and not pod.deleting]
    if placed or any(pod.holds_room for pod in own) or _enough_scheduled(group, wanted, own):
        return replace(group, phase=PodGroupPhase.INQUEUE)
    return group


def spec_patch(group: GroupView, wanted: Wanted, priorities: Priorities) -> JSON:
    """Return the merge patch that makes a PodGroup follow its job's scale."""
    patch: JSON = {"metadata": {"annotations": {names.SCALE: wanted.scale}}}
    old = group.raw.get("spec") or {}
    kept = {key: value for key, value in old.items() if key not in _FOLLOWS_JOB}
    new = {key: value for key, value in _spec(wanted, priorities).items() if key in _FOLLOWS_JOB}
    spec = merge_patch(old, {**kept, **new})
    return {**patch, "spec": spec} if spec else patch


def _spec(wanted: Wanted, priorities: Priorities) -> JSON:
    spec: JSON = {
        "minMember": wanted.min_available,
        "minTaskMember": {task.name: task.minimum for task in wanted.tasks},
        "minResources": {name: str(amount) for name, amount in min_resources(wanted, priorities).items()},
        "queue": wanted.queue,
    }
    if wanted.priority_class:
        spec["priorityClassName"] = wanted.priority_class
    topology = wanted.spec.get("networkTopology")
    if topology:
        spec["networkTopology"] = topology
    groups = [_sub_group(task) for task in wanted.tasks if task.spec.partition_policy]
    if groups:
        spec["subGroupPolicy"] = groups
    return spec


def _sub_group(task: Task) -> JSON:
    """Return the policy that splits a task's pods into its partitions, by the label that they carry."""
    policy = (task.spec.partition_policy or PartitionPolicySpec()).dump()
    found: JSON = {
        "name": task.name,
        "subGroupSize": policy.get("partitionSize", 0),
        "minSubGroups": policy.get("minPartitions", 0),
        "labelSelector": {"matchLabels": {names.TASK_SPEC: task.name}},
        "matchLabelKeys": [names.PARTITION_ID],
    }
    return {**found, "networkTopology": policy["networkTopology"]} if "networkTopology" in policy else found


def min_resources(wanted: Wanted, priorities: Priorities) -> Amounts:
    """Return what the minimum of pods requests, under the names that resource quotas use.

    With a minimum below the sum of the tasks' minimums the first pods in order of task priority count;
    otherwise each task's minimum first, then further pods in the same order.
    """
    ordered = sorted(wanted.tasks, key=lambda task: -priority_of(task.spec.template.spec, priorities))
    counts = dict.fromkeys((task.name for task in ordered), 0)
    left = wanted.min_available
    if wanted.min_available >= wanted.task_minimums:
        for task in ordered:
            counts[task.name] = min(task.minimum, task.replicas)
        left -= sum(counts.values())
    for task in ordered:
        more = max(0, min(left, task.replicas - counts[task.name]))
        counts[task.name] += more
        left -= more
    total: Amounts = {}
    for task in ordered:
        _add_times(total, task, counts[task.name])
    return dict(sorted(total.items()))


def _add_times(total: Amounts, task: Task, count: int) -> None:
    if not count:
        return
    for name, amount in quota_usage(task.spec.template.spec).items():
        more = count * amount
        total[name] = total[name] + more if name in total else more


def quota_usage(spec: PodSpec) -> Amounts:
    """Return a pod's usage under quota names: ``cpu`` and ``requests.cpu``, ``limits.*``, ``pods``."""
    usage: Amounts = {"pods": Quantity.of(1), "count/pods": Quantity.of(1)}
    for name, amount in pod_amounts(spec).items():
        usage[name] = amount
        usage[f"requests.{name}"] = amount
    for name, amount in _limits(spec).items():
        if name in _NATIVE:
            usage[f"limits.{name}"] = amount
    return usage


def _limits(spec: PodSpec) -> Amounts:
    total: Amounts = {}
    for container in spec.containers:
        for name, text in container.resources.limits.items():
            amount = Quantity.parse(text)
            total[name] = total[name] + amount if name in total else amount
    return total


def group_phase(group: GroupView, wanted: Wanted, pods: Collection[PodView]) -> PodGroupPhase:
    """Return the phase that the gang's pods put the group in; only a decision leads out of Pending.

    Enough scheduled is Running, or Completed when all of them have ended. Fewer keep Inqueue. A gang that
    had started and lost members is Unknown while some of it still holds room (Volcano: runs), so that the
    rest is made good; with nothing left it is Pending and decided anew. Tasks that wait for others lack
    nothing yet.
    """
    if not group.admitted:
        return group.phase
    own = [pod for pod in pods if pod.generation == group.generation and not pod.deleting]
    if _enough_scheduled(group, wanted, own):
        ended = not to_come(wanted, own, group.generation) and all(pod.finished for pod in own)
        return PodGroupPhase.COMPLETED if ended else PodGroupPhase.RUNNING
    if group.phase is PodGroupPhase.INQUEUE:
        return group.phase
    holding = any(pod.holds_room for pod in own)
    return PodGroupPhase.UNKNOWN if holding else PodGroupPhase.PENDING


def _enough_scheduled(group: GroupView, wanted: Wanted, own: Collection[PodView]) -> bool:
    scheduled = Counter(pod.task for pod in own if pod.node is not None)
    if not scheduled:
        return False
    minimum = gang_minimum(wanted, to_come(wanted, own, group.generation), scheduled)
    return scheduled.total() >= minimum


def group_patch(
    group: GroupView,
    phase: PodGroupPhase,
    *,
    counts: Mapping[str, int],
    report: GangReport | None,
    decision: str,
    now: datetime,
) -> JSON | None:
    """Return the merge patch that makes the PodGroup's status true; None when it is already."""
    old = group.raw.get("status") or {}
    new: JSON = {
        **old,
        "phase": phase.value,
        **{name: counts.get(name, 0) for name in ("running", "succeeded", "failed")},
        "conditions": _conditions(
            old.get("conditions") or [],
            before=group.phase,
            phase=phase,
            report=report,
            decision=decision,
            now=now,
        ),
    }
    new = {key: value for key, value in new.items() if value}
    patch = merge_patch(old, new)
    return {"status": patch} if patch else None


def _conditions(
    old: list[JSON],
    *,
    before: PodGroupPhase,
    phase: PodGroupPhase,
    report: GangReport | None,
    decision: str,
    now: datetime,
) -> list[JSON]:
    if phase in (PodGroupPhase.RUNNING, PodGroupPhase.COMPLETED):
        if {c.get("type") for c in old} == {_SCHEDULED} and before in STARTED:
            return old
        return [_condition(_SCHEDULED, PodGroupReason.TASKS_READY, "", decision, now)]
    if report is None:
        return old
    reason = _REASONS.get(report.reason.code, PodGroupReason.NOT_ENOUGH_RESOURCES)
    why = _condition(_UNSCHEDULABLE, reason, in_full(report), decision, report.at)
    if any(c.get("type") == _UNSCHEDULABLE and c.get("message") == why["message"] for c in old):
        return old
    return [*(c for c in old if c.get("type") != _UNSCHEDULABLE), why]


def _condition(kind: str, reason: PodGroupReason, message: str, decision: str, at: datetime) -> JSON:
    found = {
        "type": kind,
        "status": "True",
        "transitionID": decision,
        "lastTransitionTime": format_time(at),
        "reason": reason.value,
        "message": message,
    }
    return {key: value for key, value in found.items() if value}
