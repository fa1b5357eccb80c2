"""What the API server would make of a job's pods: asked before they exist, noted on their PodGroup.

A gang is announced before its pods are made, but defaults of the namespace, webhooks, runtime classes and
priority classes say with what a template becomes a pod. So one pod of each task is created in a dry run,
and what the answer says about placing is the task's shape. It stands in an annotation of the PodGroup, so
that the gang is a function of the objects alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from typing import Final

import orjson

from services.controller.core.claims import claims
from services.controller.core.lifecycle import OBEYING
from services.controller.core.model import JSON, GroupView, Priorities, Task, Wanted
from services.controller.core.plans import Plan, World
from services.controller.core.pods import inherited_labels, make_pod, pod_annotations
from services.controller.core.shapes import marks_of, priority_of, shape_of
from shared.api import names
from shared.api.pods import PodSpec
from shared.events.contracts import Shape

_SUFFIX: Final = "-dry-run"
_NOT_ABOUT_PLACING: Final = frozenset({"env", "envFrom", "command", "args"})
"""What differs between the jobs of a sweep; whoever admits a pod by it refuses the real one."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """What the API server would make of a task's pods, as far as their placing goes."""

    shape: Shape
    """Without the priority, which follows its class."""
    priority_class: str = ""

    def shape_now(self, priorities: Priorities) -> Shape:
        """Return the shape with the priority that its class has now; the same one, where that is the same."""
        now = priorities.of(self.priority_class)
        return self.shape if now == self.shape.priority else self.shape.model_copy(update={"priority": now})


def is_to_be_asked(world: World) -> bool:
    """Say whether the world's gang may be announced from its templates: its pods do not exist yet."""
    phase, group = world.status.phase, world.group
    lives = phase is None or phase in OBEYING
    return lives and not (world.problem or world.wanted.deleting or (group is not None and group.admitted))


def trial_pod(world: World, task: Task) -> JSON:
    """Return the pod that stands for all of a task; its name is nobody's."""
    pod = make_pod(world.wanted, world.status, task, 0)
    pod["metadata"]["name"] += _SUFFIX
    return pod


def template_digest(wanted: Wanted, task: Task, priorities: Priorities) -> str:
    """Return a digest of all that the answer depends on: the same for jobs of one kind.

    Names of jobs are no part of it, except those of the claims that are made for a job.
    """
    template = task.spec.template
    spec = dict((_as_written(wanted, task).get("template") or {}).get("spec") or {})
    for kind in ("containers", "initContainers"):
        if kind in spec:
            spec[kind] = [_without_program(one) for one in spec[kind] or ()]
    basis = [
        wanted.namespace,
        wanted.queue,
        wanted.scheduler,
        task.name,
        [dict(template.metadata.labels), inherited_labels(wanted, task, 0), pod_annotations(wanted, task)],
        [wanted.spec.get("plugins"), sorted(claims(wanted))],
        [template.spec.priority_class_name, priority_of(template.spec, priorities)],
        spec,
    ]
    return blake2b(orjson.dumps(basis, option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()


def _as_written(wanted: Wanted, task: Task) -> JSON:
    """Return the task as its author wrote it."""
    return next(one for one, read in zip(wanted.spec["tasks"], wanted.tasks, strict=True) if read is task)


def _without_program(container: JSON) -> JSON:
    return {key: value for key, value in container.items() if key not in _NOT_ABOUT_PLACING}


def read_admitted(pod: JSON, priorities: Priorities) -> Admitted:
    """Read the answer to a trial. Raises ValueError for one that cannot be read."""
    spec = PodSpec.model_validate(pod.get("spec") or {})
    shape = shape_of(spec, marks_of(pod), priorities)
    return Admitted(shape.model_copy(update={"priority": 0}), spec.priority_class_name)


def write_shapes(found: Mapping[str, Admitted]) -> str:
    """Return the text of the annotation; tasks with equal shapes share one."""
    shared: dict[bytes, JSON] = {}
    for task, one in found.items():
        shape = one.shape.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        entry: JSON = {"shape": shape, "priorityClass": one.priority_class}
        key = orjson.dumps(entry, option=orjson.OPT_SORT_KEYS)
        shared.setdefault(key, {"tasks": [], **entry})["tasks"].append(task)
    return orjson.dumps(list(shared.values())).decode()


@lru_cache(maxsize=4096)
def read_shapes(text: str) -> Mapping[str, Admitted]:
    """Return what an annotation says of each task; of tasks that it does not name, their template does.

    Jobs by the thousand have the same. Raises ValueError for a text that somebody else wrote.
    """
    if not text:
        return {}
    try:
        return {
            task: Admitted(Shape.model_validate(one["shape"]), str(one["priorityClass"]))
            for one in orjson.loads(text)
            for task in one["tasks"]
        }
    except (KeyError, TypeError) as error:
        raise ValueError(f"{names.SHAPES}: {error}") from error


def with_shapes(plan: Plan, group: GroupView | None, text: str) -> Plan:
    """Return the plan that has the PodGroup say what its pods will be."""
    if plan.make_group is not None:
        return replace(plan, make_group=_annotated(plan.make_group, text))
    if group is None or group.shapes == text or plan.drop_group:
        return plan
    return replace(plan, group_patch=_annotated(plan.group_patch or {}, text))


def tells_shapes(plan: Plan) -> bool:
    """Say whether a plan changes what a PodGroup says of its pods: that comes before they are announced."""
    metadata = (plan.group_patch or {}).get("metadata") or {}
    return names.SHAPES in (metadata.get("annotations") or {})


def _annotated(body: JSON, text: str) -> JSON:
    metadata = body.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), names.SHAPES: text}
    return {**body, "metadata": {**metadata, "annotations": annotations}}
