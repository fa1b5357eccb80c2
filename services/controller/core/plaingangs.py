"""The gang of a PodGroup whose pods exist and are somebody else's, as the scheduler is told.

A task has one shape; pods that name the same task, or none, need not (a driver and its executors): those
of another shape make another task.

The members are its living pods. Those that succeeded count for the minimums and are left out, as in
Volcano, where they count as ready; failed ones and those being deleted do not count.

``minResources`` is what its maker says that it will need in all: a Spark driver asks for its executors
only when it runs. Of a group that was made here it is what the minimum of pods needs, and adds nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from services.controller.core.gangs import DEFAULT_POOL, run_seconds, waiting_limit
from services.controller.core.grouping import group_by_labels, sub_groups, topology_of
from services.controller.core.jobbudgets import job_budget
from services.controller.core.members import PREFIX, MemberPod
from services.controller.core.model import JSON, GroupView, Priorities, read_group
from services.controller.core.shapes import is_true
from services.controller.core.tasktopology import task_topology
from shared.api import names
from shared.api.podspec import resource_list
from shared.api.scheduling import PodGroup, SubGroupPolicySpec
from shared.events.contracts import Gang, GangTask, Member, NetworkTopology, Resources, Shape

UNNAMED: Final = "pods"
"""The task of pods that name none."""
_QUOTAS: Final = ("requests.", "limits.", "count/")
"""Names of resource quotas: the same amounts again, or what no node has."""
ShapeOf = Callable[[JSON], Shape | None]
"""None for a pod that cannot be read: the gang is decided without it."""
_Shaped = tuple[MemberPod, Shape]


@dataclass(frozen=True, slots=True)
class PlainGroup:
    """A PodGroup that no Volcano Job owns."""

    view: GroupView
    namespace: str
    queue: str
    minimum: int
    task_minimums: Mapping[str, int]
    min_resources: Resources
    priority_class: str
    annotations: Mapping[str, str]
    topology: NetworkTopology | None = None
    policies: Sequence[SubGroupPolicySpec] = ()
    """How its pods are split into groups."""

    @property
    def adopted(self) -> bool:
        """Whether it was made for pods that had none, here or by Volcano."""
        return self.view.name.startswith(PREFIX)

    @property
    def strict_tasks(self) -> bool:
        """Whether the tasks' minimums bind: as in Volcano only where the group's covers their sum."""
        return self.minimum >= sum(self.task_minimums.values())

    def reached(self, tasks: Sequence[str]) -> bool:
        """Say whether placed pods, given by the task of each, are enough to run."""
        if len(tasks) < self.minimum:
            return False
        counts = Counter(tasks)
        return not self.strict_tasks or all(counts[name] >= n for name, n in self.task_minimums.items())


def read_plain_group(raw: JSON) -> PlainGroup:
    """Read a PodGroup. Raises pydantic's ValidationError when its types are wrong, and QuantityError."""
    spec = PodGroup.model_validate(raw).spec
    asked = {} if raw["metadata"]["name"].startswith(PREFIX) else spec.min_resources or {}
    return PlainGroup(
        view=read_group(raw),
        namespace=raw["metadata"]["namespace"],
        queue=spec.queue or names.DEFAULT_QUEUE,
        minimum=max(0, spec.min_member),
        task_minimums={name or UNNAMED: count for name, count in spec.min_task_member.items() if count > 0},
        min_resources=resource_list({name: q for name, q in asked.items() if not name.startswith(_QUOTAS)}),
        priority_class=spec.priority_class_name,
        annotations=raw["metadata"].get("annotations") or {},
        topology=topology_of(spec.network_topology),
        policies=spec.sub_group_policy,
    )


def task_of(pod: MemberPod) -> str:
    """Return the task that a pod names, or the one of those that name none."""
    return pod.view.task or UNNAMED


