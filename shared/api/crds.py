"""CRD manifests, made from the models: ``python -m shared.api.crds [DIRECTORY]``.

Names, columns, subresources, defaults and ranges are Volcano's, so that its clients find what they
expect. Types of Kubernetes' own inside a Job (the pod template) list the fields we know, for
``kubectl explain``, and preserve the others.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from shared.api.base import JSON
from shared.api.batch import Job
from shared.api.bus import Command
from shared.api.cron import CronJob
from shared.api.flow import JobFlow, JobTemplate
from shared.api.meta import KubeObject
from shared.api.nodeinfo import Numatopology
from shared.api.resources import (
    COMMANDS,
    CRONJOBS,
    HYPERNODES,
    JOBFLOWS,
    JOBS,
    JOBTEMPLATES,
    NUMATOPOLOGIES,
    PODGROUPS,
    QUEUES,
)
from shared.api.scheduling import PodGroup, Queue
from shared.api.structural import model_schema
from shared.api.topology import HyperNode
from shared.kube.port import Resource

DIRECTORY: Final = Path(__file__).parents[2] / "deploy" / "crds"
_HEADER: Final = "# Made from shared/api by `python -m shared.api.crds`; do not edit.\n"


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
    Crd(
        JOBFLOWS,
        JobFlow,
        ("jf",),
        (
            Column("Status", "string", ".status.state.phase"),
            Column("Age", "date", ".metadata.creationTimestamp"),
        ),
        status=True,
    ),
    Crd(JOBTEMPLATES, JobTemplate, ("jt",), status=True),
    Crd(CRONJOBS, CronJob, ("cronvcjob", "cronvj"), status=True),
    Crd(
        HYPERNODES,
        HyperNode,
        ("hn",),
        (
            Column("Tier", "string", ".spec.tier"),
            Column("TierName", "string", ".spec.tierName"),
            Column("NodeCount", "integer", ".status.nodeCount"),
            Column("Age", "date", ".metadata.creationTimestamp"),
        ),
        status=True,
    ),
    Crd(NUMATOPOLOGIES, Numatopology, ("numatopo",)),
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
