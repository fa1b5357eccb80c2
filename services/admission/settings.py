"""Settings of admission."""

from __future__ import annotations

from pydantic import Field

from shared.settings import CommonSettings


class AdmissionSettings(CommonSettings):
    """What admission can be told, besides what every service can."""

    scheduler_name: str = Field(
        "volcano",
        min_length=1,
        description="schedulerName of jobs that name none; Volcano's, so that its manifests work unchanged.",
    )
    default_queue: str = Field(
        "default", min_length=1, description="Queue of jobs that name none; made by the controller."
    )
    default_max_retry: int = Field(
        3,
        ge=1,
        description="Restarts of a job (or task) that says nothing before it fails; Volcano's number.",
    )
    default_namespace: str = Field(
        "default", min_length=1, description="Namespace of jobs that name none, as kubectl's."
    )
    queue_patience_seconds: float = Field(
        1.0,
        ge=0,
        description="Seconds that a job for an unknown queue waits for it to appear before it is rejected:"
        " whoever creates a queue and submits at once is right.",
    )
    admitted_memory_seconds: float = Field(
        300.0,
        ge=0,
        description="Seconds that an admitted job holds its name, and its submission is known, before the"
        " job is seen in the cluster; after that it is left to the controller to refuse a second one.",
    )
    in_flight: int = Field(
        1000, ge=1, description="Submissions read ahead, to publish many answers at once; bounds memory."
    )
