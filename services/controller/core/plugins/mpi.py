"""mpi: the workers' names for the master, and a port for SSH on all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from services.controller.core.model import JSON, Task, Wanted
from services.controller.core.plugins.arguments import Flags, Value
from services.controller.core.plugins.base import Pods, add_env, add_port, containers, find_task, hosts

NAME: Final = "mpi"
_DEFAULTS: Final[Mapping[str, Value]] = MappingProxyType({"master": "master", "worker": "worker", "port": 22})


@dataclass(frozen=True, slots=True)
class Mpi(Pods):
    """``MPI_HOST`` for the master; the keys are the ssh plugin's part."""

    master: str
    worker: str
    port: int

    @classmethod
    def read(cls, arguments: Sequence[str], *, strict: bool = True) -> Mpi:
        """Read the arguments."""
        flags = Flags(NAME, arguments, _DEFAULTS, strict=strict)
        return cls(flags.text("master"), flags.text("worker"), flags.port("port"))

    def mutate(self, job: Wanted, task: Task, index: int, pod: JSON) -> None:
        """Open the port in every container and init container, and name the workers to the master.

        A master of a job without the worker task is left as it is.
        """
        del index
        workers = find_task(job, self.worker)
        is_master = task.name == self.master
        if is_master and workers is None:
            return
        for container in containers(pod):
            add_port(container, "mpijob-port", self.port)
            if is_master and workers is not None:
                add_env(container, {"name": "MPI_HOST", "value": ",".join(hosts(job, workers))})
