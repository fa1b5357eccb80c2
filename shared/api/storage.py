"""Persistent volumes, and ``storage.k8s.io/v1``: as far as they are read here."""

from __future__ import annotations

from pydantic import Field

from shared.api.base import PartialModel, ResourceList
from shared.api.meta import KubeObject
from shared.api.placement import NodeSelector


class VolumeNodeAffinity(PartialModel):
    """From which nodes a volume is reached."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(PartialModel):
    """A volume: how large, of which class, shared how, and from where it is reached."""

    capacity: ResourceList = Field(default_factory=ResourceList)
    access_modes: list[str] = Field(default_factory=list[str])
    storage_class_name: str = ""
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinity | None = None


class PersistentVolume(KubeObject):
    """A volume of the cluster."""

    spec: PersistentVolumeSpec = Field(default_factory=PersistentVolumeSpec)


class TopologyRequirement(PartialModel):
    """A label that nodes of a topology have, and its values."""

    key: str = ""
    values: list[str] = Field(default_factory=list[str])


class TopologyTerm(PartialModel):
    """A topology: all of its labels."""

    match_label_expressions: list[TopologyRequirement] = Field(default_factory=list[TopologyRequirement])


class StorageClass(KubeObject):
    """How volumes are made: by whom, when and where."""

    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: list[TopologyTerm] = Field(default_factory=list[TopologyTerm])


class VolumeNodeResources(PartialModel):
    """How many volumes a node takes."""

    count: int | None = None


class CSINodeDriver(PartialModel):
    """A driver on a node."""

    name: str = ""
    topology_keys: list[str] = Field(default_factory=list[str])
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(PartialModel):
    """The drivers of a node."""

    drivers: list[CSINodeDriver] = Field(default_factory=list[CSINodeDriver])


class CSINode(KubeObject):
    """What a node says about drivers of volumes; its name is the node's."""

    spec: CSINodeSpec = Field(default_factory=CSINodeSpec)
