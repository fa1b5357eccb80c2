"""The gang of a job: what should run together, as the scheduler is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from services.controller.core.claiming import ClaimsOf, completed, no_claims
from services.controller.core.dependencies import gang_minimum, minimums, waiting_tasks
from services.controller.core.dryrun import read_shapes
from services.controller.core.grouping import job_topology, partition_name, partitions
from services.controller.core.jobbudgets import job_budget
from services.controller.core.kin import chosen
from services.controller.core.learning import template_of
from services.controller.core.lifecycle import LIVE
from services.controller.core.model import GroupView, Priorities, Task, Wanted
from services.controller.core.pods import placing_spec, pod_annotations, task_labels
from services.controller.core.podview import PodView
from services.controller.core.shapes import is_true, marks, shape_of
from services.controller.core.status import Status
from services.controller.core.tasktopology import task_topology
from shared.api import names
from shared.api.batch import JobPhase
from shared.api.duration import parse_duration
from shared.events.contracts import Gang, GangTask, Member, Shape

DEFAULT_POOL: Final = "default"


def gang_of(
    wanted: Wanted,
    status: Status,
    group: GroupView | None,
    priorities: Priorities,
    pods: Sequence[PodView] = (),
    label_keys: Collection[str] = (),
    claims: ClaimsOf = no_claims,
) -> Gang | None:
    """Return the gang of the job's present generation; None when it wants no pods or has no PodGroup.

    A member whose name an older pod still has is left out until that one is gone: it cannot be made yet.
    While members wait for a node, those that have ended are left out too, and count for the minimum.
    So are members of tasks that wait for others, with what they would count for it. ``label_keys`` are those
    of the labels that placing depends on; ``claims`` says what those of pods come to. Raises ValueError where
    a template, or what the PodGroup notes about it, cannot be read.
    """
    phase = status.phase or JobPhase.PENDING
    if wanted.deleting or phase not in LIVE or group is None or group.deleting or not wanted.tasks:
        return None
    if group.generation != status.generation:
        return None
    own = [pod for pod in pods if pod.generation == status.generation]
    ended = _ended(wanted, own)
    waiting = waiting_tasks(wanted, own, status.generation)
    there = Counter(pod.task for pod in own) if waiting else Counter[str]()
    least = minimums(wanted, waiting, there)
    out = ended | frozenset(pod.name for pod in pods if pod.generation != status.generation)
    if waiting:
        out |= _absent(wanted, waiting, own)
    shapes = _shapes(wanted, group, priorities, label_keys, claims)
    tasks = tuple(
        _task(wanted, task, shapes[task.name], least[task.name], out, ended) for task in wanted.tasks
    )
    return Gang(
        namespace=wanted.namespace,
        name=group.name,
        uid=group.uid,
        generation=status.generation,
        job=wanted.name,
        pool=_pool(wanted, tasks),
        queue=wanted.queue,
        priority=_priority(wanted, priorities, tasks),
        priority_class=wanted.priority_class,
        min_member=max(0, gang_minimum(wanted, waiting, there) - len(ended)),
        waiting_limit_seconds=waiting_limit(wanted.annotations),
        run_seconds=run_seconds(
            wanted.annotations,
            (task.spec.template.spec.active_deadline_seconds for task in wanted.tasks if task.replicas),
        ),
        template=template_of(wanted),
        tasks=tasks,
        topology=job_topology(wanted),
        sub_groups=partitions(wanted.tasks),
        preemptable=is_true(marks(wanted.labels, wanted.annotations).get(names.PREEMPTABLE, "")),
        budget=job_budget(wanted.annotations, wanted.replicas),
        task_topology=task_topology(wanted.annotations, {task.name for task in wanted.tasks}),
        created_at=wanted.created_at,
        ready_since=group.ready_since,
    )


def _ended(wanted: Wanted, own: Sequence[PodView]) -> frozenset[str]:
    """Return the pods that need no place any more; none, as long as all that do have one.

    (So that a gang of thousands is not told anew with each pod that ends.)
    """
    finished = frozenset(pod.name for pod in own if pod.finished)
    if not finished or sum(pod.node is not None for pod in own) >= wanted.replicas:
        return frozenset()
    return finished


def unplaced(gang: Gang, pods: Iterable[PodView]) -> frozenset[str]:
    """Return the gang's members that have no node yet."""
    placed = {pod.name for pod in pods if pod.node is not None and pod.generation == gang.generation}
    return frozenset(member.pod for task in gang.tasks for member in task.members if member.pod not in placed)


