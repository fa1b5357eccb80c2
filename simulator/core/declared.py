"""Server-side apply's own reading of a configuration: each value against the field that is declared for it.

Apply is stricter than the other verbs, and words it differently: what is unknown or of the wrong type is an
error of its own (500), before anything else is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import orjson

from simulator.core import fieldset
from simulator.core.errors import StatusError, internal
from simulator.core.fieldset import Path, Shape
from simulator.core.kinds import Kind
from simulator.core.managed import shape_of
from simulator.core.strategic import go_map
from simulator.types import Field

JSON = dict[str, Any]

_SCALARS: Final = {
    "string": "string",
    "bytes": "string",
    "bool": "boolean",
    "boolean": "boolean",
    "int32": "numeric",
    "int64": "numeric",
    "float64": "numeric",
    "integer": "numeric",
    "number": "numeric",
}
_GO: Final = {str: "string", bool: "bool", int: "int64", float: "float64"}


class Declared(NamedTuple):
    """What is declared for a value: ``sort`` is map, list, string, boolean, numeric, or '' for anything."""

    sort: str
    child: Callable[[str], Declared | None] = lambda _key: None
    item: Callable[[], Declared] = lambda: _ANYTHING


_ANYTHING: Declared = Declared("")


def check(kind: Kind, configuration: JSON) -> None:
    """Compare a configuration with what its kind declares. Raises StatusError 500."""
    declared = _of_type(kind, kind.type_name) if kind.builtin else _of_schema(kind.schema or {}, root=True)
    errors: list[str] = []
    _look(declared, shape_of(kind), configuration, (), errors)
    if errors:
        meta = configuration.get("metadata") or {}
        group_version = kind.api_version if kind.group else f"/{kind.version}"
        name = f"{meta.get('namespace', '')}/{meta.get('name', '')}"
        raise _refusal(f"{name}; {group_version}, Kind={kind.kind}", errors)


def _refusal(subject: str, errors: list[str]) -> StatusError:
    words = errors[0] if len(errors) == 1 else "\n  ".join(("errors:", *errors))
    return internal(f"failed to create typed patch object ({subject}): {words}")


def _of_type(kind: Kind, type_: str) -> Declared:
    """Return what a built-in type declares."""
    type_ = type_.removeprefix("*")
    if type_.startswith("[]"):
        return Declared("list", item=lambda: _of_type(kind, type_[2:]))
    if type_.startswith("map[string]"):
        return Declared("map", lambda _key: _of_type(kind, type_[11:]))
    if type_ in _SCALARS:
        return Declared(_SCALARS[type_])
    if "." not in type_:  # quantities, times, numbers or words, anything
        return _ANYTHING

    def child(key: str) -> Declared | None:
        known: Field | None = kind.fields(type_).get(key)
        return _of_type(kind, known.type) if known is not None else None

    return Declared("map", child)


def _of_schema(schema: Mapping[str, Any], *, root: bool = False) -> Declared:
    """Return what a custom kind's schema declares."""
    sort = schema.get("type", "")
    if sort == "array":
        return Declared("list", item=lambda: _of_schema(schema.get("items") or {}))
    if sort != "object":
        return Declared(_SCALARS.get(sort, ""))
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    if not root and not properties and not additional and schema.get("x-kubernetes-preserve-unknown-fields"):
        return _ANYTHING

    def child(key: str) -> Declared | None:
        if root and key in ("apiVersion", "kind", "metadata"):
            return _ANYTHING
        if key in properties:
            return _of_schema(properties[key])
        if additional or schema.get("x-kubernetes-preserve-unknown-fields"):
            return _of_schema(additional) if isinstance(additional, dict) else _ANYTHING
        return None

    return Declared("map", child)


def _look(declared: Declared, shape: Shape, value: Any, path: Path, errors: list[str]) -> None:
    if value is None or not declared.sort:
        return
    if declared.sort == "map":
        if not isinstance(value, dict):
            errors.append(f"{fieldset.text(path)}: expected map, got &{{{go_map(value)}}}")
            return
        for key, one in value.items():
            below = (*path, f"f:{key}")
            known = declared.child(key)
            if known is None:
                errors.append(f"{fieldset.text(below)}: field not declared in schema")
            else:
                _look(known, shape.child(key), one, below, errors)
    elif declared.sort == "list":
        _look_at_list(declared, shape, value, path, errors)
    elif wrong := _wrong(declared.sort, value):
        errors.append(f"{fieldset.text(path)}: {wrong}")


def _look_at_list(declared: Declared, shape: Shape, value: Any, path: Path, errors: list[str]) -> None:
    where = fieldset.text(path)
    if not isinstance(value, list):
        errors.append(f"{where}: expected list, got &{{{go_map(value)}}}")
        return
    seen: set[str] = set()
    for at, one in enumerate(value):
        mark = f"i:{at}"
        if shape.kind == "map" and isinstance(one, dict):
            missing = next((key for key in shape.keys if key not in one and key not in shape.defaults), "")
            if missing:
                words = f'associative list with keys has an element that omits key field "{missing}"'
                errors.append(f"{where}: element {at}: {words} (and doesn't have default value)")
                continue
            mark = fieldset.element(shape, one)
        elif shape.kind == "set":
            mark = fieldset.element(shape, one)
        if mark in seen:
            errors.append(f"{where}: duplicate entries for key {fieldset.text((mark,))}")
        seen.add(mark)
        _look(declared.item(), shape.item(), one, (*path, mark), errors)


def _wrong(sort: str, value: Any) -> str:
    if sort == "numeric":
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return ""
        return f"expected numeric (int or float), got {_GO.get(type(value), 'map[string]interface {}')}"
    if isinstance(value, str if sort == "string" else bool):
        return ""
    return f"expected {sort}, got &value.valueUnstructured{{Value:{_go_value(value)}}}"


def _go_value(value: Any) -> str:
    """Write a value as Go's ``%#v``."""
    if isinstance(value, dict):
        inner = ", ".join(
            f"{orjson.dumps(key).decode()}:{_go_value(one)}" for key, one in sorted(value.items())
        )
        return f"map[string]interface {{}}{{{inner}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(_go_value(one) for one in value)}}}"
    return orjson.dumps(value).decode() if value is not None else "interface {}(nil)"
