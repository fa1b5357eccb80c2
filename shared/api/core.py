"""Core kinds: everything of pods, volumes and placement, and the kinds that are read in small parts."""

from __future__ import annotations

from pydantic import Field

from shared.api.base import Int32, IntOrString, KubeModel, ResourceList, StringMap, Time
from shared.api.meta import ATOMIC, Condition, KubeObject
from shared.api.placement import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodSchedulingGate,
    PreferredSchedulingTerm,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from shared.api.pods import (
    Container,
    ContainerPort,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    EnvFromSource,
    EnvReference,
    EnvVar,
    EnvVarSource,
    ExecAction,
    GRPCAction,
    HostAlias,
    HTTPGetAction,
    KeySelector,
    LocalObjectReference,
    ObjectFieldSelector,
    Pod,
    PodSpec,
    PodStatus,
    PodTemplateSpec,
    Probe,
    ResourceFieldSelector,
    TCPSocketAction,
)
from shared.api.volumes import (
    ConfigMapVolumeSource,
    EmptyDirVolumeSource,
    HostPathVolumeSource,
    KeyToPath,
    NFSVolumeSource,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimVolumeSource,
    ResourceRequirements,
    SecretVolumeSource,
    Volume,
    VolumeDevice,
    VolumeMount,
)

__all__ = [
    "Affinity",
    "ConfigMap",
    "ConfigMapVolumeSource",
    "Container",
    "ContainerPort",
    "ContainerState",
    "ContainerStateRunning",
    "ContainerStateTerminated",
    "ContainerStateWaiting",
    "ContainerStatus",
    "EmptyDirVolumeSource",
    "EnvFromSource",
    "EnvReference",
    "EnvVar",
    "EnvVarSource",
    "Event",
    "EventSource",
    "ExecAction",
    "GRPCAction",
    "HTTPGetAction",
    "HostAlias",
    "HostPathVolumeSource",
    "Ingress",
    "IngressBackend",
    "IngressPath",
    "IngressRule",
    "IngressRuleHTTP",
    "IngressServiceBackend",
    "IngressSpec",
    "IngressTLS",
    "KeySelector",
    "KeyToPath",
    "LocalObjectReference",
    "NFSVolumeSource",
    "Namespace",
    "Node",
    "NodeAffinity",
    "NodeSelector",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "NodeSpec",
    "NodeStatus",
    "ObjectFieldSelector",
    "ObjectReference",
    "PersistentVolumeClaim",
    "PersistentVolumeClaimSpec",
    "PersistentVolumeClaimVolumeSource",
    "Pod",
    "PodAffinity",
    "PodAffinityTerm",
    "PodAntiAffinity",
    "PodSchedulingGate",
    "PodSpec",
    "PodStatus",
    "PodTemplateSpec",
    "PreferredSchedulingTerm",
    "PriorityClass",
    "Probe",
    "ResourceFieldSelector",
    "ResourceRequirements",
    "Secret",
    "SecretVolumeSource",
    "Service",
    "ServicePort",
    "ServiceSpec",
    "TCPSocketAction",
    "Taint",
    "Toleration",
    "TopologySpreadConstraint",
    "Volume",
    "VolumeDevice",
    "VolumeMount",
    "WeightedPodAffinityTerm",
]


class NodeSpec(KubeModel):
    """What an administrator says of a node."""

    unschedulable: bool = False
    taints: list[Taint] = Field(default_factory=list[Taint])
    provider_id: str = ""


class ContainerImage(KubeModel):
    """An image that is on a node."""

    names: list[str] = Field(default_factory=list[str])
    size_bytes: int = 0


class NodeStatus(KubeModel):
    """What the kubelet says of a node."""

    capacity: ResourceList = Field(default_factory=ResourceList)
    allocatable: ResourceList = Field(default_factory=ResourceList)
    conditions: list[Condition] = Field(default_factory=list[Condition])
    images: list[ContainerImage] = Field(default_factory=list[ContainerImage])


class Node(KubeObject):
    """A node."""

    spec: NodeSpec = Field(default_factory=NodeSpec)
    status: NodeStatus = Field(default_factory=NodeStatus)


class Namespace(KubeObject):
    """A namespace."""


class PriorityClass(KubeObject):
    """A name for a priority."""

    value: Int32 = 0
    global_default: bool = False
    description: str = ""
    preemption_policy: str | None = None


class ConfigMap(KubeObject):
    """Configuration by key."""

    data: StringMap = Field(default_factory=dict[str, str])
    binary_data: StringMap = Field(default_factory=dict[str, str])
    immutable: bool | None = None


class Secret(KubeObject):
    """Secrets by key, in base 64."""

    data: StringMap = Field(default_factory=dict[str, str])
    string_data: StringMap = Field(default_factory=dict[str, str])
    type: str = ""
    immutable: bool | None = None


class ServicePort(KubeModel):
    """A port of a service."""

    name: str = ""
    protocol: str = ""
    port: Int32 = 0
    target_port: IntOrString | None = None
    node_port: Int32 = 0


class ServiceSpec(KubeModel):
    """A service; ``clusterIP: None`` is headless."""

    type: str = ""
    cluster_ip: str = ""
    selector: StringMap = Field(default_factory=dict[str, str])
    ports: list[ServicePort] = Field(default_factory=list[ServicePort])
    publish_not_ready_addresses: bool = False


class Service(KubeObject):
    """A service."""

    spec: ServiceSpec = Field(default_factory=ServiceSpec)


class IngressServiceBackend(KubeModel):
    """A service and its port (by name or number)."""

    name: str = ""
    port: dict[str, str | int] = Field(default_factory=dict[str, str | int])


class IngressBackend(KubeModel):
    """Where a path leads."""

    service: IngressServiceBackend | None = None


class IngressPath(KubeModel):
    """A path and its backend; ``pathType`` is Exact, Prefix or ImplementationSpecific."""

    path: str = ""
    path_type: str = ""
    backend: IngressBackend = Field(default_factory=IngressBackend)


class IngressRuleHTTP(KubeModel):
    """The paths of a host."""

    paths: list[IngressPath] = Field(default_factory=list[IngressPath])


class IngressRule(KubeModel):
    """A host's paths."""

    host: str = ""
    http: IngressRuleHTTP | None = None


class IngressTLS(KubeModel):
    """The certificate of some hosts."""

    hosts: list[str] = Field(default_factory=list[str])
    secret_name: str = ""


class IngressSpec(KubeModel):
    """Rules by host."""

    ingress_class_name: str | None = None
    default_backend: IngressBackend | None = None
    rules: list[IngressRule] = Field(default_factory=list[IngressRule])
    tls: list[IngressTLS] = Field(default_factory=list[IngressTLS])


class Ingress(KubeObject):
    """An ingress."""

    spec: IngressSpec = Field(default_factory=IngressSpec)


class ObjectReference(KubeModel):
    """An object anywhere."""

    model_config = ATOMIC

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class EventSource(KubeModel):
    """Who reports an event."""

    component: str = ""
    host: str = ""


class Event(KubeObject):
    """Something that happened to an object; ``type`` is Normal or Warning."""

    involved_object: ObjectReference = Field(default_factory=ObjectReference)
    reason: str = ""
    message: str = ""
    source: EventSource = Field(default_factory=EventSource)
    first_timestamp: Time | None = None
    last_timestamp: Time | None = None
    event_time: Time | None = None
    count: Int32 = 0
    type: str = ""
    reporting_component: str = ""
    reporting_instance: str = ""
    action: str = ""
