"""Volcano's Command (``bus.volcano.sh/v1alpha1``): an order, deleted before it is obeyed."""

from __future__ import annotations

from shared.api.meta import KubeObject, OwnerReference


class Command(KubeObject):
    """An order."""

    action: str = ""
    """What to do: AbortJob, ResumeJob, RestartJob, OpenQueue, CloseQueue …"""
    target: OwnerReference | None = None
    """The object it is for."""
    reason: str = ""
    """One word: why."""
    message: str = ""
    """A sentence: why."""
