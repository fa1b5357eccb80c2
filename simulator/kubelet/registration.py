"""Creates the Node objects, and says when a node is lost or back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Final, TypeVar

from shared.api.resources import NODES
from shared.clock import Clock
from shared.errors import AlreadyExists, Conflict, Unavailable
from shared.kube.port import JSON, Cluster, Patch
from shared.service import Ids
from simulator.kubelet.core.nodes import (
    SIMULATED,
    Endpoint,
    NodeSpec,
    is_ready,
    lost_conditions,
    lost_taints,
    node_object,
    ready_conditions,
)

_log = logging.getLogger(__name__)

_NOT_READY: Final = "node.kubernetes.io/not-ready"
_KNOWN: Final = ("allocatable", "addresses", "daemonEndpoints")
"""The parts of a node's status that change when it is started anew with other options."""
_RETRY_SECONDS: Final = 1.0
T = TypeVar("T")


class Registration:
    """The Node objects of the simulated nodes."""

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        ids: Ids,
        nodes: Sequence[NodeSpec],
        in_flight: int,
        endpoint: Endpoint | None = None,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._ids = ids
        self._specs = {spec.name: spec for spec in nodes}
        self._index = {spec.name: index for index, spec in enumerate(nodes)}
        self._in_flight = in_flight
        self._endpoint = endpoint
        self.alive: set[str] = set()
        """The nodes that were registered and are neither lost nor removed since."""

    @property
    def names(self) -> Iterable[str]:
        """The nodes' names."""
        return self._specs.keys()

    async def register_all(self) -> None:
        """Create the nodes, or bring those up to date that exist. Waits while the API server is away."""
        listing = await self._patiently(partial(self._cluster.list, NODES, labels=f"{SIMULATED}=true"))
        existing = {node["metadata"]["name"]: node for node in listing.items}
        names = iter(self._specs)

        async def work() -> None:
            for name in names:
                await self._patiently(partial(self._register, name, existing.get(name)))

        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(self._in_flight, len(self._specs))):
                tasks.create_task(work())

    async def _register(self, name: str, existing: JSON | None) -> None:
        node = node_object(
            self._specs[name], self._index[name], self._ids(), self._clock.now(), self._endpoint
        )
        if existing is None:
            try:
                existing = await self._cluster.create(NODES, None, node)
            except AlreadyExists:
                existing = await self._cluster.get(NODES, None, name)
        wanted, status = node["metadata"]["labels"], existing.get("status") or {}
        labels = existing["metadata"].get("labels") or {}
        taints = (existing.get("spec") or {}).get("taints") or []
        # The API server taints each new node; where no node lifecycle controller runs, nobody takes it off.
        if {**labels, **wanted} != labels or any(taint["key"] == _NOT_READY for taint in taints):
            await self._patch(name, {"metadata": {"labels": wanted}, "spec": {"taints": self._taints(name)}})
        known = all(status.get(part) == node["status"][part] for part in _KNOWN)
        if not known or not is_ready(existing):
            await self._patch(name, {"status": node["status"]}, "status")
        self.alive.add(name)

    def _taints(self, name: str) -> list[JSON]:
        return list(self._specs[name].taints)

    async def mark_lost(self, name: str) -> None:
        """Write what the node lifecycle controller writes about a silent node."""
        self.alive.discard(name)
        now = self._clock.now()
        await self._patch(name, {"status": {"conditions": lost_conditions(now)}}, "status")
        await self._patch(name, {"spec": {"taints": self._taints(name) + lost_taints(now)}})

    async def mark_ready(self, name: str) -> None:
        """Write that the node is back."""
        await self._patch(name, {"status": {"conditions": ready_conditions(self._clock.now())}}, "status")
        await self._patch(name, {"spec": {"taints": self._taints(name)}})
        self.alive.add(name)

    async def _patch(self, name: str, body: JSON, subresource: str | None = None) -> None:
        await self._cluster.patch(NODES, None, name, body, kind=Patch.MERGE, subresource=subresource)

    async def _patiently(self, request: Callable[[], Awaitable[T]]) -> T:
        """Try until the API server is there."""
        said = False
        while True:
            try:
                return await request()
            except (Unavailable, Conflict) as error:
                if not said:
                    _log.warning("nodes wait for the API server: %s", error)
                said = True
                await self._clock.sleep(_RETRY_SECONDS)
