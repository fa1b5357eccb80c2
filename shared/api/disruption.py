"""PodDisruptionBudgets (``policy/v1``), as far as they are read here."""

from __future__ import annotations

from pydantic import Field

from shared.api.base import IntOrString, KubeModel
from shared.api.meta import KubeObject, LabelSelector


class PodDisruptionBudgetSpec(KubeModel):
    """How many pods must stay, or how many may be away: a number, or a percentage of those there are."""

    min_available: IntOrString | None = None
    max_unavailable: IntOrString | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str = ""


class PodDisruptionBudget(KubeObject):
    """A budget."""

    spec: PodDisruptionBudgetSpec = Field(default_factory=PodDisruptionBudgetSpec)
