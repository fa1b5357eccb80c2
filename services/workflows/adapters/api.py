"""Every write of this service: bounded, counted, and folded into the informers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from prometheus_client import CollectorRegistry, Counter

from services.workflows.adapters.views import Views
from shared.api import resources as r
from shared.errors import NotFound, PumiceError
from shared.kube.port import JSON, Cluster, Resource


class Api:
    """Writes to the cluster; each answer goes into the informers, so that the next look sees it."""

    def __init__(
        self, cluster: Cluster, views: Views, *, concurrency: int, registry: CollectorRegistry
    ) -> None:
        self._cluster = cluster
        self._views = views
        self._gate = asyncio.Semaphore(concurrency)
        self._writes: Final = Counter(
            "pumice_workflows_api_writes",
            "Writes to the Kubernetes API, by verb, kind and outcome (ok, or the error's name).",
            ["verb", "kind", "outcome"],
            registry=registry,
        )

    async def read(self, resource: Resource, namespace: str, name: str) -> JSON:
        """Read one object past the informers. Raises NotFound."""
        obj = await self._cluster.get(resource, namespace, name)
        self._views.fold(resource, obj)
        return obj

    async def create(self, resource: Resource, namespace: str | None, body: JSON) -> JSON:
        """Create an object. Raises AlreadyExists, Refused, NotFound (no such namespace)."""
        async with self._counted("create", resource):
            obj = await self._cluster.create(resource, namespace, body)
        self._views.fold(resource, obj)
        return obj

    async def event(self, namespace: str, body: JSON) -> None:
        """Create a Kubernetes event."""
        await self.create(r.EVENTS, namespace, body)

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: JSON,
        *,
        subresource: str | None = None,
    ) -> JSON:
        """Merge a patch into an object or its status. Raises NotFound, Conflict, Refused."""
        async with self._counted("patch", resource):
            obj = await self._cluster.patch(resource, namespace, name, body, subresource=subresource)
        self._views.fold(resource, obj)
        return obj

    async def delete(self, resource: Resource, obj: JSON) -> None:
        """Delete this very object; one that is gone, or was replaced by another of its name, is fine."""
        meta = obj["metadata"]
        async with self._counted("delete", resource):
            with suppress(NotFound):
                await self._cluster.delete(resource, meta.get("namespace"), meta["name"], uid=meta.get("uid"))
        if not meta.get("finalizers"):
            self._views.forget(resource, obj)

    @asynccontextmanager
    async def _counted(self, verb: str, resource: Resource) -> AsyncIterator[None]:
        async with self._gate:
            try:
                yield
            except PumiceError as error:
                self._writes.labels(verb, resource.plural, type(error).__name__).inc()
                raise
        self._writes.labels(verb, resource.plural, "ok").inc()
