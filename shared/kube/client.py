"""The ``Cluster`` port over HTTP: one class for a real kube-apiserver and for the simulator's."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal

from shared.clock import Clock
from shared.errors import Gone, NotFound
from shared.kube.answers import WatchDecoder
from shared.kube.credentials import Credentials
from shared.kube.port import JSON, JSONPatch, Listing, Patch, Resource, WatchEvent
from shared.kube.transport import Options, Request, Transport

_PODS = Resource("", "v1", "pods", "Pod")


def connect(
    kubeconfig: str | Mapping[str, Any] | None,
    *,
    clock: Clock,
    context: str | None = None,
    options: Options | None = None,
    rng: random.Random | None = None,
) -> HttpCluster:
    """Return a connection to the API server that ``kubeconfig`` names or is (None: the one of our pod).

    Files are read now, and a wrong one raises ConfigurationError; the network is touched by the first
    request (:meth:`HttpCluster.ping` is a good one). ``rng`` draws the jitter of waits; without it, it is
    seeded by the operating system.
    """
    credentials = Credentials(kubeconfig, clock=clock, context=context)
    rng = rng or random.Random()  # noqa: S311 - jitter
    return HttpCluster(Transport(credentials, options or Options(), clock=clock, rng=rng), rng)


class HttpCluster:
    """See :class:`shared.kube.port.Cluster`."""

    def __init__(self, transport: Transport, rng: random.Random) -> None:
        self._transport = transport
        self._rng = rng

    @property
    def ahead(self) -> float:
        """By how many seconds the server's clock is ahead of ours."""
        return self._transport.ahead

    async def get(self, resource: Resource, namespace: str | None, name: str) -> JSON:
        """Read one object."""
        return await self._json("GET", resource.path(namespace, name), safe=True)

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        page: int = 500,
    ) -> Listing:
        """Read all pages; if the server has forgotten the first by then (410), read all at once."""
        try:
            return await self._pages(resource, namespace, _selectors(labels, fields), page)
        except Gone:
            return await self._pages(resource, namespace, _selectors(labels, fields), 0)

    async def _pages(
        self, resource: Resource, namespace: str | None, selectors: dict[str, str], page: int
    ) -> Listing:
        params: dict[str, str | int] = {**selectors, **({"limit": page} if page else {})}
        items: list[JSON] = []
        while True:
            answer = await self._json("GET", resource.path(namespace), params=params, safe=True)
            found = answer.get("items") or ()
            for item in found:
                item.setdefault("apiVersion", resource.api_version)
                item.setdefault("kind", resource.kind)
            items.extend(found)
            metadata = answer.get("metadata") or {}
            if not metadata.get("continue"):
                return Listing(items, str(metadata.get("resourceVersion", "")))
            params["continue"] = metadata["continue"]

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncIterator[WatchEvent]:
        """Follow changes until the server ends the stream."""
        params: dict[str, str | int] = {
            **_selectors(labels, fields),
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": self._rng.randint(*self._transport.options.watch_seconds),
        }
        request = Request(method="GET", path=resource.path(namespace), params=params)
        decoder = WatchDecoder(f"WATCH {request.path}")
        async with self._transport.stream(request) as body:
            yield WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": resource_version}})
            async for chunk in body.iter_any():
                for event in decoder.feed(chunk):
                    yield event

    async def create(
        self, resource: Resource, namespace: str | None, body: JSON, *, dry_run: bool = False
    ) -> JSON:
        """Create and return the stored object, or what would be stored."""
        params = {"dryRun": "All"} if dry_run else None
        return await self._json("POST", resource.path(namespace), body=body, params=params, safe=dry_run)

    async def replace(
        self, resource: Resource, namespace: str | None, body: JSON, *, subresource: str | None = None
    ) -> JSON:
        """PUT an object; its resourceVersion, if it has one, must be the stored one's."""
        path = resource.path(namespace, body["metadata"]["name"], subresource)
        return await self._json("PUT", path, body=body)

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: JSON | JSONPatch,
        *,
        kind: Patch = Patch.MERGE,
        subresource: str | None = None,
        params: Mapping[str, str] | None = None,
    ) -> JSON:
        """Patch an object and return it."""
        path = resource.path(namespace, name, subresource)
        return await self._json("PATCH", path, body=body, params=params, content_type=kind.value)

    async def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
        grace_seconds: int | None = None,
    ) -> None:
        """Delete; with ``uid`` only that very object."""
        options: JSON = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        await self._json("DELETE", resource.path(namespace, name), body=options)

    async def bind(
        self,
        namespace: str,
        pod: str,
        node: str,
        *,
        uid: str | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Bind a pod to a node; the API server puts a binding's annotations on the pod."""
        metadata = _identity(namespace, pod, uid)
        if annotations:
            metadata["annotations"] = dict(annotations)
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self._json("POST", _PODS.path(namespace, pod, "binding"), body=body)

    async def evict(self, namespace: str, pod: str, *, uid: str | None = None) -> None:
        """Ask for an eviction; a 429 is a disruption budget's no, so it is not tried again here."""
        body: JSON = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": _identity(namespace, pod, None),
        }
        if uid is not None:
            body["deleteOptions"] = {"preconditions": {"uid": uid}}
        path = _PODS.path(namespace, pod, "eviction")
        await self._json("POST", path, body=body, patient=False)

    async def ping(self) -> None:
        """Return when the API server answers now; one try, so that callers time their own waits."""
        try:
            await self._json("GET", "/version", patient=False)
        except NotFound:
            return

    async def close(self) -> None:
        """Close all connections. Safe to call twice."""
        await self._transport.close()

    async def _json(self, method: str, path: str, **parts: Any) -> JSON:
        answer: JSON = await self._transport.send(Request(method=method, path=path, **parts))
        return answer


def _selectors(labels: str, fields: str) -> dict[str, str]:
    named = {"labelSelector": labels, "fieldSelector": fields}
    return {name: selector for name, selector in named.items() if selector}


def _identity(namespace: str, name: str, uid: str | None) -> JSON:
    return {"namespace": namespace, "name": name, **({"uid": uid} if uid is not None else {})}
