"""From a request's body to an object of a kind: decoding, and its namespace."""

from __future__ import annotations

from dataclasses import replace as replace_fields
from typing import Any, Final

import orjson

from simulator.core.errors import StatusError, bad_request, invalid, invalid_object
from simulator.core.kinds import Kind
from simulator.core.world import Call

JSON = dict[str, Any]

_SHOWN: Final = 30  # characters of a body that an error shows


def decode(kind: Kind, body: Any, call: Call, *, patched: bool = False) -> JSON:
    """Return a private, pruned, typed object of the kind. Raises StatusError 400."""
    if body is None and kind.builtin:
        body = {}
    if body is None:
        raise _no_kind(kind, body)
    if not isinstance(body, dict):
        raise bad_request(_not_an_object(kind, body))
    found = body.get("kind"), body.get("apiVersion") or (kind.api_version if kind.builtin else "")
    if not kind.builtin and not found[0]:
        raise _no_kind(kind, body)
    if (found[0] or kind.kind) != kind.kind or found[1] != kind.api_version:
        name = (body.get("metadata") or {}).get("name", "")
        raise _other_kind(kind, name, found[0] or "", found[1] or "")
    obj, unknown = kind.decode(body)
    if unknown and call.validation != "Ignore":
        words = [f'unknown field "{path}"' for path in unknown]
        if call.validation == "Strict":
            prefix = "" if patched else f"{_handled(kind, kind.kind)}: "
            raise bad_request(f"{prefix}strict decoding error: {', '.join(words)}")
        call.warnings += words
    if kind.view is not None:
        obj = kind.view.into(obj)
    return obj


def _handled(kind: Kind, found: str, version: str = "") -> str:
    return f'{found} in version "{version or kind.version}" cannot be handled as a {kind.kind}'


def _no_kind(kind: Kind, body: JSON | None) -> StatusError:
    text = orjson.dumps(body).decode()
    short = text.encode().hex() if body is None else text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ..."
    of = f"the object provided is unrecognized (must be of type {kind.kind})"
    return bad_request(f"{of}: Object 'Kind' is missing in '{text}' ({short})")


def _not_an_object(kind: Kind, body: object) -> str:
    text = orjson.dumps(body)
    found = {list: "array", str: "string", int: "number", float: "number", bool: "bool"}.get(
        type(body), "null"
    )
    words = (
        f"json: cannot unmarshal {found} into Go value of type struct "
        r'{ APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
    )
    of = f"the object provided is unrecognized (must be of type {kind.kind})"
    return f"{of}: couldn't get version/kind; json parse error: {words} ({text[:32].hex()})"


def _other_kind(kind: Kind, name: str, found: str, version: str) -> StatusError:
    group_version = kind.api_version
    if not kind.builtin:
        if version != group_version:
            expected = f"does not match the expected API version ({group_version})"
            return bad_request(f"the API version in the data ({version}) {expected}")
        return invalid_object(
            replace_fields(kind, kind=found), name, [invalid("kind", found, f"must be {kind.kind}")]
        )
    short = version.rpartition("/")[2]
    internal_name = f"{kind.group.partition('.')[0] or 'core'}.{kind.kind}"
    converted = f"converting ({short}.{found}) to ({internal_name}): unknown conversion"
    return bad_request(f"{_handled(kind, found, short)}: {converted}")


def place(kind: Kind, obj: JSON, namespace: str) -> None:
    """Set the namespace of the URL. Raises StatusError 400 when the object names another."""
    meta = obj["metadata"]
    if not kind.namespaced:
        meta.pop("namespace", None)
        return
    if meta.get("namespace", namespace) != namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    meta["namespace"] = namespace
