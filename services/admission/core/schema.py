"""What the API server checks of a job before any webhook sees it, for jobs that come by the log.

The CRD's own schema is the source: ranges, lengths, patterns, enumerations, required fields; then the
object's metadata.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
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


def schema_rules(job: JSON) -> Iterator[Violation]:
    """Yield what the CRD's schema refuses in a job's spec; types are expected to be right."""
    yield from _value(job_schema()["properties"]["spec"], job.get("spec"), "spec")


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


def _value(node: Mapping[str, Any], value: Any, path: str) -> Iterator[Violation]:
    if value is None or _INT_OR_STRING in node:
        return
    match value:
        case bool():
            return
        case int():
            yield from _number(node, value, path)
        case str():
            yield from _text(node, value, path)
        case list():
            least = node.get("minItems", 0)
            if len(value) < least:
                yield Violation("required", path, f"needs at least {least} entries")
            for index, item in enumerate(value):
                yield from _value(node.get("items", {}), item, f"{path}[{index}]")
        case dict():
            yield from _object(node, value, path)
        case _:
            return


def _object(node: Mapping[str, Any], value: dict[str, Any], path: str) -> Iterator[Violation]:
    for name in node.get("required", ()):
        if value.get(name) is None:
            yield Violation("required", f"{path}.{name}", f"{name} is required")
    properties = node.get("properties", {})
    for name, item in value.items():
        if name in properties:
            yield from _value(properties[name], item, f"{path}.{name}")
        elif "additionalProperties" in node:
            yield from _value(node["additionalProperties"], item, f"{path}[{name}]")


def _number(node: Mapping[str, Any], value: int, path: str) -> Iterator[Violation]:
    low, high = node.get("minimum"), node.get("maximum")
    if (limit := _RANGES.get(node.get("format", ""))) is not None and not -limit <= value < limit:
        yield Violation("out-of-range", path, f"{value} does not fit {node['format']}")
    elif low is not None and value < low:
        yield Violation("out-of-range", path, f"{value} must be at least {low}")
    elif high is not None and value > high:
        yield Violation("out-of-range", path, f"{value} must be at most {high}")


def _text(node: Mapping[str, Any], value: str, path: str) -> Iterator[Violation]:
    if "maxLength" in node and len(value) > node["maxLength"]:
        yield Violation("too-long", path, f"must be at most {node['maxLength']} characters")
    elif "enum" in node and value not in node["enum"]:
        yield Violation("unsupported", path, f'"{value[:80]}" is not one of {listing(node["enum"])}')
    elif "pattern" in node and not re.search(node["pattern"], value):
        yield Violation("invalid", path, f'"{value[:80]}" must match {node["pattern"]}')
    elif len(value) < node.get("minLength", 0):
        yield Violation("required", path, "must not be empty")
