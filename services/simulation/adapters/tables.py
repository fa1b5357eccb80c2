"""Outcomes for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from rich.console import Console

from pumice.render.table import Table
from services.simulation.core.history import Evicted, GangRecord
from services.simulation.core.outcome import Outcome
from services.simulation.core.tracerun import TraceOutcome

_UNITS: Final = {"cpu": 1000.0, "memory": float(1 << 30)}
"""What amounts are divided by: CPU is shown in cores, memory in GiB."""
_SPREAD: Final = ("mean", "median", "p95", "max")


def show(outcome: Outcome, console: Console, *, events: bool) -> None:
    """Print what became of gangs, evictions and queues; with ``events`` all that happened."""
    history = outcome.history
    tables = [
        *([_events(history.events)] if events else []),
        _gangs(history.gangs),
        *([_evicted(history.evicted)] if history.evicted else []),
        _queues(outcome.queues),
    ]
    _print(tables, console)
    console.print(f"ended at {_time(outcome.end)}, {len(history.events)} events")


def show_trace(outcome: TraceOutcome, console: Console) -> None:
    """Print a trace's figures, in all and by queue."""
    found = outcome.as_json()
    figures = tuple(
        (name.replace("_", " "), str(value)) for name, value in found.items() if not isinstance(value, dict)
    )
    times = tuple(
        (label, *(f"{found[name].get(part, 0.0):.6g}" for part in _SPREAD))
        for label, name in (("wait", "wait_s"), ("completion", "completion_s"))
    )
    queues = tuple(
        (
            name,
            str(one["jobs"]),
            f"{one['gpu_hours']:.6g}",
            *(f"{one['wait_s'].get(p, 0.0):.6g}" for p in _SPREAD),
        )
        for name, one in found["queues"].items()
    )
    spread = ("MEAN", "MEDIAN", "P95", "MAX")
    tables = [
        Table(("FIGURE", "VALUE"), figures),
        Table(("SECONDS", *spread), times),
        Table(("QUEUE", "JOBS", "GPU HOURS", *(f"WAIT {name}" for name in spread)), queues),
    ]
    _print(tables, console)


def _print(tables: Iterable[Table], console: Console) -> None:
    for table in tables:
        if console.is_terminal:
            console.print(table.rich())
        else:
            console.print("\n".join(table.lines()), soft_wrap=True, markup=False)
        console.print()


def _evicted(evicted: Iterable[Evicted]) -> Table:
    rows = ((_time(one.at), one.pod, one.beneficiary, one.reason) for one in evicted)
    return Table(("EVICTED AT", "POD", "FOR", "REASON"), tuple(rows))


def _events(events: Iterable[Mapping[str, Any]]) -> Table:
    rows = (
        (_time(one["at"]), one["event"], one["object"], one.get("message") or _details(one)) for one in events
    )
    return Table(("AT", "EVENT", "OBJECT", "WHAT"), tuple(rows))


def _details(event: Mapping[str, Any]) -> str:
    said = {"at", "event", "object", "message"}
    return ", ".join(f"{name} {value}" for name, value in event.items() if name not in said)


def _gangs(gangs: Mapping[str, GangRecord]) -> Table:
    rows = (
        (
            name,
            one.queue,
            one.phase,
            _time(one.queued_at),
            _time(one.started_at),
            _time(one.finished_at),
            _wait(one),
            one.reason,
        )
        for name, one in gangs.items()
    )
    return Table(("GANG", "QUEUE", "PHASE", "QUEUED", "STARTED", "FINISHED", "WAITED", "REASON"), tuple(rows))


def _wait(one: GangRecord) -> str:
    if one.queued_at is None or one.started_at is None:
        return ""
    return _time(one.started_at - one.queued_at)


def _queues(queues: Mapping[str, Any]) -> Table:
    rows = [
        (name, resource, *_course(resource, queue, "allocated"), *_course(resource, queue, "deserved"))
        for name, queue in queues.items()
        for resource in sorted({*queue["allocated"], *queue["deserved"]})
        if any(queue["allocated"].get(resource, {}).values())
    ]
    return Table(("QUEUE", "RESOURCE", "ALLOCATED (MEAN)", "PEAK", "DESERVED (MEAN)", "PEAK"), tuple(rows))


def _course(resource: str, queue: Mapping[str, Any], part: str) -> tuple[str, str]:
    course, unit = queue[part].get(resource, {}), _UNITS.get(resource, 1.0)
    return f"{course.get('mean', 0.0) / unit:.6g}", f"{course.get('peak', 0.0) / unit:.6g}"


def _time(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:g}s"
