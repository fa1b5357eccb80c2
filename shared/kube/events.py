"""Kubernetes events, off everybody's path: bounded, best effort, each written once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

from shared.api.meta import format_time
from shared.clock import Clock
from shared.errors import PumiceError
from shared.kube.port import JSON
from shared.telemetry.spans import hashed_id

_LIMIT: Final = 1000
_MESSAGE_LIMIT: Final = 1024
_CLUSTERS_NAMESPACE: Final = "default"
"""Where events about what has no namespace go, as everywhere in Kubernetes."""


class EventRecorder:
    """Writes events one after another; when too many wait, the oldest are dropped.

    ``create(namespace, event)`` writes one. The same about the same object within a second is one event.
    """

    def __init__(self, create: Callable[[str, JSON], Awaitable[Any]], clock: Clock, component: str) -> None:
        self._create = create
        self._clock = clock
        self._component = component
        self._waiting: deque[JSON] = deque(maxlen=_LIMIT)
        self._wake = asyncio.Event()

    def record(self, about: JSON, reason: str, message: str, *, warning: bool = False) -> None:
        """Have an event about an object written soon."""
        self._waiting.append(self._event(about, reason, message, warning=warning))
        self._wake.set()

    async def run(self) -> None:
        """Write events until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                event = self._waiting.popleft()
                try:
                    await self._create(event["metadata"]["namespace"], event)
                except PumiceError:
                    continue  # an event is a courtesy

    def _event(self, about: JSON, reason: str, message: str, *, warning: bool) -> JSON:
        now, meta = format_time(self._clock.now()), about["metadata"]
        namespace = meta.get("namespace") or ""
        name = f"{meta['name'][:200]}.{hashed_id(8, meta.get('uid') or '', reason, message, now)}"
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace or _CLUSTERS_NAMESPACE},
            "involvedObject": {
                "apiVersion": about["apiVersion"],
                "kind": about["kind"],
                **({"namespace": namespace} if namespace else {}),
                "name": meta["name"],
                "uid": meta.get("uid") or "",
            },
            "type": "Warning" if warning else "Normal",
            "reason": reason,
            "message": message[:_MESSAGE_LIMIT],
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