def plain_gang(
    group: PlainGroup, pods: Sequence[MemberPod], priorities: Priorities, shape_of: ShapeOf
) -> Gang | None:
    """Return the gang; None when the group is being deleted."""
    if group.view.deleting:
        return None
    living = sorted((pod for pod in pods if pod.living), key=lambda pod: pod.created)
    by_task: dict[str, list[_Shaped]] = {name: [] for name in sorted(group.task_minimums)}
    for pod in living:
        shape = shape_of(pod.raw)
        if shape is not None:
            by_task.setdefault(task_of(pod), []).append((pod, shape))
    done = Counter(task_of(pod) for pod in pods if pod.view.phase == "Succeeded" and not pod.view.deleting)
    tasks = tuple(
        task
        for name, members in by_task.items()
        for task in _tasks(group, name, members, _still_needed(group, name, done[name]))
    )
    return Gang(
        namespace=group.namespace,
        name=group.view.name,
        uid=group.view.uid,
        pool=_pool(group, living),
        queue=group.queue,
        priority=_priority(group, tasks, priorities),
        priority_class=group.priority_class,
        min_member=max(0, group.minimum - done.total()),
        min_resources=dict(sorted(group.min_resources.items())),
        waiting_limit_seconds=waiting_limit(group.annotations),
        run_seconds=run_seconds(
            group.annotations, ((pod.raw.get("spec") or {}).get("activeDeadlineSeconds") for pod in living)
        ),
        template=group.annotations.get(names.TEMPLATE, ""),
        tasks=tasks,
        topology=group.topology,
        sub_groups=sub_groups(group.policies),
        preemptable=is_true(group.annotations.get(names.PREEMPTABLE, "")),
        budget=job_budget(group.annotations, len(living)),
        task_topology=task_topology(group.annotations, by_task),
        created_at=group.view.ready_since,
        ready_since=group.view.ready_since,
    )


def _still_needed(group: PlainGroup, task: str, done: int) -> int:
    return max(0, group.task_minimums.get(task, 0) - done) if group.strict_tasks else 0


def _tasks(group: PlainGroup, name: str, members: Sequence[_Shaped], minimum: int) -> Iterator[GangTask]:
    """Yield a task for each shape; the oldest members are those that the minimum asks for."""
    by_shape: dict[str, tuple[Shape, list[MemberPod]]] = {} if members else {"": (Shape(), [])}
    texts: dict[int, str] = {}
    """By identity: pods of one template share their shape, and it is compared once."""
    needed: Counter[str] = Counter()
    for position, (pod, shape) in enumerate(members):
        text = texts.get(id(shape)) or texts.setdefault(id(shape), shape.model_dump_json())
        by_shape.setdefault(text, (shape, []))[1].append(pod)
        needed[text] += position < minimum
    needed[next(iter(by_shape))] += max(0, minimum - len(members))
    for number, (text, (shape, pods)) in enumerate(by_shape.items()):
        yield GangTask(
            name=name if number == 0 else f"{name}.{number}",
            shape=shape,
            members=tuple(_member(group, pod) for pod in pods),
            minimum=needed[text],
        )


def _member(group: PlainGroup, pod: MemberPod) -> Member:
    labels = pod.raw["metadata"].get("labels") or {}
    which = group_by_labels(group.policies, labels) if group.policies else ""
    return Member(pod=pod.view.name, index=pod.view.index, group=which)


def _priority(group: PlainGroup, tasks: Sequence[GangTask], priorities: Priorities) -> int:
    if group.priority_class:
        return priorities.of(group.priority_class)
    return max((task.shape.priority for task in tasks if task.members), default=priorities.default)


def _pool(group: PlainGroup, living: Sequence[MemberPod]) -> str:
    """Return the group's node pool: its annotation's, else the node selector's of its oldest pod."""
    selected = None
    if living:
        selected = ((living[0].raw.get("spec") or {}).get("nodeSelector") or {}).get(names.NODE_POOL)
    return group.annotations.get(names.NODE_POOL) or selected or DEFAULT_POOL


def ready_to_decide(gang: Gang, pods: Sequence[MemberPod]) -> bool:
    """Say whether enough members are there and some of them wait."""
    members = sum(len(task.members) for task in gang.tasks)
    enough = members >= gang.min_member and all(len(task.members) >= task.minimum for task in gang.tasks)
    return enough and any(pod.waits and not pod.gated for pod in pods)
