"""What the server knows about a kind, and the registry of all kinds it serves now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from simulator.core.errors import Cause
from simulator.types import Field

JSON = dict[str, Any]

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class Column(NamedTuple):
    """A column of a table: its header and how a row's cell comes from the object and ``now`` (seconds)."""

    name: str
    cell: Callable[[JSON, float], object]
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


class Lookup(Protocol):
    """What a strategy may read of the rest of the cluster."""

    def find(self, resource: str, namespace: str, name: str) -> JSON | None:
        """Return an object by qualified resource (``plural`` or ``plural.group``), or None."""
        ...

    def every(self, resource: str, namespace: str | None = None) -> list[JSON]:
        """Return all objects of a resource."""
        ...


def nothing(_obj: JSON) -> None:
    """Change nothing."""


def nothing_to(_new: JSON, _old: JSON) -> None:
    """Carry nothing over."""


def admit_all(_obj: JSON, _lookup: Lookup) -> None:
    """Admit as it is."""


def valid(_obj: JSON) -> list[Cause]:
    """Find no fault."""
    return []


def valid_change(_new: JSON, _old: JSON) -> list[Cause]:
    """Find no fault in a change."""
    return []


@dataclass(frozen=True, slots=True)
class Strategy:
    """The rules of one built-in kind. The first arguments are private copies, changed in place."""

    default: Callable[[JSON], None] = nothing
    admit: Callable[[JSON, Lookup], None] = admit_all
    prepare_create: Callable[[JSON], None] = nothing
    validate: Callable[[JSON], list[Cause]] = valid
    prepare_update: Callable[[JSON, JSON], None] = nothing_to
    validate_update: Callable[[JSON, JSON], list[Cause]] = valid_change
    prepare_status: Callable[[JSON, JSON], None] = nothing_to
    generation: bool = False
    returns_deleted: bool = False
    unconditional_update: bool = True
    create_on_update: bool = False
    status_counts: bool = False
    orphans: bool = False  # dependents stay when a deletion says nothing about them


class View(NamedTuple):
    """A second name of stored objects: how they look here, and how a body from here is stored."""

    storage: str
    out: Callable[[JSON], JSON]
    into: Callable[[JSON], JSON]


class Scale(NamedTuple):
    """Where the scale subresource finds its numbers (dotted JSON paths)."""

    spec: str
    status: str
    selector: str = ""


@dataclass(frozen=True)  # no slots: a cached property needs a place
class Kind:
    """One kind in one version. ``decode`` turns a parsed body into a private, pruned, typed copy.

    ``decode`` returns the object and the unknown fields it dropped; it raises StatusError for a value of
    the wrong type.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    status: bool = False
    scale: Scale | None = None
    builtin: bool = True
    verbs: tuple[str, ...] = VERBS
    strategy: Strategy = field(default_factory=Strategy)
    columns: tuple[Column, ...] = ()
    decode: Callable[[JSON], tuple[JSON, list[str]]] = lambda obj: (obj, [])
    validate_schema: Callable[[JSON, JSON | None], list[Cause]] = lambda _obj, _old: []
    schema: Mapping[str, Any] | None = None
    type_name: str = ""
    view: View | None = None
    singular_name: str = ""
    storage_version: str = ""
    selectable: tuple[str, ...] = ()
    fields: Callable[[str], Mapping[str, Field]] = lambda _name: {}

    @property
    def api_version(self) -> str:
        """Return ``group/version``, or ``version`` in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def qualified(self) -> str:
        """Return ``plural.group`` as messages and the registry name the resource."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def singular(self) -> str:
        """Return the name of one, in lower case."""
        return self.singular_name or self.kind.lower()

    @property
    def list_kind(self) -> str:
        """Return the kind of a list of these."""
        return f"{self.kind}List"

    @cached_property
    def storage(self) -> str:
        """Return the qualified resource under which objects are stored."""
        return self.view.storage if self.view else self.qualified


class Registry:
    """The kinds served, by (group, version, plural). Custom ones come and go."""

    def __init__(self, kinds: tuple[Kind, ...]) -> None:
        self._kinds = {(kind.group, kind.version, kind.plural): kind for kind in kinds}
        self.generation = 0

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """Return the kind served at a path."""
        return self._kinds.get((group, version, plural))

    def require(self, group: str, version: str, plural: str) -> Kind:
        """Return a kind that is always served."""
        return self._kinds[group, version, plural]

    def by_kind(self, api_version: str, kind: str) -> Kind | None:
        """Return the kind that an object names."""
        group, _, version = api_version.rpartition("/")
        for found in self._kinds.values():
            if found.kind == kind and found.group == group and found.version == version:
                return found
        return None

    def stored(self, resource: str) -> Kind | None:
        """Return the kind in which a resource is stored."""
        for found in self._kinds.values():
            is_storage = not found.storage_version or found.storage_version == found.version
            if found.qualified == resource and found.view is None and is_storage:
                return found
        return None

    def all(self) -> list[Kind]:
        """Return every kind, in the order of its registration."""
        return list(self._kinds.values())

    def replace_group_resource(self, group: str, plural: str, kinds: list[Kind]) -> None:
        """Serve ``kinds`` for a custom resource instead of what was served (an empty list: nothing)."""
        for key in [k for k, v in self._kinds.items() if (v.group, v.plural) == (group, plural)]:
            del self._kinds[key]
        self._kinds.update({(k.group, k.version, k.plural): k for k in kinds})
        self.generation += 1
