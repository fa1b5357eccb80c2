"""tensorflow: the cluster and a pod's place in it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from services.controller.core.model import JSON, Task, Wanted
from services.controller.core.plugins.arguments import Flags, Value
from services.controller.core.plugins.base import Pods, add_env, containers, host

NAME: Final = "tensorflow"
_ROLES: Final = ("ps", "worker", "chief", "evaluator")
_DEFAULTS: Final[Mapping[str, Value]] = MappingProxyType({**{role: role for role in _ROLES}, "port": 2222})


@dataclass(frozen=True, slots=True)
class TensorFlow(Pods):
    """``TF_CONFIG`` as JSON, unless the job is a single pod."""

    roles: Mapping[str, str]
    """From a task's name to its role."""
    port: int

    @classmethod
    def read(cls, arguments: Sequence[str], *, strict: bool = True) -> TensorFlow:
        """Read the arguments."""
        flags = Flags(NAME, arguments, _DEFAULTS, strict=strict)
        return cls({flags.text(role): role for role in reversed(_ROLES)}, flags.port("port"))

    def mutate(self, job: Wanted, task: Task, index: int, pod: JSON) -> None:
        """Add the variable to every container."""
        if len(job.tasks) == 1 and job.tasks[0].replicas == 1:
            return
        value = json.dumps(self._config(job, task, index), separators=(",", ":"))
        for container in containers(pod, init=False):
            add_env(container, {"name": "TF_CONFIG", "value": value})

    def _config(self, job: Wanted, task: Task, index: int) -> JSON:
        addresses = {
            self.roles[one.name]: [f"{host(job, one, number)}:{self.port}" for number in range(one.replicas)]
            for one in job.tasks
            if one.name in self.roles and one.replicas
        }
        cluster = {role: addresses[role] for role in _ROLES if role in addresses}
        return {"cluster": cluster, "task": {"type": self.roles.get(task.name, task.name), "index": index}}
