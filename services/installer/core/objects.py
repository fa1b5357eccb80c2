"""Everything that ``pumice install`` puts into a cluster, in the order in which it must come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from services.installer.core import rbac
from shared.api import crds, names
from shared.api import resources as r
from shared.api.base import JSON
from shared.api.webhooks import CONFIGURATION, ByService, ByUrl, webhook_configurations

NAMESPACE: Final = "pumice-system"
LABELS: Final = {
    "app.kubernetes.io/part-of": "pumice",
    "app.kubernetes.io/managed-by": "pumice-install",
}
ADMISSION: Final = "pumice-admission"
SECRET: Final = "pumice-admission-certificate"  # noqa: S105 - an object's name


@dataclass(frozen=True, slots=True)
class Wish:
    """What to install."""

    namespace: str = NAMESPACE
    webhooks: bool = True
    webhook_url: str | None = None
    """Where the API server finds admission outside the cluster; None: behind its Service."""
    webhook_ca: bytes = b""
    """PEM of who signed its certificate; empty: admission makes it and fills it in."""


@dataclass(frozen=True, slots=True)
class Installation:
    """What is applied, and the queues: made when they are missing, never changed."""

    crds: list[JSON]
    objects: list[JSON]
    webhooks: list[JSON]
    queues: list[JSON]

    @property
    def all(self) -> list[JSON]:
        """Everything in order: nobody is asked by a webhook about what is installed with it."""
        return [*self.crds, *self.objects, *self.queues, *self.webhooks]


def installation(wish: Wish) -> Installation:
    """Return what a wish means."""
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": wish.namespace, "labels": LABELS},
    }
    accounts = rbac.accounts(webhook_configuration=CONFIGURATION, webhook_secret=SECRET)
    roles = [one for account in accounts for one in rbac.manifests(account, wish.namespace, LABELS)]
    return Installation(
        crds=[_labelled(crds.manifest(crd)) for crd in crds.CRDS],
        objects=[namespace, *roles, *rbac.user_roles(LABELS)],
        webhooks=_webhooks(wish) if wish.webhooks else [],
        queues=[_queue(name, spec) for name, spec in _QUEUES.items()],
    )


_QUEUES: Final[dict[str, JSON]] = {
    names.ROOT_QUEUE: {"weight": 1, "reclaimable": False},
    names.DEFAULT_QUEUE: {"weight": 1, "parent": names.ROOT_QUEUE},
}


def _queue(name: str, spec: JSON) -> JSON:
    return {
        "apiVersion": r.QUEUES.api_version,
        "kind": r.QUEUES.kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def _labelled(manifest: JSON) -> JSON:
    metadata = manifest["metadata"]
    return {**manifest, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), **LABELS}}}


def _webhooks(wish: Wish) -> list[JSON]:
    server = ByService(wish.namespace, ADMISSION) if wish.webhook_url is None else ByUrl(wish.webhook_url)
    return webhook_configurations(
        server,
        ca_bundle=wish.webhook_ca,
        exempt_namespaces=("kube-system", wish.namespace),
        trusted_users=(rbac.user_of("controller", wish.namespace),),
        labels=LABELS,
    )
