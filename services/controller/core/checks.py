"""Jobs that did not pass admission (kubectl without webhooks): what keeps one from being run.

The full rules are the admission service's; here are only those without which no PodGroup or pod could be
made sensibly. And what a job asks for that this version does not do, so that it is said.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from typing import Final

from services.controller.core.dependencies import dependency_problem
from services.controller.core.jobbudgets import budget_problem
from services.controller.core.model import JSON, Priorities, Wanted
from services.controller.core.numa import NUMA_AWARE, may_heed
from services.controller.core.podgroups import quota_usage
from services.controller.core.policies import bad_timeout
from services.controller.core.shapes import shape_of
from services.controller.core.tasktopology import topology_problem
from shared.api import names
from shared.api.batch import MOST_PODS, TopologyPolicy
from shared.api.duration import parse_duration

_TIMES: Final = (names.SLA_WAITING_TIME, names.SHORT_SLA_WAITING_TIME, names.COOLDOWN_TIME, names.RUN_TIME)
_MOST_WORDS: Final = 1000
"""Characters of a problem: it may quote a name of any length, and is written into the job's status."""


def problem(
    wanted: Wanted,
    queues: Mapping[tuple[str, str], JSON],
    schedulers: Collection[str],
    priorities: Priorities,
) -> str | None:
    """Return why the job cannot be run; None when it can. It is looked at again when things change."""
    found = _problem(wanted, queues, schedulers, priorities)
    return found and found[:_MOST_WORDS]


def _problem(
    wanted: Wanted,
    queues: Mapping[tuple[str, str], JSON],
    schedulers: Collection[str],
    priorities: Priorities,
) -> str | None:
    if not wanted.tasks:
        return "spec.tasks: a job needs at least one task"
    if wanted.scheduler not in schedulers:
        return f"spec.schedulerName: {wanted.scheduler} is not served here, but {', '.join(schedulers)}"
    duplicates = len({task.name for task in wanted.tasks}) < len(wanted.tasks)
    if duplicates:
        return "spec.tasks: two tasks have the same name"
    return (
        _size_problem(wanted)
        or _queue_problem(wanted, queues.get(("", wanted.queue)))
        or dependency_problem(wanted)
        or _policy_problem(wanted)
        or _template_problem(wanted)
        or _priority_problem(wanted, priorities)
    )


def _size_problem(wanted: Wanted) -> str | None:
    """Return why the job has too many pods, or no number of them is its minimum."""
    minimum, pods = wanted.min_available, wanted.replicas
    if pods > MOST_PODS:
        return f"spec.tasks: more than {MOST_PODS} pods in all; a job has at most so many"
    if minimum < 0:
        return f"spec.minAvailable: {minimum} is below 0"
    return (
        f"spec.minAvailable: {minimum} is more than the {pods} pods of all tasks" if minimum > pods else None
    )


def _policy_problem(wanted: Wanted) -> str | None:
    """Return which timeout of a policy cannot be read: its order would never be given."""
    levels = [("spec", wanted.policies)]
    levels += [(f"spec.tasks[{i}]", tuple(task.spec.policies)) for i, task in enumerate(wanted.tasks)]
    for path, policies in levels:
        for index, policy in enumerate(policies):
            wrong = bad_timeout(policy)
            if wrong is not None:
                return f"{path}.policies[{index}].timeout: {wrong}"
    return None


def _template_problem(wanted: Wanted) -> str | None:
    """Return what in a template the scheduler could not be told."""
    for index, task in enumerate(wanted.tasks):
        try:
            shape_of(task.spec.template.spec, {}, Priorities())
            quota_usage(task.spec.template.spec)
        except ValueError as error:
            return f"spec.tasks[{index}].template: {' '.join(str(error).split())[:300]}"
    return None


def _priority_problem(wanted: Wanted, priorities: Priorities) -> str | None:
    """Return which priority class is not there: the API server would refuse every pod."""
    named = {"spec": wanted.priority_class} | {
        f"spec.tasks[{index}].template.spec": task.spec.template.spec.priority_class_name
        for index, task in enumerate(wanted.tasks)
    }
    for path, name in named.items():
        if name and name not in priorities.values:
            return f"{path}.priorityClassName: there is no priority class {name}"
    return None


def _queue_problem(wanted: Wanted, queue: JSON | None) -> str | None:
    if queue is None:
        return f"spec.queue: there is no queue {wanted.queue}"
    if wanted.queue == names.ROOT_QUEUE:
        return "spec.queue: root holds other queues, not jobs"
    state = (queue.get("status") or {}).get("state") or "Open"
    if state != "Open":
        return f"spec.queue: queue {wanted.queue} is {state.lower()}"
    return None


def not_applied(wanted: Wanted, policy: str = "") -> tuple[str, ...]:
    """Return what the job asks for and does not get; ``policy`` is the text of the scheduler's."""
    found: list[str] = []
    asks = any(task.spec.topology_policy not in ("", TopologyPolicy.NONE) for task in wanted.tasks)
    if asks and not may_heed(policy):
        found.append(f"topologyPolicy of tasks: the scheduler's policy does not name {NUMA_AWARE}")
    if any(names.VGPU_PODGROUP_POLICY in task.spec.template.metadata.annotations for task in wanted.tasks):
        found.append(f"annotation {names.VGPU_PODGROUP_POLICY} of pods")
    problems = (
        topology_problem(wanted.annotations, {task.name for task in wanted.tasks}),
        budget_problem(wanted.annotations),
    )
    return (*found, *(one for one in problems if one is not None), *_no_times(wanted))


def _no_times(wanted: Wanted) -> Iterable[str]:
    """Yield the annotations that should be times and are none: nothing is done by them."""
    marks = {f"annotation {key}": wanted.annotations.get(key, "") for key in _TIMES}
    for task in wanted.tasks:
        text = task.spec.template.metadata.annotations.get(names.COOLDOWN_TIME, "")
        marks[f"annotation {names.COOLDOWN_TIME} of task {task.name}"] = text
    for what, text in marks.items():
        try:
            found = parse_duration(text or "0")
        except ValueError as error:
            yield f"{what}: {error}"
        else:
            if found < timedelta(0):
                yield f"{what}: {text} is less than nothing"
