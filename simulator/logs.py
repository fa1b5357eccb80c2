"""Container logs in memory: the kubelet appends, the API server's ``log`` subresource reads."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple


class Line(NamedTuple):
    """One line of a container's output, without its end."""

    at: datetime
    text: str


class PodLogs:
    """Lines by pod UID and container. Bounded: the oldest lines of a container are dropped."""

    def __init__(self, limit: int = 10_000) -> None:
        self._limit = limit
        self._lines: dict[tuple[str, str], list[Line]] = {}

    def append(self, uid: str, container: str, at: datetime, text: str) -> None:
        """Record output; several lines may come at once."""
        lines = self._lines.setdefault((uid, container), [])
        lines += [Line(at, line) for line in text.splitlines()]
        if len(lines) > 2 * self._limit:
            del lines[: -self._limit]

    def read(self, uid: str, container: str) -> list[Line]:
        """Return the lines of a container, oldest first; none when it never wrote."""
        return self._lines.get((uid, container), [])

    def forget(self, uid: str) -> None:
        """Drop what a pod wrote."""
        for key in [key for key in self._lines if key[0] == uid]:
            del self._lines[key]
