"""What has happened to a job, as its policies see it.

Only what some policy could answer is looked for. Pods of other generations and pods that an order has
chosen say nothing: late news of an earlier run sets nothing off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from services.controller.core.marks import Mark
from services.controller.core.model import Task, Wanted
from services.controller.core.podview import PodView
from shared.api.batch import JobEvent


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that a policy may answer. ``pod`` is the one it happened to, ``since`` when."""

    event: JobEvent
    task: str = ""
    pod: str = ""
    index: int | None = None
    exit_code: int | None = None
    since: str = ""
    """As the API server writes times; empty: now."""


def of_pods(wanted: Wanted, present: Sequence[PodView]) -> Iterator[Happening]:
    """Yield what the pods that are there say; they are of this generation, and none of them is leaving."""
    pending = _some_policy_names(wanted, JobEvent.POD_PENDING)
    for pod in present:
        if pod.phase == "Failed":
            yield _happened(JobEvent.POD_FAILED, pod, pod.ended or pod.created, pod.exit_code)
        elif pending and pod.phase == "Pending":
            yield _happened(JobEvent.POD_PENDING, pod, pod.created)
    by_task: dict[str, list[PodView]] = {}
    for pod in present:
        by_task.setdefault(pod.task, []).append(pod)
    for task in wanted.tasks:
        found = _of_task(task, by_task.get(task.name, []))
        if found is not None:
            yield found


def of_lost(wanted: Wanted, lost: Sequence[PodView], generation: int) -> Iterator[Happening]:
    """Yield the evictions among pods that somebody else took away."""
    if not lost:
        return
    members = wanted.members()
    for pod in lost:
        if pod.generation == generation and not pod.out_of_sync and pod.name in members:
            yield _happened(JobEvent.POD_EVICTED, pod, "")


def of_marks(wanted: Wanted, marks: Sequence[Mark]) -> Iterator[Happening]:
    """Yield what the status remembers."""
    members = wanted.members() if marks else {}
    for mark in marks:
        task, index = members.get(mark.pod, (None, None))
        if task is not None or not mark.pod:
            yield Happening(mark.event, task.name if task else "", mark.pod, index, since=mark.at)


def _of_task(task: Task, own: Sequence[PodView]) -> Happening | None:
    done = [pod for pod in own if pod.phase == "Succeeded"]
    if task.replicas and len(done) >= task.replicas:
        last = max(done, key=lambda pod: pod.ended)
        return _happened(JobEvent.TASK_COMPLETED, last, last.ended or last.created)
    alive = [pod for pod in own if not pod.finished]
    if task.replicas and alive and sum(pod.restarts for pod in alive) >= task.max_retry:
        worst = max(alive, key=lambda pod: pod.restarts)
        return _happened(JobEvent.TASK_FAILED, worst, max(pod.restarted for pod in alive) or worst.created)
    return None


def _happened(event: JobEvent, pod: PodView, since: str, exit_code: int | None = None) -> Happening:
    return Happening(event, pod.task, pod.name, pod.index, exit_code, since)


def _some_policy_names(wanted: Wanted, event: JobEvent) -> bool:
    return event in wanted.answered or JobEvent.ANY in wanted.answered
