"""The budgets of each namespace as read, so that a pod is compared with its own namespace's only."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from services.controller.core.budgets import protecting, selector_of
from services.controller.core.model import JSON
from shared.api.meta import LabelSelector


class Budgets:
    """What is selected by which PodDisruptionBudget."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, LabelSelector | None]] = {}

    def changed(self, old: JSON | None, new: JSON | None) -> bool:
        """Take a change over; say whether other pods than before may be protected by it."""
        raw = new or old
        if raw is None or (old is not None and new is not None and _spec(old) == _spec(new)):
            return False
        namespace, name = raw["metadata"]["namespace"], raw["metadata"]["name"]
        own = self._of.setdefault(namespace, {})
        if new is None:
            own.pop(name, None)
            return True
        try:
            own[name] = selector_of(new)
        except ValidationError:
            own[name] = None  # the API server would not have let it pass: it protects nothing
        return True

    def of(self, namespace: str, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Return the names of the budgets that protect a pod."""
        own = self._of.get(namespace)
        return protecting(own.items(), labels) if own else ()


def _spec(raw: JSON) -> object:
    return (raw.get("spec") or {}).get("selector")
