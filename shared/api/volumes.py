"""Volumes of pods and the claims behind them. Sources that we do not read stay as they are."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shared.api.base import REQUIRED, Int32, PartialModel, QuantityText, ResourceList
from shared.api.meta import KubeObject, LabelSelector


class ResourceRequirements(PartialModel):
    """What is requested and what is the limit, by resource name."""

    requests: ResourceList = Field(default_factory=ResourceList)
    limits: ResourceList = Field(default_factory=ResourceList)


class PersistentVolumeClaimSpec(PartialModel):
    """A claim: how much storage, of which class, shared how."""

    access_modes: list[str] = Field(default_factory=list[str])
    selector: LabelSelector | None = None
    resources: ResourceRequirements = Field(default_factory=ResourceRequirements)
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaim(KubeObject):
    """A claim on a volume, in the pod's namespace."""

    spec: PersistentVolumeClaimSpec = Field(default_factory=PersistentVolumeClaimSpec)


class KeyToPath(PartialModel):
    """One key of a ConfigMap or Secret as a file."""

    key: Annotated[str, REQUIRED] = ""
    path: Annotated[str, REQUIRED] = ""
    mode: Int32 | None = None


class ConfigMapVolumeSource(PartialModel):
    """A ConfigMap as files."""

    name: str = ""
    items: list[KeyToPath] = Field(default_factory=list[KeyToPath])
    default_mode: Int32 | None = None
    optional: bool | None = None


class SecretVolumeSource(PartialModel):
    """A Secret as files."""

    secret_name: str = ""
    items: list[KeyToPath] = Field(default_factory=list[KeyToPath])
    default_mode: Int32 | None = None
    optional: bool | None = None


class EmptyDirVolumeSource(PartialModel):
    """A directory that lives as long as the pod; ``medium`` is empty, Memory or HugePages."""

    medium: str = ""
    size_limit: QuantityText | None = None


class HostPathVolumeSource(PartialModel):
    """A path of the node."""

    path: Annotated[str, REQUIRED] = ""
    type: str | None = None


class PersistentVolumeClaimVolumeSource(PartialModel):
    """A claim in the pod's namespace."""

    claim_name: Annotated[str, REQUIRED] = ""
    read_only: bool = False


class NFSVolumeSource(PartialModel):
    """A path of an NFS server."""

    server: Annotated[str, REQUIRED] = ""
    path: Annotated[str, REQUIRED] = ""
    read_only: bool = False


class Volume(PartialModel):
    """A volume: a name and one source; those without a field here stay as unknown fields."""

    name: Annotated[str, REQUIRED] = ""
    config_map: ConfigMapVolumeSource | None = None
    secret: SecretVolumeSource | None = None
    empty_dir: EmptyDirVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    nfs: NFSVolumeSource | None = None


class VolumeMount(PartialModel):
    """Where a container sees a volume."""

    name: Annotated[str, REQUIRED] = ""
    mount_path: Annotated[str, REQUIRED] = ""
    sub_path: str = ""
    sub_path_expr: str = ""
    read_only: bool = False
    mount_propagation: str | None = None


class VolumeDevice(PartialModel):
    """Where a container sees a raw block device."""

    name: Annotated[str, REQUIRED] = ""
    device_path: Annotated[str, REQUIRED] = ""
