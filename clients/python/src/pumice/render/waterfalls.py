"""A job's trace as a waterfall: each phase a bar on the job's own time line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from rich.table import Table
from rich.text import Text

from pumice.models import Span
from pumice.render.text import aware, took

_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
_COLOURS: Final = {
    "gateway": "blue",
    "admission": "magenta",
    "controller": "cyan",
    "scheduler": "yellow",
}


def waterfall_lines(spans: Iterable[Span]) -> list[str]:
    """Return a line for each span: its start after the first one's, duration, service, name."""
    rows = _rows(spans)
    if not rows:
        return ["no spans yet"]
    begin = _begin(rows)
    named = [("  " * depth + span.name, span) for depth, span in rows]
    width = max(len(name) for name, _ in named)
    lines = []
    for name, span in named:
        times = f"{_after(begin, span.start):>10}  {_length(span):>9}"
        lines.append(f"{times}  {name:<{width}}  {span.service}{_problem(span)}")
    return lines


def waterfall(spans: Iterable[Span], *, width: int = 48) -> Table:
    """Return the spans as bars, ``width`` characters for the whole time."""
    rows = _rows(spans)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("PHASE", "SERVICE"):
        table.add_column(title)
    for title in ("START", "TOOK"):
        table.add_column(title, justify="right")
    table.add_column("", width=width, no_wrap=True)
    if not rows:
        return table
    begin = _begin(rows)
    last = max(aware(span.end or span.start) for _, span in rows)
    whole = (last - begin).total_seconds() or 1e-9
    for depth, span in rows:
        start = (aware(span.start) - begin).total_seconds() / whole
        end = (aware(span.end or last) - begin).total_seconds() / whole
        style = "red" if span.status.lower() == "error" else _COLOURS.get(span.service, "green")
        table.add_row(
            "  " * depth + span.name,
            span.service,
            _after(begin, span.start),
            _length(span),
            Text(bar(start, end, width), style=style),
        )
    return table


def bar(start: float, end: float, width: int) -> str:
    """Return a bar from ``start`` to ``end`` (0..1) in ``width`` characters; never less than a sliver."""
    first = min(int(start * width), width - 1)
    own = (end - start) * width
    eighths = max(1, round((own if own < 1 else end * width - first) * 8))  # long bars end where they should
    full, rest = divmod(eighths, 8)
    text = "█" * full + (_EIGHTHS[rest] if rest else "")
    return (" " * first + text)[:width]


def _rows(spans: Iterable[Span]) -> list[tuple[int, Span]]:
    """Return the spans with their depths: a parent before its children, children by their start."""
    found = sorted(spans, key=lambda span: aware(span.start))
    ids = {span.span_id for span in found}
    children: dict[str | None, list[Span]] = {}
    for span in found:
        parent = span.parent_id if span.parent_id in ids and span.parent_id != span.span_id else None
        children.setdefault(parent, []).append(span)
    rows: list[tuple[int, Span]] = []
    stack = [(0, span) for span in reversed(children.get(None, []))]
    while stack:
        depth, span = stack.pop()
        rows.append((depth, span))
        stack += [(depth + 1, child) for child in reversed(children.pop(span.span_id, []))]
    return rows


def _begin(rows: Sequence[tuple[int, Span]]) -> datetime:
    return min(aware(span.start) for _, span in rows)


def _after(begin: datetime, start: datetime) -> str:
    return f"+{(aware(start) - begin).total_seconds():.3f}s"


def _length(span: Span) -> str:
    if span.end is None:
        return "goes on"
    return took((aware(span.end) - aware(span.start)).total_seconds())


def _problem(span: Span) -> str:
    return f"  error: {span.message}" if span.status.lower() == "error" else ""
