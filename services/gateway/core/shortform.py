"""The short form of a job: what a training job needs, in a dozen fields; and the Job object it stands for.

{"name": "train", "image": "pytorch", "command": "python train.py", "gpus": 8, "workers": 3,
 "master": true, "minimum": 4, "queue": "team-a", "mounts": ["data:/data"], "expose": ["jupyter:8888"]}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic.alias_generators import to_camel

from services.gateway.core.mounts import Mount
from shared.api import names
from shared.api.expose import Exposed, parse
from shared.api.quantity import Quantity, QuantityError
from shared.events.contracts import Violation

GPU: Final = "nvidia.com/gpu"

Scalar = str | bool | int | float
Amount = Annotated[str | int | float, Field(examples=["500m", "64Gi", 2])]


class Part(BaseModel):
    """Base: a field that does not exist is a mistake, not a wish that is ignored."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        alias_generator=to_camel,
        use_attribute_docstrings=True,
    )


class Resourced(Part):
    """What a pod runs and takes."""

    image: str | None = Field(default=None, examples=["pytorch/pytorch:2.8"])
    """Container image."""
    command: str | list[str] | None = None
    """A list is run as it is; a text is a line for ``/bin/sh -c``."""
    args: list[str] | None = None
    """Arguments after the command."""
    gpus: int | None = Field(default=None, ge=0)
    """GPUs of each pod."""
    gpu_resource: str | None = None
    """Name of the GPU resource; ``nvidia.com/gpu`` when absent."""
    cpus: Amount | None = None
    """CPUs of each pod: a number or a quantity like ``500m``."""
    memory: Amount | None = None
    """Memory of each pod, e.g. ``64Gi``."""
    env: dict[str, Scalar] | None = None
    """Environment of each container."""

    @field_validator("cpus", "memory")
    @classmethod
    def _quantity(cls, value: Any) -> Any:
        if value is not None:
            try:
                amount = Quantity.parse(value)
            except QuantityError as error:
                raise ValueError(str(error)) from error
            if amount < Quantity(0):
                raise ValueError("must not be negative")
        return value


class Master(Resourced):
    """Where the master differs from the workers."""


class ShortJob(Resourced):
    """A job in the short form."""

    name: str | None = None
    """Name of the job; or leave it to ``generateName``."""
    generate_name: str | None = None
    """Prefix of a name made up by the server."""
    namespace: str = "default"
    """Namespace; ``default`` when absent."""
    workers: int = Field(1, ge=0)
    """Number of worker pods."""
    master: bool | Master = False
    """One more pod, task ``master``, before the workers; an object says where it differs from them."""
    minimum: int | None = Field(default=None, ge=0)
    """Start with this many pods; all when absent."""
    queue: str = "default"
    """The queue to wait in."""
    priority: str = ""
    """Name of a priority class."""
    mounts: list[Mount] = []
    """What is mounted: ``claim:/path``, ``new/100Gi:/path``, ``configmap/name:/path[:ro]`` … or objects."""
    expose: list[str | int] = []
    """Ports that users reach, as ``name:port`` or just the port, of the first pod or ``name:port@task``."""
    labels: dict[str, str] = {}
    """Labels of the job and its pods."""
    annotations: dict[str, str] = {}
    """Annotations of the job."""
    plugins: dict[str, list[str]] = {}
    """Job plugins with their arguments; a job of several pods has ``env`` and ``svc``."""
    retries: int | None = Field(default=None, ge=0)
    """Full restarts when a pod fails, three when absent; 0: a failed pod ends the job."""
    ttl_seconds_after_finished: int | None = Field(default=None, ge=0)
    """Delete the job this long after its end; never when absent."""
    service_account: str = ""
    """Service account of the pods."""
    node_selector: dict[str, str] = {}
    """Labels that the nodes must have."""
    tolerations: list[dict[str, Any]] = []
    """Tolerations, as in a pod."""

    @field_validator("expose")
    @classmethod
    def _ports(cls, value: list[str | int]) -> list[str | int]:
        parse(",".join(map(str, value)))
        return value


def missing(body: Mapping[str, Any]) -> tuple[Violation, ...]:
    """Return what an unread short form lacks as a whole, which no single field can tell."""
    found: list[Violation] = []
    if not any(body.get(field) for field in ("name", "generateName", "generate_name")):
        found.append(Violation(code="required", path="name", message="a job needs a name or a generateName"))
    master, workers = body.get("master", False), body.get("workers", 1)
    if workers == 0 and master is False:
        found.append(Violation(code="required", path="workers", message="a job needs a worker or a master"))
    masters_own = isinstance(master, dict) and bool(master.get("image")) and workers == 0
    if not body.get("image") and not masters_own:
        found.append(Violation(code="required", path="image", message="a job needs an image"))
    return tuple(found)


