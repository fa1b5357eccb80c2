"""Everything that ``pumice install`` puts into a cluster, in the order in which it must come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from services.installer.core import rbac
from shared.api import crds
from shared.api.base import JSON
from shared.api.first_queues import first_queues
from shared.api.names import ADMISSION_SECRET, ADMISSION_SERVICE, SYSTEM_NAMESPACE
from shared.api.webhooks import CONFIGURATION, ByService, ByUrl, webhook_configurations

LABELS: Final = {
    "app.kubernetes.io/part-of": "pumice",
    "app.kubernetes.io/managed-by": "pumice-install",
}


@dataclass(frozen=True, slots=True)
class Wish:
    """What to install."""

    namespace: str = SYSTEM_NAMESPACE
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
    accounts = rbac.accounts(webhook_configuration=CONFIGURATION, webhook_secret=ADMISSION_SECRET)
    roles = [one for account in accounts for one in rbac.manifests(account, wish.namespace, LABELS)]
    return Installation(
        crds=[_labelled(crds.manifest(crd)) for crd in crds.CRDS],
        objects=[namespace, *roles, *rbac.user_roles(LABELS)],
        webhooks=_webhooks(wish) if wish.webhooks else [],
        queues=first_queues(),
    )


def _labelled(manifest: JSON) -> JSON:
    metadata = manifest["metadata"]
    return {**manifest, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), **LABELS}}}


def _webhooks(wish: Wish) -> list[JSON]:
    server = (
        ByService(wish.namespace, ADMISSION_SERVICE) if wish.webhook_url is None else ByUrl(wish.webhook_url)
    )
    return webhook_configurations(
        server,
        ca_bundle=wish.webhook_ca,
        exempt_namespaces=("kube-system", wish.namespace),
        trusted_users=(rbac.user_of("controller", wish.namespace),),
        labels=LABELS,
    )
