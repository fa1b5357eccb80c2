"""Strategic merge patch: merge patch that knows which lists are sets and which are keyed.

The published models do not tell merge keys, so :data:`KEYS` names them: the fields of the built-in types
that carry ``patchStrategy: merge``. Every other list is replaced whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from simulator.core.errors import StatusError, bad_request

JSON = dict[str, Any]

# JSON field → the key its list elements are merged by; "" is a set of scalars. A field name can mean
# different types: "Type.field" is looked up first by the path-independent entries below.
KEYS: Final[Mapping[str, str]] = {
    "finalizers": "",
    "ownerReferences": "uid",
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "schedulingGates": "name",
    "resourceClaims": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "conditions": "type",
    "podIPs": "ip",
    "hostIPs": "ip",
    "addresses": "type",
    "taints": "key",
    "podCIDRs": "",
    "secrets": "name",
    "webhooks": "name",
}
_PORTS: Final = {"containers": "containerPort", "initContainers": "containerPort", "spec": "port"}
_RETAINED: Final = frozenset({"strategy", "updateStrategy", "volumes"})
_ORDER: Final = "$setElementOrder/"
_DELETE_SCALARS: Final = "$deleteFromPrimitiveList/"


def merge(_type_name: str, target: JSON, patch: JSON) -> JSON:
    """Return the target with a strategic merge patch applied. Raises StatusError 400, 422, 500."""
    return _map(target, patch, "")


def _map(target: JSON, patch: JSON, where: str) -> JSON:
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: _plain(value) for key, value in patch.items() if key != "$patch"}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise StatusError(500, "InternalError", f"Internal error occurred: unknown patch type: {directive}")
    out = dict(target)
    retained = patch.get("$retainKeys")
    if retained is not None:
        out = {key: value for key, value in out.items() if key in retained}
    for key, value in patch.items():
        if key.startswith(_DELETE_SCALARS):
            field = key.removeprefix(_DELETE_SCALARS)
            if isinstance(out.get(field), list):
                out[field] = [one for one in out[field] if one not in value]
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        if value is None:
            out.pop(key, None)
        elif isinstance(value, dict):
            held = out.get(key)
            out[key] = _map(held, value, key) if isinstance(held, dict) else _plain(_map({}, value, key))
        elif isinstance(value, list):
            out[key] = _list(out.get(key), value, key, where, patch.get(_ORDER + key))
        else:
            out[key] = value
    for key, value in patch.items():  # an order may come without a change of the list itself
        field = key.removeprefix(_ORDER)
        if key.startswith(_ORDER) and field not in patch and isinstance(out.get(field), list):
            merge_key = _merge_key(field, where)
            out[field] = _ordered(out[field], value, merge_key)
    return out


def _merge_key(field: str, where: str) -> str | None:
    """Return the merge key of a list, "" for a set of scalars, None for a list that is replaced."""
    if field == "ports":
        return _PORTS.get(where)
    if field == "tolerations":
        return None
    return KEYS.get(field)


def _list(held: Any, patch: list[Any], field: str, where: str, order: list[Any] | None) -> list[Any]:  # noqa: ANN401
    merge_key = _merge_key(field, where)
    current: list[Any] = held if isinstance(held, list) else []
    if any(isinstance(one, dict) and one.get("$patch") == "replace" for one in patch):
        return [_plain(one) for one in patch if not (isinstance(one, dict) and one.get("$patch") == "replace")]
    if merge_key is None:
        return [_plain(one) for one in patch]
    if merge_key == "":
        merged = [*current, *(one for one in patch if one not in current)]
        return _ordered(merged, order, "") if order else merged
    out = list(current)
    for one in patch:
        if not isinstance(one, dict) or merge_key not in one:
            raise bad_request(f"map: {one} does not contain declared merge key: {merge_key}")
        at = next((i for i, have in enumerate(out) if have.get(merge_key) == one[merge_key]), None)
        if one.get("$patch") == "delete":
            if at is not None:
                del out[at]
        elif at is None:
            out.append(_plain(_map({}, one, field)))
        else:
            out[at] = _map(out[at], one, field)
    return _ordered(out, order, merge_key) if order else out


def _ordered(items: list[Any], order: list[Any], merge_key: str | None) -> list[Any]:
    """Sort the items that ``order`` names as it does; others keep their place relative to their neighbours."""
    def mark(one: Any) -> Any:  # noqa: ANN401
        return one.get(merge_key) if merge_key and isinstance(one, dict) else one

    wanted = [mark(one) for one in order]
    ranked = sorted((one for one in items if mark(one) in wanted), key=lambda one: wanted.index(mark(one)))
    out: list[Any] = []
    named = iter(ranked)
    for one in items:
        out.append(next(named) if mark(one) in wanted else one)
    return out


def _plain(value: Any) -> Any:  # noqa: ANN401
    """Take directives out of a part that is new."""
    if isinstance(value, dict):
        if value.get("$patch") == "delete":
            return {}
        return {k: _plain(v) for k, v in value.items() if not k.startswith("$") and v is not None}
    if isinstance(value, list):
        return [_plain(one) for one in value if not (isinstance(one, dict) and one.get("$patch") == "delete")]
    return value
