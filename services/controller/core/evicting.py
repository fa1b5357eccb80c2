"""What carrying out an eviction writes: who is the pod's owner told by, and is it that very pod still.

As kube-scheduler and Volcano do, the pod's status says ``DisruptionTarget`` before it is deleted: so a
pod failure policy, or whoever looks at the pod while it ends, knows that it was not the pod's own doing.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from services.controller.core.model import JSON
from services.controller.core.podview import read_pod
from shared.api.meta import format_time
from shared.events.contracts import Eviction, EvictionFailure

EVENT: Final = "Evict"
_CONDITION: Final = "DisruptionTarget"
_REASON: Final = "PreemptionByScheduler"


def is_to_go(eviction: Eviction, pod: JSON | None) -> bool:
    """Say whether that pod is there and stays; one that ended, is leaving, or was made anew holds nothing."""
    if pod is None:
        return False
    view = read_pod(pod)
    return view.uid == eviction.uid and not view.deleting and not view.finished


def disruption(eviction: Eviction, now: datetime) -> JSON:
    """Return a strategic merge patch of a pod's status that says why it will be deleted."""
    condition = {
        "type": _CONDITION,
        "status": "True",
        "reason": _REASON,
        "message": eviction.reason,
        "lastTransitionTime": format_time(now),
    }
    return {"metadata": {"uid": eviction.uid}, "status": {"conditions": [condition]}}


def failure(eviction: Eviction, message: str) -> EvictionFailure:
    """Return that a pod would not go."""
    return EvictionFailure(
        namespace=eviction.namespace, pod=eviction.pod, uid=eviction.uid, code="refused", message=message
    )
