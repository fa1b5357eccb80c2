"""Which tasks of a gang should be on the same nodes: Volcano's annotations of Jobs and PodGroups.

Sets of tasks are separated by semicolons, tasks in a set by commas: ``ps,worker;chief``. If one of the
annotations names a task that is not there, or twice in a set, none of them holds, as in Volcano.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from shared.api import names
from shared.events.contracts import TaskTopology

_SETS = (names.TASK_TOPOLOGY_AFFINITY, names.TASK_TOPOLOGY_ANTI_AFFINITY)


def task_topology(annotations: Mapping[str, str], tasks: Collection[str]) -> TaskTopology | None:
    """Return what the annotations wish; None for nothing, and where ``topology_problem`` finds one."""
    if topology_problem(annotations, tasks) is not None:
        return None
    near, apart = (_sets(annotations.get(name, "")) for name in _SETS)
    order = _names(annotations.get(names.TASK_TOPOLOGY_TASK_ORDER, ""))
    return TaskTopology(affinity=near, anti_affinity=apart, order=order) if near or apart else None


def topology_problem(annotations: Mapping[str, str], tasks: Collection[str]) -> str | None:
    """Return what is wrong with the annotations: a line that names the one."""
    for name in _SETS:
        for some in _sets(annotations.get(name, "")):
            if wrong := _wrong(some, tasks):
                return f"{name}: {wrong}"
    wrong = _wrong(_names(annotations.get(names.TASK_TOPOLOGY_TASK_ORDER, "")), tasks)
    return f"{names.TASK_TOPOLOGY_TASK_ORDER}: {wrong}" if wrong else None


def _wrong(some: Iterable[str], tasks: Collection[str]) -> str | None:
    seen: set[str] = set()
    for task in some:
        if task not in tasks:
            return f"there is no task {task}"
        if task in seen:
            return f"task {task} is there twice"
        seen.add(task)
    return None


def _sets(text: str) -> tuple[tuple[str, ...], ...]:
    return tuple(some for part in text.split(";") if (some := _names(part)))


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for part in text.split(",") if (name := part.strip()))
