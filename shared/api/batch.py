"""Volcano's Job (``batch.volcano.sh/v1alpha1``), every field of it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, PlainSerializer, Strict

from shared.api.base import REQUIRED, Count, Duration, Int32, KubeModel, StringMap, Time, schema
from shared.api.meta import KubeObject
from shared.api.pods import PodTemplateSpec
from shared.api.volumes import PersistentVolumeClaimSpec

API_VERSION: Final = "batch.volcano.sh/v1alpha1"
KIND: Final = "Job"
MOST_PODS: Final = 10_000
"""Pods of one job: a gang is told, decided and answered in one message each, which must fit the log."""
DNS_SUBDOMAIN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
DNS_LABEL: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"


class JobPhase(StrEnum):
    """The phases of a job; the controller's transition table says how it moves between them."""

    PENDING = "Pending"
    ABORTING = "Aborting"
    ABORTED = "Aborted"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    COMPLETING = "Completing"
    COMPLETED = "Completed"
    TERMINATING = "Terminating"
    TERMINATED = "Terminated"
    FAILED = "Failed"


class JobEvent(StrEnum):
    """What policies react to. The last three are internal: a user's policy may not name them."""

    ANY = "*"
    POD_FAILED = "PodFailed"
    POD_EVICTED = "PodEvicted"
    POD_PENDING = "PodPending"
    UNKNOWN = "Unknown"
    TASK_COMPLETED = "TaskCompleted"
    TASK_FAILED = "TaskFailed"
    JOB_UPDATED = "JobUpdated"
    OUT_OF_SYNC = "OutOfSync"
    COMMAND_ISSUED = "CommandIssued"
    POD_RUNNING = "PodRunning"


class JobAction(StrEnum):
    """What is done to a job or queue. The last five are internal: a user's policy may not name them."""

    ABORT_JOB = "AbortJob"
    RESTART_JOB = "RestartJob"
    RESTART_TASK = "RestartTask"
    RESTART_POD = "RestartPod"
    RESTART_PARTITION = "RestartPartition"
    TERMINATE_JOB = "TerminateJob"
    COMPLETE_JOB = "CompleteJob"
    RESUME_JOB = "ResumeJob"
    SYNC_JOB = "SyncJob"
    ENQUEUE_JOB = "EnqueueJob"
    SYNC_QUEUE = "SyncQueue"
    OPEN_QUEUE = "OpenQueue"
    CLOSE_QUEUE = "CloseQueue"


INTERNAL_EVENTS: Final = frozenset({JobEvent.OUT_OF_SYNC, JobEvent.COMMAND_ISSUED, JobEvent.POD_RUNNING})
INTERNAL_ACTIONS: Final = frozenset(
    {
        JobAction.SYNC_JOB,
        JobAction.ENQUEUE_JOB,
        JobAction.SYNC_QUEUE,
        JobAction.OPEN_QUEUE,
        JobAction.CLOSE_QUEUE,
    }
)


class JobReason(StrEnum):
    """Reasons of the Kubernetes events on a Job; the last is Pumice's own."""

    COMMAND_ISSUED = "CommandIssued"
    PLUGIN_ERROR = "PluginError"
    PVC_ERROR = "PVCError"
    POD_GROUP_ERROR = "PodGroupError"
    EXECUTE_ACTION = "ExecuteAction"
    JOB_STATUS_ERROR = "JobStatusError"
    POD_GROUP_PENDING = "PodGroupPending"
    FAILED_CREATE = "FailedCreate"
    FAILED_DELETE = "FailedDelete"
    EXPOSE_ERROR = "ExposeError"


class TopologyPolicy(StrEnum):
    """NUMA policies of a task."""

    NONE = "none"
    BEST_EFFORT = "best-effort"
    RESTRICTED = "restricted"
    SINGLE_NUMA_NODE = "single-numa-node"


def _text(value: StrEnum) -> str:
    return value.value


EventName = Annotated[str, schema(enum=[str(event) for event in JobEvent])]
Phase = Annotated[JobPhase, Strict(strict=False), PlainSerializer(_text)]


class NetworkTopologySpec(KubeModel):
    """How far apart pods may be; the two tier fields exclude each other."""

    mode: Annotated[str, schema(enum=["hard", "soft"], default="hard")] = ""
    """hard (the default) or soft."""
    highest_tier_allowed: Annotated[int, schema(minimum=0)] | None = None
    """The highest tier that a job may cross."""
    highest_tier_name: Annotated[str, schema(maxLength=253)] = ""
    """The same by the tier's name."""


class LifecyclePolicy(KubeModel):
    """What to do when something happens: an event, several, or an exit code."""

    action: str = ""
    """AbortJob, RestartJob, RestartTask, RestartPod, RestartPartition, TerminateJob or CompleteJob."""
    event: EventName = ""
    """One of *, PodFailed, PodEvicted, PodPending, Unknown, TaskCompleted, TaskFailed, JobUpdated."""
    events: list[EventName] = Field(default_factory=list[EventName])
    """Several events with the same action."""
    exit_code: Int32 | None = None
    """The first container's exit code; excludes event and events. Zero is not allowed."""
    timeout: Duration | None = None
    """How long to wait before the action; at once when absent."""

    @property
    def triggers(self) -> list[str]:
        """``event`` and ``events`` as one list."""
        return [*([self.event] if self.event else []), *self.events]


class DependsOn(KubeModel):
    """The tasks that must run or have succeeded before a task is started."""

    name: list[str] = Field(default_factory=list[str])
    """Names of tasks of the same job."""
    iteration: str = ""
    """any or all of them."""


