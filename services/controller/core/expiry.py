"""When a finished job's time is over (``ttlSecondsAfterFinished``).

Volcano leaves aborted jobs out; here a suspended job with a time to live goes, too, unless it is resumed
before.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from services.controller.core.model import JSON
from shared.api.batch import JobPhase
from shared.api.meta import parse_time

_FINISHED: Final = frozenset({JobPhase.COMPLETED, JobPhase.FAILED, JobPhase.TERMINATED, JobPhase.ABORTED})


def expires_at(raw: JSON) -> datetime | None:
    """Return when a job is to be deleted; None: it has not ended, has no time to live, or goes already."""
    ttl = (raw.get("spec") or {}).get("ttlSecondsAfterFinished")
    state = (raw.get("status") or {}).get("state") or {}
    finished = state.get("lastTransitionTime")
    if not isinstance(ttl, int) or raw["metadata"].get("deletionTimestamp"):
        return None
    if state.get("phase") not in _FINISHED or not finished:
        return None
    return parse_time(finished) + timedelta(seconds=max(0, ttl))
