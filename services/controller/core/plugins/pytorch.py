"""pytorch: where the master is and which rank a pod has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from services.controller.core.model import JSON, Task, Wanted
from services.controller.core.plugins.arguments import Flags, Value
from services.controller.core.plugins.base import Pods, add_env, add_port, containers, find_task, host

NAME: Final = "pytorch"
_WAITER: Final = "wait-for-master"
_DEFAULTS: Final[Mapping[str, Value]] = MappingProxyType(
    {
        "master": "master",
        "worker": "worker",
        "port": 23456,
        "wait-master-enabled": False,
        "wait-master-timeout": 300,
        "wait-master-image": "busybox:1.36.1",
    }
)


@dataclass(frozen=True, slots=True)
class PyTorch(Pods):
    """``MASTER_ADDR``, ``MASTER_PORT``, ``WORLD_SIZE`` and ``RANK`` for torch.distributed."""

    master: str
    worker: str
    port: int
    wait: bool
    wait_timeout: int
    """Seconds."""
    wait_image: str

    @classmethod
    def read(cls, arguments: Sequence[str], *, strict: bool = True) -> PyTorch:
        """Read the arguments."""
        flags = Flags(NAME, arguments, _DEFAULTS, strict=strict)
        return cls(
            flags.text("master"),
            flags.text("worker"),
            flags.port("port"),
            flags.switch("wait-master-enabled"),
            flags.number("wait-master-timeout"),
            flags.text("wait-master-image"),
        )

    def mutate(self, job: Wanted, task: Task, index: int, pod: JSON) -> None:
        """Add port and variables to every container; a job without the master task is left as it is."""
        master = find_task(job, self.master)
        if master is None:
            return
        address = host(job, master, 0)
        size = sum(one.replicas for one in job.tasks if one.name in (self.master, self.worker))
        variables = {"MASTER_ADDR": address, "MASTER_PORT": str(self.port), "WORLD_SIZE": str(size)}
        if task.name == self.worker:
            variables["RANK"] = str(index + 1)
            self._wait_for(address, pod)
        elif task.name == self.master:
            variables["RANK"] = "0"
        for container in containers(pod, init=False):
            add_port(container, "pytorchjob-port", self.port)
            add_env(container, *({"name": name, "value": value} for name, value in variables.items()))

    def _wait_for(self, address: str, pod: JSON) -> None:
        there = pod["spec"].get("initContainers") or []
        if not self.wait or any(one.get("name") == _WAITER for one in there):
            return
        waiter = {"name": _WAITER, "image": self.wait_image, "command": ["sh", "-c", self._script(address)]}
        pod["spec"]["initContainers"] = [*there, waiter]

    def _script(self, address: str) -> str:
        """Return a shell script that ends when the master accepts connections, or fails in time."""
        return (
            f"left={self.wait_timeout}\n"
            f"until {{ nc -z {address} {self.port} || : >/dev/tcp/{address}/{self.port}; }} 2>/dev/null; do\n"
            f'  if [ "$left" -le 0 ]; then\n'
            f'    echo "{address}:{self.port} did not answer in {self.wait_timeout} s" >&2\n'
            f"    exit 1\n"
            f"  fi\n"
            f"  sleep 2\n"
            f"  left=$((left - 2))\n"
            f"done"
        )
