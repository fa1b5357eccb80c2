"""What a hypernode's status says: how many nodes it holds, and whether its members are all there."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from services.workflows.core.model import JSON
from shared.api.meta import format_time
from shared.api.topology import HyperNode, HyperNodeCondition
from shared.hypernodes.tree import Verdict

READY: Final = "Ready"


def status(hypernode: HyperNode, verdict: Verdict, now: datetime) -> JSON:
    """Return a hypernode's status; a condition's time is that of its last change of status."""
    wanted = "True" if verdict.ready else "False"
    old = next((one for one in hypernode.status.conditions if one.type == READY), HyperNodeCondition())
    since = old.last_transition_time if old.status == wanted else None
    condition = {
        "type": READY,
        "status": wanted,
        "reason": verdict.reason,
        "message": verdict.message,
        "lastTransitionTime": since or format_time(now),
        "observedGeneration": hypernode.metadata.generation,
    }
    others = [one.dump() for one in hypernode.status.conditions if one.type != READY]
    return {"nodeCount": verdict.count, "conditions": [*others, condition]}
