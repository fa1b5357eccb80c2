"""Deletes finished jobs when their time to live is over.

The times are in the objects, so a restart forgets nothing. A job is read anew before it is deleted, and only
the very job that was read is: one of the same name that was made meanwhile stays.
"""

from __future__ import annotations

from typing import Final

from services.controller.adapters.hands import Hands
from services.controller.adapters.views import job_key
from services.controller.core.expiry import expires_at
from services.controller.core.model import JSON
from shared.api import resources as r
from shared.errors import NotFound
from shared.keyed import KeyedQueue, retry_level

_LONGEST_WAIT: Final = 3600.0
"""Seconds after which the wall clock is asked again: it may be set while the job waits."""


class Expiry:
    """One timer for each finished job that has a time to live."""

    def __init__(self, hands: Hands) -> None:
        self._hands = hands
        self._queue = KeyedQueue(self._handle, clock=hands.clock, workers=4, on_retry=self._retried)

    def changed(self, new: JSON | None) -> None:
        """Note a job as it is now."""
        if new is not None and expires_at(new) is not None:
            self._queue.add(job_key(new["metadata"]["namespace"], new["metadata"]["name"]))

    async def run(self) -> None:
        """Work until cancelled."""
        await self._queue.run()

    async def _handle(self, key: str) -> None:
        namespace, _, name = key.partition("/")
        job = self._hands.views.get(r.JOBS, namespace, name)
        if job is None or not self._is_due(key, job):
            return
        try:
            job = await self._hands.api.read(r.JOBS, namespace, name)
            if not self._is_due(key, job):
                return
            uid = job["metadata"]["uid"]
            await self._hands.api.delete(r.JOBS, namespace, name, uid=uid, propagation="Foreground")
        except NotFound:
            return
        self._hands.telemetry.log.info("a job's time to live is over: deleted", extra={"job": key})

    def _is_due(self, key: str, job: JSON) -> bool:
        due = expires_at(job)
        if due is None:
            return False
        left = (due - self._hands.clock.now()).total_seconds()
        if left > 0:
            self._queue.add_after(key, min(left, _LONGEST_WAIT))
        return left <= 0

    def _retried(self, key: str, error: Exception, failures: int) -> None:
        self._hands.telemetry.log.log(
            retry_level(error, failures),
            "a job whose time is over is looked at again: %s",
            error,
            extra={"job": key, "tries": failures},
        )
