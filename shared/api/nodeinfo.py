"""Volcano's Numatopology (``nodeinfo.volcano.sh/v1alpha1``): what its resource exporter tells of a node."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shared.api.base import KubeModel, schema
from shared.api.meta import KubeObject


class ResourceInfo(KubeModel):
    """What there is of a resource."""

    allocatable: str = ""
    """Which units nobody has for himself; of cpu a list, as 0-3,8."""
    capacity: int = 0
    """How many there are in all."""


class CpuInfo(KubeModel):
    """Where a CPU is."""

    numa: Annotated[int, schema(minimum=0)] = 0
    """Number of its NUMA node."""
    socket: Annotated[int, schema(minimum=0)] = 0
    """Number of its socket."""
    core: Annotated[int, schema(minimum=0)] = 0
    """Number of its core in the socket."""


class ContainerAllocation(KubeModel):
    """What a container has for itself."""

    name: str = ""
    """Name of the container."""
    allocations: dict[str, str] = Field(default_factory=dict[str, str])
    """By resource; of cpu a list, as 0-3,8."""


class PodAllocation(KubeModel):
    """What a pod has for itself."""

    uid: str = ""
    """UID of the pod; empty where the exporter knows it by name."""
    name: str = ""
    """Name of the pod."""
    namespace: str = ""
    """Namespace of the pod."""
    container_allocations: list[ContainerAllocation] = Field(default_factory=list[ContainerAllocation])
    """What its containers have."""


class NumatopologySpec(KubeModel):
    """How a node is built, and who has what of it."""

    policies: dict[str, str] = Field(default_factory=dict[str, str])
    """Policies of the kubelet: CPUManagerPolicy and TopologyManagerPolicy."""
    res_reserved: dict[str, str] = Field(default_factory=dict[str, str])
    """By resource, what the kubelet keeps back."""
    numares: dict[str, ResourceInfo] = Field(default_factory=dict[str, ResourceInfo])
    """By resource, what there is."""
    cpu_detail: dict[str, CpuInfo] = Field(default_factory=dict[str, CpuInfo])
    """By number of the CPU, where it is."""
    pod_allocations: list[PodAllocation] = Field(default_factory=list[PodAllocation])
    """What pods have for themselves."""


class Numatopology(KubeObject):
    """NUMA nodes of the node of this name."""

    spec: NumatopologySpec = Field(default_factory=NumatopologySpec)
    """What its exporter tells."""
