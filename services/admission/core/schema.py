"""What the API server checks of a job before any webhook sees it, for jobs that come by the log.

The CRD's own schema is the source: ranges, lengths, patterns, enumerations, required fields; then the
object's metadata.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from services.admission.core.formats import dns_label, dns_subdomain
from services.admission.core.pod.checks import annotation_map, label_map
from services.admission.core.violations import Violation, listing
from shared.api.base import JSON
from shared.api.batch import Job
from shared.api.crds import model_schema
from shared.api.meta import ObjectMeta

_RANGES: Final = {"int32": 2**31, "int64": 2**63}
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"


@cache
def job_schema() -> JSON:
    """Return the schema of a job, metadata included."""
    return model_schema(Job)


def schema_rules(job: JSON) -> list[Violation]:
    """Return what the CRD's schema refuses in a job's spec; types are expected to be right."""
    found: list[Violation] = []
    check, spec = _spec_check(), job.get("spec")
    if check is not None and spec is not None:
        check(spec, "spec", found)
    return found


def metadata_rules(metadata: ObjectMeta) -> Iterator[Violation]:
    """Yield what the API server refuses in a job's metadata."""
    if not metadata.name:
        message = "metadata.name is required; generateName is not possible here, as the name is the key"
        yield Violation("required", "metadata.name", message)
    elif problem := dns_subdomain(metadata.name):
        yield Violation("invalid-name", "metadata.name", f'"{metadata.name[:80]}" {problem}')
    if metadata.namespace and (problem := dns_label(metadata.namespace)):
        yield Violation("invalid-namespace", "metadata.namespace", f'"{metadata.namespace[:80]}" {problem}')
    yield from label_map(metadata.labels, "metadata.labels")
    yield from annotation_map(metadata.annotations, "metadata.annotations")


def field_path(location: Sequence[str | int]) -> str:
    """Return a location as a Kubernetes field path: map keys in brackets, fields after dots."""
    node: Mapping[str, Any] = job_schema()
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
def _spec_check() -> Check | None:
    return _check(job_schema()["properties"]["spec"])


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
        if longest is not None and len(value) > longest:
            found.append(Violation("too-long", path, f"must be at most {longest} characters"))
        elif allowed is not None and value not in allowed:
            found.append(Violation("unsupported", path, f'"{value[:80]}" is not one of {listing(allowed)}'))
        elif len(value) < shortest:
            found.append(Violation("required", path, "must not be empty"))
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
    required = tuple(node.get("required", ()))
    children = {name: _check(child) for name, child in node.get("properties", {}).items()}
    checks = {name: own for name, own in children.items() if own is not None}
    values_check = _check(node["additionalProperties"]) if "additionalProperties" in node else None
    if not required and not checks and values_check is None:
        return None

    def check(value: Any, path: str, found: list[Violation]) -> None:
        missing = (name for name in required if value.get(name) is None)
        found.extend(Violation("required", f"{path}.{name}", f"{name} is required") for name in missing)
        for name, item in value.items():
            if item is None:
                continue
            if name in checks:
                checks[name](item, f"{path}.{name}", found)
            elif values_check is not None:
                values_check(item, f"{path}[{name}]", found)

    return check


_CHECKS: Final[Mapping[str, Callable[[Mapping[str, Any]], Check | None]]] = {
    "integer": _number_check,
    "string": _text_check,
    "array": _list_check,
    "object": _object_check,
}
