"""Structural schemas of custom resources: pruning, defaults and validation, compiled once for each version.

Supported of OpenAPI v3: type, properties, additionalProperties, items, required, enum, minimum, maximum
(also exclusive), multipleOf, min/max Length, Items, Properties, pattern, format (by the common names),
uniqueItems, nullable, allOf, anyOf, oneOf, not, default, x-kubernetes-int-or-string,
x-kubernetes-preserve-unknown-fields, x-kubernetes-embedded-resource, list-type set and map.
x-kubernetes-validations (CEL) only as far as :mod:`simulator.core.rules` reads them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from simulator.core import rules
from simulator.core.errors import Cause, duplicate, invalid, required, shown, unsupported

JSON = dict[str, Any]
Schema = Mapping[str, Any]

_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_BLOCKING = frozenset(
    {
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    }
)
_UNCHECKED = Cause(
    "FieldValueInvalid",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
    "<nil>",
)
_OBJECT_FIELDS = frozenset({"apiVersion", "kind", "metadata"})


def prune(schema: Schema, value: Any, path: str, unknown: list[str], *, root: bool = False) -> Any:
    """Return a private copy without unknown fields and with defaults; unknown paths are collected.

    A null where none is allowed is no field: it goes, and where there is a default, that takes its place.
    """
    if isinstance(value, dict):
        return _prune_object(schema, value, path, unknown, root=root)
    if isinstance(value, list):
        items = schema.get("items") or {}
        keep = not items and schema.get(_PRESERVE)
        return [
            copied(one) if keep else prune(items, one, f"{path}[{at}]", unknown)
            for at, one in enumerate(value)
        ]
    return value


def _prune_object(schema: Schema, value: JSON, path: str, unknown: list[str], *, root: bool) -> JSON:
    properties: Mapping[str, Schema] = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    preserve = bool(schema.get(_PRESERVE))
    embedded = root or bool(schema.get("x-kubernetes-embedded-resource"))
    out: JSON = {}
    for key, one in value.items():
        below = f"{path}.{key}" if path else key
        known = properties.get(key)
        if embedded and key in _OBJECT_FIELDS:
            out[key] = copied(one)
        elif known is not None:
            if one is not None or known.get("nullable"):
                out[key] = prune(known, one, below, unknown)
        elif isinstance(additional, dict):
            if one is not None or additional.get("nullable"):
                out[key] = prune(additional, one, below, unknown)
        elif additional is True or preserve or not schema:
            out[key] = copied(one)
        else:
            unknown.append(below)
    for key, known in properties.items():
        if key not in out and "default" in known:
            out[key] = prune(known, known["default"], key, [])
    return out


def copied(value: Any) -> Any:
    """Copy JSON containers."""
    if isinstance(value, dict):
        return {key: copied(one) for key, one in value.items()}
    if isinstance(value, list):
        return [copied(one) for one in value]
    return value


_KINDS: Mapping[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def _kind_of(value: Any) -> str:
    if type(value) is float and value.is_integer():
        return "integer"
    return _KINDS[type(value)]


def validate(schema: Schema, value: Any, path: str, old: Any = None) -> list[Cause]:
    """Return every violation of a schema by a value, with paths as the API server writes them."""
    causes: list[Cause] = []
    _validate(schema, value, path, causes)
    if not causes:
        rules.check(schema, value, old, path, causes)
    elif any(cause.reason in _BLOCKING for cause in causes) and _has_rules(schema):
        causes.append(_UNCHECKED)
    return causes


def _has_rules(schema: Any) -> bool:
    if isinstance(schema, dict):
        return "x-kubernetes-validations" in schema or any(_has_rules(part) for part in schema.values())
    return isinstance(schema, list) and any(_has_rules(part) for part in schema)


def _validate(schema: Schema, value: Any, path: str, causes: list[Cause]) -> None:
    if value is None and (schema.get("nullable") or not schema.get("type")):
        return
    found = _kind_of(value)
    if wanted := _unmet_type(schema, found):
        causes.append(_wrong_type(path, value, wanted))
        return
    if (allowed := schema.get("enum")) is not None and value not in allowed:
        causes.append(unsupported(path, value, [str(word) for word in allowed]))
    _CHECKS.get(found, _nothing)(schema, value, path, causes)
    _junctors(schema, value, path, causes)


def _unmet_type(schema: Schema, found: str) -> str:
    """Return the type that is wanted when another was found, else ''."""
    if schema.get(_INT_OR_STRING):
        return "" if found in ("integer", "string") else "integer,string"
    wanted: str = schema.get("type") or found
    return "" if found == wanted or (wanted == "number" and found == "integer") else wanted


def _junctors(schema: Schema, value: Any, path: str, causes: list[Cause]) -> None:
    for part in schema.get("allOf") or ():
        _validate(part, value, path, causes)
    words = ""
    if (parts := schema.get("anyOf")) and not any(_matches(part, value) for part in parts):
        words = "must validate at least one schema (anyOf)"
    elif (parts := schema.get("oneOf")) and sum(_matches(part, value) for part in parts) != 1:
        words = "must validate one and only one schema (oneOf)"
    elif "not" in schema and _matches(schema["not"], value):
        words = "must not validate the schema (not)"
    if words:
        causes.append(invalid(path, value, f'"{path}" {words}'))


def _matches(schema: Schema, value: Any) -> bool:
    causes: list[Cause] = []
    _validate(schema, value, "", causes)
    return not causes


def _nothing(schema: Schema, value: Any, path: str, causes: list[Cause]) -> None:
    """Check nothing more (booleans)."""


def _wrong_type(path: str, value: Any, wanted: str) -> Cause:
    found = _kind_of(value)
    text = f'"{found}"'
    return Cause(
        "FieldValueTypeInvalid",
        f"Invalid value: {text}: {path} in body must be of type {wanted}: {text}",
        path,
    )


def _object(schema: Schema, value: JSON, path: str, causes: list[Cause]) -> None:
    properties: Mapping[str, Schema] = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    missing = [name for name in schema.get("required") or () if name not in value]
    causes += [required(f"{path}.{name}" if path else name) for name in missing]
    if (low := schema.get("minProperties")) is not None and len(value) < low:
        causes.append(invalid(path, len(value), f"{path} in body should have at least {low} properties"))
    if (high := schema.get("maxProperties")) is not None and len(value) > high:
        causes.append(
            Cause("FieldValueTooMany", f"Too many: {len(value)}: must have at most {high} items", path)
        )
    for key, one in value.items():
        known = properties.get(key)
        below = f"{path}.{key}" if path else key
        if known is not None:
            _validate(known, one, below, causes)
        elif isinstance(additional, dict):
            _validate(additional, one, below, causes)


def _array(schema: Schema, value: list[Any], path: str, causes: list[Cause]) -> None:
    if (low := schema.get("minItems")) is not None and len(value) < low:
        causes.append(invalid(path, len(value), f"{path} in body should have at least {low} items"))
    items = schema.get("items")
    if items:
        for at, one in enumerate(value):
            _validate(items, one, f"{path}[{at}]", causes)
    if (high := schema.get("maxItems")) is not None and len(value) > high:
        causes.append(
            Cause("FieldValueTooMany", f"Too many: {len(value)}: must have at most {high} items", path)
        )
    keys = schema.get("x-kubernetes-list-map-keys")
    unique = schema.get("uniqueItems") or schema.get("x-kubernetes-list-type") == "set"
    seen: list[Any] = []
    for at, one in enumerate(value):
        mark = {key: one.get(key) for key in keys if key in one} if keys and isinstance(one, dict) else one
        if (keys or unique) and mark in seen:
            causes.append(duplicate(f"{path}[{at}]", mark))
        seen.append(mark)


def _string(schema: Schema, value: str, path: str, causes: list[Cause]) -> None:
    if (high := schema.get("maxLength")) is not None and len(value) > high:
        causes.append(Cause("FieldValueTooLong", f"Too long: may not be more than {high} bytes", path))
    elif (low := schema.get("minLength")) is not None and len(value) < low:
        causes.append(invalid(path, value, f"{path} in body should be at least {low} chars long"))
    elif (pattern := schema.get("pattern")) and not _regex(pattern)(value):
        causes.append(invalid(path, value, f"{path} in body should match '{pattern}'"))
    if (name := schema.get("format")) in _FORMATS and not _FORMATS[name](value):
        words = f"Invalid value: {shown(value)}: {path} in body must be of type {name}: {shown(value)}"
        causes.append(Cause("FieldValueTypeInvalid", words, path))


def _number(schema: Schema, value: float, path: str, causes: list[Cause]) -> None:
    if (low := schema.get("minimum")) is not None:
        strict = bool(schema.get("exclusiveMinimum"))
        if value < low or (strict and value == low):
            words = "greater than" if strict else "greater than or equal to"
            causes.append(invalid(path, value, f"{path} in body should be {words} {_plain(low)}"))
    if (high := schema.get("maximum")) is not None:
        strict = bool(schema.get("exclusiveMaximum"))
        if value > high or (strict and value == high):
            words = "less than" if strict else "less than or equal to"
            causes.append(invalid(path, value, f"{path} in body should be {words} {_plain(high)}"))
    if (step := schema.get("multipleOf")) and value % step:
        causes.append(invalid(path, value, f"{path} in body should be a multiple of {_plain(step)}"))
    if schema.get("format") == "int32" and not -(2**31) <= value < 2**31:
        causes.append(invalid(path, value, f"{path} in body must be of type int32: {shown(value)}"))


def _plain(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else str(number)


@lru_cache(maxsize=1024)
def _regex(pattern: str) -> Callable[[str], object]:
    return re.compile(pattern.replace(r"\z", r"\Z")).search


_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_DURATION = re.compile(r"([+-]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h|d|w))+|0")
_FORMATS: dict[str, Callable[[str], object]] = {
    "date-time": _DATE_TIME.fullmatch,
    "date": re.compile(r"\d{4}-\d\d-\d\d").fullmatch,
    "duration": _DURATION.fullmatch,
    "uuid": re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}").fullmatch,
    "byte": re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?").fullmatch,
}
_CHECKS: dict[str, Callable[[Schema, Any, str, list[Cause]], None]] = {
    "object": _object,
    "array": _array,
    "string": _string,
    "integer": _number,
    "number": _number,
}
