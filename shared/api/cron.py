"""Volcano's CronJob (``batch.volcano.sh/v1alpha1``): jobs by the clock, every field of it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from shared.api.base import REQUIRED, KubeModel, Time, schema
from shared.api.batch import JobSpec
from shared.api.core import ObjectReference
from shared.api.meta import KubeObject, ObjectMeta

API_VERSION: Final = "batch.volcano.sh/v1alpha1"
KIND: Final = "CronJob"
MAX_NAME: Final = 52
"""Longest name, in characters: 11 more are added for the jobs' names."""


class ConcurrencyPolicy(StrEnum):
    """What to do when the last job still runs at the next start."""

    ALLOW = "Allow"
    FORBID = "Forbid"
    REPLACE = "Replace"


class CronJobTemplateSpec(KubeModel):
    """The job that is made (Volcano: JobTemplateSpec)."""

    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    """Labels and annotations of the job."""
    spec: JobSpec = Field(default_factory=JobSpec)
    """What is wanted of the job."""


class CronJobSpec(KubeModel):
    """When which job is made."""

    schedule: Annotated[str, REQUIRED] = ""
    """Minute, hour, day of month, month and day of week, or @hourly, @daily … or @every <duration>."""
    time_zone: str | None = None
    """Name of the schedule's time zone, as Europe/Berlin; the service's own (UTC) when absent."""
    starting_deadline_seconds: Annotated[int, schema(format="int64", minimum=0)] | None = None
    """Seconds after its time in which a job may still be started; without end when absent."""
    concurrency_policy: Annotated[str, schema(enum=[str(p) for p in ConcurrencyPolicy], default="Allow")] = ""
    """Allow (the default), Forbid (the start is skipped) or Replace (the running job goes)."""
    suspend: Annotated[bool, schema(default=False)] | None = None
    """Whether further starts are off."""
    job_template: Annotated[CronJobTemplateSpec, REQUIRED] = Field(default_factory=CronJobTemplateSpec)
    """The job that is made."""
    successful_jobs_history_limit: Annotated[int, schema(format="int32", minimum=0, default=3)] | None = None
    """How many completed jobs stay; 3 when absent."""
    failed_jobs_history_limit: Annotated[int, schema(format="int32", minimum=0, default=1)] | None = None
    """How many failed jobs stay; 1 when absent."""


class CronJobStatus(KubeModel):
    """What became of the starts."""

    active: Annotated[list[ObjectReference], schema(**{"x-kubernetes-list-type": "atomic"})] = Field(
        default_factory=list[ObjectReference]
    )
    """The jobs that are not finished."""
    last_schedule_time: Time | None = None
    """The scheduled time of the last start."""
    last_successful_time: Time | None = None
    """When a job completed last."""


class CronJob(KubeObject):
    """Jobs by the clock."""

    spec: CronJobSpec = Field(default_factory=CronJobSpec)
    """When which job is made."""
    status: CronJobStatus = Field(default_factory=CronJobStatus)
    """What became of the starts."""
