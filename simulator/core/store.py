"""Objects in memory, under one resource version, with a bounded history for watches and paged lists.

Theory of operation. An object, once stored, is never changed: a write stores a new dictionary, which may
share parts with the old one. So reads, lists and watch events hand out references and never copy, and an
object's bytes are made once for each version (:meth:`Entry.raw`). Each write takes the next resource
version and appends one :class:`Event` to its collection's history, which holds the entry before it too:
a list as of an earlier version is today's list with the later events taken back, and a watcher with a
selector sees an object leave it. When the history is too short, the answer is 410 (:class:`Expired`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
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


class Collection:
    """All objects of one resource, by namespace ("" for cluster-scoped ones) and name."""

    def __init__(self, resource: str, history: int) -> None:
        self.resource = resource
        self.spaces: dict[str, dict[str, Entry]] = {}
        self.count = 0
        self._history = history
        self._events: list[Event] = []
        self._floor = 0
        self._names: dict[str, list[str]] = {}
        self._watchers: dict[str | None, list[Watcher]] = {}
        self._labels: dict[str, dict[str, dict[tuple[str, str], None]]] = {}
        self.nodes: dict[str, dict[tuple[str, str], None]] | None = {} if resource == "pods" else None

    def get(self, namespace: str, name: str) -> Entry | None:
        """Return the object as it is now."""
        space = self.spaces.get(namespace)
        return space.get(name) if space else None

    def entries(self, namespace: str | None = None) -> Iterator[Entry]:
        """Iterate over what is stored now, in no order."""
        if namespace is not None:
            yield from self.spaces.get(namespace, {}).values()
            return
        for space in self.spaces.values():
            yield from space.values()

    def floor(self) -> int:
        """Return the oldest resource version that a watch may start after."""
        return self._floor

    def put(self, entry: Entry) -> Event:
        """Store an entry, new or in place of an older one."""
        space = self.spaces.setdefault(entry.namespace, {})
        before = space.get(entry.name)
        space[entry.name] = entry
        if before is None:
            self.count += 1
            self._names.pop(entry.namespace, None)
        self._index(before, entry)
        return self._record(Event("MODIFIED" if before else "ADDED", entry, before))

    def remove(self, entry: Entry) -> Event:
        """Take an object out; ``entry`` is its last version, under the deletion's resource version."""
        before = self.spaces[entry.namespace].pop(entry.name)
        if not self.spaces[entry.namespace]:
            del self.spaces[entry.namespace]
        self.count -= 1
        self._names.pop(entry.namespace, None)
        self._index(before, None)
        return self._record(Event("DELETED", entry, before))

    def _record(self, event: Event) -> Event:
        events = self._events
        events.append(event)
        if len(events) > 2 * self._history:
            cut = len(events) - self._history
            self._floor = events[cut - 1].rv
            del events[:cut]
        for watcher in self._watchers.get(None, ()):
            watcher.on_event(event)
        for watcher in self._watchers.get(event.entry.namespace, ()):
            watcher.on_event(event)
        return event

    def _index(self, before: Entry | None, after: Entry | None) -> None:
        key = (after or before).namespace, (after or before).name  # type: ignore[union-attr]
        for label, values in self._labels.items():
            old = (before.obj["metadata"].get("labels") or {}).get(label) if before else None
            new = (after.obj["metadata"].get("labels") or {}).get(label) if after else None
            _move(values, key, old, new)
        if self.nodes is not None:
            old = before.obj["spec"].get("nodeName") if before else None
            new = after.obj["spec"].get("nodeName") if after else None
            _move(self.nodes, key, old, new)

    def labelled(self, label: str, value: str) -> list[Entry]:
        """Return what carries a label, by an index that is built at the first question for its key."""
        values = self._labels.get(label)
        if values is None:
            values = self._labels[label] = {}
            for entry in self.entries():
                found = (entry.obj["metadata"].get("labels") or {}).get(label)
                if found is not None:
                    values.setdefault(found, {})[(entry.namespace, entry.name)] = None
        return [self.spaces[space][name] for space, name in values.get(value, ())]

    def on_node(self, node: str) -> list[Entry]:
        """Return the pods that are bound to a node."""
        return [self.spaces[space][name] for space, name in (self.nodes or {}).get(node, ())]

    def events_after(self, rv: int) -> list[Event]:
        """Return the changes after a resource version. Raises Expired."""
        if rv < self._floor:
            raise Expired(rv, self._floor + 1)
        return self._events[bisect_right(self._events, rv, key=lambda event: event.rv) :]

    def watch(self, watcher: Watcher) -> None:
        """Send every later change to a watcher, until :meth:`unwatch`."""
        self._watchers[watcher.namespace] = [*self._watchers.get(watcher.namespace, ()), watcher]

    def unwatch(self, watcher: Watcher) -> None:
        """End a subscription. Ending it twice is harmless."""
        rest = [other for other in self._watchers.get(watcher.namespace, ()) if other is not watcher]
        self._watchers[watcher.namespace] = rest

    def page(
        self,
        namespace: str | None,
        rv: int,
        now: int,
        *,
        after: str = "",
        limit: int = 0,
        accept: Accept | None = None,
    ) -> Page:
        """Return the objects as of ``rv`` in the order of their keys, from behind key ``after``.

        ``now`` is the store's own resource version; ``rv`` may be at most that. Raises Expired.
        """
        past = self._undone(namespace, rv) if rv < now else {}
        found: list[Entry] = []
        last = ""
        for key, entry in self._from(namespace, after, past):
            if accept is not None and not accept(entry.obj):
                continue
            if limit and len(found) == limit:
                remaining = -1 if accept is not None else self._remaining(namespace, last, past)
                return Page(found, rv, last, remaining)
            found.append(entry)
            last = key
        return Page(found, rv, "", 0)

    def _undone(self, namespace: str | None, rv: int) -> dict[str, Entry | None]:
        past: dict[str, Entry | None] = {}
        for event in self.events_after(rv):
            if namespace is None or event.entry.namespace == namespace:
                past.setdefault(_key(event.entry.namespace, event.entry.name), event.before)
        return past

    def _from(
        self, namespace: str | None, after: str, past: dict[str, Entry | None]
    ) -> Iterator[tuple[str, Entry]]:
        lost = (
            sorted(
                (key, entry)
                for key, entry in past.items()
                if entry is not None and key > after and self.get(entry.namespace, entry.name) is None
            )
            if past
            else []
        )
        at = 0
        for key, entry in self._today(namespace, after):
            while at < len(lost) and lost[at][0] < key:
                yield lost[at]
                at += 1
            if key in past:
                then = past[key]
                if then is not None:
                    yield key, then
            else:
                yield key, entry
        yield from lost[at:]

    def _today(self, namespace: str | None, after: str) -> Iterator[tuple[str, Entry]]:
        spaces = [namespace] if namespace is not None else sorted(self.spaces, key=lambda space: space + "/")
        first = after.partition("/")[0] if after else None
        for space in spaces:
            if first is not None and space + "/" < first + "/":
                continue
            names = self._sorted(space)
            start = bisect_right(names, after.partition("/")[2]) if space == first else 0
            objects = self.spaces.get(space, {})
            for name in names[start:] if start else names:
                yield _key(space, name), objects[name]

    def _sorted(self, namespace: str) -> list[str]:
        names = self._names.get(namespace)
        if names is None:
            names = self._names[namespace] = sorted(self.spaces.get(namespace, ()))
        return names

    def _remaining(self, namespace: str | None, after: str, past: dict[str, Entry | None]) -> int:
        if past:
            return sum(1 for _ in self._from(namespace, after, past))
        space, _, name = after.partition("/")
        rest = 0
        for other in [namespace] if namespace is not None else self.spaces:
            names = self._sorted(other)
            if other == space:
                rest += len(names) - bisect_right(names, name)
            elif other + "/" > space + "/":
                rest += len(names)
        return rest


