"""A job's life as a time line: what happened, when, and how long until the next thing."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from pumice.models import JobEvent
from pumice.render.text import STYLES, aware, duration, moment


def timeline_lines(events: Iterable[JobEvent]) -> list[str]:
    """Return a line for each event: the time of day, seconds after the one before, what it was."""
    return [f"{clock}  {after:>8}  {text}" for clock, after, text, _ in _rows(events)]


def timeline(events: Iterable[JobEvent]) -> Table:
    """Return the same for a terminal."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim")
    table.add_column(justify="right", style="dim")
    table.add_column(overflow="fold")
    for clock, after, text, phase in _rows(events):
        table.add_row(clock, after, Text(text, style=STYLES.get(phase, "")))
    return table


def event_line(event: JobEvent) -> str:
    """Return one event as a line: the time of day and what it was."""
    return f"{moment(event.time)}  {_text(event)}"


def _rows(events: Iterable[JobEvent]) -> list[tuple[str, str, str, str]]:
    rows: list[tuple[str, str, str, str]] = []
    before = None
    for event in events:
        when = aware(event.time) if event.time else None
        after = f"+{duration((when - before).total_seconds())}" if when and before else ""
        before = when or before
        rows.append((moment(event.time), after, _text(event), str(event.data.get("phase", ""))))
    return rows


def _text(event: JobEvent) -> str:
    """Return what happened: the event's name, and what its fields say."""
    data = event.data
    said = [
        str(data[key])
        for key in ("phase", "outcome", "action", "reason", "message")
        if isinstance(data.get(key), str)
    ]
    reason = data.get("reason")
    if isinstance(reason, dict):
        said.append(str(reason.get("message") or reason.get("code") or ""))
    said += [
        f"{len(data[key])} {key}" for key in ("bindings", "bound", "failures", "violations") if data.get(key)
    ]
    if data.get("position"):
        said.append(f"position {data['position']} of {data.get('queueLength', '?')}")
    return "  ".join(part for part in (event.kind, *said) if part)
