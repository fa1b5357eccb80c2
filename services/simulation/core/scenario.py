"""A scenario: manifests in the order in which they appear, completed and judged.

Each is judged against the queues that are there when it appears. Everything that is wrong is found before
anything runs; what is wrong is left out, as a cluster refuses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from services.admission.core.queues import queue_info
from services.admission.core.view import QueueIndex
from services.admission.core.violations import Violation
from services.simulation.core.kinds import KINDS, POLICY, POLICY_KEY, Kind, judge
from services.simulation.core.notes import AT, DELETE_AT, read_times
from services.simulation.core.store import SCHEDULERS, key_of
from shared.api import resources as r
from shared.api.base import JSON
from shared.api.first_queues import first_queues
from shared.api.names import DEFAULT_SCHEDULER
from shared.api.scheduling import Queue
from shared.api.topology import HyperNode
from shared.errors import ContractError, PumiceError
from shared.hypernodes.tree import Topology

_NAMESPACE: Final = "default"
_SYSTEM_CLASSES: Final = frozenset({"system-cluster-critical", "system-node-critical"})
Ref = tuple[str, str, str]
"""Kind, namespace (empty for none), name."""


@dataclass(frozen=True, slots=True)
class Document:
    """A manifest and where it is from: file and number, from 1."""

    source: str
    number: int
    content: Any

    @property
    def where(self) -> str:
        """The beginning of what is said about it."""
        return f"{self.source}: document {self.number}"


@dataclass(frozen=True, slots=True)
class Entry:
    """An object that appears, or changes; ``gone`` None: it stays."""

    kind: Kind
    raw: JSON = field(repr=False)
    at: timedelta
    gone: timedelta | None = None

    @property
    def ref(self) -> Ref:
        """Its kind, namespace and name."""
        meta = self.raw["metadata"]
        return self.kind.resource.kind, meta.get("namespace") or "", meta["name"]


@dataclass(frozen=True, slots=True)
class Scenario:
    """Entries by time; of one time in the order of the documents.

    ``notes``: what is skipped, being of no known kind, and pods that wait for another scheduler.
    ``problems``: what is left out, being wrong; every reason in a line of its own.
    """

    entries: tuple[Entry, ...]
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class ScenarioError(PumiceError):
    """Files are no manifests, or a policy is none; every reason in a line of its own."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def read_scenario(documents: Iterable[Document]) -> Scenario:
    """Read manifests."""
    reader = _Reader()
    for document in _flat(documents):
        reader.sort(document)
    entries = reader.judge()
    return Scenario(tuple(entries), tuple(reader.notes), tuple(reader.problems))


def _flat(documents: Iterable[Document]) -> Iterator[Document]:
    """Take lists (kind: List) apart."""
    for document in documents:
        content = document.content
        items = content.get("items") if isinstance(content, dict) and content.get("kind") == "List" else None
        if isinstance(items, list):
            for item in items:
                yield Document(document.source, document.number, item)
        else:
            yield document


@dataclass(frozen=True, slots=True)
class _Found:
    document: Document
    kind: Kind
    raw: JSON
    at: timedelta
    gone: timedelta | None


