"""The events, as frozen models. The JSON Schemas and the AsyncAPI document are made from these.

State model
===========
A *job* (Volcano's Job) is **submitted** by somebody, then **admitted** or **rejected**. An admitted
job is created in Kubernetes; its life from there is the table of phases in
``services.controller.core.lifecycle`` (Pending, Running, Restarting, Completed, Failed, …), and each
change of phase is a ``JobPhaseChanged``. Every full restart raises the job's *generation* (its
``status.version``).

The pods of one generation are a *gang*: they start together, at least ``minMember`` of them (and of
each task its ``minimum``), or not at all. ``GangReady`` says what should run: the members by pod name
and the shape of each task, before any pod exists. The scheduler answers with ``GangDecided``: one
gang's decision, whole. The controller carries it out and answers with ``DecisionApplied``:

    waiting ──GangDecided──▶ in flight ──applied──▶ placed
       ▲                        │
       └──refused / rolled back─┘        (the gang is decided anew)

While a gang waits, a ``GangReport`` says why. What exists is in the ``…State`` events, compacted by
key; a record without a value says that the object is gone.

Rules for changing this file
============================
A reader of version n must be able to read what a writer of version n+1 writes: fields are added with
a default, never removed, renamed or narrowed; anything else is a new type (``….v2``) beside the old.
``python -m shared.events.schemas --check`` refuses a change that breaks this.

Units: CPU is in milli-CPU, memory and storage in bytes, everything else in counts; times are RFC 3339
in UTC.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, Literal, cast

import orjson
from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ValidatorFunctionWrapHandler,
)
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, core_schema


class _Nothing(dict[str, Any]):
    """An empty mapping as a default. It has a hash, so pydantic hands it out: of a dict it makes a deep copy.

    Three such copies were a third of the time to read a pod.
    """

    def __hash__(self) -> int:  # type: ignore[override]
        return 0

    def __setitem__(self, key: str, value: Any) -> None:
        raise TypeError("the default of a contract is nobody's to change")

    update = setdefault = __ior__ = __setitem__  # type: ignore[assignment]

    @classmethod
    def __get_pydantic_core_schema__(cls, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return handler(dict[str, Any])


NONE: Final = _Nothing()
Count = Annotated[int, Field(ge=0)]
Percent = Annotated[float, Field(ge=0, le=100)]
Resources = dict[str, int]
"""Amounts by resource name in base units (CPU in milli-CPU, the rest in plain units)."""


class Contract(BaseModel):
    """Base of everything that travels on a topic: frozen; unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, populate_by_name=True, alias_generator=to_camel, extra="ignore")

    TYPE: ClassVar[str] = ""
    """The CloudEvents type; empty for parts of events."""


# ---------------------------------------------------------------------------------------- parts


class Toleration(Contract):
    """A pod's toleration, as Kubernetes has it. An empty key with Exists tolerates everything."""

    key: str = ""
    operator: Literal["Exists", "Equal", "Lt", "Gt"] = "Equal"
    value: str = ""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""
    toleration_seconds: int | None = None


class Taint(Contract):
    """A node's taint."""

    key: str
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class Requirement(Contract):
    """One comparison of a node's label (or field) with values."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: tuple[str, ...] = ()


class NodeTerm(Contract):
    """All expressions and fields of a term must match; an empty term matches nothing."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


class PreferredTerm(Contract):
    """A term that adds ``weight`` (1..100) to a node's score."""

    weight: Annotated[int, Field(ge=1, le=100)]
    term: NodeTerm


class Device(Contract):
    """A GPU (or the like) of which pods can take a part. Its place in the node's list is its index."""

    id: str = ""
    """As the device plugin names it (a UUID); empty where indices are enough."""
    model: str = ""
    cores: Count = 1000
    """Compute, in thousandths of the device; 0: it is not healthy."""
    memory: Count = 0
    """In MiB."""
    shares: Count = 0
    """Most pods at a time; 0: any number."""
    mode: str = ""
    """How its parts are kept apart, as the device plugin says; empty: it does not say."""


