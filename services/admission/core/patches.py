"""The difference of two JSON values as a JSON patch (RFC 6902)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shared.api.base import JSON


def json_patch(before: JSON, after: JSON) -> list[JSON]:
    """Return the operations that turn ``before`` into ``after``."""
    return list(_operations(before, after, ""))


def _operations(before: Any, after: Any, path: str) -> Iterator[JSON]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() - after.keys()):
            yield {"op": "remove", "path": f"{path}/{_escaped(name)}"}
        for name, value in after.items():
            at = f"{path}/{_escaped(name)}"
            if name in before:
                yield from _operations(before[name], value, at)
            else:
                yield {"op": "add", "path": at, "value": value}
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _operations(old, new, f"{path}/{index}")
    elif type(before) is not type(after) or before != after:
        yield {"op": "replace", "path": path, "value": after}


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