def expand(short: ShortJob) -> dict[str, Any]:
    """Return the Volcano Job that a short form stands for."""
    tasks = _tasks(short)
    pods = sum(task["replicas"] for task in tasks)
    spec: dict[str, Any] = {
        "queue": short.queue,
        "minAvailable": pods if short.minimum is None else short.minimum,
        "tasks": tasks,
        "policies": _policies(short),
    }
    several: dict[str, list[str]] = {"env": [], "svc": []} if pods > 1 else {}
    plugins = several | short.plugins
    if plugins:
        spec["plugins"] = plugins
    claims = [mount.claim_to_make(shared=pods > 1) for mount in short.mounts if mount.size is not None]
    if claims:
        spec["volumes"] = claims
    if short.priority:
        spec["priorityClassName"] = short.priority
    if short.retries:
        spec["maxRetry"] = short.retries
    if short.ttl_seconds_after_finished is not None:
        spec["ttlSecondsAfterFinished"] = short.ttl_seconds_after_finished
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": _metadata(short),
        "spec": spec,
    }


def _metadata(short: ShortJob) -> dict[str, Any]:
    annotations = dict(short.annotations)
    if short.expose:
        annotations[names.EXPOSE] = ",".join(map(str, _exposed(short)))
    metadata: dict[str, Any] = {"namespace": short.namespace}
    if short.name:
        metadata["name"] = short.name
    elif short.generate_name:
        metadata["generateName"] = short.generate_name
    if short.labels:
        metadata["labels"] = short.labels
    if annotations:
        metadata["annotations"] = annotations
    return metadata


def _policies(short: ShortJob) -> list[dict[str, str]]:
    """Restart as a gang: the pods of a training job are of no use to each other when one is missing."""
    on_failure = "TerminateJob" if short.retries == 0 else "RestartJob"
    return [
        {"event": "PodEvicted", "action": "RestartJob"},
        {"event": "PodFailed", "action": on_failure},
    ]


def _tasks(short: ShortJob) -> list[dict[str, Any]]:
    tasks: list[dict[str, Any]] = []
    if short.master is not False:
        own = short.master if isinstance(short.master, Master) else Master()
        task = _task("master", 1, short, own)
        if short.workers:
            # The job is done when its master is, whatever the workers still do.
            task["policies"] = [{"event": "TaskCompleted", "action": "CompleteJob"}]
        tasks.append(task)
    if short.workers:
        tasks.append(_task("worker", short.workers, short, Master()))
    for task in tasks:
        ports = [one for one in _exposed(short) if (one.task or tasks[0]["name"]) == task["name"]]
        if ports:
            container = task["template"]["spec"]["containers"][0]
            container["ports"] = [{"name": one.name, "containerPort": one.port} for one in ports]
    return tasks


def _exposed(short: ShortJob) -> tuple[Exposed, ...]:
    return parse(",".join(map(str, short.expose)))


def _task(name: str, replicas: int, short: ShortJob, own: Master) -> dict[str, Any]:
    container: dict[str, Any] = {"name": name, "image": own.image or short.image}
    command = short.command if own.command is None else own.command
    if command is not None:
        container["command"] = ["/bin/sh", "-c", command] if isinstance(command, str) else command
    args = short.args if own.args is None else own.args
    if args:
        container["args"] = args
    env = {**(short.env or {}), **(own.env or {})}
    if env:
        container["env"] = [{"name": key, "value": _text(value)} for key, value in env.items()]
    if resources := _resources(short, own):
        container["resources"] = resources
    pod: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
    numbered = [(number, mount) for number, mount in enumerate(short.mounts) if mount.size is None]
    if numbered:
        pod["volumes"] = [mount.volume(number) for number, mount in numbered]
        container["volumeMounts"] = [mount.volume_mount(number) for number, mount in numbered]
    if short.service_account:
        pod["serviceAccountName"] = short.service_account
    if short.node_selector:
        pod["nodeSelector"] = short.node_selector
    if short.tolerations:
        pod["tolerations"] = short.tolerations
    template: dict[str, Any] = {"spec": pod}
    if short.labels:
        template["metadata"] = {"labels": short.labels}
    return {"name": name, "replicas": replicas, "template": template}


def _resources(short: ShortJob, own: Master) -> dict[str, Any]:
    """GPUs and memory are limits too; of idle CPU a pod may use more than it asked for."""
    gpus = short.gpus if own.gpus is None else own.gpus
    cpus = short.cpus if own.cpus is None else own.cpus
    memory = short.memory if own.memory is None else own.memory
    requests: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    if cpus is not None:
        requests["cpu"] = str(cpus)
    if memory is not None:
        requests["memory"] = limits["memory"] = str(memory)
    if gpus:
        resource = own.gpu_resource or short.gpu_resource or GPU
        requests[resource] = limits[resource] = str(gpus)
    return {name: amounts for name, amounts in (("requests", requests), ("limits", limits)) if amounts}


def _text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
