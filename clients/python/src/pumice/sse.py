"""Server-sent events, as the HTML standard defines them: lines in, events out. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event. ``id`` is the last id that the stream gave, this event's included."""

    id: str
    event: str
    data: str


class Parser:
    """Puts lines together to events. One parser serves one connection; ``retry`` is in seconds.

    ``last_id`` moves on when an event is complete, so that one cut off in the middle comes again.
    """

    def __init__(self, last_id: str = "") -> None:
        self.last_id = last_id
        self._id = last_id
        self.retry: float | None = None
        self._event = ""
        self._data: list[str] = []

    def feed(self, line: str) -> ServerEvent | None:
        """Take a line without its end; return the event which an empty line completes, if it has data."""
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._id = value
        elif name == "retry" and value.isascii() and value.isdigit():
            self.retry = int(value) / 1000
        return None

    def _dispatch(self) -> ServerEvent | None:
        event, data = self._event or "message", self._data
        self._event, self._data = "", []
        self.last_id = self._id
        return ServerEvent(self.last_id, event, "\n".join(data)) if data else None
