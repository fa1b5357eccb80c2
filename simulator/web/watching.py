"""A watch: the changes after a resource version as a stream of JSON lines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from simulator.core.entries import Accept, Entry, Event, Expired, Watcher
from simulator.core.errors import JSON as STATUS
from simulator.core.errors import StatusError, expired
from simulator.core.kinds import Kind
from simulator.core.read import Selection, shown
from simulator.core.world import World

JSON = dict[str, Any]
Render = Callable[[str, JSON], bytes]

_LINES = 512


def _error_line(body: STATUS) -> bytes:
    return orjson.dumps({"type": "ERROR", "object": body}) + b"\n"


class Subscription:
    """The events of one watch, as lines, from a start to whenever the client leaves.

    ``render`` makes a line in another form than the stored object (a table, another version); without it the
    line that the store made once for all is sent.
    """

    def __init__(
        self,
        world: World,
        kind: Kind,
        namespace: str | None,
        chosen: Selection,
        render: Render | None,
        limit: int = 100_000,
    ) -> None:
        self._world = world
        self._kind = kind
        self._namespace = namespace
        self._accept: Accept | None = chosen.accept
        if kind.view is not None or (kind.storage_version and kind.storage_version != kind.version):
            render = render or (
                lambda type_, obj: orjson.dumps({"type": type_, "object": shown(kind, obj)}) + b"\n"
            )
        self._render = render
        self._collection = world.store.collection(kind.storage)
        self._pending: list[bytes] = []
        self._wake = asyncio.Event()
        self._limit = limit
        self.overrun = False
        self._ended = False
        self._watcher = Watcher(namespace, self._take)

    def start(self, version: str, *, initial: bool) -> None:
        """Subscribe from what is there now (version "" or "0", or ``initial``) or from a version."""
        if initial or version in ("", "0"):
            for entry in self._now():
                self._pending.append(self._line("ADDED", entry.obj, entry, None))
        else:
            try:
                for event in self._collection.events_after(int(version)):
                    if self._namespace is None or event.entry.namespace == self._namespace:
                        self._take(event)
            except Expired as error:
                self._pending.append(_error_line(_gone(error)))
                self.overrun = True
                return
        self._collection.watch(self._watcher)

    def _now(self) -> Iterator[Entry]:
        entries = self._collection.page(
            self._namespace, self._world.store.rv, self._world.store.rv, accept=self._accept
        )
        yield from entries.entries

    def _take(self, event: Event) -> None:
        line = self._seen(event)
        if line is None:
            return
        self._pending.append(line)
        if len(self._pending) > self._limit:
            self.overrun = True
        self._wake.set()

    def _seen(self, event: Event) -> bytes | None:
        accept = self._accept
        if accept is None:
            return self._line(event.type, event.entry.obj, None, event)
        before = event.before is not None and accept(event.before.obj)
        after = event.type != "DELETED" and accept(event.entry.obj)
        if before and after:
            return self._line("MODIFIED", event.entry.obj, None, event)
        if after:
            return self._line("ADDED", event.entry.obj, None, event)
        if before:
            if event.type == "DELETED":
                return self._line("DELETED", event.entry.obj, None, event)
            old = event.before.obj if event.before else event.entry.obj
            left = old | {"metadata": old["metadata"] | {"resourceVersion": str(event.rv)}}
            return self._line("DELETED", left, None, None)
        return None

    def _line(self, type_: str, obj: JSON, entry: Entry | None, event: Event | None) -> bytes:
        if self._render is not None:
            return self._render(type_, obj)
        if event is not None and event.type == type_:
            return event.line
        raw = entry.raw if entry is not None else event.entry.raw if event is not None else orjson.dumps(obj)
        return b'{"type":"' + type_.encode() + b'","object":' + raw + b"}\n"

    def bookmark(self, *, initial_end: bool = False) -> bytes:
        """Return a bookmark line for the store's version now."""
        meta: JSON = {"resourceVersion": str(self._world.store.rv)}
        if initial_end:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        obj = {"kind": self._kind.kind, "apiVersion": self._kind.api_version, "metadata": meta}
        if self._render is not None and self._kind.view is None:
            return self._render("BOOKMARK", obj)
        return orjson.dumps({"type": "BOOKMARK", "object": obj}) + b"\n"

    def push(self, line: bytes) -> None:
        """Add a line of the shell's own (a bookmark)."""
        self._pending.append(line)
        self._wake.set()

    def end(self) -> None:
        """Let :meth:`lines` give what is there, and then nothing more: the watch's time is over."""
        self._ended = True
        self._wake.set()

    async def lines(self) -> bytes:
        """Wait for events; return some of them, joined; nothing when the watch has ended or is too slow."""
        while not self._pending:
            if self._ended or self.overrun:
                return b""
            self._wake.clear()
            await self._wake.wait()
        taken, self._pending = self._pending[:_LINES], self._pending[_LINES:]
        return b"".join(taken)

    def stop(self) -> None:
        """End the subscription."""
        self._collection.unwatch(self._watcher)


def _gone(error: Expired) -> JSON:
    status: StatusError = expired(str(error))
    return status.body
