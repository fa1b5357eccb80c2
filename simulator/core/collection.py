"""All objects of one resource: by key, by indexes, and as they were a while ago."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from simulator.core.entries import Accept, Entry, Event, Expired, Page, Watcher

JSON = dict[str, Any]


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