class _Reader:
    def __init__(self) -> None:
        self.problems: list[str] = []
        self.notes: list[str] = []
        self._found: list[_Found] = []
        self._queues = QueueIndex()
        self._tree = Topology()
        self._classes = set(_SYSTEM_CLASSES)
        self._there: dict[Ref, JSON] = {}

    def sort(self, document: Document) -> None:
        """Note a document, by when it appears."""
        content = document.content
        if not isinstance(content, dict):
            self.problems.append(f"{document.where}: is no object")
            return
        named = [content.get(field) for field in ("apiVersion", "kind")]
        version, name = (value if isinstance(value, str) else "" for value in named)
        if not version or not name:
            field = "kind" if version else "apiVersion"
            self.problems.append(f"{document.where}: {field}: required, a text")
            return
        kind = KINDS.get((version.rpartition("/")[0], name))
        if kind is None:
            text = f"{name[:80]} of {version[:80]}"
            self.notes.append(f"{document.where}: {text} is no kind that is simulated; skipped")
            return
        metadata = content.get("metadata")
        if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
            self.problems.append(f"{document.where} ({name}): metadata.name: required")
            return
        if kind.resource.namespaced and not metadata.get("namespace"):
            content = {**content, "metadata": {**metadata, "namespace": _NAMESPACE}}
        if kind.resource is r.PRIORITYCLASSES:
            self._classes.add(metadata["name"])
        at, gone = _times(metadata.get("annotations"))
        self._found.append(_Found(document, kind, content, at, gone))

    def judge(self) -> list[Entry]:
        """Complete and judge all that was noted, in order of time."""
        entries: list[Entry] = []
        leaving: dict[Ref, timedelta] = {}
        first = [raw for raw in first_queues() if not self._names_queue(raw["metadata"]["name"])]
        for raw in first:
            entries.append(Entry(KINDS[r.QUEUES.group, r.QUEUES.kind], raw, timedelta()))
            self._queues.put(queue_info(Queue.model_validate(raw)))
        for found in sorted(self._found, key=lambda one: one.at):
            for ref in [ref for ref, when in leaving.items() if when <= found.at]:
                del leaving[ref]
                self._leave(ref)
            entry = self._judge(found)
            if entry is not None:
                entries.append(entry)
                if entry.gone is not None:
                    leaving[entry.ref] = entry.gone
        return entries

    def _names_queue(self, name: str) -> bool:
        """Whether the scenario has this queue from the beginning."""
        return any(
            one.kind.resource is r.QUEUES and one.raw["metadata"]["name"] == name and not one.at
            for one in self._found
        )

    def _judge(self, found: _Found) -> Entry | None:
        meta = found.raw["metadata"]
        ref = (found.kind.resource.kind, str(meta.get("namespace") or ""), meta["name"])
        old = self._there.get(ref)
        try:
            done, violations = judge(found.kind, found.raw, self._queues, old)
        except ContractError as error:
            done, violations = found.raw, [Violation("invalid", "", str(error))]
        if old is not None and not found.kind.changeable:
            message = "is the name of an earlier document, and this kind cannot change"
            violations = [Violation("duplicate", "metadata.name", message), *violations]
        name = "/".join(filter(None, ref[1:]))
        for one in violations:
            path = f"{one.path}: " if one.path else ""
            self.problems.append(f"{found.document.where} ({ref[0]} {name}): {path}{one.message}")
        if violations:
            return None
        self._there[ref] = done
        text = _remark(found.kind, done)
        if text:
            self.notes.append(f"{found.document.where} ({ref[0]} {name}): {text}")
        wanted = (done.get("spec") or {}).get("priorityClassName")
        if wanted and wanted not in self._classes:
            text = f'spec.priorityClassName: no document is a priority class "{wanted}": its priority is 0'
            self.notes.append(f"{found.document.where} ({ref[0]} {name}): {text}")
        if found.kind.resource is r.QUEUES:
            self._queues.put(queue_info(Queue.model_validate(done)))
        if found.kind.resource is r.HYPERNODES:
            self._tree.set_hypernode(ref[2], HyperNode.model_validate(done))
            if self._tree.circular(ref[2]):
                circle = "is a member of itself, at some depth: no gang is placed in it"
                self.notes.append(f"{found.document.where} (HyperNode {name}): {circle}")
        return Entry(found.kind, done, found.at, found.gone)

    def _leave(self, ref: Ref) -> None:
        self._there.pop(ref, None)
        if ref[0] == r.QUEUES.kind:
            self._queues.remove(ref[2])
        if ref[0] == r.HYPERNODES.kind:
            self._tree.set_hypernode(ref[2], None)


def _remark(kind: Kind, done: JSON) -> str:
    """Return what a reader should know about an object that does not do what may be expected."""
    if kind.resource is r.CONFIGMAPS:
        elsewhere = POLICY_KEY in (done.get("data") or {}) and key_of(done) != POLICY
        return (
            f"data[{POLICY_KEY}]: not heeded; call it {'/'.join(POLICY)}, or use --policy"
            if elsewhere
            else ""
        )
    spec = done.get("spec") or {}
    scheduler = spec.get("schedulerName") or "default-scheduler"
    if kind.resource is not r.PODS or spec.get("nodeName") or scheduler in SCHEDULERS:
        return ""
    return f"spec.schedulerName: waits for {scheduler}, which is not simulated; write {DEFAULT_SCHEDULER}"


def _times(annotations: Any) -> tuple[timedelta, timedelta | None]:
    """Return when an object appears and goes; what cannot be read is found when it is judged."""
    given = annotations if isinstance(annotations, dict) else {}
    times = {name: str(given[name]) for name in (AT, DELETE_AT) if name in given}
    try:
        return read_times(times)
    except ValueError:
        return timedelta(), None