def _key(namespace: str, name: str) -> str:
    return f"{namespace}/{name}"


def _move(
    values: dict[str, dict[tuple[str, str], None]], key: tuple[str, str], old: str | None, new: str | None
) -> None:
    if old == new:
        return
    if old is not None and old in values:
        values[old].pop(key, None)
        if not values[old]:
            del values[old]
    if new is not None:
        values.setdefault(new, {})[key] = None


class Store:
    """All collections and the one resource version they share."""

    def __init__(self, history: int = 20_000) -> None:
        self.rv = 1
        self._history = history
        self._collections: dict[str, Collection] = {}
        self.owners: dict[str, dict[tuple[str, str, str], None]] = {}
        self.uids: dict[str, tuple[str, str, str]] = {}

    def collection(self, resource: str) -> Collection:
        """Return the collection of a qualified resource, made on first use."""
        found = self._collections.get(resource)
        if found is None:
            found = self._collections[resource] = Collection(resource, self._history)
        return found

    def collections(self) -> list[Collection]:
        """Return every collection that was ever used."""
        return list(self._collections.values())

    def put(self, resource: str, obj: JSON, creator: str = "") -> Entry:
        """Store an object as a new version; its metadata gets the resource version (in a new dictionary)."""
        self.rv += 1
        meta = dict(obj["metadata"])
        meta["resourceVersion"] = str(self.rv)
        entry = Entry(obj | {"metadata": meta}, self.rv, meta.get("namespace", ""), meta["name"], creator)
        collection = self.collection(resource)
        before = collection.get(entry.namespace, entry.name)
        self._own(resource, before, entry)
        collection.put(entry)
        return entry

    def remove(self, resource: str, entry: Entry) -> Entry:
        """Take an object out and return its last version."""
        self.rv += 1
        meta = entry.obj["metadata"] | {"resourceVersion": str(self.rv)}
        last = Entry(entry.obj | {"metadata": meta}, self.rv, entry.namespace, entry.name, entry.creator)
        self._own(resource, entry, None)
        self.collection(resource).remove(last)
        return last

    def _own(self, resource: str, before: Entry | None, after: Entry | None) -> None:
        old = (before.obj["metadata"].get("ownerReferences") or ()) if before else ()
        new = (after.obj["metadata"].get("ownerReferences") or ()) if after else ()
        entry = after or before
        assert entry is not None
        key = (resource, entry.namespace, entry.name)
        if old != new:
            for ref in old:
                held = self.owners.get(ref["uid"])
                if held is not None:
                    held.pop(key, None)
                    if not held:
                        del self.owners[ref["uid"]]
            for ref in new:
                self.owners.setdefault(ref["uid"], {})[key] = None
        if before is None:
            self.uids[entry.obj["metadata"]["uid"]] = key
        elif after is None:
            self.uids.pop(entry.obj["metadata"]["uid"], None)

    def dependents(self, uid: str) -> list[tuple[str, str, str]]:
        """Return (resource, namespace, name) of all objects that name this UID as an owner."""
        return list(self.owners.get(uid, ()))
