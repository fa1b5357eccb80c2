"""A Volcano that runs in the cluster: two of a kind must not decide about the same pods.

Found by the labels and names of its Helm chart and its manifests. Its objects stay (jobs, podgroups and
queues go on); what is in the way are its processes, and its webhooks, which stop every job once nobody
answers them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from shared.api.base import JSON

_APPS: Final = frozenset({"volcano-scheduler", "volcano-controller", "volcano-admission"})
_WEBHOOKS: Final = "volcano-admission-service-"


@dataclass(frozen=True, slots=True)
class Volcano:
    """What of it is there."""

    deployments: tuple[tuple[str, str], ...]
    """Namespace and name of those with replicas."""
    webhooks: tuple[tuple[str, str], ...]
    """Kind and name of its webhook configurations."""

    @property
    def runs(self) -> bool:
        """Whether it would decide beside us."""
        return bool(self.deployments)


def find(deployments: Iterable[JSON], configurations: Iterable[JSON]) -> Volcano:
    """Return what of Volcano there is among these objects."""
    return Volcano(
        tuple(
            (one["metadata"]["namespace"], one["metadata"]["name"])
            for one in deployments
            if _is_volcano(one) and one.get("spec", {}).get("replicas", 1) > 0
        ),
        tuple(
            (one["kind"], one["metadata"]["name"])
            for one in configurations
            if one["metadata"]["name"].startswith(_WEBHOOKS) or _calls_volcano(one)
        ),
    )


def _is_volcano(deployment: JSON) -> bool:
    labels = deployment["metadata"].get("labels") or {}
    name: str = deployment["metadata"]["name"]
    return labels.get("app") in _APPS or name.removesuffix("s") in _APPS


def _calls_volcano(configuration: JSON) -> bool:
    services = (
        (one.get("clientConfig") or {}).get("service") or {} for one in configuration.get("webhooks") or ()
    )
    return any(service.get("name") == "volcano-admission-service" for service in services)
