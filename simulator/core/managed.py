"""Who owns which field (``metadata.managedFields``).

Kept for objects that were server-side applied at least once: from the first apply on, every write is
tracked. An object that was only created and updated has no entries; its first apply finds all its
fields owned by the manager that created it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from simulator.core import fieldset
from simulator.core.fieldset import Paths, Shape
from simulator.core.kinds import Kind
from simulator.core.world import Call

JSON = dict[str, Any]

_NOT_OWNED: Final = frozenset(
    ("f:metadata", f"f:{name}")
    for name in [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "generation",
        "managedFields",
        "resourceVersion",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ]
) | {("f:apiVersion",), ("f:kind",), ("f:metadata",)}


class Manager(NamedTuple):
    """Whose entry it is."""

    name: str
    operation: str
    version: str
    subresource: str = ""


class Owned(NamedTuple):
    """The fields of one manager and when it last changed them."""

    paths: Paths
    time: str


Managers = dict[Manager, Owned]


def shape_of(kind: Kind) -> Shape:
    """Return the shape of a kind's objects."""
    if kind.builtin:
        return fieldset.of_type(kind.fields, kind.type_name)
    return fieldset.of_schema(kind.schema or {})


def owned_paths(
    kind: Kind, obj: JSON, subresource: str = "", *, containers: bool = False
) -> dict[fieldset.Path, Any]:
    """Return the paths of an object that can be owned through an endpoint, with their values."""
    found: dict[fieldset.Path, Any] = {}
    for path, value in fieldset.leaves(shape_of(kind), obj, containers=containers):
        if path in _NOT_OWNED or path[:2] in _NOT_OWNED:
            continue
        if (
            kind.status
            and (path[0] == "f:status") != (subresource == "status")
            and (subresource == "status" or path[0] == "f:status")
        ):
            continue
        found[path] = value
    return found


def read(meta: JSON) -> Managers:
    """Return the managers that metadata names."""
    managers: Managers = {}
    for entry in meta.get("managedFields") or ():
        if not entry.get("manager") and not entry.get("operation"):
            continue
        manager = Manager(
            entry.get("manager", ""),
            entry["operation"],
            entry.get("apiVersion", ""),
            entry.get("subresource", ""),
        )
        managers[manager] = Owned(
            frozenset(fieldset.unpack(entry.get("fieldsV1") or {})), entry.get("time", "")
        )
    return managers


def write(managers: Managers) -> list[JSON]:
    """Return managers as metadata shows them: applies first, then by time and name."""

    def order(item: tuple[Manager, Owned]) -> tuple[bool, str, str]:
        return item[0].operation != "Apply", item[1].time, item[0].name

    entries: list[JSON] = []
    for manager, owned in sorted(managers.items(), key=order):
        if not owned.paths:
            continue
        entry: JSON = {"manager": manager.name, "operation": manager.operation, "apiVersion": manager.version}
        if owned.time:
            entry["time"] = owned.time
        entry |= {"fieldsType": "FieldsV1", "fieldsV1": fieldset.pack(owned.paths)}
        if manager.subresource:
            entry["subresource"] = manager.subresource
        entries.append(entry)
    return entries


def without(managers: Managers, paths: Iterable[fieldset.Path], keep: Manager | None = None) -> Managers:
    """Return the managers with paths (and what is below them) taken from all but one."""
    gone = set(paths)

    def lost(path: fieldset.Path) -> bool:
        return any(path[:end] in gone for end in range(1, len(path) + 1))

    return {
        manager: owned
        if manager == keep
        else Owned(frozenset(p for p in owned.paths if not lost(p)), owned.time)
        for manager, owned in managers.items()
    }


def track(kind: Kind, obj: JSON, old: JSON, call: Call, subresource: str) -> None:
    """Note in ``obj`` (private) what a write that is no apply changed of ``old``."""
    meta = obj["metadata"]
    held = old["metadata"].get("managedFields")
    if not held:
        meta.pop("managedFields", None)
        return
    sent = meta.get("managedFields")
    if sent in ([], [{}]):  # a client's way to forget all owners
        meta.pop("managedFields", None)
        return
    meta["managedFields"] = held
    before = owned_paths(kind, old, subresource, containers=True)
    after = owned_paths(kind, obj, subresource, containers=True)
    changed = frozenset(path for path, value in after.items() if path not in before or before[path] != value)
    removed = [path for path in before if path not in after]
    if not changed and not removed:
        return
    me = Manager(call.manager, "Update", kind.api_version, subresource)
    managers = without(read(old["metadata"]), removed)
    replaced = [path for path in changed if path in before]
    managers = without(managers, replaced, me)
    mine = managers.get(me, Owned(frozenset(), ""))
    managers[me] = Owned(mine.paths | changed, call.stamp)
    meta["managedFields"] = write(managers)