class DeviceRequest(Contract):
    """A container takes so much of each of ``count`` different devices of its node."""

    count: Annotated[int, Field(ge=1)] = 1
    cores: Annotated[int, Field(ge=0, le=1000)] = 0
    """In thousandths of the device; 1000 is a device that nobody else uses."""
    memory: Count = 0
    """In MiB."""
    memory_percent: Annotated[int, Field(ge=0, le=100)] = 0
    """Of each device's memory, rounded down; 0: ``memory`` says how much."""
    models: tuple[str, ...] = ()
    """Only devices whose model contains one of these texts, in any case; empty: any."""
    not_models: tuple[str, ...] = ()
    """No devices whose model contains one of these texts."""
    ids: tuple[str, ...] = ()
    """Only these devices; empty: any."""
    not_ids: tuple[str, ...] = ()
    mode: str = ""
    """Only devices of this mode; empty: of any."""
    container: Count = 0
    """Which of the pod's containers asks."""


class DevicePart(Contract):
    """What a container has of a device."""

    device: Count
    """Index of the device on its node."""
    cores: Annotated[int, Field(ge=0)] = 0
    """In thousandths of the device."""
    memory: Count = 0
    """In MiB."""


class NumaRequest(Contract):
    """How a Guaranteed pod asks for CPUs that are its alone."""

    policy: str = ""
    """Only nodes whose kubelet aligns by this policy will do; empty: any."""
    cpus: tuple[Annotated[int, Field(ge=1)], ...] = ()
    """Of each container that asks for whole CPUs, in order; others share theirs."""


class NumaCpus(Contract):
    """So many CPUs of one NUMA node that a pod has for itself."""

    node: Count
    """The number of the NUMA node on its machine."""
    cpus: Annotated[int, Field(ge=1)]


class NumaNode(Contract):
    """The CPUs of a machine that are near each other."""

    number: Count
    cpus: Count
    """All of them."""
    usable: Count
    """Those that pods can have for themselves: not reserved, nor held by a pod that nobody told of."""


class NumaTopology(Contract):
    """A machine's CPUs, and how its kubelet gives them to pods."""

    cpu_manager: str = ""
    """Policy of the CPU manager: only by ``static`` pods have CPUs for themselves."""
    policy: str = ""
    """Policy of the topology manager."""
    nodes: tuple[NumaNode, ...] = ()


class Mount(Contract):
    """A volume of a pod that counts on its node, or in the whole cluster."""

    volume: str = ""
    """Which, as ``namespace/claim``: pods of a node that mount it take one place. Empty: each has its own."""
    driver: str = ""
    """It takes one of the places that the node has for volumes of this driver; empty: of none."""
    free: str = ""
    """It takes one of the node's free volumes of this kind; empty: it has its volume, or one is made."""
    exclusive: bool = False
    """One pod at a time mounts it (ReadWriteOncePod)."""


class Volumes(Contract):
    """What a pod's claims ask of its node, worked out from the claims as they are now."""

    waits_for: str = ""
    """Which claim is in no state to be placed by, and why; empty: none."""
    reach: tuple[tuple[NodeTerm, ...], ...] = ()
    """From where its volumes are reached: a node must match one term of each."""
    mounts: tuple[Mount, ...] = ()


