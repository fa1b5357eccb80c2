"""Pods: template, containers, status."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shared.api.base import (
    REQUIRED,
    Int32,
    Int64,
    IntOrString,
    PartialModel,
    QuantityText,
    ResourceList,
    StringMap,
    Time,
)
from shared.api.meta import Condition, KubeObject, ObjectMeta
from shared.api.placement import Affinity, PodSchedulingGate, Toleration, TopologySpreadConstraint
from shared.api.volumes import ResourceRequirements, Volume, VolumeDevice, VolumeMount


class ContainerPort(PartialModel):
    """A port that a container listens on; ``hostPort`` is taken on the node as well."""

    name: str = ""
    container_port: Annotated[Int32, REQUIRED] = 0
    host_port: Int32 = 0
    protocol: str = ""
    host_ip: str = ""


class ObjectFieldSelector(PartialModel):
    """A field of the pod itself."""

    api_version: str = ""
    field_path: Annotated[str, REQUIRED] = ""


class ResourceFieldSelector(PartialModel):
    """A request or limit of a container."""

    container_name: str = ""
    resource: Annotated[str, REQUIRED] = ""
    divisor: QuantityText | None = None


class KeySelector(PartialModel):
    """A key of a ConfigMap or Secret."""

    name: str = ""
    key: Annotated[str, REQUIRED] = ""
    optional: bool | None = None


class EnvVarSource(PartialModel):
    """Where an environment variable's value comes from: exactly one."""

    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    config_map_key_ref: KeySelector | None = None
    secret_key_ref: KeySelector | None = None


class EnvVar(PartialModel):
    """An environment variable: a value or a source."""

    name: Annotated[str, REQUIRED] = ""
    value: str = ""
    value_from: EnvVarSource | None = None


class EnvReference(PartialModel):
    """The ConfigMap or Secret whose keys become variables."""

    name: str = ""
    optional: bool | None = None


class EnvFromSource(PartialModel):
    """All keys of a ConfigMap or Secret as variables."""

    prefix: str = ""
    config_map_ref: EnvReference | None = None
    secret_ref: EnvReference | None = None


class ExecAction(PartialModel):
    """A command run in the container."""

    command: list[str] = Field(default_factory=list[str])


class HTTPGetAction(PartialModel):
    """An HTTP request to the container."""

    path: str = ""
    port: IntOrString = 0
    host: str = ""
    scheme: str = ""


class TCPSocketAction(PartialModel):
    """A connection to the container."""

    port: IntOrString = 0
    host: str = ""


class GRPCAction(PartialModel):
    """A gRPC health check."""

    port: Int32 = 0
    service: str | None = None


class Probe(PartialModel):
    """A periodic check of a container: exactly one handler."""

    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    grpc: GRPCAction | None = None
    initial_delay_seconds: Int32 = 0
    timeout_seconds: Int32 | None = None
    period_seconds: Int32 | None = None
    success_threshold: Int32 | None = None
    failure_threshold: Int32 | None = None
    termination_grace_period_seconds: Int64 | None = None


class Container(PartialModel):
    """A container, or an init container (with ``restartPolicy: Always`` a sidecar)."""

    name: Annotated[str, REQUIRED] = ""
    image: str = ""
    command: list[str] = Field(default_factory=list[str])
    args: list[str] = Field(default_factory=list[str])
    working_dir: str = ""
    ports: list[ContainerPort] = Field(default_factory=list[ContainerPort])
    env_from: list[EnvFromSource] = Field(default_factory=list[EnvFromSource])
    env: list[EnvVar] = Field(default_factory=list[EnvVar])
    resources: ResourceRequirements = Field(default_factory=ResourceRequirements)
    restart_policy: str | None = None
    volume_mounts: list[VolumeMount] = Field(default_factory=list[VolumeMount])
    volume_devices: list[VolumeDevice] = Field(default_factory=list[VolumeDevice])
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    termination_message_path: str = ""
    termination_message_policy: str = ""
    image_pull_policy: str = ""
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False


