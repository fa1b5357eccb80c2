"""Every write of the controller goes through here."""

from __future__ import annotations

from services.controller.core.model import GroupView
from shared.api.resources import PODGROUPS
from shared.api.scheduling import PodGroupPhase
from shared.kube.writes import Writes


class Api(Writes):
    """See :class:`shared.kube.writes.Writes`."""

    async def set_phase(self, namespace: str, group: GroupView, phase: PodGroupPhase) -> None:
        """Set the phase of this very PodGroup (its status is no subresource). Raises as :meth:`patch`."""
        body = {"metadata": {"uid": group.uid}, "status": {"phase": phase.value}}
        await self.patch(PODGROUPS, namespace, group.name, body)
