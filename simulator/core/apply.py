"""Server-side apply: an object as its manager wants it, merged into the object as it is."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from simulator.core import fieldset, managed
from simulator.core.entries import Entry
from simulator.core.errors import StatusError
from simulator.core.fieldset import Path, Shape
from simulator.core.kinds import Kind
from simulator.core.managed import Manager, Owned
from simulator.core.world import Call

JSON = dict[str, Any]

_ABSENT: Final = object()


def created(kind: Kind, wanted: JSON, call: Call) -> JSON:
    """Return the object that an apply creates, with its manager's entry."""
    me = Manager(call.manager, "Apply", kind.api_version)
    managers = {me: Owned(frozenset(managed.owned_paths(kind, wanted)), call.stamp)}
    return wanted | {"metadata": wanted["metadata"] | {"managedFields": managed.write(managers)}}


def applied(kind: Kind, current: Entry, wanted: JSON, call: Call, subresource: str, *, force: bool) -> JSON:
    """Return the current object with what is wanted merged in. Raises StatusError 409 for conflicts."""
    live = current.obj
    managers = managed.read(live["metadata"])
    if not managers:
        first = Manager(current.creator or "before-first-apply", "Update", kind.api_version)
        stamp = live["metadata"].get("creationTimestamp", "")
        managers = {first: Owned(frozenset(managed.owned_paths(kind, live, containers=True)), stamp)}
    me = Manager(call.manager, "Apply", kind.api_version, subresource)
    mine = managed.owned_paths(kind, wanted, subresource)
    have = managed.owned_paths(kind, live, subresource, containers=True)
    changed = {path for path, value in mine.items() if value is not None and have.get(path, _ABSENT) != value}
    conflicts = {
        m: changed & owned.paths for m, owned in managers.items() if m != me and changed & owned.paths
    }
    if conflicts and not force:
        raise _conflict(conflicts)
    managers = managed.without(managers, changed, me)
    before = managers.get(me, Owned(frozenset(), ""))
    mine_now = frozenset(mine)
    shape = managed.shape_of(kind)
    merged: JSON = _merge(shape, live, _only(wanted, kind, subresource))
    others = frozenset[Path]().union(*(owned.paths for m, owned in managers.items() if m != me))
    for path in sorted(before.paths - mine_now, key=len):
        if path not in others and not any(other[: len(path)] == path for other in others | mine_now):
            merged = _removed(shape, merged, path)
    meta = dict(merged["metadata"])
    same = before.paths == mine_now and managers.get(me) is not None and _same(merged, live)
    managers[me] = before if same else Owned(mine_now, call.stamp)
    meta["managedFields"] = live["metadata"].get("managedFields") if same else managed.write(managers)
    return merged | {"metadata": meta}


def _same(merged: JSON, live: JSON) -> bool:
    return all(merged.get(key) == live.get(key) for key in {*merged, *live})


def _only(wanted: JSON, kind: Kind, subresource: str) -> JSON:
    """Return the parts that an endpoint writes."""
    meta = {
        k: v for k, v in wanted["metadata"].items() if k not in ("managedFields", "resourceVersion", "uid")
    }
    rest = {
        k: v
        for k, v in wanted.items()
        if k != "metadata"
        and not (
            kind.status and (k == "status") != (subresource == "status") and (k == "status" or subresource)
        )
    }
    return rest | {"metadata": meta}


def _conflict(conflicts: Mapping[Manager, AbstractSet[Path]]) -> StatusError:
    causes: list[JSON] = []
    groups: list[str] = []
    for manager, paths in sorted(conflicts.items()):
        who = _who(manager)
        fields = [fieldset.text(path) for path in fieldset.in_order(paths)]
        causes += [
            {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": f} for f in fields
        ]
        if len(fields) == 1:
            groups.append(f"conflict with {who}: {fields[0]}")
        else:
            groups.append(f"conflicts with {who}:\n" + "\n".join(f"- {field}" for field in fields))
    count = len(causes)
    plural = "" if count == 1 else "s"
    message = f"Apply failed with {count} conflict{plural}: " + "\n".join(groups)
    return StatusError(409, "Conflict", message, {"causes": causes})


def _who(manager: Manager) -> str:
    who = f'"{manager.name}"'
    if manager.subresource:
        who += f' with subresource "{manager.subresource}"'
    if manager.operation == "Update":
        who += f" using {manager.version}"
    return who


def _merge(shape: Shape, live: Any, wanted: Any) -> Any:
    if isinstance(wanted, dict) and isinstance(live, dict) and not shape.atomic:
        out = dict(live)
        for key, one in wanted.items():
            out[key] = _merge(shape.child(key), live.get(key), one)
        return out
    if isinstance(wanted, list) and isinstance(live, list) and shape.kind != "atomic":
        return _merge_list(shape, live, wanted)
    return wanted


def _merge_list(shape: Shape, live: list[Any], wanted: list[Any]) -> list[Any]:
    """Merge by element: the wanted order, with elements of others kept where they were."""
    asked = {fieldset.element(shape, one): one for one in wanted}
    out: list[Any] = []
    for one in live:
        mark = fieldset.element(shape, one)
        out.append(_merge(shape.item(), one, asked.pop(mark)) if mark in asked else one)
    return [*out, *asked.values()]


def _removed(shape: Shape, value: Any, path: Path) -> Any:
    """Return a value without what a path names; shares everything else."""
    first, rest = path[0], path[1:]
    if first.startswith("f:") and isinstance(value, dict):
        key = first[2:]
        if key not in value:
            return value
        out = dict(value)
        if rest:
            out[key] = _removed(shape.child(key), value[key], rest)
        else:
            del out[key]
        return out
    if isinstance(value, list):
        if not rest:
            return [one for one in value if fieldset.element(shape, one) != first]
        return [
            _removed(shape.item(), one, rest) if fieldset.element(shape, one) == first else one
            for one in value
        ]
    return value
