"""A flow's patch of its template: like Kubernetes' strategic merge, with the keys of Volcano's design.

Lists named in ``_KEYS`` are merged by that field; other lists are replaced. Tasks and containers without a
name are those at the same place. Groups in ``_WHOLE`` are replaced, other groups merged; null takes a
field out.
"""

from __future__ import annotations

from typing import Any, Final

JSON = dict[str, Any]

_KEYS: Final = {
    "tasks": "name",
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "ports": "containerPort",
    "tolerations": "key",
    "hostAliases": "ip",
}
_VOLUMES: Final = "volumes"
_BY_PLACE: Final = frozenset({"tasks", "containers", "initContainers"})
_WHOLE: Final = frozenset(
    {
        "affinity",
        "livenessProbe",
        "networkTopology",
        "readinessProbe",
        "securityContext",
        "startupProbe",
    }
)
_WHOLE_ITEMS: Final = frozenset({"env", _VOLUMES})
"""Lists whose items exclude fields of each other: an item is replaced, not merged."""


def patched(spec: JSON, patch: JSON) -> JSON:
    """Return a job's spec with the patch applied; neither is changed."""
    result = dict(spec)
    for field, value in patch.items():
        if value is None:
            result.pop(field, None)
        elif isinstance(value, dict) and isinstance(spec.get(field), dict) and field not in _WHOLE:
            result[field] = patched(spec[field], value)
        elif isinstance(value, list) and isinstance(spec.get(field), list) and (key := _key(field, value)):
            result[field] = _merged(field, key, spec[field], value)
        else:
            result[field] = value
    return result


def _key(field: str, items: list[Any]) -> str | None:
    """Return the field that tells items of a list apart: a job's volumes by path, a pod's by name."""
    if field == _VOLUMES:
        return "name" if all(isinstance(one, dict) and "name" in one for one in items) else "mountPath"
    return _KEYS.get(field)


def _merged(field: str, key: str, current: list[JSON], patches: list[JSON]) -> list[JSON]:
    result = list(current)
    for place, given in enumerate(patches):
        # Clients in Go write a container's name also where it has none.
        patch = {at: one for at, one in given.items() if at != key or one != ""}
        if key in patch:
            found = next((at for at, one in enumerate(result) if one.get(key) == patch[key]), None)
        else:
            found = place if field in _BY_PLACE and place < len(current) else None
        if found is None:
            result.append(patch)
        else:
            result[found] = patch if field in _WHOLE_ITEMS else patched(result[found], patch)
    return result
