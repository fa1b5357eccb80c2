"""Traces: a table of jobs that were, to be run again.

One job a row: ``arrival_s`` and ``duration_s`` in seconds, ``gpus`` in all, and if the table has them
``queue`` (default ``default``), ``name`` (default: the row's number), ``priority`` (0), ``declared_s`` (how
long its owner says that it runs at most; 0: nothing is said), and per GPU ``cpus`` and ``memory_gib`` (0).
A job of more GPUs than a node has is cut into pods of whole nodes and one of the rest, all of which run
together.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from typing import Final

REQUIRED: Final = ("arrival_s", "duration_s", "gpus")
OPTIONAL: Final = ("queue", "name", "priority", "declared_s", "cpus", "memory_gib")
_MOST_SECONDS: Final = 1e10
"""Three hundred years: times beyond are slips, and have no date."""
_MOST_GPUS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class TraceJob:
    """A job: ``number`` is its place in the trace, times are in seconds."""

    number: int
    name: str
    arrival: float
    duration: float
    gpus: int
    queue: str = "default"
    priority: int = 0
    declared: float = 0.0
    cpus: float = 0.0
    memory_gib: float = 0.0

    def pods(self, node: int) -> list[int]:
        """Return the GPUs of each pod where a node has ``node`` of them."""
        whole, rest = divmod(self.gpus, node)
        return [node] * whole + ([rest] if rest or not whole else [])


@dataclass(frozen=True, slots=True)
class Trace:
    """Jobs by arrival, and a line about each row that could not be read."""

    jobs: tuple[TraceJob, ...]
    problems: tuple[str, ...] = ()


def read_trace(lines: Iterable[str], source: str) -> Trace:
    """Read a CSV with a header. Raises ValueError for a missing or second column; bad rows are left out."""
    reader = csv.reader(lines)
    header = [name.strip() for name in next(reader, [])]
    missing = [name for name in REQUIRED if name not in header]
    if missing:
        known = ", ".join((*REQUIRED, *OPTIONAL))
        raise ValueError(f"{source}: line 1: no column {', '.join(missing)}; columns are {known}")
    twice = [name for name in (*REQUIRED, *OPTIONAL) if header.count(name) > 1]
    if twice:
        raise ValueError(f"{source}: line 1: two columns {', '.join(twice)}")
    jobs: list[TraceJob] = []
    problems: list[str] = []
    while True:
        try:
            cells = next(reader, None)
            if cells is None:
                break
            if cells:
                jobs.append(_job(dict(zip(header, cells, strict=False)), len(cells), header, reader.line_num))
        except (ValueError, csv.Error) as error:
            problems.append(f"{source}: line {reader.line_num}: {error}")
    jobs.sort(key=lambda job: (job.arrival, job.number))
    return Trace(tuple(jobs), tuple(problems))


def _job(row: dict[str, str], cells: int, header: list[str], line: int) -> TraceJob:
    if cells != len(header):
        raise ValueError(f"{cells} cells, the header has {len(header)}")
    return TraceJob(
        number=line,
        name=row.get("name") or f"job-{line}",
        arrival=_number(row, "arrival_s", _MOST_SECONDS),
        duration=_number(row, "duration_s", _MOST_SECONDS),
        gpus=_whole(row, "gpus", 0, _MOST_GPUS),
        queue=row.get("queue") or "default",
        priority=_whole(row, "priority", -(2**31), 2**31 - 1) if row.get("priority") else 0,
        declared=_number(row, "declared_s", _MOST_SECONDS) if row.get("declared_s") else 0.0,
        cpus=_number(row, "cpus", 1e6) if row.get("cpus") else 0.0,
        memory_gib=_number(row, "memory_gib", 1e9) if row.get("memory_gib") else 0.0,
    )


def _number(row: dict[str, str], name: str, most: float) -> float:
    try:
        value = float(row[name])
    except ValueError:
        raise ValueError(f'{name}: "{row[name][:40]}" is no number') from None
    if not isfinite(value) or not 0 <= value <= most:
        raise ValueError(f"{name}: {row[name][:40]} is not between 0 and {most:g}")
    return value


def _whole(row: dict[str, str], name: str, least: int, most: int) -> int:
    try:
        value = int(row[name])
    except ValueError:
        raise ValueError(f'{name}: "{row[name][:40]}" is no whole number') from None
    if not least <= value <= most:
        raise ValueError(f"{name}: {value} is not between {least} and {most}")
    return value
