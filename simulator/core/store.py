"""Objects in memory, under one resource version, with a bounded history for watches and paged lists.

Theory of operation. An object, once stored, is never changed: a write stores a new dictionary, which may
share parts with the old one. So reads, lists and watch events hand out references and never copy, and an
object's bytes are made once for each version (:meth:`Entry.raw`). Each write takes the next resource
version and appends one :class:`Event` to its collection's history, which holds the entry before it too:
a list as of an earlier version is today's list with the later events taken back, and a watcher with a
selector sees an object leave it. When the history is too short, the answer is 410 (:class:`Expired`).
"""

from __future__ import annotations

from typing import Any

from simulator.core.collection import Collection
from simulator.core.entries import Entry

JSON = dict[str, Any]


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
        if entry is None:
            return
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
