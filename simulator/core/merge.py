"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386) as the API server applies them."""

from __future__ import annotations

from typing import Any

import jsonpatch
import jsonpointer

from simulator.core.errors import StatusError, bad_request

JSON = dict[str, Any]


def merge(target: Any, patch: Any) -> Any:
    """Return the target with a merge patch applied. Parts that do not change are shared, not copied."""
    if not isinstance(patch, dict):
        return patch
    out = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merge(out.get(key), value)
    return out


def json_patch(target: JSON, operations: Any) -> JSON:
    """Return a patched copy. Raises StatusError 400 (no patch) or 422 (does not apply)."""
    if not isinstance(operations, list):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        )
    try:
        patched: JSON = jsonpatch.JsonPatch(operations).apply(target)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError, KeyError) as error:
        raise _does_not_apply() from error
    return patched


def _does_not_apply() -> StatusError:
    return StatusError(422, "Invalid", "the server rejected our request due to an error in our request", {})
