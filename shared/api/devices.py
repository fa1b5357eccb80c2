"""``resource.k8s.io/v1``, dynamic resource allocation: as far as it is read here."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from shared.api.base import REQUIRED, PartialModel
from shared.api.meta import KubeObject


class CELDeviceSelector(PartialModel):
    """An expression that is true of the devices that are meant."""

    expression: str = ""


class DeviceSelector(PartialModel):
    """Which devices are meant."""

    cel: CELDeviceSelector | None = None


class DeviceClassSpec(PartialModel):
    """Which devices are of a class: those that all selectors mean."""

    selectors: list[DeviceSelector] = Field(default_factory=list[DeviceSelector])


class DeviceClass(KubeObject):
    """Devices that can be asked for by a name."""

    spec: DeviceClassSpec = Field(default_factory=DeviceClassSpec)


class ExactDeviceRequest(PartialModel):
    """So many devices of a class."""

    device_class_name: Annotated[str, REQUIRED] = ""
    selectors: list[DeviceSelector] = Field(default_factory=list[DeviceSelector])
    allocation_mode: str = ""
    count: int | None = None


class DeviceRequest(PartialModel):
    """One request of a claim."""

    name: Annotated[str, REQUIRED] = ""
    exactly: ExactDeviceRequest | None = None


class DeviceClaim(PartialModel):
    """What a claim asks for."""

    requests: list[DeviceRequest] = Field(default_factory=list[DeviceRequest])


class ResourceClaimSpec(PartialModel):
    """The devices that are asked for together."""

    devices: DeviceClaim = Field(default_factory=DeviceClaim)


class ResourceClaim(KubeObject):
    """Devices for the pods that name it."""

    spec: Annotated[ResourceClaimSpec, REQUIRED] = Field(default_factory=ResourceClaimSpec)


class ResourceClaimTemplateSpec(PartialModel):
    """The mould of claims."""

    spec: Annotated[ResourceClaimSpec, REQUIRED] = Field(default_factory=ResourceClaimSpec)


class ResourceClaimTemplate(KubeObject):
    """A claim that is made for each pod that names it."""

    spec: Annotated[ResourceClaimTemplateSpec, REQUIRED] = Field(default_factory=ResourceClaimTemplateSpec)


class ResourcePool(PartialModel):
    """The pool of a driver that a slice is a part of."""

    name: Annotated[str, REQUIRED] = ""
    generation: int = 0
    resource_slice_count: int = 1


class Device(PartialModel):
    """A device and what it is like."""

    name: Annotated[str, REQUIRED] = ""
    attributes: dict[str, dict[str, Any]] = Field(default_factory=dict[str, dict[str, Any]])
    capacity: dict[str, dict[str, Any]] = Field(default_factory=dict[str, dict[str, Any]])


class ResourceSliceSpec(PartialModel):
    """Some devices of a pool."""

    driver: Annotated[str, REQUIRED] = ""
    pool: Annotated[ResourcePool, REQUIRED] = Field(default_factory=ResourcePool)
    node_name: str | None = None
    devices: list[Device] = Field(default_factory=list[Device])


class ResourceSlice(KubeObject):
    """What a driver says of devices."""

    spec: Annotated[ResourceSliceSpec, REQUIRED] = Field(default_factory=ResourceSliceSpec)