class LocalObjectReference(PartialModel):
    """An object of the same namespace."""

    name: str = ""


class HostAlias(PartialModel):
    """A line of the pod's hosts file."""

    ip: str = ""
    hostnames: list[str] = Field(default_factory=list[str])


class PodResourceClaim(PartialModel):
    """A claim on devices: one that is there, or one that is made for the pod by a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(PartialModel):
    """What a pod runs and where it may go."""

    volumes: list[Volume] = Field(default_factory=list[Volume])
    init_containers: list[Container] = Field(default_factory=list[Container])
    containers: Annotated[list[Container], REQUIRED] = Field(default_factory=list[Container])
    restart_policy: str = ""
    termination_grace_period_seconds: Int64 | None = None
    active_deadline_seconds: Int64 | None = None
    dns_policy: str = ""
    node_selector: StringMap = Field(default_factory=dict[str, str])
    service_account_name: str = ""
    automount_service_account_token: bool | None = None
    node_name: str = ""
    host_network: bool = False
    host_pid: bool = False
    host_ipc: bool = False
    share_process_namespace: bool | None = None
    image_pull_secrets: list[LocalObjectReference] = Field(default_factory=list[LocalObjectReference])
    hostname: str = ""
    subdomain: str = ""
    affinity: Affinity | None = None
    scheduler_name: str = ""
    tolerations: list[Toleration] = Field(default_factory=list[Toleration])
    host_aliases: list[HostAlias] = Field(default_factory=list[HostAlias])
    priority_class_name: str = ""
    priority: Int32 | None = None
    runtime_class_name: str | None = None
    enable_service_links: bool | None = None
    preemption_policy: str | None = None
    overhead: ResourceList = Field(default_factory=ResourceList)
    topology_spread_constraints: list[TopologySpreadConstraint] = Field(
        default_factory=list[TopologySpreadConstraint]
    )
    set_hostname_as_fqdn: bool | None = None
    scheduling_gates: list[PodSchedulingGate] = Field(default_factory=list[PodSchedulingGate])
    resources: ResourceRequirements | None = None
    resource_claims: list[PodResourceClaim] = Field(default_factory=list[PodResourceClaim])


class PodTemplateSpec(PartialModel):
    """The mould of pods."""

    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: PodSpec = Field(default_factory=PodSpec)


class ContainerStateTerminated(PartialModel):
    """How a container ended."""

    exit_code: Int32 = 0
    signal: Int32 = 0
    reason: str = ""
    message: str = ""
    started_at: Time | None = None
    finished_at: Time | None = None


class ContainerStateWaiting(PartialModel):
    """Why a container has not started."""

    reason: str = ""
    message: str = ""


class ContainerStateRunning(PartialModel):
    """Since when a container runs."""

    started_at: Time | None = None


class ContainerState(PartialModel):
    """One of the three."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(PartialModel):
    """The state of a container."""

    name: str = ""
    state: ContainerState = Field(default_factory=ContainerState)
    last_state: ContainerState = Field(default_factory=ContainerState)
    ready: bool = False
    restart_count: Int32 = 0
    image: str = ""
    image_id: str = ""
    container_id: str = ""
    started: bool | None = None


class PodStatus(PartialModel):
    """What the kubelet and the scheduler say; ``phase`` is Pending, Running, Succeeded, Failed or Unknown."""

    phase: str = ""
    conditions: list[Condition] = Field(default_factory=list[Condition])
    message: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    host_ip: str = ""
    pod_ip: str = ""
    start_time: Time | None = None
    init_container_statuses: list[ContainerStatus] = Field(default_factory=list[ContainerStatus])
    container_statuses: list[ContainerStatus] = Field(default_factory=list[ContainerStatus])
    qos_class: str = ""


class Pod(KubeObject):
    """A pod."""

    spec: PodSpec = Field(default_factory=PodSpec)
    status: PodStatus = Field(default_factory=PodStatus)
