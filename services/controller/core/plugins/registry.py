"""All job plugins by name, and what a job's plugins do together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from services.controller.core.dependents import Dependent
from services.controller.core.model import JSON, Task, Wanted
from services.controller.core.plugins import env, hcclrank, mpi, pytorch, ray, ssh, svc, tensorflow
from services.controller.core.plugins.arguments import PluginError
from services.controller.core.plugins.base import Plugin

REGISTRY: Final[Mapping[str, Callable[[Sequence[str]], Plugin]]] = MappingProxyType(
    {
        "env": env.Env.read,
        svc.NAME: svc.Svc.read,
        ssh.NAME: ssh.Ssh.read,
        pytorch.NAME: pytorch.PyTorch.read,
        tensorflow.NAME: tensorflow.TensorFlow.read,
        mpi.NAME: mpi.Mpi.read,
        ray.NAME: ray.Ray.read,
        hcclrank.NAME: hcclrank.HcclRank.read,
    }
)
"""How each plugin is made from its arguments, in the order in which they change a pod.

(Volcano's order changes from pod to pod; here hcclrank always sees the ``RANK`` that pytorch gives.)
"""


def plugins_of(job: Wanted) -> list[Plugin]:
    """Return a job's plugins. Raises PluginError for a name or argument that means nothing."""
    asked = job.spec.get("plugins") or {}
    unknown = next((name for name in asked if name not in REGISTRY), None)
    if unknown is not None:
        raise PluginError(f"spec.plugins[{unknown}]: there is no such plugin")
    return [read(asked[name] or ()) for name, read in REGISTRY.items() if name in asked]


def check(job: Wanted) -> None:
    """Raise PluginError when a plugin cannot do its part for this job."""
    for plugin in plugins_of(job):
        plugin.check(job)


def objects(job: Wanted) -> list[Dependent]:
    """Return the objects that a job's plugins need. Raises PluginError."""
    return [one for plugin in plugins_of(job) for one in plugin.objects(job)]


def mutate(job: Wanted, task: Task, index: int, pod: JSON) -> None:
    """Have a job's plugins change a pod that is about to be created. Raises PluginError."""
    for plugin in plugins_of(job):
        plugin.mutate(job, task, index, pod)
