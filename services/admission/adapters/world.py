"""What webhooks know of the cluster: queues and namespaces, from the API server itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from services.admission.core.queues import queue_info
from services.admission.core.reading import salvage
from services.admission.core.view import QueueIndex
from shared.api.base import JSON
from shared.api.names import GROUP_QUEUE_NAME
from shared.api.resources import NAMESPACES, QUEUES
from shared.api.scheduling import Queue
from shared.clock import Clock
from shared.errors import NotFound, Unavailable
from shared.kube.informer import Informer
from shared.kube.port import Cluster


class LiveWorld(QueueIndex):
    """A :class:`services.admission.core.view.World` that follows the API server."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        super().__init__()
        self._cluster = cluster
        self._queue_informer = Informer(cluster, QUEUES, clock=clock, on_change=self._note)
        self._namespaces = Informer(cluster, NAMESPACES, clock=clock, transform=_trimmed)

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._queue_informer.run())
            tasks.create_task(self._namespaces.run())

    async def synced(self) -> None:
        """Return once everything has been read."""
        await self._queue_informer.synced()
        await self._namespaces.synced()

    def namespace_queue(self, namespace: str) -> str:
        """Return the queue that a namespace names, or nothing."""
        found = self._namespaces.store.get(("", namespace))
        annotations = found["metadata"].get("annotations") if found else None
        return str((annotations or {}).get(GROUP_QUEUE_NAME) or "")

    async def learn(self, namespaces: Iterable[str]) -> None:
        """Read namespaces that a watch has not shown yet: something was created in them already."""
        for name in namespaces:
            if ("", name) not in self._namespaces.store:
                with suppress(NotFound, Unavailable):
                    self._namespaces.upsert(await self._cluster.get(NAMESPACES, None, name))

    async def look_again(self, queues: Iterable[str]) -> None:
        """Read queues anew: who makes or opens a queue and uses it at once is faster than a watch."""
        for name in queues:
            with suppress(NotFound, Unavailable):
                self._queue_informer.upsert(await self._cluster.get(QUEUES, None, name))

    def _note(self, old: JSON | None, new: JSON | None) -> None:
        if new is not None:
            self.put(queue_info(salvage(Queue, new).object))
        elif old is not None:
            self.remove(old["metadata"]["name"])


def _trimmed(namespace: JSON) -> JSON:
    kept = ("name", "uid", "resourceVersion", "annotations")
    metadata = namespace["metadata"]
    return {"metadata": {name: metadata[name] for name in kept if name in metadata}}
