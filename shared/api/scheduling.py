"""Volcano's PodGroup and Queue (``scheduling.volcano.sh/v1beta1``), every field of them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, PlainSerializer, Strict

from shared.api.base import Count, Int32, KubeModel, ResourceList, Time, schema
from shared.api.batch import DNS_SUBDOMAIN
from shared.api.meta import KubeObject, LabelSelector


class PodGroupPhase(StrEnum):
    """Pods are created only once the phase is Inqueue or later."""

    PENDING = "Pending"
    RUNNING = "Running"
    UNKNOWN = "Unknown"
    INQUEUE = "Inqueue"
    COMPLETED = "Completed"


class QueueState(StrEnum):
    """Only an open queue takes new jobs; a closing one becomes closed when its podgroups are gone."""

    OPEN = "Open"
    CLOSED = "Closed"
    CLOSING = "Closing"
    UNKNOWN = "Unknown"


class PodGroupReason(StrEnum):
    """Reasons of conditions."""

    POD_FAILED = "PodFailed"
    POD_DELETED = "PodDeleted"
    NOT_ENOUGH_RESOURCES = "NotEnoughResources"
    NOT_ENOUGH_TASKS = "NotEnoughTasks"
    NOT_ENOUGH_PODS_OF_TASK = "NotEnoughPodsOfTask"
    TASKS_READY = "tasks in gang are ready to be scheduled"


def _text(value: StrEnum) -> str:
    return value.value


QueueName = Annotated[str, schema(default="default", maxLength=253, pattern=DNS_SUBDOMAIN)]


class NetworkTopologySpec(KubeModel):
    """How far apart pods may be; the two tier fields exclude each other."""

    mode: Annotated[str, schema(enum=["hard", "soft"], default="hard")] = ""
    """hard (the default) or soft."""
    highest_tier_allowed: Annotated[int, schema(minimum=0)] | None = None
    """The highest tier that a job may cross."""
    highest_tier_name: Annotated[str, schema(maxLength=253)] = ""
    """The same by the tier's name."""


class SubGroupPolicySpec(KubeModel):
    """The split of a gang into groups which are placed each as one."""

    name: Annotated[str, schema(maxLength=253)] = ""
    """Name of the policy."""
    network_topology: NetworkTopologySpec | None = None
    """How far apart the pods of one group may be."""
    sub_group_size: Annotated[int, schema(format="int32", minimum=1, default=1)] | None = None
    """Pods in a group."""
    min_sub_groups: Annotated[int, schema(format="int32", minimum=0, default=0)] | None = None
    """The least number of groups that is started."""
    label_selector: LabelSelector | None = None
    """The pods it is about."""
    match_label_keys: Annotated[list[str], schema(**{"x-kubernetes-list-type": "atomic"})] = Field(
        default_factory=list[str]
    )
    """Pods with the same values of these labels are one group."""


class PodGroupSpec(KubeModel):
    """What the gang needs."""

    min_member: Count = 0
    """The least number of pods that is started."""
    min_task_member: dict[str, Int32] = Field(default_factory=dict[str, Int32])
    """The same for each task."""
    queue: QueueName = ""
    """The queue that is charged."""
    priority_class_name: Annotated[str, schema(maxLength=253)] = ""
    """The gang's PriorityClass."""
    min_resources: ResourceList | None = None
    """Resources of the least number of pods."""
    network_topology: NetworkTopologySpec | None = None
    """How far apart the gang's pods may be."""
    sub_group_policy: list[SubGroupPolicySpec] = Field(default_factory=list[SubGroupPolicySpec])
    """The split into groups."""


class PodGroupCondition(KubeModel):
    """Whether and why the gang could (not) be scheduled."""

    type: str = ""
    """Unschedulable or Scheduled."""
    status: str = ""
    """True, False or Unknown."""
    transition_id: str = ""
    """The scheduling session that set it."""
    last_transition_time: Time | None = None
    """When it last changed."""
    reason: str = ""
    """One word: why."""
    message: str = ""
    """A sentence: why."""


