"""Makes the PodGroups of pods that have none, and follows what their owners say about them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from services.controller.adapters.hands import Hands
from services.controller.core.adoption import changed_spec, make_podgroup, owner_of
from services.controller.core.holding import words
from services.controller.core.members import MemberPod, own_group
from services.controller.core.model import JSON
from services.controller.core.plaingangs import PlainGroup
from shared.api import resources as r
from shared.errors import AlreadyExists, NotFound, Refused

_PAUSE: Final = 5.0
"""Least time, in seconds, between two looks at an owner because its group got new pods."""


class Adopter:
    """Writes PodGroups, but not their status; a group's key is ``namespace/name``."""

    def __init__(self, hands: Hands) -> None:
        self._hands = hands
        self._read: dict[str, float] = {}
        """When a group's owner was asked last (monotonic)."""
        self.refused: dict[str, str] = {}
        """Why groups could not be made, e.g. because their queue is not open."""

    def forget(self, key: str) -> None:
        """Drop what is remembered of a group that is gone."""
        self._read.pop(key, None)
        self.refused.pop(key, None)

    async def adopt(self, key: str, pods: Iterable[MemberPod]) -> None:
        """Make the PodGroup of pods that have none; what an integration names it makes itself.

        Raises Refused, which an event on the pod tells once.
        """
        namespace, _, name = key.partition("/")
        founders = [pod for pod in pods if pod.living and own_group(pod.raw) == name]
        if not founders:
            return
        pod = min(founders, key=lambda one: one.created)
        owner = await self._owner(key, pod)
        try:
            body = make_podgroup(pod.raw, owner, self._hands.clock.now())
            await self._hands.api.create(r.PODGROUPS, namespace, body)
        except AlreadyExists:
            await self._hands.api.read(r.PODGROUPS, namespace, name)
        except ValueError as error:
            self._say_refused(key, pod, f"the pod cannot be read: {words(error)}")
        except Refused as error:
            self._say_refused(key, pod, f"Failed to create PodGroup {name}: {error}")
            raise
        else:
            self.refused.pop(key, None)

    async def renew(self, key: str, group: PlainGroup, pod: MemberPod) -> None:
        """Look whether the owner of a new pod says something new, unless it was asked just before."""
        if self._hands.clock.monotonic() < self._read.get(key, float("-inf")) + _PAUSE:
            return
        try:
            patch = changed_spec(group.view.raw, pod.raw, await self._owner(key, pod))
        except ValueError:
            return  # the pod cannot be read, and says so itself
        if patch is not None:
            body = {"metadata": {"uid": group.view.uid}, **patch}
            await self._hands.api.patch(r.PODGROUPS, group.namespace, group.view.name, body)

    async def _owner(self, key: str, pod: MemberPod) -> JSON | None:
        """Read the owner whose annotations count, if it is there."""
        self._read[key] = self._hands.clock.monotonic()
        found = owner_of(pod.raw)
        if found is None:
            return None
        resource, name = found
        try:
            return await self._hands.api.read(resource, pod.raw["metadata"]["namespace"], name)
        except (NotFound, Refused):  # gone meanwhile; or a role that does not allow it: as if it said nothing
            return None

    def _say_refused(self, key: str, pod: MemberPod, text: str) -> None:
        if key not in self.refused:
            self.refused[key] = text
            self._hands.recorder.record(pod.raw, "PodGroupError", text, warning=True)
