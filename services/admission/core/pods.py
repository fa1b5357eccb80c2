"""Rules for single pods of our scheduler, as Volcano's ``/pods/validate`` has them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

from services.admission.core.violations import Violation
from shared.api.names import JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE
from shared.api.pods import Pod

BUDGETS: Final = (JDB_MIN_AVAILABLE, JDB_MAX_UNAVAILABLE)
"""Annotations that limit how many pods of a group may be evicted."""
_NUMBER: Final = re.compile(r"\+?(\d{1,9})(%?)", re.ASCII)
_WHOLE: Final = 100


def validate_pod(pod: Pod, schedulers: Collection[str]) -> list[Violation]:
    """Return every reason why a pod may not be created; pods of other schedulers are not our business."""
    return list(_budgets(pod)) if pod.spec.scheduler_name in schedulers else []


def _budgets(pod: Pod) -> Iterator[Violation]:
    given = [name for name in BUDGETS if name in pod.metadata.annotations]
    for name in given:
        text = pod.metadata.annotations[name]
        if not _is_budget(text):
            message = f'"{text[:80]}" must be a positive number or a percentage between 1% and 99%'
            yield Violation("invalid-budget", f"metadata.annotations[{name}]", message)
    if len(given) > 1:
        message = f"excludes {BUDGETS[0]}: give one of them"
        yield Violation("budget-conflict", f"metadata.annotations[{BUDGETS[1]}]", message)


def _is_budget(text: str) -> bool:
    match = _NUMBER.fullmatch(text)
    if match is None:
        return False
    return int(match[1]) > 0 and (not match[2] or int(match[1]) < _WHOLE)
