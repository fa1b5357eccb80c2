"""A service's writes to Kubernetes: bounded, counted, and folded into its informers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import cache
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter

from shared.errors import NotFound, PumiceError
from shared.kube.port import JSON, Cluster, Patch, Resource

Fold = Callable[[Resource, JSON], None]


class Writes:
    """Writes to the cluster of ``service``, ``concurrency`` at once.

    ``fold`` gets each answer, so that the next decision sees what was just written without waiting for the
    watch. The count of writes, by verb and kind, is the figure to keep small.
    """

    def __init__(
        self, cluster: Cluster, service: str, *, fold: Fold, concurrency: int, registry: CollectorRegistry
    ) -> None:
        self._cluster = cluster
        self._fold = fold
        self._gate = asyncio.Semaphore(concurrency)
        writes: Final = Counter(
            f"pumice_{service}_api_writes",
            "Writes to the Kubernetes API, by verb, kind and outcome (ok, or the error's name).",
            ["verb", "kind", "outcome"],
            registry=registry,
        )
        self._writes = cache(writes.labels)

    @property
    def ahead(self) -> timedelta:
        """By how much the API server's clock, which stamps the objects, is ahead of ours."""
        return timedelta(seconds=self._cluster.ahead)

    async def read(self, resource: Resource, namespace: str | None, name: str) -> JSON:
        """Read one object past the informer and fold it in. Raises NotFound."""
        obj = await self._cluster.get(resource, namespace, name)
        self._fold(resource, obj)
        return obj

    async def create(self, resource: Resource, namespace: str | None, body: JSON) -> JSON:
        """Create an object. Raises AlreadyExists, Refused, NotFound (no such namespace)."""
        async with self._counted("create", resource):
            obj = await self._cluster.create(resource, namespace, body)
        self._fold(resource, obj)
        return obj

    async def dry_run(self, resource: Resource, namespace: str | None, body: JSON) -> JSON:
        """Return what would be created, with defaults and after webhooks. Raises as create."""
        async with self._counted("dry-run", resource):
            return await self._cluster.create(resource, namespace, body, dry_run=True)

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: JSON | list[JSON],
        *,
        kind: Patch = Patch.MERGE,
        subresource: str | None = None,
    ) -> JSON:
        """Patch an object. Raises NotFound, Conflict, Refused."""
        async with self._counted("patch", resource):
            obj = await self._cluster.patch(
                resource, namespace, name, body, kind=kind, subresource=subresource
            )
        self._fold(resource, obj)
        return obj

    async def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        propagation: Literal["Background", "Foreground"] = "Background",
    ) -> None:
        """Delete an object; one that is gone already is fine. Raises Conflict when another has its name."""
        async with self._counted("delete", resource):
            try:
                await self._cluster.delete(resource, namespace, name, uid=uid, propagation=propagation)
            except NotFound:
                return

    async def bind(
        self,
        namespace: str,
        pod: str,
        node: str,
        *,
        uid: str,
        resource: Resource,
        annotations: Mapping[str, str] | None = None,
    ) -> JSON:
        """Bind a pod, annotate it by the same write, and return it as it is afterwards.

        Raises Conflict, NotFound.
        """
        async with self._counted("bind", resource):
            await self._cluster.bind(namespace, pod, node, uid=uid, annotations=annotations)
        return await self.read(resource, namespace, pod)

    @asynccontextmanager
    async def _counted(self, verb: str, resource: Resource) -> AsyncIterator[None]:
        async with self._gate:
            try:
                yield
            except PumiceError as error:
                self._writes(verb, resource.plural, type(error).__name__).inc()
                raise
        self._writes(verb, resource.plural, "ok").inc()
