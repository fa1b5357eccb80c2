"""PodDisruptionBudgets: how many of the pods that they select may go, as their controller works it out.

Of pods that run and stay, as many must be left as ``minAvailable`` says, or all but ``maxUnavailable`` of
those that there are; percentages are of those that there are, rounded up.
"""

from __future__ import annotations

from collections.abc import Iterable

from services.controller.core.budgets import protecting, selector_of
from services.scheduler.core.model import Model
from services.simulation.core.store import Key, Store
from shared.api import resources as r
from shared.api.base import JSON
from shared.events.contracts import PodDisruptionBudgetState

_HUNDRED = 100


class Budgets:
    """Keeps the model's budgets true."""

    def __init__(self, store: Store, model: Model) -> None:
        self._store = store
        self._model = model
        self._told: dict[Key, int] = {}

    def of(self, pod: JSON) -> tuple[str, ...]:
        """Return the names of the budgets that protect a pod."""
        meta = pod["metadata"]
        own = [
            (key[1], selector_of(raw))
            for key, raw in self._store.all(r.PDBS).items()
            if key[0] == meta["namespace"]
        ]
        return protecting(own, meta.get("labels") or {}) if own else ()

    def look(self) -> None:
        """Work out what each budget allows now, and tell what is another number than before."""
        for key, raw in self._store.all(r.PDBS).items():
            pods = self._store.all(r.PODS).values()
            there = [pod for pod in pods if _lives(pod) and key in _keys(pod, self.of(pod))]
            allowed = allowed_by(raw, there)
            if self._told.get(key) != allowed:
                self._told[key] = allowed
                self._model.apply_budget(
                    PodDisruptionBudgetState(namespace=key[0], name=key[1], disruptions_allowed=allowed)
                )

    def forget(self, key: Key) -> None:
        """A budget is gone."""
        self._told.pop(key, None)
        self._model.remove_budget(*key)


def allowed_by(budget: JSON, pods: Iterable[JSON]) -> int:
    """Return how many of the pods that a budget selects may go."""
    pods = list(pods)
    spec = budget.get("spec") or {}
    healthy = sum(1 for pod in pods if pod["status"].get("phase") == "Running" and not _leaves(pod))
    if spec.get("maxUnavailable") is not None:
        desired = len(pods) - _amount(spec["maxUnavailable"], len(pods))
    else:
        desired = _amount(spec.get("minAvailable", 1), len(pods))
    return max(0, healthy - desired)


def _amount(value: object, whole: int) -> int:
    text = str(value)
    return -(-whole * int(text[:-1]) // _HUNDRED) if text.endswith("%") else int(text)


def _keys(pod: JSON, names: Iterable[str]) -> set[Key]:
    return {(pod["metadata"]["namespace"], name) for name in names}


def _lives(pod: JSON) -> bool:
    return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def _leaves(pod: JSON) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))
