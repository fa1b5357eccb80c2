"""The world behind the verbs: store, kinds, and what follows from a write (collection, namespaces, CRDs)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from shared.api.meta import format_time
from simulator.core.entries import Entry
from simulator.core.kinds import Kind, Registry
from simulator.core.store import Store

JSON = dict[str, Any]
T = TypeVar("T")

CRDS = "customresourcedefinitions.apiextensions.k8s.io"
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"  # on a CRD that goes, until its objects are gone
FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class HookCall(NamedTuple):
    """A webhook that the shell must call: its clientConfig, the AdmissionReview, the limit in seconds."""

    client: JSON
    review: JSON
    timeout: float


class HookAnswer(NamedTuple):
    """What a webhook answered: the review it sent back, or why there is none."""

    review: JSON | None
    error: str = ""


# A verb: yields the webhooks to call, gets their answers, returns its result; without webhooks never yields.
Steps = Generator[HookCall, HookAnswer, T]


@dataclass(slots=True)
class Call:
    """What every request carries: time, a source of identifiers, and its options."""

    now: datetime
    ids: Callable[[], str]
    manager: str = "unknown"
    dry_run: bool = False
    validation: str = "Warn"
    applied: bool = False
    warnings: list[str] = field(default_factory=list)

    @property
    def stamp(self) -> str:
        """Return the time as metadata shows it."""
        return format_time(self.now)


class World:
    """All state. The verbs (``create``, ``update`` …) are functions over it."""

    def __init__(self, registry: Registry, history: int = 20_000) -> None:
        self.registry = registry
        self.store = Store(history)
        self.terminating: set[str] = set()
        self.gone: deque[str] = deque()
        self.suspects: dict[tuple[str, str, str], None] = {}  # in order, each once
        self.swept: set[str] = set()
        self.unestablished: set[str] = set()  # CRDs whose status does not say yet that they are served
        self.defined: Callable[[JSON], list[Kind]] = lambda _crd: []

    def find(self, resource: str, namespace: str, name: str) -> JSON | None:
        """Return an object by qualified resource, or None."""
        entry = self.store.collection(resource).get(namespace, name)
        return entry.obj if entry else None

    def every(self, resource: str, namespace: str | None = None) -> list[JSON]:
        """Return all objects of a resource."""
        return [entry.obj for entry in self.store.collection(resource).entries(namespace)]

    def save(self, kind: Kind, obj: JSON, creator: str = "") -> Entry:
        """Store a version and note what must follow from it."""
        entry = self.store.put(kind.storage, obj, creator)
        meta = entry.obj["metadata"]
        key = (kind.storage, entry.namespace, entry.name)
        if any(reference["uid"] not in self.store.uids for reference in meta.get("ownerReferences") or ()):
            self.suspects[key] = None
        if meta.get("deletionTimestamp"):
            if FOREGROUND in (finalizers := meta.get("finalizers") or ()) or ORPHAN in finalizers:
                self.suspects[key] = None
            if kind.storage == "namespaces":
                self.terminating.add(entry.name)
                self.suspects[key] = None
            if kind.storage == CRDS:
                self.suspects[key] = None
        if kind.storage == CRDS:
            self._serve(entry.obj)
            if not entry.obj["status"].get("conditions"):
                self.unestablished.add(entry.name)
        return entry

    def erase(self, kind: Kind, entry: Entry) -> Entry:
        """Take an object out and note what must follow from it."""
        last = self.store.remove(kind.storage, entry)
        uid = entry.obj["metadata"]["uid"]
        if self.store.owners.get(uid):
            self.gone.append(uid)
        for reference in entry.obj["metadata"].get("ownerReferences") or ():
            owner = self.store.uids.get(reference["uid"])
            if owner is not None and self._waits(owner):
                self.suspects[owner] = None
        if entry.namespace in self.terminating:
            self.suspects["namespaces", "", entry.namespace] = None
        if kind.storage == "namespaces":
            self.terminating.discard(entry.name)
            self.swept.discard(entry.name)
        if kind.storage == CRDS:
            self._drop(entry.obj)
        elif not kind.builtin:
            crd = self.find(CRDS, "", kind.qualified)
            if crd is not None and crd["metadata"].get("deletionTimestamp"):
                self.suspects[CRDS, "", kind.qualified] = None
        return last

    def _waits(self, owner: tuple[str, str, str]) -> bool:
        obj = self.find(*owner)
        return obj is not None and FOREGROUND in (obj["metadata"].get("finalizers") or ())

    def _serve(self, crd: JSON) -> None:
        spec = crd["spec"]
        self.registry.replace_group_resource(spec["group"], spec["names"]["plural"], self.defined(crd))

    def _drop(self, crd: JSON) -> None:
        spec = crd["spec"]
        self.registry.replace_group_resource(spec["group"], spec["names"]["plural"], [])
