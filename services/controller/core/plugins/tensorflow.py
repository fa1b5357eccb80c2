"""tensorflow: the cluster and a pod's place in it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from services.controller.core.model import JSON, Task, Wanted
from services.controller.core.plugins.arguments import Flags, Value
from services.controller.core.plugins.base import Pods, add_env, containers

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
        place = _json({"type": self.roles.get(task.name, task.name), "index": index})
        value = f'{{"cluster":{self._cluster(job)},"task":{place}}}'
        for container in containers(pod, init=False):
            add_env(container, {"name": "TF_CONFIG", "value": value})

    def _cluster(self, job: Wanted) -> str:
        members = {self.roles[one.name]: one for one in job.tasks if one.name in self.roles and one.replicas}
        hosts = [
            (role, *_host_pattern(job, members[role]), members[role].replicas)
            for role in _ROLES
            if role in members
        ]
        return _cluster_text(tuple(hosts), self.port)


def _host_pattern(job: Wanted, task: Task) -> tuple[str, str]:
    """Return what is before and after the index in the names of a task's hosts; no index: one for all."""
    spec = task.spec.template.spec
    domain = f".{spec.subdomain or job.name}"
    return (f"{spec.hostname}{domain}", "") if spec.hostname else (f"{job.name}-{task.name}-", domain)


@lru_cache(maxsize=64)
def _cluster_text(roles: tuple[tuple[str, str, str, int], ...], port: int) -> str:
    """Return the cluster as JSON; the same for all pods of a job, which may be many."""
    found = {
        role: [f"{before}{index if after else ''}{after}:{port}" for index in range(count)]
        for role, before, after, count in roles
    }
    return _json(found)


def _json(value: JSON) -> str:
    return json.dumps(value, separators=(",", ":"))
