"""The status of a PodGroup of plain pods and what its waiting pods say, as Volcano's scheduler has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from services.controller.core.holding import MAY_START, Held, in_full
from services.controller.core.members import MemberPod
from services.controller.core.model import JSON
from services.controller.core.plaingangs import PlainGroup
from services.controller.core.podgroups import STARTED, group_patch
from shared.api.meta import format_time
from shared.api.scheduling import PodGroupPhase
from shared.events.contracts import GangReport

_UNSCHEDULABLE: Final = "Unschedulable"
_SCHEDULER_ERROR: Final = "SchedulerError"
_POD_SCHEDULED: Final = "PodScheduled"


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
    if phase in STARTED:
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
    phases = Counter(pod.view.phase.lower() for pod in pods if not pod.view.deleting)
    return group_patch(group.view, phase, counts=phases, report=report, decision=decision, now=now)


def waiting_patch(pod: MemberPod, held: Held | None, report: GangReport | None, now: datetime) -> JSON | None:
    """Return the status patch by which a waiting pod says why it waits; None when it says so.

    That no node takes it, for which autoscalers look, is said in the words of the first time, and once more
    when it is known when the pod may start: a pod's are not rewritten with every number that changes.
    """
    if not pod.waits or pod.gated:
        return None
    conditions: list[JSON] = (pod.raw.get("status") or {}).get("conditions") or []
    before = next((one for one in conditions if one.get("type") == _POD_SCHEDULED), {})
    said = before.get("reason") if before.get("status") == "False" else None
    if held is not None and held.keeps(pod.view.name):
        reason, message = _SCHEDULER_ERROR, held.message
        if said == reason and before.get("message") == message:
            return None
    elif report is not None:
        reason, message = _UNSCHEDULABLE, in_full(report)
        if said == reason and (MAY_START in before.get("message", "") or MAY_START not in message):
            return None
    else:
        return None
    condition = {
        "type": _POD_SCHEDULED,
        "status": "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": format_time(now),
    }
    return {"metadata": {"uid": pod.view.uid}, "status": {"conditions": [condition]}}
