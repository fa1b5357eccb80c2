"""The gangs of PodGroups that no Job owns, as they were last worked out from the informers' stores."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from services.controller.adapters.shape_cache import Shapes
from services.controller.adapters.views import Views
from services.controller.core.holding import words
from services.controller.core.members import group_of
from services.controller.core.model import JSON
from services.controller.core.plaingangs import PlainGroup, plain_gang, read_plain_group
from services.controller.core.podview import owner_job
from shared.api import resources as r
from shared.events.contracts import Gang, Shape


@dataclass(frozen=True, slots=True)
class _Entry:
    raw: JSON
    group: PlainGroup | None
    """None: its types are wrong; ``problem`` says how."""
    problem: str = ""
    gang: Gang | None = None
    unreadable: Mapping[str, str] = field(default_factory=dict[str, str])
    """Its pods that cannot be read, by name, and why."""


class PlainGangs:
    """Works a gang out when told to, and remembers it: a group of thousands is not read with each look."""

    def __init__(self, views: Views, schedulers: Collection[str]) -> None:
        self._views = views
        self._schedulers = schedulers
        self.shapes = Shapes(views.label_keys, views.claims_of)
        self._entries: dict[tuple[str, str], _Entry] = {}

    def of(self, namespace: str, name: str) -> Gang | None:
        """Return the gang as it was when last worked out, or as it is if it never was."""
        entry = self._entries.get((namespace, name))
        if entry is None:
            self.refresh(namespace, name)
            entry = self._entries.get((namespace, name))
        return None if entry is None else entry.gang

    def refresh(self, namespace: str, name: str) -> bool:
        """Work the gang out anew; say whether it is another one."""
        key = (namespace, name)
        before = self._entries.get(key)
        raw = self._views.get(r.PODGROUPS, namespace, name)
        if raw is None or owner_job(raw):
            self._entries.pop(key, None)
            return before is not None
        entry = before if before is not None and before.raw is raw else self._read(raw)
        gang, unreadable = None, dict[str, str]()
        if entry.group is not None:
            pods, priorities = self._views.group_pods(namespace, name), self._views.priorities

            def shape_of(pod: JSON) -> Shape | None:
                try:
                    return self.shapes.completed(pod, priorities)
                except ValueError as error:  # a quantity or expression that the API server let pass
                    unreadable[pod["metadata"]["name"]] = words(error)
                    return None

            gang = plain_gang(entry.group, pods, priorities, shape_of)
        self._entries[key] = replace(entry, gang=gang, unreadable=unreadable)
        return before is None or before.gang != gang

    def unreadable(self, namespace: str, name: str) -> Mapping[str, str]:
        """Return the pods that were left out because they cannot be read, by name, and why."""
        entry = self._entries.get((namespace, name))
        return {} if entry is None else entry.unreadable

    def problem(self, namespace: str, name: str) -> str:
        """Return why a PodGroup cannot be read, when last looked at; empty when it can."""
        entry = self._entries.get((namespace, name))
        return "" if entry is None else entry.problem

    def group(self, namespace: str, name: str) -> PlainGroup | None:
        """Return a PodGroup as read; None when it is not there, a Job's, or its types are wrong."""
        raw = self._views.get(r.PODGROUPS, namespace, name)
        if raw is None or owner_job(raw):
            return None
        entry = self._entries.get((namespace, name))
        if entry is not None and entry.raw is raw:
            return entry.group
        return self._read(raw).group

    @staticmethod
    def _read(raw: JSON) -> _Entry:
        try:
            return _Entry(raw, read_plain_group(raw))
        except ValueError as error:
            return _Entry(raw, None, words(error))

    def membership(self, pod: JSON) -> tuple[str, str] | None:
        """Return the PodGroup and queue of a pod of ours that no Job owns; the queue is empty until known."""
        name = group_of(pod, self._schedulers)
        if name is None:
            return None
        group = self.group(pod["metadata"]["namespace"], name)
        return name, group.queue if group else ""
