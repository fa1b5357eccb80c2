"""CRD manifests, made from the models: ``python -m shared.api.crds [DIRECTORY]``.

Names, columns, subresources, defaults and ranges are Volcano's, so that its clients find what they
expect. Types of Kubernetes' own inside a Job (the pod template) list the fields we know, for
``kubectl explain``, and preserve the others.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from shared.api.base import JSON, KubeModel
from shared.api.batch import Job
from shared.api.bus import Command
from shared.api.meta import KubeObject
from shared.api.resources import COMMANDS, JOBS, PODGROUPS, QUEUES
from shared.api.scheduling import PodGroup, Queue
from shared.kube.port import Resource

DIRECTORY: Final = Path(__file__).parents[2] / "deploy" / "crds"
_HEADER: Final = "# Made from shared/api by `python -m shared.api.crds`; do not edit.\n"
_DROPPED: Final = frozenset({"title", "default", "$defs", "additionalProperties"})


@dataclass(frozen=True, slots=True)
class Column:
    """A column of ``kubectl get``; those of priority 1 are shown by ``-o wide`` only."""

    name: str
    type: str
    path: str
    priority: int = 0

    def manifest(self) -> JSON:
        """Return the column's entry."""
        shown = {"priority": self.priority} if self.priority else {}
        return {"name": self.name, "type": self.type, "jsonPath": self.path, **shown}


@dataclass(frozen=True, slots=True)
class Crd:
    """A kind of ours."""

    resource: Resource
    model: type[KubeObject]
    short_names: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    status: bool = False
    """Whether status is a subresource."""

    @property
    def name(self) -> str:
        """``plural.group``: the manifest's name."""
        return f"{self.resource.plural}.{self.resource.group}"


_AGE: Final = Column("AGE", "date", ".metadata.creationTimestamp")
_QUEUE: Final = Column("QUEUE", "string", ".spec.queue", priority=1)

CRDS: Final = (
    Crd(
        JOBS,
        Job,
        ("vcjob", "vj"),
        (
            Column("STATUS", "string", ".status.state.phase"),
            Column("minAvailable", "integer", ".status.minAvailable"),
            Column("RUNNINGS", "integer", ".status.running"),
            _AGE,
            _QUEUE,
        ),
        status=True,
    ),
    Crd(
        PODGROUPS,
        PodGroup,
        ("pg", "podgroup-v1beta1"),
        (
            Column("STATUS", "string", ".status.phase"),
            Column("minMember", "integer", ".spec.minMember"),
            Column("RUNNINGS", "integer", ".status.running"),
            _AGE,
            _QUEUE,
        ),
    ),
    Crd(QUEUES, Queue, ("q", "queue-v1beta1"), (Column("PARENT", "string", ".spec.parent"),), status=True),
    Crd(COMMANDS, Command),
)


def manifest(crd: Crd) -> JSON:
    """Return one CustomResourceDefinition."""
    resource = crd.resource
    version: JSON = {"name": resource.version, "served": True, "storage": True}
    if crd.columns:
        version["additionalPrinterColumns"] = [column.manifest() for column in crd.columns]
    version["schema"] = {"openAPIV3Schema": object_schema(crd.model)}
    if crd.status:
        version["subresources"] = {"status": {}}
    names: JSON = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": resource.kind.lower(),
    }
    if crd.short_names:
        names["shortNames"] = list(crd.short_names)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": crd.name, "annotations": {"helm.sh/resource-policy": "keep"}},
        "spec": {
            "group": resource.group,
            "names": names,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [version],
        },
    }


def object_schema(model: type[KubeObject]) -> JSON:
    """Return the structural schema of a kind; the server itself checks ``metadata``."""
    schema = model_schema(model)
    schema["properties"]["apiVersion"] = {"type": "string", "description": "Version of this kind's schema."}
    schema["properties"]["kind"] = {"type": "string", "description": "What this object is."}
    schema["properties"]["metadata"] = {"type": "object"}
    return schema


def model_schema(model: type[KubeModel]) -> JSON:
    """Return the structural schema of a model, metadata included."""
    raw = model.model_json_schema()
    return _structural(raw, raw.get("$defs", {}))


def _structural(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> JSON:
    """Return a node without references, alternatives of null, and what structural schemas forbid."""
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


def _is_required(node: Mapping[str, Any]) -> bool:
    return bool(node.get("x-required"))


def render(crd: Crd) -> str:
    """Return the manifest as YAML."""
    return _HEADER + yaml.safe_dump(manifest(crd), sort_keys=True, allow_unicode=True, width=100)


def file_name(crd: Crd) -> str:
    """Return the manifest's file name, as in Volcano's repository."""
    return f"{crd.resource.group}_{crd.resource.plural}.yaml"


def main(directory: Path) -> None:
    """Write all manifests."""
    directory.mkdir(parents=True, exist_ok=True)
    for crd in CRDS:
        (directory / file_name(crd)).write_text(render(crd), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DIRECTORY)
