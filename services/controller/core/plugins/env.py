"""env: each pod's index in its task, as a variable."""

from __future__ import annotations

from collections.abc import Sequence

from services.controller.core.model import JSON, Task, Wanted
from services.controller.core.plugins.base import Pods, add_env, containers


class Env(Pods):
    """``VK_TASK_INDEX`` and ``VC_TASK_INDEX``. Arguments mean nothing to it, as in Volcano."""

    @classmethod
    def read(cls, arguments: Sequence[str], *, strict: bool = True) -> Env:
        """Return the plugin."""
        del arguments, strict
        return cls()

    def mutate(self, job: Wanted, task: Task, index: int, pod: JSON) -> None:
        """Add the variables to every container and init container."""
        del job, task
        for container in containers(pod):
            add_env(container, *({"name": f"{v}_TASK_INDEX", "value": str(index)} for v in ("VK", "VC")))
