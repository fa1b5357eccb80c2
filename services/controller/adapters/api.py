"""Every write to Kubernetes goes through here: bounded, counted, and folded into the informers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter

from services.controller.core.model import GroupView
from shared.api.resources import PODGROUPS
from shared.api.scheduling import PodGroupPhase
from shared.errors import NotFound, PumiceError
from shared.kube.port import JSON, Cluster, Patch, Resource

Fold = Callable[[Resource, JSON], None]


class Api:
    """Writes to the cluster.

    ``fold`` gets each answer, so that the next decision sees what was just written without waiting for the
    watch. The count of writes, by verb and kind, is the figure to keep small.
    """

    def __init__(
        self, cluster: Cluster, *, fold: Fold, concurrency: int, registry: CollectorRegistry
    ) -> None:
        self._cluster = cluster
        self._fold = fold
        self._gate = asyncio.Semaphore(concurrency)
        writes: Final = Counter(
            "pumice_controller_api_writes",
            "Writes to the Kubernetes API, by verb, kind and outcome (ok, or the error's name).",
            ["verb", "kind", "outcome"],
            registry=registry,
        )
        self._writes = cache(writes.labels)

    async def read(self, resource: Resource, namespace: str | None, name: str) -> JSON:
        """Read one object past the informer and fold it in. Raises NotFound."""
        obj = await self._cluster.get(resource, namespace, name)
        self._fold(resource, obj)
        return obj

    async def create(self, resource: Resource, namespace: str | None, body: JSON) -> JSON:
        """Create an object. Raises AlreadyExists, Refused, NotFound (no such namespace)."""
        async with self._gate:
            try:
                obj = await self._cluster.create(resource, namespace, body)
            except PumiceError as error:
                self._count("create", resource, error)
                raise
        self._count("create", resource)
        self._fold(resource, obj)
        return obj

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
        async with self._gate:
            try:
                obj = await self._cluster.patch(
                    resource, namespace, name, body, kind=kind, subresource=subresource
                )
            except PumiceError as error:
                self._count("patch", resource, error)
                raise
        self._count("patch", resource)
        self._fold(resource, obj)
        return obj

    async def set_phase(self, namespace: str, group: GroupView, phase: PodGroupPhase) -> None:
        """Set the phase of this very PodGroup (its status is no subresource). Raises as :meth:`patch`."""
        body = {"metadata": {"uid": group.uid}, "status": {"phase": phase.value}}
        await self.patch(PODGROUPS, namespace, group.name, body)

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
        async with self._gate:
            try:
                await self._cluster.delete(resource, namespace, name, uid=uid, propagation=propagation)
            except NotFound:
                self._count("delete", resource)
            except PumiceError as error:
                self._count("delete", resource, error)
                raise
            else:
                self._count("delete", resource)

    async def bind(self, namespace: str, pod: str, node: str, *, uid: str, resource: Resource) -> JSON:
        """Bind a pod and return it as it is afterwards. Raises Conflict, NotFound."""
        async with self._gate:
            try:
                await self._cluster.bind(namespace, pod, node, uid=uid)
            except PumiceError as error:
                self._count("bind", resource, error)
                raise
        self._count("bind", resource)
        return await self.read(resource, namespace, pod)

    def _count(self, verb: str, resource: Resource, error: PumiceError | None = None) -> None:
        self._writes(verb, resource.plural, type(error).__name__ if error else "ok").inc()
