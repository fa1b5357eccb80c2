"""All job plugins by name, and what a job's plugins do together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, Protocol

from services.controller.core.dependents import Dependent
from services.controller.core.model import JSON, Task, Wanted
from services.controller.core.plugins import env, hcclrank, mpi, pytorch, ray, ssh, svc, tensorflow
from services.controller.core.plugins.arguments import PluginError
from services.controller.core.plugins.base import Plugin


class Reader(Protocol):
    """Makes a plugin from its arguments; if ``strict``, raises PluginError for wrong ones."""

    def __call__(self, arguments: Sequence[str], *, strict: bool) -> Plugin:
        """Return the plugin."""
        ...


REGISTRY: Final[Mapping[str, Reader]] = MappingProxyType(
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


def check(job: Wanted) -> None:
    """Raise PluginError when a plugin does not exist, or cannot do its part for this job."""
    unknown = next((name for name in _asked(job) if name not in REGISTRY), None)
    if unknown is not None:
        raise PluginError(f"spec.plugins[{unknown}]: there is no such plugin")
    for plugin in _plugins(job, strict=True):
        plugin.check(job)


def objects(job: Wanted) -> list[Dependent]:
    """Return the objects that a job's plugins need."""
    return [one for plugin in _plugins(job) for one in plugin.objects(job)]


def mutate(job: Wanted, task: Task, index: int, pod: JSON) -> None:
    """Have a job's plugins change a pod that is about to be created."""
    for plugin in _plugins(job):
        plugin.mutate(job, task, index, pod)


def _plugins(job: Wanted, *, strict: bool = False) -> list[Plugin]:
    asked = _asked(job)
    return [read(asked[name] or (), strict=strict) for name, read in REGISTRY.items() if name in asked]


def _asked(job: Wanted) -> Mapping[str, Sequence[str] | None]:
    return job.spec.get("plugins") or {}
