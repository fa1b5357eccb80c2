"""Every label, annotation and name that Pumice sets or honours, as Volcano spells them."""

from __future__ import annotations

from typing import Final

VOLCANO: Final = "volcano.sh/"
"""The prefix of annotations that a PodGroup takes over from its owner."""

# On the pods of a job.
TASK_SPEC: Final = "volcano.sh/task-spec"
TASK_INDEX: Final = "volcano.sh/task-index"
JOB_NAME: Final = "volcano.sh/job-name"
JOB_NAMESPACE: Final = "volcano.sh/job-namespace"
QUEUE_NAME: Final = "volcano.sh/queue-name"
JOB_VERSION: Final = "volcano.sh/job-version"
JOB_TYPE: Final = "volcano.sh/job-type"
JOB_RETRY_COUNT: Final = "volcano.sh/job-retry-count"
PARTITION_ID: Final = "volcano.sh/partition-id"
TEMPLATE_UID: Final = "volcano.sh/template-uid"
CONTROLLER_OUT_OF_SYNC: Final = "volcano.sh/controller-out-of-sync"
GROUP_NAME: Final = "scheduling.k8s.io/group-name"
"""The only link from a pod to its PodGroup (same namespace)."""

# Groups and queues.
VOLCANO_GROUP_NAME: Final = "scheduling.volcano.sh/group-name"
GROUP_MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
GROUP_MIN_RESOURCES: Final = "scheduling.volcano.sh/group-min-resources"
GROUP_QUEUE_NAME: Final = "scheduling.volcano.sh/queue-name"
QUEUE_ALLOCATION_GATE: Final = "scheduling.volcano.sh/queue-allocation-gate"
CLOSED_BY_PARENT: Final = "volcano.sh/closed-by-parent"

# Behaviour.
PREEMPTABLE: Final = "volcano.sh/preemptable"
COOLDOWN_TIME: Final = "volcano.sh/cooldown-time"
REVOCABLE_ZONE: Final = "volcano.sh/revocable-zone"
JDB_MIN_AVAILABLE: Final = "volcano.sh/jdb-min-available"
JDB_MAX_UNAVAILABLE: Final = "volcano.sh/jdb-max-unavailable"
TASK_PRIORITY: Final = "volcano.sh/task-priority"
QOS_LEVEL: Final = "volcano.sh/qos-level"
SLA_WAITING_TIME: Final = "volcano.sh/sla-waiting-time"
SHORT_SLA_WAITING_TIME: Final = "sla-waiting-time"
"""Read, too, as Volcano does."""
HIERARCHY: Final = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS: Final = "volcano.sh/hierarchy-weights"
DEVICE_CLASS: Final = "deviceclass/"
"""Begins the resources as which devices of claims are counted, by their class."""
NODEGROUP_NAME: Final = "volcano.sh/nodegroup-name"
NODEGROUP_RESOURCE_LIMITS: Final = "volcano.sh/nodegroup-resource-limits"
RESOURCE_GROUP: Final = "volcano.sh/resource-group"
NUMA_TOPOLOGY_POLICY: Final = "volcano.sh/numa-topology-policy"
TOPOLOGY_DECISION: Final = "volcano.sh/topology-decision"
TASK_TOPOLOGY_AFFINITY: Final = "volcano.sh/task-topology-affinity"
TASK_TOPOLOGY_ANTI_AFFINITY: Final = "volcano.sh/task-topology-anti-affinity"
TASK_TOPOLOGY_TASK_ORDER: Final = "volcano.sh/task-topology-task-order"
NETWORK_TOPOLOGY_MODE: Final = "volcano.sh/network-topology-mode"
NETWORK_TOPOLOGY_HIGHEST_TIER: Final = "volcano.sh/network-topology-highest-tier"
NETWORK_TOPOLOGY_SOURCE: Final = "volcano.sh/network-topology-source"
JOB_ALLOCATED_HYPERNODE: Final = "volcano.sh/job-allocated-hypernode"
RESOURCE_STRATEGY_SCORING_TYPE: Final = "volcano.sh/resource-strategy-scoring-type"
RESOURCE_STRATEGY_WEIGHT: Final = "volcano.sh/resource-strategy-weight"