class PodGroupStatus(KubeModel):
    """Where the gang is."""

    phase: Annotated[PodGroupPhase, Strict(strict=False), PlainSerializer(_text)] | None = None
    """Pending, Inqueue, Running, Unknown or Completed."""
    conditions: list[PodGroupCondition] = Field(default_factory=list[PodGroupCondition])
    """The last verdict of each type."""
    running: Count = 0
    """Running pods."""
    succeeded: Count = 0
    """Pods that succeeded."""
    failed: Count = 0
    """Pods that failed."""


class PodGroup(KubeObject):
    """A gang: pods that are scheduled together. It has no status subresource."""

    spec: PodGroupSpec = Field(default_factory=PodGroupSpec)
    """What the gang needs."""
    status: PodGroupStatus = Field(default_factory=PodGroupStatus)
    """Where the gang is."""


class ClusterSpec(KubeModel):
    """Another cluster that takes jobs of a queue."""

    name: str = ""
    """Name of the cluster."""
    weight: Int32 = 0
    """Its weight among the clusters."""
    capacity: ResourceList = Field(default_factory=ResourceList)
    """What it offers."""


class Guarantee(KubeModel):
    """What is reserved."""

    resource: ResourceList = Field(default_factory=ResourceList)
    """Resources that no other queue may use."""


class NodeGroupAffinity(KubeModel):
    """Node groups by name."""

    required_during_scheduling_ignored_during_execution: list[str] = Field(default_factory=list[str])
    """Groups that must be used (or avoided)."""
    preferred_during_scheduling_ignored_during_execution: list[str] = Field(default_factory=list[str])
    """Groups that should be used (or avoided)."""


class QueueAffinity(KubeModel):
    """The node groups of a queue."""

    node_group_affinity: NodeGroupAffinity | None = None
    """Where its pods go."""
    node_group_anti_affinity: NodeGroupAffinity | None = None
    """Where they do not go."""


class QueueSpec(KubeModel):
    """A queue's share and place in the hierarchy."""

    weight: Annotated[int, schema(format="int32", minimum=1, maximum=65535, default=1)] = 0
    """Its weight among its siblings."""
    capability: ResourceList = Field(default_factory=ResourceList)
    """The most it may use; a resource that is not named is not limited."""
    reclaimable: bool | None = None
    """Whether others may take back what it uses beyond its share; yes when absent."""
    extend_clusters: list[ClusterSpec] = Field(default_factory=list[ClusterSpec])
    """Other clusters for its jobs."""
    guarantee: Guarantee = Field(default_factory=Guarantee)
    """What is reserved for it."""
    affinity: QueueAffinity | None = None
    """Its node groups."""
    type: Annotated[str, schema(maxLength=253)] = ""
    """A free text."""
    parent: Annotated[str, schema(maxLength=253, pattern=DNS_SUBDOMAIN)] = ""
    """The queue above; root when absent."""
    deserved: ResourceList = Field(default_factory=ResourceList)
    """Its share: lent when idle, taken back when wanted."""
    priority: Count = 0
    """Higher ones are served first and reclaimed last."""
    dequeue_strategy: Annotated[str, schema(enum=["fifo", "traverse"], default="traverse")] = ""
    """Whether a job that does not fit stops those behind it."""


class Reservation(KubeModel):
    """Nodes locked for a queue."""

    nodes: list[str] = Field(default_factory=list[str])
    """Names of the nodes."""
    resource: ResourceList = Field(default_factory=ResourceList)
    """What is idle on them."""


class QueueStatus(KubeModel):
    """A queue's state and use."""

    state: Annotated[QueueState, Strict(strict=False), PlainSerializer(_text)] | None = None
    """Open, Closed, Closing or Unknown."""
    unknown: Count = 0
    """Podgroups of phase Unknown."""
    pending: Count = 0
    """Podgroups of phase Pending."""
    running: Count = 0
    """Podgroups of phase Running."""
    inqueue: Count = 0
    """Podgroups of phase Inqueue."""
    completed: Count = 0
    """Podgroups of phase Completed."""
    reservation: Reservation = Field(default_factory=Reservation)
    """Nodes locked for it."""
    allocated: ResourceList = Field(default_factory=ResourceList)
    """What its pods use."""


class Queue(KubeObject):
    """A queue of podgroups."""

    spec: QueueSpec = Field(default_factory=QueueSpec)
    """Its share and place."""
    status: QueueStatus = Field(default_factory=QueueStatus)
    """Its state and use."""
