"""Kubernetes events on jobs and other objects, off everybody's path: bounded, best effort, each once."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from services.controller.adapters.api import Api
from services.controller.core.model import Wanted
from services.controller.core.plans import Note
from shared.api import resources as r
from shared.api.meta import format_time
from shared.clock import Clock
from shared.errors import PumiceError
from shared.kube.port import JSON
from shared.telemetry.spans import hashed_id

_LIMIT: Final = 1000
_MESSAGE_LIMIT: Final = 1024


class Recorder:
    """Writes events one after another; when too many wait, the oldest are dropped."""

    def __init__(self, api: Api, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._waiting: deque[JSON] = deque(maxlen=_LIMIT)
        self._wake = asyncio.Event()

    def note(self, wanted: Wanted, note: Note) -> None:
        """Have an event written soon. The same about the same job within a second is one event."""
        self.tell(wanted.raw, note.reason.value, note.message, warning=note.warning)

    def tell(self, obj: JSON, reason: str, message: str, *, warning: bool = False) -> None:
        """The same about any object; events about what has no namespace are in ``default``."""
        self._waiting.append(self._event(obj, reason, message, warning=warning))
        self._wake.set()

    async def run(self) -> None:
        """Write events until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                event = self._waiting.popleft()
                try:
                    await self._api.create(r.EVENTS, event["metadata"]["namespace"], event)
                except PumiceError:
                    continue  # an event is a courtesy: the status says the same

    def _event(self, obj: JSON, reason: str, message: str, *, warning: bool) -> JSON:
        now = format_time(self._clock.now())
        meta = obj["metadata"]
        name = f"{meta['name'][:200]}.{hashed_id(8, meta['uid'], reason, message, now)}"
        about = {key: meta[key] for key in ("namespace", "name", "uid") if meta.get(key)}
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": meta.get("namespace") or "default"},
            "involvedObject": {"apiVersion": obj["apiVersion"], "kind": obj["kind"], **about},
            "type": "Warning" if warning else "Normal",
            "reason": reason,
            "message": message[:_MESSAGE_LIMIT],
            "source": {"component": "pumice-controller"},
            "reportingComponent": "pumice-controller",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
