"""Every write of this service goes through here."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from services.workflows.adapters.views import Views
from shared.kube.port import JSON, Cluster, Resource
from shared.kube.writes import Writes


class Api(Writes):
    """See :class:`shared.kube.writes.Writes`; what was deleted for good is also taken out of the views."""

    def __init__(
        self, cluster: Cluster, views: Views, *, concurrency: int, registry: CollectorRegistry
    ) -> None:
        super().__init__(cluster, "workflows", fold=views.fold, concurrency=concurrency, registry=registry)
        self._views = views

    async def remove(self, resource: Resource, obj: JSON) -> None:
        """Delete this very object; one that is gone is fine. Raises Conflict when another has its name."""
        meta = obj["metadata"]
        await self.delete(resource, meta.get("namespace"), meta["name"], uid=meta.get("uid"))
        if not meta.get("finalizers"):
            self._views.forget(resource, obj)
