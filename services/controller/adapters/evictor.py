"""Takes pods away that a decision names, and has their owners told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from services.controller.adapters.hands import Hands, together
from services.controller.core.evicting import EVENT, disruption, failure, is_to_go
from services.controller.core.members import group_name
from shared.api import resources as r
from shared.errors import Conflict, NotFound, Refused
from shared.events.contracts import Eviction, EvictionFailure
from shared.kube.port import JSON, Patch

_TRIES: Final = 2
"""A write that is refused because of another at the same time passes."""


class Evictor:
    """Evicts by a condition and a graceful deletion, two writes a pod.

    Their controllers answer as to any pod that somebody took away: a job by its policy for ``PodEvicted``.
    """

    def __init__(self, hands: Hands) -> None:
        self._hands = hands

    async def evict(self, evictions: Iterable[Eviction]) -> tuple[EvictionFailure, ...]:
        """Take pods away; return those that the API server keeps. Raises Unavailable to be tried again."""
        found = await together(self._evict(one) for one in evictions)
        return tuple(one for one in found if one is not None)

    async def _evict(self, eviction: Eviction) -> EvictionFailure | None:
        namespace, name = eviction.namespace, eviction.pod
        pod, message = self._hands.views.get(r.PODS, namespace, name), ""
        try:
            for _ in range(_TRIES):
                if pod is None or not is_to_go(eviction, pod):
                    return None
                try:
                    await self._take_away(eviction)
                except Conflict as error:  # it is another pod, or somebody wrote at the same time
                    message = str(error)
                    pod = await self._hands.api.read(r.PODS, namespace, name)
                else:
                    self._tell(eviction, pod)
                    return None
        except NotFound:
            return None
        except Refused as error:
            message = str(error)
        return failure(eviction, message)

    async def _take_away(self, eviction: Eviction) -> None:
        api, body = self._hands.api, disruption(eviction, self._hands.clock.now())
        namespace, name = eviction.namespace, eviction.pod
        await api.patch(r.PODS, namespace, name, body, kind=Patch.STRATEGIC, subresource="status")
        await api.delete(r.PODS, namespace, name, uid=eviction.uid)

    def _tell(self, eviction: Eviction, pod: JSON) -> None:
        """Write an event on the pod and on its PodGroup."""
        self._hands.recorder.record(pod, EVENT, eviction.reason, warning=True)
        group = self._hands.views.get(r.PODGROUPS, eviction.namespace, group_name(pod))
        if group is not None:
            text = f"pod {eviction.namespace}/{eviction.pod} was evicted: {eviction.reason}"
            self._hands.recorder.record(group, EVENT, text)
