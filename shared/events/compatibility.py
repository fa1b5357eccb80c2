"""Can readers of an old schema read what writers of a new one send? Pure.

Readers ignore unknown fields, so added fields are fine. Not fine: a field that was required and need no
longer be there, a field that is gone, a type or value that the reader does not know, a bound that became
wider. Records that are on the log already are read with the new schema, so a newly required field, which
they lack, is not fine either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

Schema = dict[str, Any]

_LOWER: Final = ("minimum", "exclusiveMinimum", "minItems", "minLength")
_UPPER: Final = ("maximum", "exclusiveMaximum", "maxItems", "maxLength")


def incompatibilities(old: Schema, new: Schema) -> list[str]:
    """Return, a line each, why a change from ``old`` to ``new`` is not allowed. Both are JSON Schemas."""
    return list(_Comparison(old, new).compare(old, new, ""))


class _Comparison:
    """One pair of documents, whose ``$ref`` are resolved as they come."""

    def __init__(self, old: Schema, new: Schema) -> None:
        self._old = old
        self._new = new
        self._open: set[tuple[str, str]] = set()

    def compare(self, old: Schema, new: Schema, path: str) -> Iterator[str]:
        pair = (str(old.get("$ref", "")), str(new.get("$ref", "")))
        if pair in self._open:
            return  # a recursive type, compared further up
        if any(pair):
            self._open.add(pair)
        try:
            yield from self._compare(_resolve(old, self._old), _resolve(new, self._new), path)
        finally:
            self._open.discard(pair)

    def _compare(self, old: Schema, new: Schema, path: str) -> Iterator[str]:
        where = path or "the event"
        if "anyOf" in old or "anyOf" in new:
            yield from self._alternatives(old, new, path)
            return
        if old.get("type") != new.get("type"):
            yield f"{where}: type {old.get('type')} became {new.get('type')}"
            return
        yield from _values_and_bounds(old, new, where)
        yield from self._fields(old, new, path)
        for part in ("items", "additionalProperties"):
            if isinstance(old.get(part), dict) and isinstance(new.get(part), dict):
                yield from self.compare(old[part], new[part], f"{path}[]")

    def _alternatives(self, old: Schema, new: Schema, path: str) -> Iterator[str]:
        known = old.get("anyOf", [old])
        for alternative in new.get("anyOf", [new]):
            problems = [list(self.compare(one, alternative, path)) for one in known]
            if all(problems):
                yield from min(problems, key=len)

    def _fields(self, old: Schema, new: Schema, path: str) -> Iterator[str]:
        prefix = f"{path}." if path else ""
        fields = new.get("properties", {})
        for name, known in old.get("properties", {}).items():
            if name in fields:
                yield from self.compare(known, fields[name], prefix + name)
            else:
                yield f"{prefix}{name}: is gone"
        before, after = set(old.get("required", [])), set(new.get("required", []))
        for name in sorted(before - after):
            if name in fields:
                yield f"{prefix}{name}: was required, so readers count on it"
        for name in sorted(after - before):
            yield f"{prefix}{name}: is newly required, but records on the log lack it"


def _values_and_bounds(old: Schema, new: Schema, where: str) -> Iterator[str]:
    known, sent = _values(old), _values(new)
    if known is not None and (sent is None or not set(sent) <= set(known)):
        yield f"{where}: values {sorted(set(sent or ['any']) - set(known))} are new"
    widens: Callable[[Any, Any], bool]
    for bounds, widens in ((_LOWER, lambda o, n: n < o), (_UPPER, lambda o, n: n > o)):
        for bound in bounds:
            if bound in old and (bound not in new or widens(old[bound], new[bound])):
                yield f"{where}: {bound} {old[bound]} became {new.get(bound, 'unbounded')}"


def _values(part: Schema) -> list[Any] | None:
    if "const" in part:
        return [part["const"]]
    values: list[Any] | None = part.get("enum")
    return values


def _resolve(part: Schema, root: Schema) -> Schema:
    reference = part.get("$ref")
    if reference is None:
        return part
    found: Any = root
    for step in reference.removeprefix("#/").split("/"):
        found = found[step]
    return dict(found)
