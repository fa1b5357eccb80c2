"""How a cell of a table is read from an object; shared by the tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from simulator.core.custom import age
from simulator.core.kinds import Column

JSON = dict[str, Any]


Cell = Callable[[JSON, float], object]


NONE: Final = "<none>"


def at(obj: Any, *path: str) -> Any:
    """Read a nested field of anything; None when it is not there."""
    for part in path:
        obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def field(*path: str, default: object = "") -> Cell:
    """Return a cell that shows a field, or a default."""

    def cell(obj: JSON, _now: float) -> object:
        found = at(obj, *path)
        return default if found is None or found == "" else found

    return cell


def count_of(*path: str) -> Cell:
    """Return a cell that shows how many elements a field has."""
    return lambda obj, _now: len(at(obj, *path) or ())


def age_of(obj: JSON, now: float) -> str:
    """Show how long an object exists."""
    return since(obj["metadata"].get("creationTimestamp"), now)


def since(stamp: object, now: float) -> str:
    """Show how long ago a time was."""
    return age(stamp, now) if isinstance(stamp, str) else "<unknown>"


def text(name: str, cell: Cell, priority: int = 0) -> Column:
    """Return a column of texts."""
    return Column(name, cell, "string", "", "", priority)


def number(name: str, cell: Cell, priority: int = 0) -> Column:
    """Return a column of whole numbers."""
    return Column(name, cell, "integer", "", "", priority)


AGE: Final = text("Age", age_of)


def labels_of(labels: JSON | None) -> str:
    """Write labels as a selector."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def selector_of(*path: str) -> Cell:
    """Return a cell that shows a selector, of either form."""

    def cell(obj: JSON, _now: float) -> str:
        selector = at(obj, *path) or {}
        if "matchLabels" in selector or "matchExpressions" in selector:
            words = {"In": "in", "NotIn": "notin"}
            parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
            for term in selector.get("matchExpressions") or ():
                values = ",".join(sorted(term.get("values") or ()))
                operator = term["operator"]
                if operator in words:
                    parts.append(f"{term['key']} {words[operator]} ({values})")
                else:
                    parts.append(term["key"] if operator == "Exists" else f"!{term['key']}")
            return ",".join(parts) or NONE
        return labels_of(selector)

    return cell


def containers_of(key: str) -> Cell:
    """Return a cell that shows one field of a pod template's containers."""

    def cell(obj: JSON, _now: float) -> str:
        spec = at(obj, "spec", "jobTemplate", "spec", "template", "spec") or at(
            obj, "spec", "template", "spec"
        )
        return ",".join(one.get(key, "") for one in (spec or {}).get("containers") or ())

    return cell


WIDE_TEMPLATE: Final = (
    text("Containers", containers_of("name"), 1),
    text("Images", containers_of("image"), 1),
)
