"""hcclrank: a pod's rank for Huawei's collective communication library, as an annotation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from services.controller.core.model import JSON, Task, Wanted
from services.controller.core.plugins.arguments import Flags
from services.controller.core.plugins.base import Pods, containers, find_task

NAME: Final = "hcclrank"
ANNOTATION: Final = "hccl/rankIndex"


@dataclass(frozen=True, slots=True)
class HcclRank(Pods):
    """The rank: the template's own, else variable ``RANK``, else counted over master and workers."""

    master: str
    worker: str

    @classmethod
    def read(cls, arguments: Sequence[str], *, strict: bool = True) -> HcclRank:
        """Read the arguments."""
        flags = Flags(NAME, arguments, {"master": "master", "worker": "worker"}, strict=strict)
        return cls(flags.text("master"), flags.text("worker"))

    def mutate(self, job: Wanted, task: Task, index: int, pod: JSON) -> None:
        """Add the annotation; pods of other tasks without a ``RANK`` get none."""
        annotations = pod["metadata"]["annotations"]
        if annotations.get(ANNOTATION):
            return
        if rank := _rank_variable(pod):
            annotations[ANNOTATION] = rank
        elif task.name == self.master:
            annotations[ANNOTATION] = str(index)
        elif task.name == self.worker:
            masters = find_task(job, self.master)
            annotations[ANNOTATION] = str(index + (masters.replicas if masters else 0))


def _rank_variable(pod: JSON) -> str:
    for container in containers(pod, init=False):
        for variable in container.get("env") or ():
            if variable.get("name") == "RANK":
                return variable.get("value") or ""
    return ""
