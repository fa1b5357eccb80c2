"""Volcano's JobFlow and JobTemplate (``flow.volcano.sh/v1alpha1``), every field of them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, PlainSerializer, Strict

from shared.api.base import PATCH, REQUIRED, Count, Duration, KubeModel, Time, schema
from shared.api.batch import JobSpec, TaskState
from shared.api.meta import KubeObject

API_VERSION: Final = "flow.volcano.sh/v1alpha1"


class FlowPhase(StrEnum):
    """The phases of a job flow."""

    SUCCEED = "Succeed"
    TERMINATING = "Terminating"
    FAILED = "Failed"
    RUNNING = "Running"
    PENDING = "Pending"


class RetainPolicy(StrEnum):
    """What becomes of the jobs of a flow that has succeeded."""

    RETAIN = "retain"
    DELETE = "delete"


def _text(value: StrEnum) -> str:
    return value.value


Port = Annotated[int, schema(minimum=0, maximum=65535)]
TaskName = Annotated[str, schema(maxLength=253)]


class HTTPHeader(KubeModel):
    """A header of a request."""

    name: Annotated[str, REQUIRED] = ""
    """Name of the header."""
    value: Annotated[str, REQUIRED] = ""
    """Its value."""


class HttpGet(KubeModel):
    """An HTTP request that a task's pods must answer with 200 to 399."""

    task_name: TaskName = ""
    """The task of the target job; every task when absent."""
    path: str = ""
    """Path of the request; / when absent."""
    port: Port = 0
    """Port of the pods; 80 when absent."""
    http_header: HTTPHeader | None = None
    """A header of the request."""


class TcpSocket(KubeModel):
    """A port on which a task's pods must accept connections."""

    task_name: TaskName = ""
    """The task of the target job; every task when absent."""
    port: Annotated[Port, REQUIRED] = 0
    """Port of the pods."""


class TaskStatus(KubeModel):
    """A phase that a task's pods must have reached."""

    task_name: TaskName = ""
    """The task of the target job; every task when absent."""
    phase: Annotated[str, schema(maxLength=63)] = ""
    """Running, Succeeded or another phase of pods."""


class Probe(KubeModel):
    """What must hold for the targets of a flow, instead of their completion."""

    http_get_list: list[HttpGet] = Field(default_factory=list[HttpGet])
    """Requests that are answered."""
    tcp_socket_list: list[TcpSocket] = Field(default_factory=list[TcpSocket])
    """Ports that are open."""
    task_status_list: list[TaskStatus] = Field(default_factory=list[TaskStatus])
    """Phases that are reached."""


class DependsOn(KubeModel):
    """What comes before a flow."""

    targets: list[str] = Field(default_factory=list[str])
    """Names of flows of the same job flow."""
    probe: Probe | None = None
    """What must hold for them; when absent, they must be complete."""


class FlowPatch(KubeModel):
    """How a flow's job differs from its template."""

    job_spec: Annotated[JobSpec, PATCH] | None = None
    """Fields of the job that replace the template's; a field that is absent changes nothing."""


class Flow(KubeModel):
    """One step: a job from a template."""

    name: Annotated[str, schema(minLength=1), REQUIRED] = ""
    """Name of the JobTemplate, and of the flow."""
    depends_on: DependsOn | None = None
    """What comes before it."""
    patch: FlowPatch | None = None
    """How its job differs from the template."""


class JobFlowSpec(KubeModel):
    """The steps."""

    flows: list[Flow] = Field(default_factory=list[Flow])
    """The steps; their order in this list says nothing."""
    job_retain_policy: Annotated[str, schema(enum=[str(policy) for policy in RetainPolicy])] = ""
    """Whether the jobs of a flow that has succeeded stay (retain, when absent) or go (delete)."""


class JobRunningHistory(KubeModel):
    """A phase of a job and how long it was in it."""

    start_timestamp: Time | None = None
    """When it was entered."""
    end_timestamp: Time | None = None
    """When it was left."""
    state: str = ""
    """The phase."""


class FlowJobStatus(KubeModel):
    """What became of one job of a flow (Volcano: JobStatus)."""

    name: str = ""
    """Name of the job."""
    state: str = ""
    """Its phase."""
    start_timestamp: Time | None = None
    """When it was created."""
    end_timestamp: Time | None = None
    """When it finished."""
    restart_count: Count = 0
    """How often it was restarted."""
    running_histories: list[JobRunningHistory] = Field(default_factory=list[JobRunningHistory])
    """Its phases so far."""


class FlowCondition(KubeModel):
    """A job as it was last seen."""

    phase: str = ""
    """Its phase."""
    create_time: Time | None = None
    """When it was created."""
    running_duration: Duration | None = None
    """How long it ran."""
    task_status_count: dict[str, TaskState] = Field(default_factory=dict[str, TaskState])
    """Pods by task and phase."""


class FlowState(KubeModel):
    """The phase."""

    phase: Annotated[FlowPhase, Strict(strict=False), PlainSerializer(_text)] | None = None
    """Where the flow is in its life."""


class JobFlowStatus(KubeModel):
    """What became of a flow: its jobs by their state."""

    pending_jobs: list[str] = Field(default_factory=list[str])
    """Jobs that wait."""
    running_jobs: list[str] = Field(default_factory=list[str])
    """Jobs that run."""
    failed_jobs: list[str] = Field(default_factory=list[str])
    """Jobs that failed."""
    completed_jobs: list[str] = Field(default_factory=list[str])
    """Jobs that are complete."""
    terminated_jobs: list[str] = Field(default_factory=list[str])
    """Jobs that were ended by somebody."""
    un_know_jobs: list[str] = Field(default_factory=list[str])
    """Jobs of any other state (Volcano spells it so)."""
    job_status_list: list[FlowJobStatus] = Field(default_factory=list[FlowJobStatus])
    """Each job's life."""
    conditions: dict[str, FlowCondition] = Field(default_factory=dict[str, FlowCondition])
    """Each job as it was last seen, by its name."""
    state: FlowState = Field(default_factory=FlowState)
    """The flow's own state."""


class JobFlow(KubeObject):
    """Jobs in the order of their dependencies."""

    spec: JobFlowSpec = Field(default_factory=JobFlowSpec)
    """The steps."""
    status: JobFlowStatus = Field(default_factory=JobFlowStatus)
    """What became of them."""


class JobTemplateStatus(KubeModel):
    """The use of a template."""

    job_depends_on_list: list[str] = Field(default_factory=list[str])
    """The jobs that were made from it."""


class JobTemplate(KubeObject):
    """A mould for jobs; nothing runs by itself."""

    spec: JobSpec = Field(default_factory=JobSpec)
    """The job."""
    status: JobTemplateStatus = Field(default_factory=JobTemplateStatus)
    """Its use."""