# Parts of GPUs: as Volcano's device plugins tell nodes of them, pods ask for them, and are told theirs.
VGPU_REGISTER: Final = "volcano.sh/node-vgpu-register"
"""On nodes: the GPUs that are shared as virtual ones."""
VGPU_NUMBER: Final = "volcano.sh/vgpu-number"
VGPU_MEMORY: Final = "volcano.sh/vgpu-memory"
VGPU_MEMORY_PERCENTAGE: Final = "volcano.sh/vgpu-memory-percentage"
VGPU_CORES: Final = "volcano.sh/vgpu-cores"
VGPU_MODE: Final = "volcano.sh/vgpu-mode"
VGPU_USE_UUID: Final = "volcano.sh/vgpu-use-gpuuuid"
VGPU_NO_USE_UUID: Final = "volcano.sh/vgpu-nouse-gpuuuid"
VGPU_USE_TYPE: Final = "nvidia.com/use-gputype"
VGPU_NO_USE_TYPE: Final = "nvidia.com/nouse-gputype"
VGPU_PODGROUP_POLICY: Final = "volcano.sh/vgpu-podgroup-policy"
VGPU_IDS: Final = "volcano.sh/vgpu-ids-new"
VGPU_TO_ALLOCATE: Final = "volcano.sh/devices-to-allocate"
VGPU_NODE: Final = "volcano.sh/vgpu-node"
VGPU_TIME: Final = "volcano.sh/vgpu-time"
BIND_PHASE: Final = "volcano.sh/bind-phase"
BIND_TIME: Final = "volcano.sh/bind-time"
GPU_MEMORY: Final = "volcano.sh/gpu-memory"
GPU_NUMBER: Final = "volcano.sh/gpu-number"
GPU_INDEX: Final = "volcano.sh/gpu-index"
GPU_UNHEALTHY_IDS: Final = "volcano.sh/gpu-unhealthy-ids"
PREDICATE_TIME: Final = "volcano.sh/predicate-time"

# Ownership.
CREATED_BY_JOB_TEMPLATE: Final = "volcano.sh/createdByJobTemplate"
CREATED_BY_JOB_FLOW: Final = "volcano.sh/createdByJobFlow"
CRONJOB_SCHEDULED_TIMESTAMP: Final = "volcano.sh/cronjob-scheduled-timestamp"
JOB_FORWARDING: Final = "volcano.sh/job-forwarding"
FORWARD_CLUSTER: Final = "volcano.sh/forward-cluster"

# Pumice's own.
TRACEPARENT: Final = "pumice.dev/traceparent"
"""W3C trace context of a job's one trace."""
TRACESTATE: Final = "pumice.dev/tracestate"
SUBMISSION_ID: Final = "pumice.dev/submission-id"
"""The id of the CloudEvent that asked for this job: a second delivery makes no second job."""
SUBMITTED_BY: Final = "pumice.dev/submitted-by"
SUBMITTED_AT: Final = "pumice.dev/submitted-at"
"""When the job was asked for, to the microsecond (creationTimestamp has whole seconds)."""
READY_SINCE: Final = "pumice.dev/ready-since"
"""On PodGroups: since when the gang of this generation can be scheduled, to the microsecond."""
SCALE: Final = "pumice.dev/scale"
"""On PodGroups: the scale of the job (minimum, sizes of tasks, priority) that its spec was written for."""
SHAPES: Final = "pumice.dev/shapes"
"""On PodGroups: what the API server would make of each task's pods, as far as placing goes; as JSON."""
RUN_TIME: Final = "pumice.dev/run-time"
"""For how long a job, or the pods of a PodGroup, run at most: a duration."""
TEMPLATE: Final = "pumice.dev/template"
"""What a job is one of: those of one queue with the same word here run for alike times. Else names say it."""
NODE_POOL: Final = "pumice.dev/pool"
"""Label of nodes, annotation or node selector of jobs: the node pool. Each has one scheduler."""

DEPENDENT: Final = "pumice.dev/job"
"""Label of the services, config maps, secrets, policies, ingresses and claims made for a job: its name."""
CONTENT: Final = "pumice.dev/content"
"""Annotation of the same: a digest of what they should hold."""
EXPOSE: Final = "pumice.dev/expose"
"""Annotation of jobs: ports that users reach, as ``name:port@task``; see :mod:`shared.api.expose`."""
URLS: Final = "pumice.dev/urls"
"""Annotation of jobs, written by the controller: where exposed ports are reached, as JSON by name."""

SYSTEM_NAMESPACE: Final = "pumice-system"
"""Where Pumice's services and their accounts are, unless told otherwise."""
ADMISSION_SERVICE: Final = "pumice-admission"
"""The Service of the webhooks."""
ADMISSION_SECRET: Final = "pumice-admission-certificate"  # noqa: S105 - an object's name
"""The Secret with the webhooks' certificate."""

DEFAULT_QUEUE: Final = "default"
ROOT_QUEUE: Final = "root"
DEFAULT_SCHEDULER: Final = "volcano"
DEFAULT_TASK: Final = "default"
DEFAULT_MAX_RETRY: Final = 3


def pod_name(job: str, task: str, index: int) -> str:
    """Return the name of a task's pod."""
    return f"{job}-{task}-{index}"


def podgroup_name(job: str, uid: str) -> str:
    """Return the name of a job's PodGroup; older Volcano used the job's own name."""
    return f"{job}-{uid}"


def default_task_name(index: int) -> str:
    """Return the name that an unnamed task gets."""
    return f"{DEFAULT_TASK}{index}"