class PartitionPolicySpec(KubeModel):
    """The split of a task into equal groups which are placed each as one."""

    total_partitions: Annotated[int, schema(format="int32", minimum=1), REQUIRED] = 0
    """How many groups; times partitionSize it is the number of replicas."""
    partition_size: Annotated[int, schema(format="int32", minimum=1), REQUIRED] = 0
    """Pods in a group."""
    network_topology: NetworkTopologySpec | None = None
    """How far apart the pods of one group may be."""
    min_partitions: Annotated[int, schema(format="int32", minimum=0, default=0)] = 0
    """The least number of groups that is started."""


class TaskSpec(KubeModel):
    """A role of a job: equal pods."""

    name: Annotated[str, schema(maxLength=63, pattern=DNS_LABEL)] = ""
    """Name of the task; default<i> when absent."""
    replicas: Count = 0
    """How many pods."""
    min_available: Count | None = None
    """The least number of pods of this task that is started; its replicas when absent."""
    template: PodTemplateSpec = Field(default_factory=PodTemplateSpec)
    """The mould of the pods."""
    policies: list[LifecyclePolicy] = Field(default_factory=list[LifecyclePolicy])
    """What to do when something happens to a pod of this task; comes before the job's policies."""
    topology_policy: Annotated[str, schema(enum=[str(policy) for policy in TopologyPolicy])] = ""
    """NUMA policy: none, best-effort, restricted or single-numa-node."""
    max_retry: Count = 0
    """Restarts after which the task counts as failed; 3 when absent."""
    depends_on: DependsOn | None = None
    """Tasks that come first."""
    partition_policy: PartitionPolicySpec | None = None
    """The split into groups."""


class VolumeSpec(KubeModel):
    """A volume mounted into every container of a job: a claim by name, or one to be made."""

    mount_path: Annotated[str, schema(minLength=1, pattern=r"^[^:]+$"), REQUIRED] = ""
    """Path in the containers; no colon."""
    volume_claim_name: Annotated[str, schema(maxLength=253)] = ""
    """An existing claim."""
    volume_claim: PersistentVolumeClaimSpec | None = None
    """A claim to be made for the job."""


class JobSpec(KubeModel):
    """What is wanted."""

    scheduler_name: Annotated[str, schema(maxLength=63)] = ""
    """The scheduler of the pods; volcano when absent."""
    min_available: Count = 0
    """The least number of pods with which the job runs; the sum over tasks when absent."""
    volumes: list[VolumeSpec] = Field(default_factory=list[VolumeSpec])
    """Volumes for all containers."""
    tasks: Annotated[list[TaskSpec], schema(minItems=1)] = Field(default_factory=list[TaskSpec])
    """The roles."""
    policies: list[LifecyclePolicy] = Field(default_factory=list[LifecyclePolicy])
    """What to do when something happens; a task's own policies come first."""
    plugins: dict[str, list[str]] = Field(default_factory=dict[str, list[str]])
    """Job plugins and their arguments: env, svc, ssh, tensorflow, pytorch, mpi, ray, hcclrank."""
    running_estimate: Duration | None = None
    """The user's estimate of the run time."""
    queue: Annotated[str, schema(default="default", maxLength=253, pattern=DNS_SUBDOMAIN)] = ""
    """The queue that is charged."""
    max_retry: Annotated[int, schema(format="int32", minimum=0, default=3)] = 0
    """Restarts after which the job fails."""
    ttl_seconds_after_finished: Count | None = None
    """Seconds after which a finished job is deleted; never when absent."""
    priority_class_name: Annotated[str, schema(maxLength=253, pattern=DNS_SUBDOMAIN)] = ""
    """The job's PriorityClass."""
    min_success: Annotated[int, schema(format="int32", minimum=1)] | None = None
    """Pods that must succeed for the job to be complete."""
    network_topology: NetworkTopologySpec | None = None
    """How far apart the job's pods may be."""


class JobState(KubeModel):
    """The phase and why."""

    phase: Phase | None = None
    """Where the job is in its life."""
    reason: str = ""
    """One word: why."""
    message: str = ""
    """A sentence: why."""
    last_transition_time: Time | None = None
    """When the phase last changed."""


class TaskState(KubeModel):
    """Pods of a task by their phase."""

    phase: dict[str, Int32] = Field(default_factory=dict[str, Int32])
    """Number of pods in each phase."""


class JobCondition(KubeModel):
    """When a phase was entered last."""

    status: Annotated[str, REQUIRED] = ""
    """The phase."""
    last_transition_time: Time | None = None
    """When it was entered."""


class JobStatus(KubeModel):
    """What became of it."""

    state: JobState = Field(default_factory=JobState)
    """The current state."""
    min_available: Count = 0
    """minAvailable as the controller last saw it."""
    task_status_count: dict[str, TaskState] = Field(default_factory=dict[str, TaskState])
    """Pods by task and phase."""
    pending: Count = 0
    """Pending pods."""
    running: Count = 0
    """Running pods."""
    succeeded: Count = 0
    """Pods that succeeded."""
    failed: Count = 0
    """Pods that failed."""
    terminating: Count = 0
    """Pods that are being deleted."""
    unknown: Count = 0
    """Pods of unknown state."""
    version: Count = 0
    """Grows with every full kill; events of older pods do not count."""
    retry_count: Count = 0
    """Restarts so far."""
    running_duration: Duration | None = None
    """From running to completed."""
    controlled_resources: StringMap = Field(default_factory=dict[str, str])
    """What was made for the job: plugin-<name>, volume-pvc-<claim> …"""
    conditions: list[JobCondition] = Field(default_factory=list[JobCondition])
    """One entry for each phase so far, in the order of the last entry."""


class Job(KubeObject):
    """A batch job: tasks whose pods start together or not at all."""

    spec: JobSpec = Field(default_factory=JobSpec)
    """What is wanted."""
    status: JobStatus = Field(default_factory=JobStatus)
    """What became of it."""
