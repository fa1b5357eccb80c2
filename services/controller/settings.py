"""Settings of the controller."""

from __future__ import annotations

from pydantic import Field

from shared.settings import CommonSettings


class ControllerSettings(CommonSettings):
    """What the controller can be told, besides what every service can."""

    scheduler_names: tuple[str, ...] = Field(
        ("volcano",), description="schedulerName of pods that are ours to schedule."
    )
    policy_namespace: str = Field(
        "volcano-system", min_length=1, description="Namespace of the ConfigMap with the scheduler's policy."
    )
    policy_config_map: str = Field(
        "volcano-scheduler-configmap",
        min_length=1,
        description="Its name; what it says is told to the scheduler.",
    )
    policy_key: str = Field("volcano-scheduler.conf", description="The key in it.")
    workers: int = Field(
        32, ge=1, description="Jobs looked at at once; most of the time each waits for the API server."
    )
    api_concurrency: int = Field(
        50, ge=1, description="Writes to the API server at once; an API server is busy at about 50."
    )
    decisions_in_flight: int = Field(
        256, ge=1, description="Decisions read ahead; each waits for its gang's turn."
    )
    max_requeues: int = Field(
        15,
        ge=-1,
        description="Refusals by the API server in a row (not outages, and not a quota that is used up) after"
        " which a job is ended by TerminateJob, as Volcano's --max-requeue-num; -1: never.",
    )
    status_delay_seconds: float = Field(
        0.3,
        ge=0,
        description="How long, in seconds, a status that changed only in its counts waits for more changes;"
        " longer saves writes, shorter shows progress sooner.",
    )
    observe_delay_seconds: float = Field(
        0.005,
        ge=0,
        description="How long, in seconds, changes are collected before facts are published; joins bursts.",
    )
    settle_seconds: float = Field(
        5.0,
        ge=0,
        description="Seconds after start in which missing members of admitted gangs are left to decisions"
        " that are still on their way.",
    )
    partial_grace_seconds: float = Field(
        30.0,
        ge=0,
        description="Seconds that a gang which never started may hold room with less than its minimum,"
        " e.g. after a crash, before it is taken back; longer than a consumer group needs to rebalance.",
    )
    report_pause_seconds: float = Field(
        10.0,
        ge=0,
        description="Least time, in seconds, between two texts of a PodGroup's condition with the same"
        " reason; the numbers in it change with every pod that comes or goes.",
    )
    empty_group_seconds: float = Field(
        5.0,
        ge=0,
        description="Seconds after which a PodGroup that was made for pods without one, and has no pods any"
        " more, is deleted; longer than an owner takes to replace a pod.",
    )
    born_bound: bool = Field(
        default=True,
        description="Whether pods of jobs are created with their node set, one write for each. False: they"
        " are created Pending, all of a gang, then bound; for policies, webhooks or schedulers of others that"
        " must see a pod before it has a node.",
    )
    volume_binding_seconds: float = Field(
        600.0,
        gt=0,
        description="Seconds that a gang's pods wait for the volumes of their claims, once they have their"
        " nodes; then the gang is decided anew. As kube-scheduler's bindTimeoutSeconds.",
    )
    replace_cluster: bool = Field(
        default=False,
        description="Whether to start although the log tells of another cluster, and tell of this one"
        " instead. For the first start after a cluster was made anew; left on, it hides that two clusters"
        " fill one log.",
    )
    dry_run_seconds: float = Field(
        300.0,
        ge=0,
        description="How long, in seconds, the API server's word on what pods of a template would be is kept:"
        " asked by a dry run, once for all jobs of a template. Gangs that wait are asked about again after"
        " it.",
    )
    scheduled_events: bool = Field(
        default=False,
        description="Whether each pod gets an event Scheduled with its node, as other schedulers write it and"
        " kubectl describe shows it. A write more for each pod, off everybody's path; of more than a thousand"
        " that wait, the oldest are left out.",
    )
    expose_url: str = Field(
        "",
        description="Pattern of the URLs of exposed ports, with {namespace}, {job} and {name}: a host for"
        " each (https://{name}-{job}-{namespace}.apps.example.org) or a path"
        " (https://apps.example.org/{namespace}/{job}/{name}); https asks for TLS. Empty: no Ingress is made,"
        " ports are reached inside the cluster only.",
    )
    expose_ingress_class: str = Field(
        "", description="IngressClass of exposed jobs; empty: the cluster's default."
    )
    expose_tls_secret: str = Field(
        "",
        description="Secret with the certificate for exposed jobs, in the job's namespace; empty: the"
        " ingress controller's own certificate.",
    )
    expose_annotations: dict[str, str] = Field(
        default={},
        description="Annotations of the Ingresses of exposed jobs: a certificate issuer, who may log in …",
    )
