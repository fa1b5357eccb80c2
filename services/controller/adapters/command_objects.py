"""Command objects, as ``vcctl`` makes them: each is deleted before it is obeyed, as in Volcano.

So it is obeyed at most once. From the moment its deletion is asked for it is kept in mind until it has been
obeyed: the answer may be lost, and what it asks for may have to be tried again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from services.controller.adapters.hands import Hands
from services.controller.adapters.intake import Intake
from services.controller.adapters.queues import QueueController
from services.controller.adapters.views import job_key
from services.controller.core.lifecycle import ORDERS
from services.controller.core.model import JSON
from services.controller.core.queues import COMMANDS
from shared.api import resources as r
from shared.api.batch import JobReason
from shared.errors import Conflict
from shared.keyed import KeyedQueue
from shared.kube.port import Resource

_TARGETS: Final[Mapping[str, tuple[Resource, Collection[str]]]] = {
    "Job": (r.JOBS, ORDERS),
    "Queue": (r.QUEUES, COMMANDS),
}
_MOST_OF_ACTION: Final = 80


class CommandObjects:
    """Obeys Command objects about jobs and queues, one at a time for each name."""

    def __init__(self, hands: Hands, intake: Intake, queues: QueueController) -> None:
        self._hands = hands
        self._intake = intake
        self._queues = queues
        self._queue = KeyedQueue(self._handle, clock=hands.clock, workers=4, on_retry=self._retried)
        self._taken: dict[str, JSON] = {}
        """Commands that are being obeyed."""

    def changed(self, new: JSON | None) -> None:
        """Note a command."""
        if new is not None:
            self._queue.add(job_key(new["metadata"]["namespace"], new["metadata"]["name"]))

    async def run(self) -> None:
        """Work until cancelled."""
        await self._queue.run()

    async def _handle(self, key: str) -> None:
        namespace, _, name = key.partition("/")
        command = self._taken.get(key) or self._hands.views.get(r.COMMANDS, namespace, name)
        if command is None:
            return
        self._taken[key] = command
        try:
            await self._hands.api.delete(r.COMMANDS, namespace, name, uid=command["metadata"]["uid"])
        except Conflict:
            there = await self._hands.api.read(r.COMMANDS, namespace, name)
            if there["metadata"]["uid"] == command["metadata"]["uid"]:
                raise
            self._queue.add(key)  # another of that name: its turn comes next
        await self._obey(command)
        del self._taken[key]

    async def _obey(self, command: JSON) -> None:
        kind: str = (command.get("target") or {}).get("kind") or ""
        if kind not in _TARGETS:
            return
        resource, actions = _TARGETS[kind]
        if command.get("action") not in actions:
            self._tell_unknown(command, resource, actions)
        elif kind == "Queue":
            self._queues.command_object(command)
        else:
            await self._intake.command_object(command)

    def _tell_unknown(self, command: JSON, resource: Resource, actions: Collection[str]) -> None:
        """Say on what a command is about that it asks for nothing that is known."""
        target = command["target"]
        namespace = command["metadata"]["namespace"] if resource.namespaced else ""
        found = self._hands.views.get(resource, namespace, target.get("name") or "")
        if found is not None and target.get("uid") in (None, "", found["metadata"]["uid"]):
            asked = str(command.get("action") or "")[:_MOST_OF_ACTION]
            text = f'there is no action "{asked}": known are {", ".join(sorted(actions))}'
            self._hands.recorder.record(found, JobReason.COMMAND_ISSUED.value, text, warning=True)

    def _retried(self, key: str, error: Exception, failures: int) -> None:
        self._hands.telemetry.log.debug("tried again: %s", error, extra={"object": key, "tries": failures})