def waiting_limit(annotations: Mapping[str, str]) -> float | None:
    """Return for how many seconds a gang should wait at most; None when nothing readable says it."""
    text = annotations.get(names.SLA_WAITING_TIME) or annotations.get(names.SHORT_SLA_WAITING_TIME, "")
    return _seconds(text)


def run_seconds(annotations: Mapping[str, str], deadlines: Iterable[int | None]) -> float | None:
    """Return for how many seconds a gang runs at most: as annotated, else until the last pod's deadline.

    ``deadlines`` are those of its pods; None when one of them has none, as nothing then says when it ends.
    """
    declared = _seconds(annotations.get(names.RUN_TIME, ""))
    if declared is not None:
        return declared
    last = 0
    for seconds in deadlines:
        if seconds is None or seconds <= 0:
            return None
        last = max(last, seconds)
    return float(last) or None


def _seconds(text: str) -> float | None:
    """Read a duration; None for one that is unreadable or not positive."""
    try:
        seconds = parse_duration(text).total_seconds()
    except ValueError:
        return None
    return seconds if seconds > 0 else None


def reaches_minimum(wanted: Wanted, tasks: Sequence[str], waiting: Collection[str] = ()) -> bool:
    """Say whether placed pods, given by the task of each, are enough for the job and for each task.

    Of tasks that wait for others nothing more is asked than what is there.
    """
    counts = Counter(tasks)
    if len(tasks) < gang_minimum(wanted, waiting, counts):
        return False
    shared = wanted.task_minimums > wanted.min_available
    least = minimums(wanted, waiting, counts)
    return shared or all(counts[task.name] >= least[task.name] for task in wanted.tasks)


def complete_enough(gang: Gang) -> bool:
    """Say whether enough members can be made to reach the minimums."""
    return sum(len(task.members) for task in gang.tasks) >= gang.min_member and all(
        len(task.members) >= task.minimum for task in gang.tasks
    )


def _pool(wanted: Wanted, tasks: tuple[GangTask, ...]) -> str:
    """Return the job's node pool: its annotation's, else the node selector's of its first task."""
    selected = tasks[0].shape.node_selector.get(names.NODE_POOL)
    return wanted.annotations.get(names.NODE_POOL) or selected or DEFAULT_POOL


def _absent(wanted: Wanted, waiting: frozenset[str], own: Sequence[PodView]) -> frozenset[str]:
    """Return the members of waiting tasks that are not there."""
    there = {pod.name for pod in own}
    members = wanted.members().items()
    return frozenset(n for n, (task, _) in members if task.name in waiting and n not in there)


def _task(
    wanted: Wanted,
    task: Task,
    shape: Shape,
    least: int,
    out: frozenset[str],
    ended: frozenset[str],
) -> GangTask:
    pods = [(names.pod_name(wanted.name, task.name, index), index) for index in range(task.replicas)]
    done = sum(name in ended for name, _ in pods)
    # A task's own minimum counts only where the tasks' minimums together fit into the job's, as in Volcano.
    minimum = least if wanted.task_minimums <= wanted.min_available else 0
    return GangTask(
        name=task.name,
        shape=shape,
        members=tuple(
            Member(pod=name, index=index, group=partition_name(task, index))
            for name, index in pods
            if name not in out
        ),
        minimum=max(0, minimum - done),
    )


def _shapes(
    wanted: Wanted,
    group: GroupView,
    priorities: Priorities,
    label_keys: Collection[str],
    claims: ClaimsOf,
) -> dict[str, Shape]:
    """Return each task's shape: as its PodGroup notes it, else (it is of an older version) as written."""
    noted = read_shapes(group.shapes)
    shapes = {
        task.name: noted[task.name].shape_now(priorities)
        if task.name in noted
        else shape_of(
            placing_spec(wanted, task),
            marks(task_labels(wanted, task), pod_annotations(wanted, task)),
            priorities,
        )
        for task in wanted.tasks
    }
    if not label_keys and not any(shape.extras for shape in shapes.values()):
        return shapes
    return {
        task.name: completed(
            shapes[task.name],
            chosen(task_labels(wanted, task), label_keys),
            claims(wanted.namespace, shapes[task.name].extras),
        )
        for task in wanted.tasks
    }


def _priority(wanted: Wanted, priorities: Priorities, tasks: tuple[GangTask, ...]) -> int:
    if wanted.priority_class:
        return priorities.of(wanted.priority_class)
    return max((task.shape.priority for task in tasks), default=priorities.default)
