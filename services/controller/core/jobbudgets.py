"""How many pods of a gang may be away at a time, by Volcano's annotations of Jobs and PodGroups."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from shared.api import names
from shared.events.contracts import JobBudget

_AMOUNT: Final = re.compile(r"(\d+)(%?)")
_KEYS: Final = (names.JDB_MIN_AVAILABLE, names.JDB_MAX_UNAVAILABLE)


def job_budget(annotations: Mapping[str, str], pods: int) -> JobBudget | None:
    """Return the budget of a gang of so many pods; parts of a hundred are rounded up.

    None where there is none, or none that can be read (``budget_problem``). Of two it is the minimum.
    """
    for key, field in zip(_KEYS, ("min_available", "max_unavailable"), strict=True):
        if key in annotations:
            found = _AMOUNT.fullmatch(annotations[key].strip())
            if found is None:
                return None
            amount = int(found[1])
            return JobBudget(**{field: -(-amount * pods // 100) if found[2] else amount})
    return None


def budget_problem(annotations: Mapping[str, str]) -> str | None:
    """Return which annotation cannot be read."""
    wrong = (key for key in _KEYS if key in annotations and not _AMOUNT.fullmatch(annotations[key].strip()))
    key = next(wrong, None)
    return key and f"{key}: not a number of pods or a part such as 20%: {annotations[key][:40]!r}"
