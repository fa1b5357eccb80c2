"""What every service is: a name, its health, and one coroutine that runs until it is cancelled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

Ids = Callable[[], str]
"""Gives a new unique identifier at each call."""


class Health:
    """The reasons why a service is not ready; none means ready. Live as long as the process answers."""

    def __init__(self) -> None:
        self._waiting: dict[str, str] = {}

    def waits(self, part: str, reason: str) -> None:
        """Say that ``part`` keeps the service from being ready."""
        self._waiting[part] = reason

    def ok(self, part: str) -> None:
        """Say that ``part`` no longer does."""
        self._waiting.pop(part, None)

    @property
    def ready(self) -> bool:
        """Whether nothing is missing."""
        return not self._waiting

    @property
    def reasons(self) -> Mapping[str, str]:
        """What is missing, by part."""
        return dict(self._waiting)


class Service(Protocol):
    """A running part of Pumice."""

    @property
    def name(self) -> str:
        """Return the name of its package."""
        ...

    @property
    def health(self) -> Health:
        """Return the readiness of this service."""
        ...

    async def run(self) -> None:
        """Run until cancelled, then finish what is in flight; raise only for our own mistakes."""
        ...
