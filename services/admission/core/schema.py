"""What the API server checks of an object before any webhook sees it, for jobs that come by the log.

The CRD's own schema is the source: ranges, lengths, patterns, enumerations, required fields; then the
object's metadata. A field that looks like a slip of a known one is refused, as kubectl's strict
validation does; other unknown fields are a newer version's and pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any, Final

from services.admission.core.formats import dns_label, dns_subdomain
from services.admission.core.pod.checks import annotation_map, label_map
from services.admission.core.violations import Violation, listing
from shared.api.base import JSON, KubeModel
from shared.api.meta import ObjectMeta
from shared.api.structural import model_schema

_RANGES: Final = {"int32": 2**31, "int64": 2**63}
_LIKE_VOLCANO: Final = 0.8
"""How alike an unknown field must be to one of ours to be taken for a slip; others are left alone."""
_LIKE_KUBERNETES: Final = 0.9
"""The same for Kubernetes' own types, of which we know only some fields: none of the others is so alike."""
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"


@cache
def schema_of(model: type[KubeModel]) -> JSON:
    """Return the schema of a kind, metadata included."""
    return model_schema(model)


def schema_rules(model: type[KubeModel], obj: JSON) -> list[Violation]:
    """Return what the CRD's schema refuses in an object's spec as it was written; its types must be right."""
    found: list[Violation] = []
    check, spec = _spec_check(model), obj.get("spec")
    if check is not None and spec is not None:
        check(spec, "spec", found)
    return found


def metadata_rules(metadata: ObjectMeta) -> Iterator[Violation]:
    """Yield what the API server refuses in the metadata of a submitted job."""
    if not metadata.name:
        message = "metadata.name is required; generateName is not possible here, as the name is the key"
        yield Violation("required", "metadata.name", message)
    elif problem := dns_subdomain(metadata.name):
        yield Violation("invalid-name", "metadata.name", f'"{metadata.name[:80]}" {problem}')
    if metadata.namespace and (problem := dns_label(metadata.namespace)):
        yield Violation("invalid-namespace", "metadata.namespace", f'"{metadata.namespace[:80]}" {problem}')
    yield from label_map(metadata.labels, "metadata.labels")
    yield from annotation_map(metadata.annotations, "metadata.annotations")


def field_path(model: type[KubeModel], location: Sequence[str | int]) -> str:
    """Return a location as a Kubernetes field path: map keys in brackets, fields after dots."""
    node: Mapping[str, Any] = schema_of(model)
    path = ""
    for step in location:
        if isinstance(step, int):
            path += f"[{step}]"
            node = node.get("items", {})
        elif step in node.get("properties", {}):
            path += f".{step}"
            node = node["properties"][step]
        elif "additionalProperties" in node:
            path += f"[{step}]"
            node = node["additionalProperties"]
        else:
            break  # the name of an alternative, not a field
    return path.lstrip(".")


Check = Callable[[Any, str, list[Violation]], None]
"""Adds what is wrong with a value at a path."""


@cache
def _spec_check(model: type[KubeModel]) -> Check | None:
    return _check(schema_of(model)["properties"]["spec"])


def _check(node: Mapping[str, Any]) -> Check | None:
    """Return the check of a node; None when it has nothing to check, so that the walk passes it by."""
    if _INT_OR_STRING in node:
        return None
    make = _CHECKS.get(node["type"])
    return make(node) if make is not None else None


def _number_check(node: Mapping[str, Any]) -> Check | None:
    low, high, limit = node.get("minimum"), node.get("maximum"), _RANGES.get(node.get("format", ""))
    if low is None and high is None and limit is None:
        return None

    def check(value: Any, path: str, found: list[Violation]) -> None:
        if limit is not None and not -limit <= value < limit:
            found.append(Violation("out-of-range", path, f"{value} does not fit {node['format']}"))
        elif low is not None and value < low:
            found.append(Violation("out-of-range", path, f"{value} must be at least {low}"))
        elif high is not None and value > high:
            found.append(Violation("out-of-range", path, f"{value} must be at most {high}"))

    return check


def _text_check(node: Mapping[str, Any]) -> Check | None:
    longest, shortest, allowed = node.get("maxLength"), node.get("minLength", 0), node.get("enum")
    pattern = re.compile(node["pattern"]) if "pattern" in node else None
    if longest is None and not shortest and allowed is None and pattern is None:
        return None

    def check(value: Any, path: str, found: list[Violation]) -> None:
        if not value:  # empty counts as absent, as for Go's clients
            if shortest:
                found.append(Violation("required", path, "must not be empty"))
        elif longest is not None and len(value) > longest:
            found.append(Violation("too-long", path, f"must be at most {longest} characters"))
        elif allowed is not None and value not in allowed:
            found.append(Violation("unsupported", path, f'"{value[:80]}" is not one of {listing(allowed)}'))
        elif pattern is not None and not pattern.search(value):
            found.append(Violation("invalid", path, f'"{value[:80]}" must match {pattern.pattern}'))

    return check


def _list_check(node: Mapping[str, Any]) -> Check | None:
    least, item_check = node.get("minItems", 0), _check(node["items"])
    if not least and item_check is None:
        return None

    def check(value: Any, path: str, found: list[Violation]) -> None:
        if len(value) < least:
            found.append(Violation("required", path, f"needs at least {least} entries"))
        if item_check is not None:
            for index, item in enumerate(value):
                if item is not None:
                    item_check(item, f"{path}[{index}]", found)

    return check


def _object_check(node: Mapping[str, Any]) -> Check | None:
    if "additionalProperties" in node:
        return _map_check(_check(node["additionalProperties"]))
    required = tuple(node.get("required", ()))
    children = {name: _check(child) for name, child in node.get("properties", {}).items()}
    likeness = _LIKE_KUBERNETES if "x-kubernetes-preserve-unknown-fields" in node else _LIKE_VOLCANO

    def check(value: Any, path: str, found: list[Violation]) -> None:
        missing = (name for name in required if value.get(name) is None)
        found.extend(Violation("required", f"{path}.{name}", f"{name} is required") for name in missing)
        for name, item in value.items():
            if name not in children:
                meant = get_close_matches(name, children.keys() - value.keys(), n=1, cutoff=likeness)
                if meant:
                    message = f'there is no field "{name[:80]}"; did you mean "{meant[0]}"?'
                    found.append(Violation("unknown-field", f"{path}.{name}", message))
            elif item is not None and (own := children[name]) is not None:
                own(item, f"{path}.{name}", found)

    return check


def _map_check(check_item: Check | None) -> Check | None:
    if check_item is None:
        return None

    def check(value: Any, path: str, found: list[Violation]) -> None:
        for name, item in value.items():
            if item is not None:
                check_item(item, f"{path}[{name}]", found)

    return check


_CHECKS: Final[Mapping[str, Callable[[Mapping[str, Any]], Check | None]]] = {
    "integer": _number_check,
    "string": _text_check,
    "array": _list_check,
    "object": _object_check,
}
