"""The status of a PodGroup of plain pods and what its waiting pods say, as Volcano's scheduler has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from services.controller.core.members import MemberPod
from services.controller.core.model import JSON
from services.controller.core.plaingangs import PlainGroup
from services.controller.core.status import merge_patch
from shared.api.meta import format_time
from shared.api.scheduling import PodGroupPhase, PodGroupReason
from shared.events.contracts import GangReport

_UNSCHEDULABLE: Final = "Unschedulable"
_SCHEDULED: Final = "Scheduled"
_POD_SCHEDULED: Final = "PodScheduled"
_REASONS: Final = {
    "waiting-for-members": PodGroupReason.NOT_ENOUGH_TASKS,
    "scheduling-gated": PodGroupReason.NOT_ENOUGH_TASKS,
}
_STARTED: Final = frozenset({PodGroupPhase.RUNNING, PodGroupPhase.UNKNOWN, PodGroupPhase.COMPLETED})


def plain_phase(group: PlainGroup, pods: Sequence[MemberPod], *, queue_open: bool) -> PodGroupPhase:
    """Return the phase that the pods put the group in.

    Enough pods placed is Running, or Completed when all have ended. A group that had started and lost pods
    is Unknown while some of it holds room, else Pending. One whose pods are not made yet is let into its
    queue when that is open: integrations make the pods only then (training-operator).
    """
    phase = group.view.phase
    placed = [pod for pod in pods if pod.placed or (pod.view.finished and not pod.view.deleting)]
    if placed and len(placed) >= max(group.minimum, 1):
        ended = all(pod.view.finished for pod in pods if not pod.view.deleting)
        return PodGroupPhase.COMPLETED if ended else PodGroupPhase.RUNNING
    if phase in _STARTED:
        holding = any(pod.view.holds_room and not pod.view.deleting for pod in pods)
        phase = PodGroupPhase.UNKNOWN if holding else PodGroupPhase.PENDING
    if phase is PodGroupPhase.PENDING and not pods and queue_open:
        return PodGroupPhase.INQUEUE
    return phase


def plain_status_patch(
    group: PlainGroup,
    phase: PodGroupPhase,
    pods: Sequence[MemberPod],
    *,
    report: GangReport | None,
    decision: str,
    now: datetime,
) -> JSON | None:
    """Return the merge patch that makes the status true; None when it is already."""
    old = group.view.raw.get("status") or {}
    counts = Counter(pod.view.phase for pod in pods if not pod.view.deleting)
    new: JSON = {
        **old,
        "phase": phase.value,
        "running": counts["Running"],
        "succeeded": counts["Succeeded"],
        "failed": counts["Failed"],
        "conditions": _conditions(group, phase, report, decision, now),
    }
    patch = merge_patch(old, {key: value for key, value in new.items() if value})
    return {"status": patch} if patch else None


def _conditions(
    group: PlainGroup, phase: PodGroupPhase, report: GangReport | None, decision: str, now: datetime
) -> list[JSON]:
    old: list[JSON] = (group.view.raw.get("status") or {}).get("conditions") or []
    if phase in (PodGroupPhase.RUNNING, PodGroupPhase.COMPLETED):
        known = any(one.get("type") == _SCHEDULED for one in old)
        if known and group.view.phase in _STARTED:
            return old
        return [_condition(_SCHEDULED, PodGroupReason.TASKS_READY, "", decision, now)]
    if report is None:
        return old
    reason = _REASONS.get(report.reason.code, PodGroupReason.NOT_ENOUGH_RESOURCES)
    why = _condition(_UNSCHEDULABLE, reason, report.reason.message, decision, report.at)
    if any(one.get("type") == _UNSCHEDULABLE and one.get("message") == why["message"] for one in old):
        return old
    return [*(one for one in old if one.get("type") != _UNSCHEDULABLE), why]


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


def unschedulable_patch(pod: MemberPod, message: str, now: datetime) -> JSON | None:
    """Return the status patch by which a waiting pod says that no node takes it; None when it says so.

    Autoscalers look for this condition. The text is that of the first time: a pod's is not rewritten
    with every number that changes.
    """
    if not pod.waits or pod.gated:
        return None
    conditions: list[JSON] = (pod.raw.get("status") or {}).get("conditions") or []
    before = next((one for one in conditions if one.get("type") == _POD_SCHEDULED), None)
    if before is not None and before.get("status") == "False" and before.get("reason") == _UNSCHEDULABLE:
        return None
    condition = {
        "type": _POD_SCHEDULED,
        "status": "False",
        "reason": _UNSCHEDULABLE,
        "message": message,
        "lastTransitionTime": format_time(now),
    }
    return {"metadata": {"uid": pod.view.uid}, "status": {"conditions": [condition]}}
