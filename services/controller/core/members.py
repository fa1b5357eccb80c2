"""The pods of PodGroups that no Volcano Job owns: which PodGroup each belongs to, and what it is doing.

A pod that names its PodGroup by annotation belongs to that one (Spark, Kubeflow and KubeRay write it).
Any other pod of our schedulers belongs to the PodGroup of its controller, or of itself: its name follows
from the pod alone, so a gang need not wait until the annotation is written.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from services.controller.core.model import JSON
from services.controller.core.podview import PodView, owner_job, read_pod
from shared.api import names
from shared.api.meta import controller_of
from shared.api.placement import Toleration

PREFIX: Final = "podgroup-"
_FAILED: Final = "Failed"


def own_group(raw: JSON) -> str:
    """Return the name of the PodGroup that a pod without one gets: its controller's, else its own."""
    owner = controller_of(raw)
    return f"{PREFIX}{owner['uid'] if owner else raw['metadata']['uid']}"


def group_name(raw: JSON) -> str:
    """Return the PodGroup that a pod says it is of, else the one of its controller or of itself."""
    annotations = raw["metadata"].get("annotations") or {}
    return annotations.get(names.GROUP_NAME) or own_group(raw)


def group_of(raw: JSON, schedulers: Collection[str]) -> str | None:
    """Return the PodGroup of a pod that is ours to schedule; None for all others and for pods of a Job."""
    if (raw.get("spec") or {}).get("schedulerName") not in schedulers or owner_job(raw):
        return None
    return group_name(raw)


@dataclass(frozen=True, slots=True)
class MemberPod:
    """A pod of such a PodGroup."""

    view: PodView
    raw: JSON = field(repr=False)

    @property
    def living(self) -> bool:
        """Whether it needs, or has, a place."""
        return not (self.view.finished or self.view.deleting)

    @property
    def waits(self) -> bool:
        """Whether it waits for a node."""
        return self.living and self.view.node is None

    @property
    def placed(self) -> bool:
        """Whether it counts for the minimum: it has a node, or had one and succeeded."""
        return self.view.node is not None and not self.view.deleting and self.view.phase != _FAILED

    @property
    def annotated(self) -> bool:
        """Whether it says itself which PodGroup it is of."""
        return bool((self.raw["metadata"].get("annotations") or {}).get(names.GROUP_NAME))

    @property
    def is_new(self) -> bool:
        """Whether it lives and does not say yet which PodGroup it is of."""
        return self.living and not self.annotated

    @property
    def made_again(self) -> bool:
        """Whether somebody makes another one when this one is taken away."""
        return controller_of(self.raw) is not None

    @property
    def gated(self) -> bool:
        """Whether it may not be scheduled yet."""
        return bool((self.raw.get("spec") or {}).get("schedulingGates"))

    @property
    def tolerations(self) -> list[Toleration]:
        """The taints that it does not mind."""
        return [
            Toleration.model_validate(one) for one in (self.raw.get("spec") or {}).get("tolerations") or ()
        ]

    @property
    def created(self) -> tuple[str, str]:
        """Age, then name: the order of members."""
        return self.raw["metadata"].get("creationTimestamp") or "", self.view.name


def read_member(raw: JSON) -> MemberPod:
    """Read a pod of a PodGroup."""
    return MemberPod(read_pod(raw), raw)
