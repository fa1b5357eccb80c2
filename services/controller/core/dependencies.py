"""Tasks that wait for others (``dependsOn``), and what their waiting means for the gang.

As in Volcano a task's pods are made once enough pods of the tasks it depends on run with all containers
ready, or have succeeded: each dependency's own minimum of them; of several names all must be so, or one
with ``iteration: any``. A task that has started stays when its dependency falters; only what it lacks then
has to wait.

Unlike in Volcano, a task that waits is no part of its gang's demand: there, the first task waits for
room for the second, which waits for the first, unless the gang plugin is turned off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from services.controller.core.model import Task, Wanted
from services.controller.core.podview import PodView

_ANY: Final = "any"
_NONE: Final[frozenset[str]] = frozenset()


def waiting_tasks(wanted: Wanted, pods: Iterable[PodView], generation: int) -> frozenset[str]:
    """Return the tasks whose dependencies are not ready."""
    if not wanted.in_order:
        return _NONE
    ready = Counter(
        pod.task
        for pod in pods
        if pod.generation == generation and not pod.deleting and (pod.ready or pod.phase == "Succeeded")
    )
    tasks = {task.name: task for task in wanted.tasks}
    return frozenset(task.name for task in wanted.tasks if not _may_start(task, tasks, ready))


def _may_start(task: Task, tasks: Mapping[str, Task], ready: Mapping[str, int]) -> bool:
    names = task.depends_on
    found = [name in tasks and ready.get(name, 0) >= tasks[name].minimum for name in names]
    iteration = task.spec.depends_on.iteration if task.spec.depends_on else ""
    return any(found) if len(found) > 1 and iteration == _ANY else all(found)


def to_come(wanted: Wanted, pods: Collection[PodView], generation: int) -> frozenset[str]:
    """Return the tasks which wait, and those which no longer have to but have no pod on a node yet."""
    if not wanted.in_order:
        return _NONE
    placed = {pod.task for pod in pods if pod.generation == generation and pod.node and not pod.deleting}
    fresh = {task.name for task in wanted.tasks if task.depends_on and task.name not in placed}
    return waiting_tasks(wanted, pods, generation) | fresh


def minimums(wanted: Wanted, waiting: Collection[str], there: Mapping[str, int]) -> dict[str, int]:
    """Return how many pods each task must have; of those which wait, what is ``there`` counts at most."""
    return {
        task.name: min(task.minimum, there.get(task.name, 0)) if task.name in waiting else task.minimum
        for task in wanted.tasks
    }


def gang_minimum(wanted: Wanted, waiting: Collection[str], there: Mapping[str, int]) -> int:
    """Return how many pods the gang must have: the job's minimum, less what cannot be there yet."""
    if not waiting:
        return wanted.min_available
    return min(wanted.min_available, sum(minimums(wanted, waiting, there).values()))


def dependency_problem(wanted: Wanted) -> str | None:
    """Return why the tasks' order makes no sense: an unknown name, or a circle."""
    names = {task.name for task in wanted.tasks}
    for index, task in enumerate(wanted.tasks):
        unknown = [name for name in task.depends_on if name not in names]
        if unknown:
            return f"spec.tasks[{index}].dependsOn.name: there is no task {unknown[0]}"
    left = {task.name: set(task.depends_on) for task in wanted.tasks}
    while left:
        free = {name for name, before in left.items() if not before & left.keys()}
        if not free:
            return f"spec.tasks: {', '.join(sorted(left))} wait for each other"
        left = {name: before for name, before in left.items() if name not in free}
    return None
