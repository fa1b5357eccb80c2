"""What an administrator adds to pods: resource groups and the scheduling gate of ``/pods/mutate``.

A resource group (``resourceGroups`` of Volcano's admission configuration, field by field) gives the pods of
some namespaces, or with an annotation, a scheduler, tolerations, node labels and an affinity.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from shared.api.base import JSON
from shared.api.names import QUEUE_ALLOCATION_GATE, RESOURCE_GROUP

_FROZEN: Final = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Members(BaseModel):
    """Which pods belong to a group."""

    model_config = _FROZEN

    key: Literal["", "namespace", "annotation"] = ""
    """``namespace``, ``annotation``, or empty: pods whose volcano.sh/resource-group names the group."""
    value: list[str] = Field(default_factory=list[str])
    """Namespaces, or annotations written as ``name: value``; one of them is enough."""

    @field_validator("value", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        """Take ``name: value`` also as YAML reads it without quotes."""
        return [_text(entry) for entry in value] if isinstance(value, (list, tuple)) else value

    @model_validator(mode="after")
    def _are_annotations(self) -> Self:
        if self.key != "namespace" and len(self.annotations) < len(self.value):
            raise ValueError("each value must be an annotation, as name: value")
        return self

    @cached_property
    def annotations(self) -> list[tuple[str, str]]:
        """The values as annotations."""
        found: list[tuple[str, str]] = []
        for text in self.value:
            try:
                read = yaml.safe_load(text)
            except yaml.YAMLError:
                continue
            if isinstance(read, dict):
                found += [(str(name), str(value)) for name, value in read.items()]
        return found


def _text(entry: Any) -> Any:
    return yaml.safe_dump(entry).strip() if isinstance(entry, dict) else entry


class ResourceGroup(BaseModel):
    """One group."""

    model_config = _FROZEN

    resource_group: str = Field(alias="resourceGroup")
    members: Members = Field(Members(), alias="object")
    scheduler_name: str = Field("", alias="schedulerName")
    tolerations: tuple[JSON, ...] = ()
    labels: dict[str, str] = Field(default_factory=dict[str, str])
    affinity: JSON = Field(default_factory=JSON)

    @field_validator("affinity", mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        """Volcano's configuration has the affinity as JSON text."""
        return json.loads(value) if isinstance(value, str) else value

    def has(self, pod: JSON, namespace: str) -> bool:
        """Say whether a pod belongs to this group."""
        if self.members.key == "namespace":
            return namespace in self.members.value
        annotations = (pod.get("metadata") or {}).get("annotations") or {}
        if any(annotations.get(name) == text for name, text in self.members.annotations):
            return True
        return not self.members.key and annotations.get(RESOURCE_GROUP) == self.resource_group


def mutate_pod(pod: JSON, namespace: str, groups: Sequence[ResourceGroup], *, gate: bool) -> JSON:
    """Return the pod with what its group adds, and with the gate that it asks for when gates are on."""
    spec: JSON = dict(pod.get("spec") or {})
    if gate and _asks_for_gate(pod):
        gates = spec.get("schedulingGates") or []
        if not any(one.get("name") == QUEUE_ALLOCATION_GATE for one in gates):
            spec["schedulingGates"] = [*gates, {"name": QUEUE_ALLOCATION_GATE}]
    group = next((one for one in groups if one.has(pod, namespace)), None)
    if group is not None:
        _add(spec, group)
    return {**pod, "spec": spec}


def _asks_for_gate(pod: JSON) -> bool:
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    return str(annotations.get(QUEUE_ALLOCATION_GATE)).lower() == "true"


def _add(spec: JSON, group: ResourceGroup) -> None:
    if group.labels:
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **group.labels}
    if group.affinity and not spec.get("affinity"):
        spec["affinity"] = group.affinity
    present = spec.get("tolerations") or []
    if missing := [one for one in group.tolerations if one not in present]:
        spec["tolerations"] = [*present, *missing]
    if group.scheduler_name:
        spec["schedulerName"] = group.scheduler_name
