"""Settings of admission."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from services.admission.core.resource_groups import ResourceGroup
from shared.api.names import ADMISSION_SECRET, ADMISSION_SERVICE, SYSTEM_NAMESPACE
from shared.api.webhooks import CONFIGURATION, DEFAULT_PATHS, PATHS
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
    host_paths: tuple[str, ...] = Field(
        (),
        description="Paths of the nodes below which jobs may mount (hostPath), as a JSON list; none by"
        ' default, as whoever writes to a node may own it. ["/"] allows all, as Volcano does.',
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
    webhook_port: int | None = Field(
        None,
        ge=0,
        le=65535,
        description="Port of the webhooks (HTTPS, with /healthz and /readyz); 0 takes a free one, unset: no"
        " webhooks. They need Kubernetes, and work while the log is away.",
    )
    webhook_host: str = Field(
        "0.0.0.0",  # noqa: S104 - the API server calls from outside the pod
        description="Address of the webhooks; the API server must reach it.",
    )
    webhook_paths: tuple[str, ...] = Field(
        DEFAULT_PATHS,
        description="Webhooks that answer, as a JSON list. /podgroups/validate is off, as in Volcano: a job"
        " that was admitted must get its group, also when its queue was closed since.",
    )
    webhook_names: tuple[str, ...] = Field(
        (f"{ADMISSION_SERVICE}.{SYSTEM_NAMESPACE}.svc",),
        min_length=1,
        description="DNS names and IP addresses by which the API server calls the webhooks, as a JSON list:"
        " <service>.<namespace>.svc, or the host of --webhook-url. The certificate is made for them.",
    )
    webhook_namespace: str = Field(
        SYSTEM_NAMESPACE, min_length=1, description="Namespace of the Secret with the webhooks' certificate."
    )
    webhook_secret: str = Field(
        ADMISSION_SECRET,
        min_length=1,
        description="Secret with the authority and the certificate that admission makes; replicas share it.",
    )
    webhook_configuration: str = Field(
        CONFIGURATION,
        description="Name of the webhook configurations in which admission keeps caBundle right; empty: in"
        " none, because somebody else does (cert-manager's injector).",
    )
    webhook_certificate_days: float = Field(
        90.0,
        gt=0,
        description="Days that a serving certificate is valid; it is renewed after two thirds of them.",
    )
    webhook_authority_days: float = Field(
        3650.0,
        gt=0,
        description="Days that the authority is valid; it is renewed after two thirds of them, and the one"
        " before it stays trusted.",
    )
    webhook_certificate_file: Path | None = Field(
        None,
        description="PEM file with the webhooks' certificate, e.g. cert-manager's tls.crt; unset: admission"
        " makes one. Read again when it changes.",
    )
    webhook_key_file: Path | None = Field(None, description="PEM file with the key of that certificate.")
    webhook_authority_file: Path | None = Field(
        None,
        description="PEM file with the authority of that certificate, for caBundle; unset: caBundle is left"
        " to whoever made the certificate.",
    )
    queue_depth: int = Field(
        5, ge=1, description="Levels of queues below the root (Volcano's --max-queue-depth)."
    )
    protect_root_queue: bool = Field(
        default=True,
        description="Whether the root queue's shares may not be set (Volcano's"
        " --enable-root-queue-protection).",
    )
    check_allocated_pods: bool = Field(
        default=False,
        description="Whether a queue whose pods run may not be deleted (Volcano's"
        " --enable-queue-allocated-pods-check).",
    )
    scheduler_names: tuple[str, ...] = Field(
        ("volcano",),
        min_length=1,
        description="schedulerName of pods that are ours to check, as a JSON list.",
    )
    resource_groups: tuple[ResourceGroup, ...] = Field(
        (),
        description="What pods of some namespaces or annotations get (scheduler, tolerations, node labels,"
        " affinity): resourceGroups of Volcano's admission configuration, as a JSON list.",
    )
    queue_allocation_gate: bool = Field(
        default=False,
        description="Whether a pod with the annotation scheduling.volcano.sh/queue-allocation-gate gets the"
        " scheduling gate of that name, for a component that takes it away again (Volcano's feature gate"
        " SchedulingGatesQueueAdmission, off there too).",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        unknown = sorted(set(self.webhook_paths) - set(PATHS))
        if unknown:
            raise ValueError(f"webhook_paths: no webhook has the path {', '.join(unknown)}")
        if (self.webhook_certificate_file is None) != (self.webhook_key_file is None):
            raise ValueError("webhook_certificate_file and webhook_key_file need each other")
        if self.webhook_authority_file is not None and self.webhook_certificate_file is None:
            raise ValueError("webhook_authority_file needs webhook_certificate_file")
        return self


def serves_webhooks(settings: AdmissionSettings) -> bool:
    """Say whether admission serves webhooks, and so needs Kubernetes."""
    return settings.webhook_port is not None
