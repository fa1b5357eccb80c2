"""Settings of the workflows service."""

from __future__ import annotations

from pydantic import Field

from shared.settings import CommonSettings


class WorkflowsSettings(CommonSettings):
    """What the workflows service can be told, besides what every service can."""

    workers: int = Field(
        16, ge=1, description="Flows, cron jobs and others looked at at once; most wait for the API server."
    )
    api_concurrency: int = Field(
        16, ge=1, description="Writes to the API server at once; the jobs' own pods come first."
    )
    status_delay_seconds: float = Field(
        1.0,
        ge=0,
        description="How long, in seconds, a flow's status waits for more when only the counts of pods in a"
        " job changed; longer saves writes, shorter shows progress sooner.",
    )
    probe_seconds: float = Field(
        5.0, gt=0, description="Seconds between two rounds of the probes of a flow that waits for them."
    )
    probe_timeout_seconds: float = Field(
        1.0, gt=0, description="Seconds in which a pod must answer a probe, as the kubelet's default."
    )
    probe_concurrency: int = Field(64, ge=1, description="Pods probed at once.")
    discovery_namespace: str = Field(
        "volcano-system", description="Namespace of the ConfigMap with networkTopologyDiscovery."
    )
    discovery_config_map: str = Field(
        "volcano-controller-configmap",
        description="Name of that ConfigMap; its key is volcano-controller.conf, as Volcano's.",
    )
    discovery_delay_seconds: float = Field(
        1.0,
        ge=0,
        description="How long, in seconds, changes of nodes are collected before hypernodes change.",
    )
