"""PodDisruptionBudgets: which pods each protects, and what it still allows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from services.controller.core.model import JSON
from shared.api.meta import LabelSelector
from shared.events.contracts import PodDisruptionBudgetState
from shared.hypernodes.membership import matches


def budget_state(raw: JSON) -> PodDisruptionBudgetState:
    """Return a budget's fact; one that its controller has not looked at yet allows nothing."""
    meta, status = raw["metadata"], raw.get("status") or {}
    return PodDisruptionBudgetState(
        namespace=meta["namespace"],
        name=meta["name"],
        disruptions_allowed=max(0, int(status.get("disruptionsAllowed") or 0)),
    )


def selector_of(raw: JSON) -> LabelSelector | None:
    """Return what a budget selects; None: nothing. Raises pydantic's ValidationError."""
    selector = (raw.get("spec") or {}).get("selector")
    return None if selector is None else LabelSelector.model_validate(selector)


def protecting(
    budgets: Iterable[tuple[str, LabelSelector | None]], labels: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the names of the budgets of a namespace that select a pod; an empty selector selects all."""
    return tuple(
        sorted(name for name, selector in budgets if selector is not None and _selects(selector, labels))
    )


def _selects(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    empty = not selector.match_labels and not selector.match_expressions
    return empty or matches(selector, labels)
