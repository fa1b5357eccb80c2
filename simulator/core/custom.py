"""Kinds made from CustomResourceDefinitions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import orjson

from simulator.core import structural
from simulator.core.errors import Cause, invalid
from simulator.core.kinds import Column, Kind, Scale, Strategy

JSON = dict[str, Any]
Metadata = Callable[[str, str, Any], tuple[JSON, list[str]]]
"""Types the metadata of an object of an apiVersion and kind; returns it and its unknown fields."""
_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_OWN: Final = frozenset({"apiVersion", "kind", "metadata"})
"""What the API server itself knows of every object."""


def kinds(crd: JSON, decode_metadata: Metadata) -> list[Kind]:
    """Return a kind for every served version of a definition, the stored version first."""
    spec = crd["spec"]
    versions = [version for version in spec["versions"] if version.get("served")]
    storage = next(version["name"] for version in spec["versions"] if version.get("storage"))
    versions.sort(key=lambda version: version["name"] != storage)
    return [_kind(spec, version, storage, decode_metadata) for version in versions]


def _kind(spec: JSON, version: JSON, storage: str, decode_metadata: Metadata) -> Kind:
    names = spec["names"]
    schema: JSON = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    subresources = version.get("subresources") or {}
    scale = subresources.get("scale")
    has_status = "status" in subresources
    return Kind(
        group=spec["group"],
        version=version["name"],
        plural=names["plural"],
        kind=names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        status=has_status,
        scale=Scale(
            scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath", "")
        )
        if scale
        else None,
        builtin=False,
        verbs=_VERBS,
        strategy=_strategy(has_status=has_status),
        columns=_columns(version),
        decode=_decoder(schema, decode_metadata),
        validate_schema=_validator(schema, scale["specReplicasPath"] if scale else ""),
        schema=schema,
        singular_name=names.get("singular", ""),
        storage_version=storage,
        selectable=tuple(field["jsonPath"] for field in version.get("selectableFields") or ()),
    )


def _decoder(schema: JSON, decode_metadata: Metadata) -> Callable[[JSON], tuple[JSON, list[str]]]:
    def decode(body: JSON) -> tuple[JSON, list[str]]:
        unknown: list[str] = []
        pruned = structural.prune(schema, body, "", unknown, root=True)
        obj: JSON = {"apiVersion": pruned.pop("apiVersion"), "kind": pruned.pop("kind")}
        meta = pruned.pop("metadata", None) or {}
        obj["metadata"], unknown_too = decode_metadata(obj["apiVersion"], obj["kind"], meta)
        obj.update(pruned)
        return obj, unknown + unknown_too

    return decode


def _validator(schema: JSON, replicas: str = "") -> Callable[[JSON, JSON | None], list[Cause]]:
    """Return the check of an object, and of its change.

    What a change leaves as it was is not looked at again, as in Kubernetes (validation ratcheting, KEP-4008);
    rules about a transition are, for they may refuse that nothing changes. ``replicas`` is the path of the
    number that the scale subresource sets.
    """
    number = json_path(replicas) if replicas else None
    properties: JSON = schema.get("properties") or {}
    ratcheting = frozenset(key for key, part in properties.items() if b"oldSelf" not in orjson.dumps(part))
    needed = [name for name in schema.get("required") or () if name not in _OWN]

    def check(obj: JSON, old: JSON | None) -> list[Cause]:
        value = {key: part for key, part in obj.items() if key not in _OWN}
        before = {key: part for key, part in old.items() if key not in _OWN} if old else None
        same = {key for key in ratcheting if before and key in before and value.get(key) == before[key]}
        looked_at = {key: part for key, part in properties.items() if key not in same}
        shape = {**schema, "properties": looked_at, "required": needed}
        causes = structural.validate(shape, value, "", before)
        found = number(obj) if number is not None else ()
        if found and isinstance(found[0], int) and found[0] < 0:
            causes.append(invalid(replicas, found[0], "should be a non-negative integer"))
        return causes

    return check


def _strategy(*, has_status: bool) -> Strategy:
    def create(obj: JSON) -> None:
        if has_status:
            obj.pop("status", None)
        obj["metadata"]["generation"] = 1

    def update(new: JSON, old: JSON) -> None:
        if has_status:
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]

    def status(new: JSON, old: JSON) -> None:
        fresh = new.get("status")
        managed = new["metadata"].get("managedFields")
        version = new["metadata"].get("resourceVersion")
        new.clear()
        new.update(old)
        new["metadata"] = dict(old["metadata"])
        if managed is not None:
            new["metadata"]["managedFields"] = managed
        if version is not None:
            new["metadata"]["resourceVersion"] = version
        new.pop("status", None)
        if fresh is not None:
            new["status"] = fresh

    return Strategy(
        prepare_create=create,
        prepare_update=update,
        prepare_status=status,
        generation=True,
        status_counts=not has_status,
        unconditional_update=False,
    )


def _columns(version: JSON) -> tuple[Column, ...]:
    given = version.get("additionalPrinterColumns") or ()
    columns = [
        Column(
            column["name"],
            _cell(column["jsonPath"], column["type"]),
            column["type"],
            column.get("format", ""),
            column.get("description", ""),
            int(column.get("priority", 0)),
        )
        for column in given
    ]
    if not columns:
        columns = [Column("Age", _cell(".metadata.creationTimestamp", "date"), "date", "", "", 0)]
    return tuple(columns)


def _cell(path: str, type_: str) -> Callable[[JSON, float], object]:
    read = json_path(path)

    def cell(obj: JSON, now: float) -> object:
        found = read(obj)
        if not found:
            return None
        value = found[0]
        if type_ == "date":
            return age(value, now) if isinstance(value, str) else None
        if isinstance(value, (dict, list)) or (type_ == "string" and len(found) > 1):
            return str(value) if len(found) == 1 else ",".join(map(str, found))
        if type_ in ("integer", "number", "boolean"):
            return value if not isinstance(value, str) else None
        return "true" if value is True else "false" if value is False else str(value)

    return cell


def json_path(path: str) -> Callable[[Any], list[Any]]:
    """Return a reader of the JSON paths of printer columns: ``.a.b[0].c``, ``[?(@.k=="v")]``, ``[*]``."""
    steps = _steps(path)

    def read(obj: Any) -> list[Any]:
        found = [obj]
        for step in steps:
            found = [below for one in found for below in step(one)]
        return found

    return read


def _steps(path: str) -> list[Callable[[Any], list[Any]]]:
    import re

    steps: list[Callable[[Any], list[Any]]] = []
    token = re.compile(
        r"\.((?:\\.|[^.\[\\])+)|\[(\d+|\*)\]|\['((?:[^'\\]|\\.)*)'\]|\[\?\(@\.([\w.]+)\s*==\s*[\"']([^\"']*)[\"']\)\]"
    )
    for match in token.finditer(path):
        name, index, quoted, key, value = match.groups()
        if index == "*":
            steps.append(
                lambda one: list(
                    one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
                )
            )
        elif index is not None:
            steps.append(_at(int(index)))
        elif key is not None:
            steps.append(_where(key, value))
        else:
            steps.append(_named((quoted if quoted is not None else name).replace("\\", "")))
    return steps


def _at(index: int) -> Callable[[Any], list[Any]]:
    return lambda one: [one[index]] if isinstance(one, list) and len(one) > index else []


def _where(key: str, value: str) -> Callable[[Any], list[Any]]:
    return lambda one: (
        [e for e in one if isinstance(e, dict) and str(e.get(key)) == value] if isinstance(one, list) else []
    )


def _named(name: str) -> Callable[[Any], list[Any]]:
    return lambda one: [one[name]] if isinstance(one, dict) and one.get(name) is not None else []


_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "y": 365 * 86400}
# below so many seconds: in this unit, with a rest in that one (the same unit: without)
_STEPS: Final = (
    (120, "s", "s"),
    (10 * 60, "m", "s"),
    (180 * 60, "m", "m"),
    (8 * 3600, "h", "m"),
    (48 * 3600, "h", "h"),
    (192 * 3600, "d", "h"),
    (2 * 365 * 86400, "d", "d"),
    (8 * 365 * 86400, "y", "d"),
)


def age(stamp: str, now: float) -> str:
    """Return how long ago a time was, as ``kubectl`` writes it."""
    try:
        seconds = int(now - datetime.fromisoformat(stamp).timestamp())
    except ValueError:
        return "<invalid>"
    return duration(seconds)


def duration(seconds: int) -> str:
    """Write a number of seconds as ``kubectl`` does: two units when small, one when large."""
    if seconds < -1:
        return "<invalid>"
    for below, unit, rest in _STEPS:
        if seconds < below:
            size, smaller = _UNITS[unit], _UNITS[rest]
            more = max(seconds, 0) % size // smaller if unit != rest else 0
            return f"{max(seconds, 0) // size}{unit}" + (f"{more}{rest}" if more else "")
    return f"{seconds // _UNITS['y']}y"
