"""The objects of the simulated cluster, as an API server keeps them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from datetime import datetime
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from services.controller.core.members import group_of
from services.controller.core.model import GroupView, Priorities, Wanted, read_group
from services.controller.core.podview import owner_job
from shared.api import names
from shared.api import resources as r
from shared.api.base import JSON
from shared.api.meta import format_time
from shared.kube.port import Resource

Key = tuple[str, str]
"""Namespace (empty for none) and name."""

SCHEDULERS: Final = frozenset({names.DEFAULT_SCHEDULER})
_SYSTEM_CLASSES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""Priority classes that every cluster has."""


def key_of(raw: JSON) -> Key:
    """Return an object's key."""
    meta = raw["metadata"]
    return meta.get("namespace") or "", meta["name"]


class Store:
    """Objects by kind and key. They are replaced, never changed in place."""

    def __init__(self) -> None:
        self.label_keys: frozenset[str] = frozenset()
        """Keys of the labels of pods that placing depends on."""
        self._objects: dict[Resource, dict[Key, JSON]] = {}
        self._made: Counter[tuple[str, str, str]] = Counter()
        self._of_job: dict[Key, dict[str, None]] = {}
        self._of_group: dict[Key, dict[str, None]] = {}
        self._on_node: dict[str, dict[Key, None]] = {}

    def all(self, resource: Resource) -> dict[Key, JSON]:
        """Return the objects of a kind."""
        return self._objects.setdefault(resource, {})

    def get(self, resource: Resource, key: Key) -> JSON | None:
        """Return an object."""
        return self.all(resource).get(key)

    def create(self, resource: Resource, raw: JSON, now: datetime) -> JSON:
        """Add an object with a UID and the time; the same run gives the same UIDs."""
        key = key_of(raw)
        self._made[resource.kind, *key] += 1
        number = self._made[resource.kind, *key]
        uid = str(uuid5(NAMESPACE_URL, "/".join((resource.kind, *key, str(number)))))
        meta = {**raw["metadata"], "uid": uid, "creationTimestamp": format_time(now), "generation": 1}
        return self.put(resource, {**raw, "metadata": meta})

    def put(self, resource: Resource, raw: JSON) -> JSON:
        """Add or replace an object."""
        key = key_of(raw)
        if resource is r.PODS:
            self._note(key, self.get(resource, key), raw)
        self.all(resource)[key] = raw
        return raw

    def remove(self, resource: Resource, key: Key) -> JSON | None:
        """Take an object out."""
        raw = self.all(resource).pop(key, None)
        if raw is not None and resource is r.PODS:
            self._note(key, raw, None)
        return raw

    def _note(self, key: Key, old: JSON | None, new: JSON | None) -> None:
        """Keep the indexes of pods."""
        for raw, sign in ((old, -1), (new, 1)):
            if raw is None:
                continue
            job, group = owner_job(raw), group_of(raw, SCHEDULERS)
            node = (raw.get("spec") or {}).get("nodeName")
            if job is not None:
                _mark(self._of_job, (key[0], job[0]), key[1], sign)
            if group is not None:
                _mark(self._of_group, (key[0], group), key[1], sign)
            if node:
                _mark(self._on_node, node, key, sign)

    def pods_of_job(self, key: Key) -> list[JSON]:
        """Return the pods of a job, by name."""
        pods = self.all(r.PODS)
        return [pods[key[0], name] for name in sorted(self._of_job.get(key, ()))]

    def pods_of_group(self, key: Key) -> list[JSON]:
        """Return the pods of a PodGroup that no job owns."""
        pods = self.all(r.PODS)
        return [pods[key[0], name] for name in self._of_group.get(key, ())]

    def pods_on(self, node: str) -> list[JSON]:
        """Return the pods of a node."""
        pods = self.all(r.PODS)
        return [pods[key] for key in self._on_node.get(node, ())]

    def group(self, wanted: Wanted) -> GroupView | None:
        """Return a job's PodGroup."""
        raw = self.get(r.PODGROUPS, (wanted.namespace, wanted.podgroup))
        generation = (wanted.raw.get("status") or {}).get("version") or 0
        return None if raw is None else read_group(raw, generation)

    @property
    def priorities(self) -> Priorities:
        """The priority classes."""
        classes: Collection[JSON] = self.all(r.PRIORITYCLASSES).values()
        default = max((one.get("value") or 0 for one in classes if one.get("globalDefault")), default=0)
        values = {one["metadata"]["name"]: one.get("value") or 0 for one in classes}
        return Priorities(_SYSTEM_CLASSES | values, default)


def _mark(index: dict[Any, dict[Any, None]], key: Any, member: Any, sign: int) -> None:
    if sign > 0:
        index.setdefault(key, {})[member] = None
        return
    members = index.get(key)
    if members is not None:
        members.pop(member, None)
        if not members:
            del index[key]


def patched(old: JSON, patch: JSON) -> JSON:
    """Return an object with a merge patch (RFC 7386) applied."""
    new = dict(old)
    for name, value in patch.items():
        if value is None:
            new.pop(name, None)
        elif isinstance(value, dict):
            before = new.get(name)
            new[name] = patched(before if isinstance(before, dict) else {}, value)
        else:
            new[name] = value
    return new