class Shape(Contract):
    """The part of a pod that scheduling depends on. Pods of one template share one shape.

    ``labels`` are those that the affinity or spread of some pod in the cluster asks for. ``extras`` keeps, in
    Kubernetes' own form, affinity between pods, spread constraints, host ports and claims.
    """

    requests: Resources = NONE
    node_selector: dict[str, str] = NONE
    required_terms: tuple[NodeTerm, ...] | None = None
    """Node affinity: any of these terms; None asks for nothing, an empty tuple matches no node."""
    preferred_terms: tuple[PreferredTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    devices: DeviceRequest | None = None
    """Parts of devices. What a device plugin counts in whole is in ``requests`` alone."""
    more_devices: tuple[DeviceRequest, ...] = ()
    """Of the containers after the first that asks. Containers may share a device with each other."""
    numa: NumaRequest | None = None
    """None: no NUMA policy, and no CPUs for itself."""
    priority: int = 0
    preemptable: bool = True
    revocable: bool = False
    """It may run on nodes of zones from which it is evicted at a certain hour."""
    scheduling_gated: bool = False
    images: tuple[str, ...] = ()
    """Of its containers, with those that run first; each with a tag or a digest."""
    labels: dict[str, str] = NONE
    extras: dict[str, Any] = NONE
    volumes: Volumes | None = None
    """What its claims come to; None: it has none that matter for placing."""


_known: OrderedDict[bytes, Shape] = OrderedDict()
_MOST_KNOWN: Final = 4096


def _share(asked: Any, read: ValidatorFunctionWrapHandler) -> Shape:
    """Return the shape that was read before from the same JSON, if it is not long ago."""
    try:
        text = orjson.dumps(asked)
    except TypeError:
        return cast("Shape", read(asked))
    shape = _known.get(text)
    if shape is None:
        shape = _known[text] = cast("Shape", read(asked))
        if len(_known) > _MOST_KNOWN:
            _known.popitem(last=False)
    return shape


class _Shared:
    """Shapes in JSON that are written alike are one object: pods by the thousand have the same."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        shared = core_schema.no_info_wrap_validator_function(_share, schema)
        return core_schema.json_or_python_schema(shared, schema)


SharedShape = Annotated[Shape, _Shared]
"""As frozen as all that is read, so that many may have it."""


class NetworkTopology(Contract):
    """How near to each other pods must run (hard) or should (soft): inside one hypernode.

    Of no higher tier than ``highest_tier``, or than the one named ``highest_tier_name``; of any when
    neither is given.
    """

    mode: Literal["hard", "soft"] = "hard"
    highest_tier: Count | None = None
    highest_tier_name: str = ""


class SubGroups(Contract):
    """How members of a gang are split into groups: ``Member.group`` is ``<name>/<which>``.

    ``size`` members of a group start together or none of them; ``minimum`` groups must run.
    """

    name: str
    size: Annotated[int, Field(ge=1)] = 1
    minimum: Count = 0
    topology: NetworkTopology | None = None
    """How near to each other the members of one group must run."""


class TaskTopology(Contract):
    """Which tasks of a gang should be on the same nodes, or not, by name.

    A set of one task is about its own members, one of several about members of different ones.
    """

    affinity: tuple[tuple[str, ...], ...] = ()
    anti_affinity: tuple[tuple[str, ...], ...] = ()
    order: tuple[str, ...] = ()
    """The first choose first."""


class JobBudget(Contract):
    """How many pods of a gang may be away at a time, where they are evicted for no other gang."""

    min_available: Count | None = None
    max_unavailable: Count | None = None


class GangRef(Contract):
    """Names one generation of a gang. ``name`` is the PodGroup's."""

    namespace: str
    name: str
    uid: str
    generation: Count = 0


class Member(Contract):
    """A pod of a gang that should exist. ``index`` is its number inside its task."""

    pod: str
    index: Count = 0
    group: str = ""
    """The group that it belongs to; empty: none."""


class GangTask(Contract):
    """The members of a gang which share a template. ``minimum`` of them must run."""

    name: str
    shape: SharedShape
    members: tuple[Member, ...]
    minimum: Count = 0


class Gang(Contract):
    """What should run together. The pods may not exist yet; ``PodState`` says which do."""

    namespace: str
    name: str
    uid: str
    generation: Count = 0
    job: str | None = None
    """Name of the owning Volcano Job; None for a gang of plain pods."""
    pool: str = "default"
    queue: str = "default"
    priority: int = 0
    priority_class: str = ""
    min_member: Count
    min_resources: Resources = NONE
    """What it will need in all, members that do not exist yet included: it enters when so much is free.
    Empty: its minimum says it (every gang of a Job)."""
    waiting_limit_seconds: Annotated[float, Field(gt=0)] | None = None
    """How long it should wait at most; it comes before those that may wait for longer."""
    run_seconds: Annotated[float, Field(gt=0)] | None = None
    """For how long it runs at most, as its owner declared; None: nobody knows."""
    template: str = ""
    """What its job is one of: how long earlier ones ran says how long it may; empty: nothing."""
    tasks: tuple[GangTask, ...]
    topology: NetworkTopology | None = None
    sub_groups: tuple[SubGroups, ...] = ()
    task_topology: TaskTopology | None = None
    """Heeded where the policy says so."""
    preemptable: bool = False
    """Its owner says that it may be evicted; pods have a word of their own (``Shape.preemptable``)."""
    budget: JobBudget | None = None
    created_at: datetime
    ready_since: datetime
    """When this generation could first be scheduled: age for ordering and waiting time."""

    @property
    def ref(self) -> GangRef:
        """The gang's name and generation."""
        return GangRef(namespace=self.namespace, name=self.name, uid=self.uid, generation=self.generation)


class Violation(Contract):
    """One reason why a job may not be created."""

    code: str
    """Stable, kebab-case: for programs."""
    path: str
    """Kubernetes field path, e.g. ``spec.tasks[0].replicas``; empty for the whole object."""
    message: str


class Binding(Contract):
    """Put this pod on this node. ``uid`` None: the pod does not exist yet and is created bound."""

    pod: str
    task: str
    node: str
    uid: str | None = None
    devices: tuple[int, ...] = ()
    """Indices of the node's devices that the pod takes part of, container by container."""
    numa: tuple[NumaCpus, ...] = ()
    """CPUs that it will have for itself, where that was looked at."""


class Eviction(Contract):
    """Take this pod away. ``reason`` is for its owner."""

    namespace: str
    pod: str
    uid: str
    reason: str
    gang: str = ""
    """Of a pod that moves: its gang's name, for which room is kept by the same decision."""


class Reservation(Contract):
    """Keep these amounts on a node for the gang until the time given: the room of ``pods`` of a task.

    They are like the pod of ``member``: pods may differ from their template. Empty: like the template.
    """

    node: str
    resources: Resources
    until: datetime
    task: str = ""
    pods: Count = 0
    member: str = ""
    as_freed: bool = False
    """It is kept as it becomes free, whoever ends there; else it is free once the victims have left."""
    starts: datetime | None = None
    """Of what is kept as it becomes free: when all of it should be free; None: nobody knows."""
    gang: GangRef | None = None
    """The gang whose pods move here, once those that leave are made anew: the decision's, or another one."""
    devices: tuple[int, ...] = ()
    """Indices of the node's devices of which each of the pods has parts, container by container."""


class BindFailure(Contract):
    """Why one binding could not be carried out."""

    pod: str
    node: str
    code: str
    message: str


class EvictionFailure(Contract):
    """Why a pod could not be taken away: it stays. One that was gone already is no failure."""

    namespace: str
    pod: str
    uid: str
    code: str
    message: str


class PodCounts(Contract):
    """A job's pods by what they are doing."""

    pending: Count = 0
    running: Count = 0
    succeeded: Count = 0
    failed: Count = 0
    terminating: Count = 0
    unknown: Count = 0


class Reason(Contract):
    """Why a gang waits: a stable code, a sentence with numbers, and what the sentence says as data."""

    code: str
    message: str
    numbers: dict[str, int | float | str] = NONE
    next_step: str = ""
    """What the reader can do about it."""


# ---------------------------------------------------------------------------- job-submitted & co


class JobSubmitted(Contract):
    """Somebody wants this job. The object is not checked yet, not even its types."""

    TYPE = "dev.pumice.job.submitted.v1"
    job: dict[str, Any]
    """A Volcano Job object; ``metadata.namespace`` defaults to ``default``."""
    submitted_by: str = ""
    submitted_at: datetime | None = None


class JobAdmitted(Contract):
    """The job with its defaults; it may be created."""

    TYPE = "dev.pumice.job.admitted.v1"
    submission: str
    """Id of the JobSubmitted event: a second admission of it creates no second job."""
    job: dict[str, Any]
    submitted_by: str = ""
    submitted_at: datetime | None = None


class JobRejected(Contract):
    """The job will not be created; every reason."""

    TYPE = "dev.pumice.job.rejected.v1"
    submission: str
    namespace: str
    name: str
    violations: Annotated[tuple[Violation, ...], Field(min_length=1)]


class JobAction(StrEnum):
    """What a command asks of a job."""

    SUSPEND = "suspend"
    RESUME = "resume"
    RESTART = "restart"
    ABORT = "abort"
    TERMINATE = "terminate"
    COMPLETE = "complete"
    DELETE = "delete"
    SCALE = "scale"


class CommandJob(Contract):
    """A command to a job that exists."""

    TYPE = "dev.pumice.job.command.v1"
    namespace: str
    name: str
    uid: str | None = None
    """Only this very job; None: whichever has the name."""
    action: JobAction
    replicas: dict[str, Count] = NONE
    """For ``scale``: task name to replicas."""
    reason: str = ""
    issued_by: str = ""


class QueueAction(StrEnum):
    """What a command asks of a queue."""

    OPEN = "open"
    CLOSE = "close"


class CommandQueue(Contract):
    """A command to a queue that exists."""

    TYPE = "dev.pumice.queue.command.v1"
    name: str
    action: QueueAction
    reason: str = ""
    issued_by: str = ""


class PoolAction(StrEnum):
    """What a command asks of a node pool's scheduler."""

    DEFRAGMENT = "defragment"


class CommandPool(Contract):
    """A command to the scheduler of a node pool. It is obeyed if it is no older than two minutes."""

    TYPE = "dev.pumice.pool.command.v1"
    pool: str
    action: PoolAction
    at: AwareDatetime
    reason: str = ""
    issued_by: str = ""


class JobPhaseChanged(Contract):
    """A job went from one phase to another (``previous`` empty: it was created)."""

    TYPE = "dev.pumice.job.phase-changed.v1"
    namespace: str
    name: str
    uid: str
    generation: Count
    previous: str
    phase: str
    reason: str = ""
    message: str = ""
    at: datetime
    queue: str = "default"
    submission: str | None = None
    retry_count: Count = 0
    pods: PodCounts = PodCounts()


# ------------------------------------------------------------------------------------- scheduling


class GangReady(Contract):
    """This gang can be queued."""

    TYPE = "dev.pumice.gang.ready.v1"
    gang: Gang


class GangDecided(Contract):
    """One gang's decision, whole. Applying it twice has the same outcome as once."""

    TYPE = "dev.pumice.gang.decided.v1"
    decision: str
    """Unique and deterministic: pool, gang UID, generation and a count."""
    pool: str
    gang: GangRef
    enqueue: bool = False
    """The PodGroup leaves Pending for Inqueue with this decision."""
    bindings: tuple[Binding, ...] = ()
    minimum: Count = 0
    """With fewer of the gang's pods bound than this, what was bound is taken back."""
    evictions: tuple[Eviction, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    cycle: Count = 0
    cycle_traceparent: str | None = None
    policy: str = ""
    """Digest of the policy that decided: equal for equal policies."""
    decided_at: datetime


class CycleDecided(Contract):
    """A cycle of a pool's scheduler: what it had read, and what it decided. With it, it can be made again.

    A cycle that decided nothing leaves no record, unless it was cut short.
    """

    TYPE = "dev.pumice.cycle.decided.v1"
    pool: str
    cycle: Count
    at: datetime
    """The scheduler's ``now``."""
    inputs: dict[str, dict[int, Count]] = NONE
    """By topic and partition: all records below this offset had been taken in."""
    limit: Count = 0
    """Gangs tried at most."""
    policy: str = ""
    """Digest of the policy that decided."""
    decisions: tuple[str, ...] = ()
    """Ids, in order. One that was too large for the log is not on it."""
    fresh: bool = False
    """A replay may begin here: what the scheduler knew before this cycle is what is on the log."""
    flying: tuple[str, ...] = ()
    """Of such a cycle: ids of the decisions that were in flight before it."""
    pauses: dict[str, datetime] = NONE
    """Until when what is done now and then was not due again, by its name."""
    asked: datetime | None = None
    """When it was asked that gangs move, if nothing was done about that before."""


class DecisionOutcome(StrEnum):
    """What became of a decision."""

    APPLIED = "applied"
    PARTIAL = "partial"
    """Some bindings failed, but the gang has its minimum; or some victims stay."""
    ROLLED_BACK = "rolled-back"
    """Too many failed: what was bound was taken back."""
    REFUSED = "refused"
    """Nothing was done: the gang is gone, of another generation, or was decided before."""


class BoundPod(Contract):
    """A pod that the decision bound."""

    pod: str
    uid: str
    node: str


class DecisionApplied(Contract):
    """What became of a decision."""

    TYPE = "dev.pumice.gang.decision-applied.v1"
    decision: str
    pool: str
    gang: GangRef
    outcome: DecisionOutcome
    bound: tuple[BoundPod, ...] = ()
    failures: tuple[BindFailure, ...] = ()
    eviction_failures: tuple[EvictionFailure, ...] = ()
    """Victims that stay. Those not named are leaving, or gone: their pods' states say when."""
    message: str = ""
    at: datetime


class GangReport(Contract):
    """Why this gang waits, its place in its queue, and when it may start."""

    TYPE = "dev.pumice.gang.report.v1"
    gang: GangRef
    job: str | None = None
    queue: str
    waiting_since: datetime
    position: Annotated[int, Field(ge=1)]
    """1 is the head of its queue."""
    queue_length: Count
    reason: Reason
    details: tuple[Reason, ...] = ()
    """The other obstacles, most important first."""
    estimated_start: datetime | None = None
    """When it may start, as likely as not sooner, by the run times that are known; None: nobody can say."""
    estimated_start_p90: datetime | None = None
    """Nine times of ten it starts sooner than this; as ``estimated_start`` where run times are declared."""
    outlook: str = ""
    """What that rests on: whose end makes room; or why nobody can say when it starts."""
    at: datetime


# --------------------------------------------------------------------------------------- trials


class TrialRequested(Contract):
    """Somebody wants to know what would become of a job. It is not submitted."""

    TYPE = "dev.pumice.trial.requested.v1"
    trial: str
    job: dict[str, Any]
    """A Volcano Job object, as in ``JobSubmitted``."""


class TrialAdmitted(Contract):
    """A job that is tried out would be admitted: with its defaults."""

    TYPE = "dev.pumice.trial.admitted.v1"
    trial: str
    job: dict[str, Any]


class TrialReady(Contract):
    """The gang that a job which is tried out would have. Its pods would be made as it says."""

    TYPE = "dev.pumice.trial.ready.v1"
    trial: str
    gang: Gang


class TrialOutcome(StrEnum):
    """What would become of a job."""

    REJECTED = "rejected"
    STARTS = "starts"
    EVICTS = "evicts"
    """It would start once others have left for it."""
    WAITS = "waits"


class TrialAnswered(Contract):
    """What would become of a job if it were submitted now. Nothing was done."""

    TYPE = "dev.pumice.trial.answered.v1"
    trial: str
    outcome: TrialOutcome
    violations: tuple[Violation, ...] = ()
    """Of one that would be rejected: every reason."""
    bindings: tuple[Binding, ...] = ()
    """Where the pods of its minimum would go."""
    evictions: tuple[Eviction, ...] = ()
    """Who would leave for it."""
    later: Count = 0
    """Pods beyond the minimum: they take what room there is afterwards."""
    report: GangReport | None = None
    """Of one that would wait: why, and when it may start."""
    at: datetime


# ---------------------------------------------------------------------------------- cluster-state


class NodeState(Contract):
    """A node as the scheduler sees it."""

    TYPE = "dev.pumice.state.node.v1"
    name: str
    pool: str = "default"
    labels: dict[str, str] = NONE
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    allocatable: Resources = NONE
    devices: tuple[Device, ...] = ()
    """Devices that pods can take parts of; others are only counted, in ``allocatable``."""
    numa: NumaTopology | None = None
    """None: nobody tells of its NUMA nodes."""
    volume_limits: dict[str, Count] = NONE
    """How many volumes of a driver it takes; of one that is not named, any number."""
    images: dict[str, Count] = NONE
    """Bytes of the large images that it has (23 MiB and more), by each of their names."""
    free_volumes: dict[str, Count] = NONE
    """How many volumes it has that nobody claims, by the kind that claims ask for; of others, none."""


class PodState(Contract):
    """A pod that exists. Pods which ended hold nothing and are reported once, then removed."""

    TYPE = "dev.pumice.state.pod.v1"
    namespace: str
    name: str
    uid: str
    gang: str | None = None
    """Name of its PodGroup; None for a pod of somebody else, which only takes room."""
    task: str = ""
    index: Count = 0
    generation: Count = 0
    queue: str = ""
    node: str | None = None
    phase: str = "Pending"
    releasing: bool = False
    """Being deleted: still holds its room, but not for long."""
    ours: bool = True
    """Its schedulerName is ours."""
    shape: SharedShape
    devices: tuple[int, ...] = ()
    """Indices of the devices of its node that it has part of, as it asks for them."""
    device_parts: tuple[DevicePart, ...] = ()
    """What it has of devices as its binding says, instead of ``devices``."""
    numa: tuple[NumaCpus, ...] = ()
    """CPUs that it has for itself: as its node tells, else as its binding says."""
    created_at: datetime
    started_at: datetime | None = None
    scheduled_at: datetime | None = None
    """When it was bound (its condition PodScheduled)."""
    cooldown: Annotated[float, Field(ge=0)] = 0.0
    """Seconds after ``scheduled_at`` in which it is not evicted (``volcano.sh/cooldown-time``)."""
    budgets: tuple[str, ...] = ()
    """Names of the PodDisruptionBudgets of its namespace that select it, in order."""


class NodeGroups(Contract):
    """The groups of nodes that a queue asks for and avoids (label ``volcano.sh/nodegroup-name``), by name."""

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    """The first the most."""
    not_required: tuple[str, ...] = ()
    """Its pods must not run on these."""
    not_preferred: tuple[str, ...] = ()
    """Its pods may run on these if it must be."""


class QueueState(Contract):
    """A queue."""

    TYPE = "dev.pumice.state.queue.v1"
    name: str
    uid: str = ""
    parent: str = ""
    state: str = "Open"
    weight: int = 1
    priority: int = 0
    reclaimable: bool = True
    capability: Resources | None = None
    deserved: Resources | None = None
    guarantee: Resources | None = None
    created_at: datetime | None = None
    node_groups: NodeGroups | None = None
    """Heeded where the policy says so; None: it names no affinity of its own."""
    node_group_limits: dict[str, Resources] | None = None
    """By group: what its pods may ask for in all on its nodes; a resource without an entry is not limited."""
    node_group_fault: str = ""
    """Why its limits cannot be read: then it gets no node where groups are heeded."""


class PodGroupState(Contract):
    """A PodGroup and, when its job is known, the gang that should run."""

    TYPE = "dev.pumice.state.podgroup.v1"
    namespace: str
    name: str
    uid: str
    phase: str = "Pending"
    gang: Gang | None = None
    traceparent: str | None = None


class PodDisruptionBudgetState(Contract):
    """How many pods may be taken away of those that name it in ``PodState.budgets``.

    A pod counts as taken when it is being deleted, as in ``status.disruptionsAllowed``.
    """

    TYPE = "dev.pumice.state.poddisruptionbudget.v1"
    namespace: str
    name: str
    disruptions_allowed: Count = 0


class ClusterState(Contract):
    """The cluster that the log tells of; there is one, and its key has no name."""

    TYPE = "dev.pumice.state.cluster.v1"
    uid: str
    """UID of the namespace kube-system."""
    since: datetime


class PriorityClassState(Contract):
    """A priority class."""

    TYPE = "dev.pumice.state.priorityclass.v1"
    name: str
    value: int
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"


class HyperNodeState(Contract):
    """Nodes that are near each other, or groups of them: a hypernode's spec, in Kubernetes' own form."""

    TYPE = "dev.pumice.state.hypernode.v1"
    name: str
    spec: dict[str, Any]


class PolicyState(Contract):
    """The scheduler's configuration as an operator wrote it, right or wrong: whoever reads it finds out."""

    TYPE = "dev.pumice.state.policy.v1"
    namespace: str
    name: str
    key: str
    """Of the ConfigMap."""
    text: str
    resource_version: str = ""


class JobState(Contract):
    """A job, for views and for admission."""

    TYPE = "dev.pumice.state.job.v1"
    namespace: str
    name: str
    uid: str
    generation: Count = 0
    queue: str = "default"
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    min_available: Count = 0
    replicas: Count = 0
    requests: Resources = NONE
    """Sum over all its pods."""
    retry_count: Count = 0
    pods: PodCounts = PodCounts()
    priority_class: str = ""
    podgroup: str | None = None
    urls: dict[str, str] = NONE
    """Where exposed ports are reached, by name."""
    submission: str | None = None
    submitted_by: str = ""
    traceparent: str | None = None
    deleting: bool = False
    created_at: datetime
    changed_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None


class TemplateRunTimes(Contract):
    """For how long the latest jobs of a template ran that went through, in a queue."""

    TYPE = "dev.pumice.template.run-times.v1"
    queue: str
    template: str
    seconds: tuple[Annotated[float, Field(ge=0)], ...] = ()
    """The oldest first."""
    jobs: tuple[str, ...] = ()
    """Which jobs these were, as ``uid/generation``."""
    as_of: datetime


class ExtenderAnswered(Contract):
    """What an extender said of nodes for pods of one shape, or of pods that may be evicted for a gang.

    It is all that is known of the question. A node (by its name) or pod (by its UID) is in one of
    ``accepted``, ``refused`` and ``unanswered``.
    """

    TYPE = "dev.pumice.extender.answered.v1"
    pool: str
    question: str
    """A digest of what is asked: the extender's address and verbs, and the shape or gang."""
    about: Literal["nodes", "pods"] = "nodes"
    accepted: tuple[str, ...] = ()
    refused: dict[str, tuple[str, ...]] = NONE
    """By what the extender said against them."""
    unanswered: dict[str, tuple[str, ...]] = NONE
    """By the error for which it could not be asked about them."""
    scores: dict[str, float] = NONE
    """By node; those without have 0."""
    abstains: bool = False
    """Of pods: it has no vote on them."""
    as_of: datetime


# -------------------------------------------------------------------------------------- usage


class QueueUsage(Contract):
    """Decayed GPU time used by a queue."""

    TYPE = "dev.pumice.queue.usage.v1"
    queue: str
    gpu_seconds: float
    half_life_seconds: Annotated[float, Field(gt=0)]
    as_of: datetime


class NodesMeasured(Contract):
    """What the nodes of a pool really used, as one look at a metrics source found it."""

    TYPE = "dev.pumice.nodes.measured.v1"
    pool: str
    at: datetime
    """When it was measured."""
    cpu: dict[str, Percent] = NONE
    """By node, mean of the last minutes; a node of which nothing is known is not named."""
    memory: dict[str, Percent] = NONE


ClusterFact = (
    NodeState
    | PodState
    | QueueState
    | PodGroupState
    | PriorityClassState
    | PodDisruptionBudgetState
    | HyperNodeState
    | PolicyState
    | ClusterState
    | JobState
)
Event = (
    JobSubmitted
    | JobAdmitted
    | JobRejected
    | CommandJob
    | CommandQueue
    | CommandPool
    | JobPhaseChanged
    | GangReady
    | GangDecided
    | CycleDecided
    | DecisionApplied
    | GangReport
    | TrialRequested
    | TrialAdmitted
    | TrialReady
    | TrialAnswered
    | ClusterFact
    | QueueUsage
    | NodesMeasured
    | TemplateRunTimes
)

EVENTS: dict[str, type[Contract]] = {
    event.TYPE: event
    for event in (
        JobSubmitted,
        JobAdmitted,
        JobRejected,
        CommandJob,
        CommandQueue,
        CommandPool,
        JobPhaseChanged,
        GangReady,
        GangDecided,
        CycleDecided,
        DecisionApplied,
        GangReport,
        TrialRequested,
        TrialAdmitted,
        TrialReady,
        TrialAnswered,
        NodeState,
        PodState,
        QueueState,
        PodGroupState,
        PriorityClassState,
        PodDisruptionBudgetState,
        HyperNodeState,
        PolicyState,
        ClusterState,
        JobState,
        QueueUsage,
        NodesMeasured,
        TemplateRunTimes,
        ExtenderAnswered,
    )
}
"""Every event by its CloudEvents type."""
