"""What the API server's answers mean: errors by their status code and body, watch lines as events. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import orjson

from shared.errors import AlreadyExists, Conflict, Gone, NotFound, PumiceError, Refused, Unavailable
from shared.kube.port import WatchEvent

_EVENT_TYPES: Final = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK"})
_FIRST_SERVER_ERROR: Final = 500


def error_of(code: int, body: bytes | dict[str, Any], request: str) -> PumiceError:
    """Return the error that an answer stands for, with the server's own message.

    ``body`` is a ``Status`` object in most cases; proxies and crashed servers send anything.
    """
    status = body if isinstance(body, dict) else _parse_status(body)
    reason = str(status.get("reason") or "")
    text = str(status.get("message") or f"HTTP {code}")
    message = f"{request}: {text}"
    match code:
        case 404:
            return NotFound(message)
        case 409:
            return AlreadyExists(message) if reason == "AlreadyExists" else Conflict(message)
        case 410:
            return Gone(message)
        case 429:
            return Unavailable(message)
        case _ if code >= _FIRST_SERVER_ERROR:
            # A watch from a version that this server has not seen (yet): only a new list helps.
            return Gone(message) if _is_too_new(status) else Unavailable(message)
        case _:
            return Refused(message, status=code, reason=reason or "Unknown")


def _parse_status(body: bytes) -> dict[str, Any]:
    try:
        status = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {"message": body[:200].decode("utf-8", "replace").strip()}
    return status if isinstance(status, dict) else {}


def _is_too_new(status: dict[str, Any]) -> bool:
    causes = (status.get("details") or {}).get("causes") or ()
    return any(cause.get("reason") == "ResourceVersionTooLarge" for cause in causes)


def retry_after(value: str | None) -> float | None:
    """Return a Retry-After header's seconds; servers of Kubernetes send no dates in it."""
    try:
        return max(0.0, float(value)) if value else None
    except ValueError:
        return None


class WatchDecoder:
    """Turns the chunks of a watch's body into events: one JSON object a line.

    A chunk may hold a thousand small events or a small part of a big one, so parts are kept in a list
    and joined once, when their line ends.
    """

    def __init__(self, request: str) -> None:
        self._request = request
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[WatchEvent]:
        """Yield the events which this chunk completes. Raises what an ERROR event stands for."""
        *lines, rest = chunk.split(b"\n")
        if lines and self._parts:
            self._parts.append(lines[0])
            lines[0] = b"".join(self._parts)
            self._parts.clear()
        if rest:
            self._parts.append(rest)
        for line in lines:
            if line:
                yield self._event(line)

    def _event(self, line: bytes) -> WatchEvent:
        try:
            event = orjson.loads(line)
            kind, obj = event["type"], event["object"]
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise Unavailable(f"{self._request}: not a watch event: {line[:100]!r}") from error
        if kind in _EVENT_TYPES:
            return WatchEvent(kind, obj)
        raise error_of(int(obj.get("code") or _FIRST_SERVER_ERROR), obj, self._request)
