"""What a job's status remembers besides Volcano's fields, under keys of ``controlledResources``.

An eviction, an unknown gang and a change of scale leave no object that would say since when; a restart of
some pods must know its targets after a crash. These are written with the status, before anything else is
done, so that the controller needs no memory of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from services.controller.core.model import Wanted
from services.controller.core.podview import PodView
from shared.api.batch import JobEvent
from shared.api.meta import format_time

COMMANDS: Final = "pumice.dev/commands"
"""Ids of the last commands, so that none is obeyed twice."""
HAPPENED: Final = "pumice.dev/happened"
"""What a timed policy waits about: ``event@time@pod``, joined by commas."""
RESTARTING: Final = "pumice.dev/restarting"
"""What a restart of some pods is about: ``task/name``, ``pod/name``, ``partition/task/number``."""
_MARKED: Final = frozenset({JobEvent.POD_EVICTED, JobEvent.UNKNOWN, JobEvent.JOB_UPDATED})
_COMMANDS_KEPT: Final = 16
_MARKS_KEPT: Final = 64
"""The first ones: what came later is due later, and one order mostly answers all."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at a time; ``pod`` is the one it happened to."""

    event: JobEvent
    at: str
    pod: str = ""


def read_marks(controlled: Mapping[str, str]) -> tuple[Mark, ...]:
    """Return the marks of a status; what cannot be read is no mark."""
    found: list[Mark] = []
    for text in controlled.get(HAPPENED, "").split(","):
        event, _, rest = text.partition("@")
        at, _, pod = rest.partition("@")
        if event in _MARKED:
            found.append(Mark(JobEvent(event), at, pod))
    return tuple(found)


def with_marks(controlled: Mapping[str, str], marks: Iterable[Mark]) -> dict[str, str]:
    """Return ``controlled`` with these marks."""
    text = ",".join(f"{mark.event}@{mark.at}@{mark.pod}" for mark in list(marks)[:_MARKS_KEPT])
    return _with(controlled, HAPPENED, text)


def mark(event: JobEvent, now: datetime, pod: str = "") -> Mark:
    """Return a mark that is made now."""
    return Mark(event, format_time(now, micro=True), pod)


def read_targets(controlled: Mapping[str, str]) -> tuple[str, ...]:
    """Return what a restart is about."""
    return tuple(text for text in controlled.get(RESTARTING, "").split(",") if text)


def with_targets(controlled: Mapping[str, str], targets: Iterable[str]) -> dict[str, str]:
    """Return ``controlled`` with these targets."""
    return _with(controlled, RESTARTING, ",".join(dict.fromkeys(targets)))


def is_target(wanted: Wanted, pod: PodView, targets: Iterable[str]) -> bool:
    """Say whether a pod is among the targets of a restart."""
    names = {f"task/{pod.task}", f"pod/{pod.name}"}
    task = wanted.task(pod.task)
    partition = None if task is None else task.partition(pod.index)
    if partition is not None:
        names.add(f"partition/{pod.task}/{partition}")
    return not names.isdisjoint(targets)


def knows_command(controlled: Mapping[str, str], command: str) -> bool:
    """Say whether a command was obeyed already."""
    return command in controlled.get(COMMANDS, "").split(",")


def with_command(controlled: Mapping[str, str], command: str) -> dict[str, str]:
    """Return ``controlled`` with one more command, without the oldest."""
    known = [one for one in controlled.get(COMMANDS, "").split(",") if one]
    return _with(controlled, COMMANDS, ",".join([*known, command][-_COMMANDS_KEPT:]))


def _with(controlled: Mapping[str, str], key: str, text: str) -> dict[str, str]:
    rest = {name: value for name, value in controlled.items() if name != key}
    return {**rest, key: text} if text else rest
