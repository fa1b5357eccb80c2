"""The ``Cluster`` port: what Pumice needs from a Kubernetes API server.

Objects are plain JSON dictionaries, exactly as the server sent them: the services read the parts they
need through ``shared.api`` and never lose a field they do not know. A :class:`Resource` names a kind.

Errors: ``NotFound`` (404), ``AlreadyExists`` / ``Conflict`` (409), ``Gone`` (410), ``Refused`` (any
other 4xx; the server's message), ``Unavailable`` (no answer, 429, 5xx). The adapter retries only what
is safe: reads, and writes that the server cannot have begun (429, connection refused). A write whose
answer was lost raises ``Unavailable`` though it may have happened: write so that doing it twice is the same.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from enum import Enum
from typing import Any, Literal, NamedTuple, Protocol

JSON = dict[str, Any]
JSONPatch = list[JSON]
"""The operations of a JSON patch (RFC 6902)."""


class Resource(NamedTuple):
    """A kind as the API server serves it. ``group`` is empty for the core group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """``group/version``, or ``version`` in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """Return the URL path of a collection, an object or a subresource."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/" + "/".join(parts)


class Patch(Enum):
    """The four patch kinds by their media types."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class Listing(NamedTuple):
    """A consistent list and the resource version to watch from.

    Items carry ``apiVersion`` and ``kind`` as watched objects do, although servers leave them out of lists.
    """

    items: list[JSON]
    resource_version: str


class WatchEvent(NamedTuple):
    """A change. BOOKMARK carries only metadata.resourceVersion."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: JSON


class Cluster(Protocol):
    """A connection to one API server."""

    @property
    def ahead(self) -> float:
        """By how many seconds the server's clock is ahead of ours; 0 for what may be an answer's way."""
        ...

    async def get(self, resource: Resource, namespace: str | None, name: str) -> JSON:
        """Read one object. Raises NotFound."""
        ...

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        page: int = 500,
    ) -> Listing:
        """Read all pages of a collection; namespace None is every namespace."""
        ...

    def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncIterator[WatchEvent]:
        """Follow changes after ``resource_version`` until the server ends the stream, as it may at any time.

        The first event is a BOOKMARK of that version: the stream is open. Raises Gone when that version
        is too old (or not yet known), Unavailable when the stream breaks.
        """
        ...

    async def create(
        self, resource: Resource, namespace: str | None, body: JSON, *, dry_run: bool = False
    ) -> JSON:
        """Create and return the stored object. Raises AlreadyExists, Refused.

        ``dry_run``: only say what would be stored, with defaults and after webhooks.
        """
        ...

    async def replace(
        self, resource: Resource, namespace: str | None, body: JSON, *, subresource: str | None = None
    ) -> JSON:
        """PUT an object (with its resourceVersion: optimistic locking). Raises Conflict, NotFound."""
        ...

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
        """Patch an object and return it. ``params`` e.g. fieldManager and force for server-side apply."""
        ...

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
        """Delete; with ``uid`` only that very object. Raises NotFound, Conflict (another UID)."""
        ...

    async def bind(
        self,
        namespace: str,
        pod: str,
        node: str,
        *,
        uid: str | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Bind a pod to a node, and annotate it by the same write.

        Raises Conflict when it is bound already, NotFound.
        """
        ...

    async def evict(self, namespace: str, pod: str, *, uid: str | None = None) -> None:
        """Ask for an eviction (the eviction subresource). Raises Unavailable when a budget forbids it now."""
        ...

    async def ping(self) -> None:
        """Return when the API server answers now. Raises Unavailable."""
        ...

    async def close(self) -> None:
        """Close all connections. Safe to call twice."""
        ...
