"""The work that the benchmarks of the whole way submit, and how it is seen from outside."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

from shared.api.resources import PODS
from shared.clock import SystemClock
from shared.errors import Unavailable
from shared.kube.informer import Informer
from shared.kube.port import JSON, Cluster

GPU: Final = "nvidia.com/gpu"
IN_FLIGHT: Final = 50
"""Requests of the submitting client at once; an API server is busy at about so many."""
PATIENCE: Final = 180.0
"""Seconds without any change after which what is waited for will not come."""


def pod_spec(gpus: int, seconds: float | None) -> JSON:
    """Return a pod's spec; it runs for ``seconds``, or until it is deleted."""
    amounts: JSON = {"cpu": "1", "memory": "1Gi", GPU: gpus}
    command = ["sleep", str(seconds)] if seconds is not None else ["train"]
    resources = {"requests": amounts, "limits": amounts}
    container = {"name": "main", "image": "train", "command": command, "resources": resources}
    return {"restartPolicy": "Never", "containers": [container]}


def job(name: str, size: int, gpus: int, seconds: float | None) -> JSON:
    """Return a gang of ``size`` pods."""
    task = {"name": "t", "replicas": size, "template": {"spec": pod_spec(gpus, seconds)}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minAvailable": size, "tasks": [task]},
    }


class PodWatch:
    """Sees pods become bound, start and go; the clock is read when a watch event has arrived."""

    def __init__(self, cluster: Cluster) -> None:
        self._bound: set[str] = set()
        self._started: set[str] = set()
        self._changed = asyncio.Event()
        self._informer = Informer(
            cluster, PODS, clock=SystemClock(), on_change=self._note, transform=self._trim
        )
        self.last_bound = 0.0
        """When a pod was seen bound last, by ``time.perf_counter``."""

    @staticmethod
    def _trim(pod: JSON) -> JSON:
        metadata = {name: pod["metadata"][name] for name in ("name", "namespace", "uid", "resourceVersion")}
        phase = (pod.get("status") or {}).get("phase") or "Pending"
        return {"metadata": metadata, "node": pod["spec"].get("nodeName"), "phase": phase}

    def _note(self, _: JSON | None, new: JSON | None) -> None:
        if new is not None:
            uid = new["metadata"]["uid"]
            if new["node"] and uid not in self._bound:
                self._bound.add(uid)
                self.last_bound = time.perf_counter()
            if new["phase"] != "Pending":
                self._started.add(uid)
        self._changed.set()

    @property
    def bound(self) -> int:
        """How many pods were ever bound."""
        return len(self._bound)

    @property
    def started(self) -> int:
        """How many pods ever started."""
        return len(self._started)

    @property
    def existing(self) -> int:
        """How many pods there are."""
        return len(self._informer.store)

    async def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Return when ``condition`` holds; it is looked at after each change. Raises Unavailable."""
        while not condition():
            self._changed.clear()
            try:
                async with asyncio.timeout(PATIENCE):
                    await self._changed.wait()
            except TimeoutError:
                counts = f"{self.bound} bound, {self.started} started, {self.existing} there"
                raise Unavailable(f"{what} does not come: no change in {PATIENCE:g} s ({counts})") from None

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[PodWatch]:
        """Watch as long as the block lasts."""
        task = asyncio.create_task(self._informer.run())
        try:
            await self._informer.synced()
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def at_most(limit: int, calls: Iterable[Coroutine[Any, Any, Any]]) -> None:
    """Await all calls, ``limit`` at once."""
    waiting = iter(calls)

    async def worker() -> None:
        for one in waiting:
            await one

    await asyncio.gather(*(worker() for _ in range(limit)))
