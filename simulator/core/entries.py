"""Versions of objects and changes, each with its bytes made once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import orjson

JSON = dict[str, Any]


EventType = Literal["ADDED", "MODIFIED", "DELETED"]


_HEADS: dict[str, bytes] = {
    kind: b'{"type":"%s","object":' % kind.encode() for kind in ("ADDED", "MODIFIED", "DELETED")
}


class Expired(Exception):  # noqa: N818 - the API's word
    """The history no longer reaches back to the version asked for."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {asked} ({oldest})")


class Entry:
    """One version of one object. ``obj`` must not be changed."""

    __slots__ = ("_raw", "creator", "name", "namespace", "obj", "rv")

    def __init__(self, obj: JSON, rv: int, namespace: str, name: str, creator: str = "") -> None:
        self.obj = obj
        self.rv = rv
        self.namespace = namespace
        self.name = name
        self.creator = creator
        self._raw: bytes | None = None

    @property
    def raw(self) -> bytes:
        """Return the object as JSON, made once."""
        raw = self._raw
        if raw is None:
            raw = self._raw = orjson.dumps(self.obj)
        return raw


class Event:
    """One change of one collection. ``before`` is None when the object is new."""

    __slots__ = ("_line", "before", "entry", "rv", "type")

    def __init__(self, type_: EventType, entry: Entry, before: Entry | None) -> None:
        self.type: EventType = type_
        self.entry = entry
        self.before = before
        self.rv = entry.rv
        self._line: bytes | None = None

    @property
    def line(self) -> bytes:
        """Return the event as a watch sends it, made once for all watchers."""
        line = self._line
        if line is None:
            line = self._line = _HEADS[self.type] + self.entry.raw + b"}\n"
        return line


class Page(NamedTuple):
    """A part of a consistent list. ``remaining`` is -1 when it is not known (a selector is set)."""

    entries: list[Entry]
    rv: int
    after: str
    remaining: int


Accept = Callable[[JSON], bool]


class Watcher:
    """A subscription to one collection. ``on_event`` must be cheap and must not write."""

    __slots__ = ("namespace", "on_event")

    def __init__(self, namespace: str | None, on_event: Callable[[Event], None]) -> None:
        self.namespace = namespace
        self.on_event = on_event
