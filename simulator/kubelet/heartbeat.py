"""Signs of life: renews each node's Lease, and says again that a node is ready which was taken for lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC
from typing import Final

from shared.api.resources import LEASES, NODES
from shared.clock import Clock
from shared.errors import NotFound, PumiceError
from shared.kube.informer import Informer
from shared.kube.port import JSON, Cluster
from simulator.kubelet.core.nodes import SIMULATED, is_ready
from simulator.kubelet.registration import Registration

_log = logging.getLogger(__name__)

_LEASE_NAMESPACE: Final = "kube-node-lease"
_RETRY_SECONDS: Final = 1.0


class Heartbeat:
    """Keeps the living nodes alive in the eyes of a node lifecycle controller.

    ``on_removed`` is told each node whose Node object was deleted: its machine is gone.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        registration: Registration,
        seconds: float,
        *,
        on_removed: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._registration = registration
        self._seconds = seconds
        self._on_removed = on_removed
        self._doubted: asyncio.Queue[str] = asyncio.Queue()

    async def run(self) -> None:
        """Run until cancelled."""
        informer = Informer(
            self._cluster,
            NODES,
            clock=self._clock,
            labels=f"{SIMULATED}=true",
            transform=_trim,
            on_change=self._note,
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(informer.run())
            tasks.create_task(self._renew_all())
            tasks.create_task(self._insist())

    def _note(self, old: JSON | None, new: JSON | None) -> None:
        name = str((new or old or {})["metadata"]["name"])
        if name not in self._registration.alive:
            return
        if new is None:
            self._registration.alive.discard(name)
            _log.warning("node %s was removed", name)
            self._on_removed(name)
        elif not is_ready(new):
            self._doubted.put_nowait(name)

    async def _insist(self) -> None:
        """Write of each node that was taken for lost, as after a long outage, that it is ready."""
        while True:
            name = await self._doubted.get()
            if name not in self._registration.alive:
                continue
            try:
                await self._registration.mark_ready(name)
            except NotFound:
                continue  # the watch will say so
            except PumiceError as error:
                _log.debug("node %s is ready, but: %s", name, error)
                await self._clock.sleep(_RETRY_SECONDS)
                self._doubted.put_nowait(name)

    async def _renew_all(self) -> None:
        """Renew each node's Lease once in a period, evenly spread."""
        while True:
            names = list(self._registration.names)
            for name in names:
                if name in self._registration.alive:
                    with suppress(PumiceError):  # the next period will do
                        await self._renew(name)
                await self._clock.sleep(self._seconds / len(names))

    async def _renew(self, name: str) -> None:
        renewed = self._clock.now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": max(1, int(4 * self._seconds)),
            "renewTime": renewed,
        }
        try:
            await self._cluster.patch(LEASES, _LEASE_NAMESPACE, name, {"spec": spec})
        except NotFound:
            lease = {
                "apiVersion": LEASES.api_version,
                "kind": LEASES.kind,
                "metadata": {"name": name, "namespace": _LEASE_NAMESPACE},
                "spec": spec,
            }
            await self._cluster.create(LEASES, _LEASE_NAMESPACE, lease)


def _trim(node: JSON) -> JSON:
    """Keep what is looked at."""
    conditions = [one for one in node.get("status", {}).get("conditions") or () if one["type"] == "Ready"]
    return {"metadata": node["metadata"], "status": {"conditions": conditions}}
