"""Where two objects differ in meaning, as Kubernetes' semantic equality has it.

Absent, null and empty are the same; quantities are compared by amount (``1`` and ``1000m`` are equal).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shared.api.base import KubeModel, json_name
from shared.api.quantity import Quantity, QuantityError

_AMOUNTS = frozenset({"requests", "limits", "overhead", "capability", "deserved", "resource", "capacity"})


def differences(old: Any, new: Any, path: str) -> Iterator[str]:
    """Yield the path of each field that differs."""
    if isinstance(old, KubeModel) and isinstance(new, KubeModel):
        for name in type(old).model_fields:
            yield from differences(getattr(old, name), getattr(new, name), f"{path}.{_alias(old, name)}")
        extra, new_extra = old.model_extra or {}, new.model_extra or {}
        for name in sorted(extra.keys() | new_extra.keys()):
            yield from differences(extra.get(name), new_extra.get(name), f"{path}.{name}")
    elif isinstance(old, dict) and isinstance(new, dict):
        yield from _map_differences(old, new, path)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from differences(before, after, f"{path}[{index}]")
    elif old != new and not (_is_empty(old) and _is_empty(new)):
        yield path


def _map_differences(old: dict[str, Any], new: dict[str, Any], path: str) -> Iterator[str]:
    are_amounts = path.rpartition(".")[2] in _AMOUNTS
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name), new.get(name)
        if (name in old) != (name in new):
            if before is not None or after is not None:
                yield f"{path}[{name}]"  # a map's key counts even when its value is empty
        elif not (are_amounts and _same_amount(before, after)):
            yield from differences(before, after, f"{path}[{name}]")


def _alias(model: KubeModel, name: str) -> str:
    return type(model).model_fields[name].alias or json_name(name)


def _is_empty(value: Any) -> bool:
    if isinstance(value, KubeModel):
        return not value.dump()
    return value is None or value in ("", [], {})


def _same_amount(old: Any, new: Any) -> bool:
    try:
        return old is not None and new is not None and Quantity.parse(old) == Quantity.parse(new)
    except QuantityError:
        return False
