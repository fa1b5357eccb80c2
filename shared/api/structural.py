"""Structural schemas, as CRDs have them, made from the models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from shared.api.base import JSON, KubeModel

_DROPPED: Final = frozenset({"title", "default", "$defs", "additionalProperties"})


def model_schema(model: type[KubeModel]) -> JSON:
    """Return the structural schema of a model, metadata included."""
    raw = model.model_json_schema()
    return _structural(raw, raw.get("$defs", {}))


def _structural(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> JSON:
    """Return a node without references, alternatives of null, and what structural schemas forbid."""
    if node.get("x-patch"):
        plain = {key: value for key, value in node.items() if key != "x-patch"}
        return _as_patch(_structural(plain, definitions))
    if (choices := node.get("anyOf")) is not None:
        return _choice(node, choices, definitions)
    if "$ref" in node:
        target = definitions[node["$ref"].rpartition("/")[2]]
        own = {key: value for key, value in node.items() if key != "$ref"}
        return _structural({**target, **own}, definitions)
    result = {key: value for key, value in node.items() if key not in _DROPPED and not key.startswith("x-")}
    result.update({key: value for key, value in node.items() if key.startswith("x-kubernetes-")})
    if "x-default" in node:
        result["default"] = node["x-default"]
    if "properties" in node:
        properties = node["properties"]
        result["properties"] = {key: _structural(value, definitions) for key, value in properties.items()}
        required = [key for key, value in properties.items() if _is_required(value)]
        if required:
            result["required"] = required
    elif isinstance(values := node.get("additionalProperties"), dict):
        result["additionalProperties"] = _structural(values, definitions)
    if "items" in node:
        result["items"] = _structural(node["items"], definitions)
    return result


def _choice(node: Mapping[str, Any], choices: list[JSON], definitions: Mapping[str, Any]) -> JSON:
    """Return the schema of a value that may be absent, or of an integer or text."""
    own = {key: value for key, value in node.items() if key != "anyOf"}
    if "x-kubernetes-int-or-string" in node:
        kept = _structural(own, definitions)
        return {"anyOf": [{"type": "integer"}, {"type": "string"}], **kept}
    present = [choice for choice in choices if choice.get("type") != "null"]
    if len(present) == 1:
        return _structural({**present[0], **own}, definitions)
    return {**_structural(own, definitions), "x-kubernetes-preserve-unknown-fields": True}


def _as_patch(node: JSON) -> JSON:
    """Return a finished schema in which no field is required or has a default."""
    result = {key: value for key, value in node.items() if key not in ("default", "required")}
    if "properties" in node:
        result["properties"] = {key: _as_patch(value) for key, value in node["properties"].items()}
    for key in ("items", "additionalProperties"):
        if key in node:
            result[key] = _as_patch(node[key])
    return result


def _is_required(node: Mapping[str, Any]) -> bool:
    return bool(node.get("x-required"))
