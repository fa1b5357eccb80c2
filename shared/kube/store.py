"""The informer's store: what is known of one kind, and which of two reports is the newer one. Pure.

Reports come from three sides, in no order between them: lists, watch events, and the answers to our own
writes. The rules, with a resource version (RV) being a number that grows with every change of the kind
(all servers do so; Kubernetes documents it since 1.35):

* An object replaces the stored one of its name only with a greater RV.
* An object that is not stored is new only if its RV is greater than the position of the watch: were it
  older and still alive, the watch or the list would have shown it.
* What :meth:`Store.forget` removed does not come back under its UID, until the watch reports its end.
* A list removes what it does not show, except what is newer than the list.
* A list older than what was seen means that the server's history began anew (restored, or a fresh
  simulator): it replaces everything. One that began anew and is past ours by now shows other UIDs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from shared.kube.port import JSON, Listing, WatchEvent

Key = tuple[str, str]
"""Namespace (empty for what has none) and name."""
Index = Callable[[JSON], Iterable[str]]
"""The values under which an object is found in an index."""


class Change(NamedTuple):
    """An object before and after; None: it was not there, or is no more."""

    old: JSON | None
    new: JSON | None


def key_of(obj: JSON) -> Key:
    """Return the key of an object."""
    metadata = obj["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


def version_of(obj: JSON) -> int:
    """Return an object's resource version as a number."""
    return int(obj["metadata"].get("resourceVersion") or 0)


def _uid(obj: JSON) -> str:
    return obj["metadata"].get("uid") or ""


class Store:
    """The objects of one kind by key, with indexes. Each method returns the changes it made, in order."""

    def __init__(self, indexes: Mapping[str, Index] | None = None) -> None:
        self.objects: dict[Key, JSON] = {}
        self.position = 0
        """The RV up to which list and watch have shown everything."""
        self._index_functions = dict(indexes or {})
        self._indexed: dict[str, dict[str, dict[Key, JSON]]] = {name: {} for name in self._index_functions}
        self._forgotten: set[str] = set()
        self._forgotten_before_list: set[str] = set()

    def by(self, index: str, value: str) -> list[JSON]:
        """Return the objects under a value of an index."""
        return list(self._indexed[index].get(value, {}).values())

    def begin_list(self) -> None:
        """Note that a list is about to be read: what is forgotten from now on is newer than it."""
        self._forgotten_before_list = set(self._forgotten)

    def replace(self, listing: Listing) -> list[Change]:
        """Take a list over, as the difference to what is stored."""
        self._forgotten -= self._forgotten_before_list
        self._forgotten_before_list = set()
        version = int(listing.resource_version or 0)
        anew = version < self.position
        items = {key_of(item): item for item in listing.items}
        changes: list[Change] = []
        for key, old in list(self.objects.items()):
            if key not in items and (anew or version_of(old) <= version):
                changes.append(self._remove(key))
        for key, item in items.items():
            stored = self.objects.get(key)
            if (
                stored is None
                or version_of(item) > version_of(stored)
                or (anew and item != stored)
                or (version_of(stored) <= version and _uid(item) != _uid(stored))
            ) and not self._is_forgotten(item):
                changes += self._put(key, item)
        self.position = version
        return changes

    def apply(self, event: WatchEvent) -> list[Change]:
        """Take a watch event over."""
        obj, version = event.object, version_of(event.object)
        self.position = max(self.position, version)
        if event.type == "BOOKMARK":
            return []
        key = key_of(obj)
        stored = self.objects.get(key)
        if event.type == "DELETED":
            self._forgotten.discard(_uid(obj))
            is_newer_one = stored is not None and version_of(stored) > version and _uid(stored) != _uid(obj)
            return [] if stored is None or is_newer_one else [self._remove(key, last=obj)]
        if self._is_forgotten(obj) or (stored is not None and version_of(stored) >= version):
            return []
        return self._put(key, obj)

    def upsert(self, obj: JSON) -> list[Change]:
        """Take the answer to one of our writes over, unless a newer report has come already."""
        key, version = key_of(obj), version_of(obj)
        stored = self.objects.get(key)
        known = self.position if stored is None else version_of(stored)
        if version <= known or self._is_forgotten(obj):
            return []
        return self._put(key, obj)

    def forget(self, obj: JSON) -> list[Change]:
        """Take out what we have deleted for good, before the watch says so."""
        key = key_of(obj)
        stored = self.objects.get(key)
        if stored is None and version_of(obj) <= self.position:
            return []  # the watch has shown its end already
        if stored is not None and _uid(stored) != _uid(obj):
            return []
        self._forgotten.add(_uid(obj))
        return [] if stored is None else [self._remove(key)]

    def _is_forgotten(self, obj: JSON) -> bool:
        return bool(self._forgotten) and _uid(obj) in self._forgotten

    def _put(self, key: Key, obj: JSON) -> list[Change]:
        old = self.objects.get(key)
        self._unindex(key, old)
        self.objects[key] = obj
        for name, value in self._values(obj):
            self._indexed[name].setdefault(value, {})[key] = obj
        if old is not None and _uid(old) != _uid(obj):
            return [Change(old, None), Change(None, obj)]  # its end was missed
        return [Change(old, obj)]

    def _remove(self, key: Key, last: JSON | None = None) -> Change:
        old = self.objects.pop(key)
        self._unindex(key, old)
        return Change(last or old, None)

    def _unindex(self, key: Key, obj: JSON | None) -> None:
        if obj is None:
            return
        for name, value in self._values(obj):
            entries = self._indexed[name][value]
            entries.pop(key, None)
            if not entries:
                del self._indexed[name][value]

    def _values(self, obj: JSON) -> Iterator[tuple[str, str]]:
        for name, function in self._index_functions.items():
            for value in function(obj):
                yield name, value
