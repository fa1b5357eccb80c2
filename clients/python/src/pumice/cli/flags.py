"""The flags that several commands have, and their words."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Kind(StrEnum):
    """What can be listed; the singular and short words as kubectl has them."""

    JOBS = "jobs"
    JOB = "job"
    VCJOB = "vcjob"
    QUEUES = "queues"
    QUEUE = "queue"
    NODES = "nodes"
    NODE = "node"


class Form(StrEnum):
    """How things are printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


class Until(StrEnum):
    """What is waited for."""

    NONE = "none"
    ADMITTED = "admitted"
    RUNNING = "running"
    FINISHED = "finished"


Server = Annotated[str | None, typer.Option("--server", metavar="URL", help="The gateway's address.")]
Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", metavar="NS", help="The jobs' namespace.")
]
Output = Annotated[Form, typer.Option("--output", "-o", help="How to print.")]
Timeout = Annotated[
    str | None, typer.Option("--timeout", metavar="TIME", help="Wait no longer: 30, 90s, 5m, 1h30m.")
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The job's name, or NAMESPACE/NAME.")]
Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of jobs, or NAMESPACE/NAME.")]
Pool = Annotated[str, typer.Option("--pool", metavar="NAME", help="The node pool.")]
QueueName = Annotated[str, typer.Argument(metavar="NAME", help="The queue's name.")]
JobName = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="Name of a job in the short form.")
]
Image = Annotated[str | None, typer.Option("--image", metavar="IMAGE", help="Container image.")]
Gpus = Annotated[int | None, typer.Option("--gpus", min=0, metavar="N", help="GPUs of each pod.")]
Cpus = Annotated[
    str | None, typer.Option("--cpus", metavar="AMOUNT", help="CPUs of each pod, like 4 or 500m.")
]
Memory = Annotated[
    str | None, typer.Option("--memory", metavar="AMOUNT", help="Memory of each pod, like 64Gi.")
]
Workers = Annotated[
    int | None, typer.Option("--workers", min=0, metavar="N", help="How many workers [default: 1].")
]
Master = Annotated[bool, typer.Option("--master", help="One more pod, the master.")]
Minimum = Annotated[
    int | None,
    typer.Option(
        "--min", min=0, metavar="N", help="So many pods start together or none does [default: all]."
    ),
]
Queue = Annotated[str | None, typer.Option("--queue", "-q", metavar="QUEUE", help="The queue.")]
Priority = Annotated[str | None, typer.Option("--priority", metavar="CLASS", help="The priority class.")]
Retries = Annotated[
    int | None, typer.Option("--retries", min=0, metavar="N", help="Restarts when a pod fails [default: 3].")
]
Env = Annotated[list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="Repeatable.")]
Mounts = Annotated[
    list[str] | None,
    typer.Option(
        "--mount",
        metavar="WHAT:PATH",
        help="claim:/path, new/SIZE:/path, configmap/name:/path, secret/name:/path[:ro]; repeatable.",
    ),
]
Expose = Annotated[
    list[str] | None,
    typer.Option("--expose", metavar="[NAME:]PORT[@TASK]", help="A port to reach; repeatable."),
]
Command = Annotated[list[str] | None, typer.Argument(metavar="[-- COMMAND...]", help="What each pod runs.")]
Wait = Annotated[bool, typer.Option("--wait", help="Return when it is done.")]
SHORT = (
    *("name", "image", "command", "workers", "master", "gpus", "cpus", "memory", "minimum", "queue"),
    *("priority", "retries", "env", "mounts", "expose"),
)
"""The flags of the short form, by the names of their parameters."""
