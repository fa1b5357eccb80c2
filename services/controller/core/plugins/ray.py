"""ray: the head and the workers of a Ray cluster, and a service for the head."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from services.controller.core.dependents import Dependent, dependent, selector
from services.controller.core.model import JSON, Task, Wanted
from services.controller.core.plugins.arguments import Flags, PluginError, Value
from services.controller.core.plugins.base import add_port, containers, find_task, host
from shared.api import names
from shared.api import resources as r

NAME: Final = "ray"
_DEFAULTS: Final[Mapping[str, Value]] = MappingProxyType(
    {
        "head": "head",
        "headContainer": "head",
        "worker": "worker",
        "workerContainer": "worker",
        "port": 6379,
        "dashboardPort": 8265,
        "clientPort": 10001,
    }
)


@dataclass(frozen=True, slots=True)
class Ray:
    """The commands that make a cluster of a head and its workers."""

    head: str
    head_container: str
    worker: str
    worker_container: str
    port: int
    dashboard_port: int
    client_port: int

    @classmethod
    def read(cls, arguments: Sequence[str], *, strict: bool = True) -> Ray:
        """Read the arguments."""
        flags = Flags(NAME, arguments, _DEFAULTS, strict=strict)
        return cls(
            flags.text("head"),
            flags.text("headContainer"),
            flags.text("worker"),
            flags.text("workerContainer"),
            flags.port("port"),
            flags.port("dashboardPort"),
            flags.port("clientPort"),
        )

    def check(self, job: Wanted) -> None:
        """The head task must be there."""
        if find_task(job, self.head) is None:
            raise PluginError(f"spec.plugins[{NAME}]: the job has no task {self.head} for the head")

    def objects(self, job: Wanted) -> Iterator[Dependent]:
        """Return the head's service."""
        ports = [
            {"name": name, "port": port, "targetPort": name, "protocol": "TCP"}
            for name, port in self._ports()
        ]
        spec = {"selector": {**selector(job), names.TASK_SPEC: self.head}, "ports": ports}
        yield dependent(job, r.SERVICES, f"{job.name}-head-svc", {"spec": spec})

    def mutate(self, job: Wanted, task: Task, index: int, pod: JSON) -> None:
        """Set the command of the head's or worker's container, and open the head's ports."""
        del index
        head = find_task(job, self.head)
        if head is None:
            return
        for container in containers(pod, init=False):
            if task.name == self.head and container.get("name") == self.head_container:
                for name, port in self._ports():
                    add_port(container, name, port)
                container["command"] = _shell(
                    f"ray start --head --block --dashboard-host=0.0.0.0 --port={self.port} "
                    f"--dashboard-port={self.dashboard_port} --ray-client-server-port={self.client_port}"
                )
            if task.name == self.worker and container.get("name") == self.worker_container:
                address = f"{host(job, head, 0)}:{self.port}"
                container["command"] = _shell(f"ray start --block --address={address}")

    def _ports(self) -> tuple[tuple[str, int], ...]:
        return ("gcs", self.port), ("dashboard", self.dashboard_port), ("client-server", self.client_port)


def _shell(line: str) -> list[str]:
    return ["sh", "-c", line]
