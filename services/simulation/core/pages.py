"""A trace's outcome as a page of Markdown and charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from services.simulation.core.ledger import Series
from services.simulation.core.plots import Line, chart
from services.simulation.core.tracerun import TraceOutcome

_FIGURES: Final = (
    "jobs",
    "started",
    "ended",
    "evictions",
    "utilisation",
    "utilisation_to_the_end",
    "share_error",
    "fragmentation",
    "makespan_s",
)
_SPREAD: Final = ("mean", "median", "p95", "max")


def charts(runs: Mapping[str, TraceOutcome]) -> dict[str, str]:
    """Return SVG documents by file name; of several runs each is a line."""
    ways: tuple[tuple[str, str, str, str], ...] = (
        ("gpus-in-use", "GPUs in use", "GPUs", "used"),
        ("waiting", "Jobs that wait", "jobs", "waiting"),
        ("share-error", "What queues lack of their shares", "part of the cluster", "share_error"),
        ("fragmentation", "Free GPUs on nodes used in part", "part of the free GPUs", "fragmentation"),
    )
    made = {
        f"{name}.svg": chart(title, _lines(runs, field), x="hours", y=unit)
        for name, title, unit, field in ways
    }
    waits = [Line(name, _distribution(run)) for name, run in runs.items()]
    made["waits.svg"] = chart("How long jobs waited", waits, x="part of the jobs", y="hours, at most")
    return made


def _lines(runs: Mapping[str, TraceOutcome], field: str) -> list[Line]:
    return [Line(name, _points(run.series, field), steps=True) for name, run in runs.items()]


def _points(series: Series, field: str) -> Sequence[tuple[float, float]]:
    points: Sequence[tuple[float, float]] = getattr(series, field)
    return points


def _distribution(run: TraceOutcome) -> list[tuple[float, float]]:
    waits = sorted(one.started - one.job.arrival for one in run.records if one.started is not None)
    return [(number / len(waits), wait / 3600) for number, wait in enumerate(waits, 1)]


def page(title: str, outcome: TraceOutcome, problems: Sequence[str]) -> str:
    """Return a page about one run; its charts lie beside it."""
    summary = outcome.as_json()
    lines = [f"# {title}", "", "| figure | |", "|---|---|"]
    lines += [f"| {name.replace('_', ' ')} | {summary[name]} |" for name in _FIGURES]
    lines += ["", "| | mean | median | p95 | most |", "|---|---|---|---|---|"]
    lines += [
        _spread(label, summary[name])
        for label, name in (("wait, s", "wait_s"), ("completion, s", "completion_s"))
    ]
    lines += [
        "",
        "## Queues",
        "",
        "| queue | jobs | GPU hours | mean wait, s | p95 wait, s |",
        "|---|---|---|---|---|",
    ]
    lines += [_queue(name, queue) for name, queue in summary["queues"].items()]
    lines += ["", *(f"![{name}]({name})" for name in charts({"": outcome}))]
    if problems:
        lines += ["", "## Rows left out", "", *(f"- {problem}" for problem in problems)]
    return "\n".join(lines) + "\n"


def _spread(label: str, figures: Mapping[str, float]) -> str:
    return f"| {label} | " + " | ".join(str(figures.get(name, "-")) for name in _SPREAD) + " |"


def _queue(name: str, queue: Mapping[str, Any]) -> str:
    waits = queue["wait_s"]
    cells = (name, queue["jobs"], queue["gpu_hours"], waits.get("mean", "-"), waits.get("p95", "-"))
    return "| " + " | ".join(map(str, cells)) + " |"
