"""Volumes of pods and the claims behind them. Sources that we do not read stay as they are."""

from __future__ import annotations

from pydantic import Field

from shared.api.base import Int32, KubeModel, QuantityText, ResourceList
from shared.api.meta import KubeObject, LabelSelector


class ResourceRequirements(KubeModel):
    """What is requested and what is the limit, by resource name."""

    requests: ResourceList = Field(default_factory=ResourceList)
    limits: ResourceList = Field(default_factory=ResourceList)


class PersistentVolumeClaimSpec(KubeModel):
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


class KeyToPath(KubeModel):
    """One key of a ConfigMap or Secret as a file."""

    key: str = ""
    path: str = ""
    mode: Int32 | None = None


class ConfigMapVolumeSource(KubeModel):
    """A ConfigMap as files."""

    name: str = ""
    items: list[KeyToPath] = Field(default_factory=list[KeyToPath])
    default_mode: Int32 | None = None
    optional: bool | None = None


class SecretVolumeSource(KubeModel):
    """A Secret as files."""

    secret_name: str = ""
    items: list[KeyToPath] = Field(default_factory=list[KeyToPath])
    default_mode: Int32 | None = None
    optional: bool | None = None


class EmptyDirVolumeSource(KubeModel):
    """A directory that lives as long as the pod; ``medium`` is empty, Memory or HugePages."""

    medium: str = ""
    size_limit: QuantityText | None = None


class HostPathVolumeSource(KubeModel):
    """A path of the node."""

    path: str = ""
    type: str | None = None


class PersistentVolumeClaimVolumeSource(KubeModel):
    """A claim in the pod's namespace."""

    claim_name: str = ""
    read_only: bool = False


class NFSVolumeSource(KubeModel):
    """A path of an NFS server."""

    server: str = ""
    path: str = ""
    read_only: bool = False


class Volume(KubeModel):
    """A volume: a name and one source; those without a field here stay as unknown fields."""

    name: str = ""
    config_map: ConfigMapVolumeSource | None = None
    secret: SecretVolumeSource | None = None
    empty_dir: EmptyDirVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    nfs: NFSVolumeSource | None = None


class VolumeMount(KubeModel):
    """Where a container sees a volume."""

    name: str = ""
    mount_path: str = ""
    sub_path: str = ""
    sub_path_expr: str = ""
    read_only: bool = False
    mount_propagation: str | None = None


class VolumeDevice(KubeModel):
    """Where a container sees a raw block device."""

    name: str = ""
    device_path: str = ""
