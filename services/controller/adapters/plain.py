"""The gangs of PodGroups that no Job owns, as they were last worked out from the informers' stores."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from pydantic import ValidationError

from services.controller.adapters.shape_cache import Shapes
from services.controller.adapters.views import Views
from services.controller.core.members import group_of
from services.controller.core.model import JSON
from services.controller.core.plaingangs import PlainGroup, plain_gang, read_plain_group
from services.controller.core.podview import owner_job
from shared.api import resources as r
from shared.events.contracts import Gang


class _Entry(NamedTuple):
    raw: JSON
    group: PlainGroup | None
    """None: its types are wrong."""
    gang: Gang | None


class PlainGangs:
    """Works a gang out when told to, and remembers it: a group of thousands is not read with each look."""

    def __init__(self, views: Views, schedulers: Collection[str]) -> None:
        self._views = views
        self._schedulers = schedulers
        self.shapes = Shapes()
        self._entries: dict[tuple[str, str], _Entry] = {}

    def of(self, namespace: str, name: str) -> Gang | None:
        """Return the gang as it was when last worked out, or as it is if it never was."""
        entry = self._entries.get((namespace, name))
        if entry is None:
            self.refresh(namespace, name)
            entry = self._entries.get((namespace, name))
        return entry and entry.gang

    def refresh(self, namespace: str, name: str) -> bool:
        """Work the gang out anew; say whether it is another one."""
        key = (namespace, name)
        before = self._entries.get(key)
        raw = self._views.get(r.PODGROUPS, namespace, name)
        if raw is None or owner_job(raw):
            self._entries.pop(key, None)
            return before is not None
        group = self.group(namespace, name)
        gang = None
        if group is not None:
            try:
                pods, priorities = self._views.group_pods(namespace, name), self._views.priorities
                gang = plain_gang(group, pods, priorities, lambda pod: self.shapes.of(pod, priorities))
            except ValueError:  # a quantity or expression that the API server let pass and we cannot read
                gang = None
        self._entries[key] = _Entry(raw, group, gang)
        return before is None or before.gang != gang

    def group(self, namespace: str, name: str) -> PlainGroup | None:
        """Return a PodGroup as read; None when it is not there, a Job's, or its types are wrong."""
        raw = self._views.get(r.PODGROUPS, namespace, name)
        if raw is None or owner_job(raw):
            return None
        entry = self._entries.get((namespace, name))
        if entry is not None and entry.raw is raw:
            return entry.group
        try:
            return read_plain_group(raw)
        except (ValidationError, ValueError):
            return None

    def membership(self, pod: JSON) -> tuple[str, str] | None:
        """Return the PodGroup and queue of a pod of ours that no Job owns; the queue is empty until known."""
        name = group_of(pod, self._schedulers)
        if name is None:
            return None
        group = self.group(pod["metadata"]["namespace"], name)
        return name, group.queue if group else ""
