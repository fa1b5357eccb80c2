"""Whether what a flow waits for holds: completed targets, or probes of them.

Volcano never read probes. Their meaning here: a probe is of a task (of every task, when it names none) of
every target, and holds when at least the task's ``minAvailable`` pods pass it, as a task's own
``dependsOn`` counts. A target that is complete passes every request, and ``Running`` includes pods which
have run: what was true once must not keep a flow waiting for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from services.workflows.core.model import JobView
from shared.api.batch import JobPhase
from shared.api.flow import HttpGet, Probe, TaskStatus, TcpSocket

DEFAULT_HTTP_PORT: Final = 80
_HAVE_RUN: Final = {"Running": ("Running", "Succeeded"), "Completed": ("Succeeded",)}


@dataclass(frozen=True, slots=True)
class Check:
    """Something to be asked of each pod of a task: an HTTP request, or (``path`` is None) a connection."""

    namespace: str
    job: str
    task: str
    port: int
    path: str | None = None
    header: tuple[str, str] | None = None


Answers = Mapping[Check, int]
"""How many pods passed a check."""
Ask = Callable[[Check], int]
"""Returns how many pods passed, and remembers what was asked."""


def holds(probe: Probe, job: JobView, ask: Ask) -> bool:
    """Say whether every part of a probe holds for one target. Asks all, so that one round suffices."""
    parts = [_answers(one, job, ask) for one in probe.http_get_list]
    parts += [_answers(one, job, ask) for one in probe.tcp_socket_list]
    parts += [_reached(one, job) for one in probe.task_status_list]
    return all(parts)


def _answers(part: HttpGet | TcpSocket, job: JobView, ask: Ask) -> bool:
    if job.phase == JobPhase.COMPLETED:
        return True
    results = [ask(_check(part, job, task)) >= minimum for task, minimum in _tasks(part.task_name, job)]
    return bool(results) and all(results)


def _check(part: HttpGet | TcpSocket, job: JobView, task: str) -> Check:
    if isinstance(part, TcpSocket):
        return Check(job.namespace, job.name, task, part.port)
    header = part.http_header  # clients in Go write one without a name where none is wanted
    return Check(
        job.namespace,
        job.name,
        task,
        part.port or DEFAULT_HTTP_PORT,
        f"/{part.path.removeprefix('/')}",
        (header.name, header.value) if header is not None and header.name else None,
    )


def _reached(part: TaskStatus, job: JobView) -> bool:
    phases = _HAVE_RUN.get(part.phase, (part.phase,))
    results = [
        sum(job.counts.get(task, {}).get(phase, 0) for phase in phases) >= minimum
        for task, minimum in _tasks(part.task_name, job)
    ]
    return bool(results) and all(results)


def _tasks(name: str, job: JobView) -> Iterator[tuple[str, int]]:
    """Yield the tasks that a probe is of and their minimums; a task that is not there never passes."""
    return ((task, minimum) for task, minimum in job.minimums.items() if not name or task == name)
