"""Strategic merge patch: merge patch that knows which lists are sets and which are keyed.

The Go types' patch tags tell: a list with a merge key is merged element by element, a list with the strategy
alone is a set of scalars, every other list is replaced. Directives: ``$patch`` (merge, replace, delete),
``$retainKeys``, ``$setElementOrder/<list>``, ``$deleteFromPrimitiveList/<list>``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from simulator.core.errors import internal
from simulator.types import Field

JSON = dict[str, Any]
Fields = Callable[[str], Mapping[str, Field]]

_ORDER: Final = "$setElementOrder/"
_DELETE_SCALARS: Final = "$deleteFromPrimitiveList/"
_ANY: Final = Field("any", 0)


def merge(fields: Fields, type_name: str, target: JSON, patch: JSON) -> JSON:
    """Return the target with a strategic merge patch applied. Raises StatusError 400 or 500."""
    return _Merge(fields).object(type_name, target, patch)


class _Merge:
    """A merge of one object; ``fields`` tells the fields of a type."""

    def __init__(self, fields: Fields) -> None:
        self._fields = fields

    def object(self, type_name: str, target: JSON, patch: JSON) -> JSON:
        """Return an object with a patch of it applied."""
        directive = patch.get("$patch")
        if directive == "replace":
            return {key: _plain(value) for key, value in patch.items() if key != "$patch"}
        if directive == "delete":
            return {}
        if directive not in (None, "merge"):
            raise internal(f"unknown patch type: {directive} in map: {go_map(patch)}")
        out = _prepared(target, patch)
        known = self._fields(type_name) if "." in type_name else {}
        for key, value in patch.items():
            if key.startswith("$"):
                continue
            field = known.get(key, _ANY)
            if value is None:
                out.pop(key, None)
            else:
                out[key] = self._value(field, out.get(key), value, patch.get(_ORDER + key))
        for key, order in patch.items():  # an order may come without a change of the list itself
            name = key.removeprefix(_ORDER)
            if key.startswith(_ORDER) and name not in patch and isinstance(out.get(name), list):
                out[name] = _ordered(out[name], order, out[name], known.get(name, _ANY).merge)
        return out

    def _value(self, field: Field, held: Any, value: Any, order: list[Any] | None) -> Any:
        if isinstance(value, dict):
            inner = field.inner if not field.type.startswith("map[") else ""
            return self.object(inner, held if isinstance(held, dict) else {}, value)
        if isinstance(value, list):
            return self._list(field, held, value, order)
        return value

    def _list(self, field: Field, held: Any, patch: list[Any], order: list[Any] | None) -> list[Any]:
        current: list[Any] = held if isinstance(held, list) else []
        if any(isinstance(one, dict) and one.get("$patch") == "replace" for one in patch):
            return [
                _plain(one) for one in patch if not (isinstance(one, dict) and one.get("$patch") == "replace")
            ]
        if field.merge is None:
            return [_plain(one) for one in patch]
        if field.merge == "":
            merged = [*current, *(one for one in patch if one not in current)]
        else:
            merged = self._keyed(field, field.merge, current, patch)
        return _ordered(merged, order or patch, current, field.merge)

    def _keyed(self, field: Field, merge_key: str, current: list[Any], patch: list[Any]) -> list[Any]:
        out = list(current)
        for one in patch:
            if not isinstance(one, dict) or merge_key not in one:
                raise internal(f"map: {go_map(one)} does not contain declared merge key: {merge_key}")
            at = next((i for i, have in enumerate(out) if have.get(merge_key) == one[merge_key]), None)
            if one.get("$patch") == "delete":
                out = [have for have in out if have.get(merge_key) != one[merge_key]]
            elif at is None:
                out.append(self.object(field.inner, {}, one))
            else:
                out[at] = self.object(field.inner, out[at], one)
        return out


def _prepared(target: JSON, patch: JSON) -> JSON:
    """Return a shallow copy without what ``$retainKeys`` and ``$deleteFromPrimitiveList`` take away."""
    out = dict(target)
    retained = patch.get("$retainKeys")
    if retained is not None:
        out = {key: value for key, value in out.items() if key in retained}
    for key, value in patch.items():
        name = key.removeprefix(_DELETE_SCALARS)
        if key.startswith(_DELETE_SCALARS) and isinstance(out.get(name), list):
            out[name] = [one for one in out[name] if one not in value]
    return out


def _ordered(items: list[Any], order: list[Any], held: list[Any], merge_key: str | None) -> list[Any]:
    """Sort the items that ``order`` names as it does; each other item comes before those it stood before.

    ``order`` is the client's ``$setElementOrder``, else the patch itself; ``held`` is the list before.
    """

    def mark(one: Any) -> Any:
        return one.get(merge_key) if merge_key and isinstance(one, dict) else one

    wanted = [mark(one) for one in order]
    before = [mark(one) for one in held]
    named = sorted((one for one in items if mark(one) in wanted), key=lambda one: wanted.index(mark(one)))
    others = [one for one in items if mark(one) not in wanted]
    out: list[Any] = []
    while named and others:
        place, other = (
            before.index(m) if (m := mark(one)) in before else -1 for one in (named[0], others[0])
        )
        out.append((others if 0 <= other < place else named).pop(0))
    return out + named + others


def go_map(value: Any) -> str:
    """Write a value as Go prints it."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{go_map(one)}" for key, one in sorted(value.items())) + "]"
    if isinstance(value, list):
        return "[" + " ".join(go_map(one) for one in value) + "]"
    return "<nil>" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _plain(value: Any) -> Any:
    """Take directives out of a part that is new."""
    if isinstance(value, dict):
        if value.get("$patch") == "delete":
            return {}
        return {k: _plain(v) for k, v in value.items() if not k.startswith("$") and v is not None}
    if isinstance(value, list):
        return [_plain(one) for one in value if not (isinstance(one, dict) and one.get("$patch") == "delete")]
    return value
