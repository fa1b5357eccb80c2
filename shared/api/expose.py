"""Ports of a job that users reach: the annotation ``pumice.dev/expose``.

::

    expose = entry *( "," entry )
    entry  = [ name ":" ] port [ "@" task [ "/" index ] ]

``jupyter:8888`` is port 8888 of the first task's first pod under the name ``jupyter``;
``tensorboard:6006@worker/2`` is that of worker 2. Without a name it is ``port-<port>``. Names are those of
ports (letters, digits and dashes, at most 15, a letter first) and differ; spaces around entries do not count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_ENTRY: Final = re.compile(
    r"(?:(?P<name>[a-z](?:[a-z0-9-]{0,13}[a-z0-9])?):)?(?P<port>[0-9]{1,5})"
    r"(?:@(?P<task>[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)(?:/(?P<index>[0-9]{1,6}))?)?"
)
_LAST_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class Exposed:
    """A port; ``task`` empty: the first."""

    name: str
    port: int
    task: str = ""
    index: int = 0

    def __str__(self) -> str:
        """Return it as an entry of the annotation."""
        where = f"@{self.task}/{self.index}" if self.index else f"@{self.task}" if self.task else ""
        return f"{self.name}:{self.port}{where}"


def parse_entry(text: str) -> Exposed:
    """Read one entry. Raises ValueError."""
    match = _ENTRY.fullmatch(text.strip())
    if match is None or not 0 < int(match["port"]) <= _LAST_PORT or "--" in (match["name"] or ""):
        raise ValueError(
            f'"{text.strip()[:80]}" is no port to expose: write name:port or name:port@task, '
            "such as jupyter:8888"
        )
    return Exposed(
        match["name"] or f"port-{match['port']}",
        int(match["port"]),
        match["task"] or "",
        int(match["index"] or 0),
    )


def parse(text: str) -> tuple[Exposed, ...]:
    """Read the annotation; an empty one exposes nothing. Raises ValueError."""
    if not text.strip():
        return ()
    found = tuple(parse_entry(entry) for entry in text.split(","))
    for number, one in enumerate(found):
        if any(one.name == other.name for other in found[:number]):
            raise ValueError(f"two exposed ports have the name {one.name}")
    return found


def locate(exposed: tuple[Exposed, ...], tasks: Mapping[str, int]) -> tuple[Exposed, ...]:
    """Return the ports with their task filled in; ``tasks`` are replicas by name, in order.

    Raises ValueError for a pod that the job does not have.
    """
    first = next(iter(tasks), "")
    found: list[Exposed] = []
    for one in exposed:
        task = one.task or first
        if task not in tasks:
            raise ValueError(f"{one}: the job has no task {task}; it has {', '.join(tasks)}")
        if one.index >= tasks[task]:
            raise ValueError(f"{one}: task {task} has no pod {one.index}, it has {tasks[task]} replicas")
        found.append(Exposed(one.name, one.port, task, one.index))
    return tuple(found)
