"""Writes on plain pods which PodGroup they are of, and on waiting ones why they wait.

Off the path of decisions, and a few pods of a group at a time: bindings must not wait behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final

from services.controller.adapters.adopting import Adopter
from services.controller.adapters.hands import Hands, together
from services.controller.adapters.plain import PlainGangs
from services.controller.core.holding import Held
from services.controller.core.members import MemberPod
from services.controller.core.model import JSON
from services.controller.core.plaingangs import PlainGroup
from services.controller.core.plainstatus import waiting_patch
from shared.api import names
from shared.api import resources as r
from shared.errors import NotFound
from shared.events.contracts import GangReport
from shared.keyed import KeyedQueue
from shared.kube.port import Patch

_AT_ONCE: Final = 8
_Write = tuple[MemberPod, JSON, str | None]
"""A pod, the patch, and the subresource that it is for."""


class PodMarks:
    """Looks at the pods of one PodGroup at a time; ``why(key)`` says what holds them, or their gang."""

    def __init__(
        self,
        hands: Hands,
        gangs: PlainGangs,
        adopter: Adopter,
        *,
        why: Callable[[str], tuple[Held | None, GangReport | None]],
        on_retry: Callable[[str, Exception, int], None],
    ) -> None:
        self._hands = hands
        self._gangs = gangs
        self._adopter = adopter
        self._why = why
        self._queue = KeyedQueue(self._handle, clock=hands.clock, workers=4, on_retry=on_retry)

    def look(self, key: str, pods: Iterable[MemberPod]) -> None:
        """Have a group's pods written on soon, if there is something to write."""
        told = self._why(key) != (None, None)
        if any(pod.is_new or (told and pod.waits) for pod in pods):
            self._queue.add(key)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._queue.run()

    async def _handle(self, key: str) -> None:
        namespace, _, name = key.partition("/")
        group = self._gangs.group(namespace, name)
        pods = self._hands.views.group_pods(namespace, name)
        if group is not None:
            await self._write_group(key, group, [pod for pod in pods if pod.is_new])
        held, report = self._why(key)
        now = self._hands.clock.now()
        patches = ((pod, waiting_patch(pod, held, report, now)) for pod in pods)
        said = [(pod, body, "status") for pod, body in patches if body]
        await self._write_some(said)
        for pod, body, _ in said:
            message = body["status"]["conditions"][0]["message"]
            self._hands.recorder.record(pod.raw, "FailedScheduling", message, warning=True)

    async def _write_group(self, key: str, group: PlainGroup, new: Sequence[MemberPod]) -> None:
        """Write the PodGroup on pods that do not name it."""
        if new and group.adopted:
            await self._adopter.renew(key, group, max(new, key=lambda pod: pod.created))
        note = {"annotations": {names.GROUP_NAME: group.view.name}}
        await self._write_some((pod, {"metadata": {"uid": pod.view.uid, **note}}, None) for pod in new)

    async def _write_some(self, writes: Iterable[_Write]) -> None:
        left = iter(writes)
        while some := list(islice(left, _AT_ONCE)):
            await together(self._write(*one) for one in some)

    async def _write(self, pod: MemberPod, body: JSON, subresource: str | None) -> None:
        namespace = pod.raw["metadata"]["namespace"]
        try:
            await self._hands.api.patch(
                r.PODS, namespace, pod.view.name, body, kind=Patch.STRATEGIC, subresource=subresource
            )
        except NotFound:
            return  # it is gone
