"""What every benchmark writes: a JSON document for programs and a Markdown page for people."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure of several runs: the median, and the lowest and highest."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Sum up at least one value."""
        return cls(statistics.median(values), min(values), max(values))

    def __str__(self) -> str:
        return f"{figure(self.median)} ({figure(self.low)}..{figure(self.high)})"


@dataclass(slots=True)
class Table:
    """Rows with the same columns, and what the reader should know about them."""

    title: str
    rows: list[Row] = field(default_factory=list[Row])
    note: str = ""


@dataclass(slots=True)
class Report:
    """One run of a benchmark."""

    name: str
    title: str
    parameters: Row
    tables: list[Table] = field(default_factory=list[Table])
    notes: list[str] = field(default_factory=list[str])
    machine: Row = field(default_factory=dict[str, Any])
    pictures: dict[str, str] = field(default_factory=dict[str, str])
    """SVG documents by file name."""

    def __post_init__(self) -> None:
        self.machine = self.machine or machine()

    def table(self, title: str, note: str = "") -> Table:
        """Add an empty table."""
        table = Table(title, note=note)
        self.tables.append(table)
        return table

    def json(self) -> str:
        """Return the report as JSON."""
        document = {
            "benchmark": self.name,
            "parameters": self.parameters,
            "machine": self.machine,
            "tables": {table.title: [_plain(row) for row in table.rows] for table in self.tables},
            "notes": self.notes,
        }
        return json.dumps(document, indent=2) + "\n"

    def markdown(self) -> str:
        """Return the report as Markdown."""
        lines = [f"# {self.title}", ""]
        lines += [f"- {name}: {value}" for name, value in {**self.machine, **self.parameters}.items()]
        for table in self.tables:
            lines += ["", f"## {table.title}", ""]
            if table.note:
                lines += [table.note, ""]
            lines += _markdown(table.rows)
        if self.pictures:
            lines += ["", *(f"![{name}]({name})" for name in self.pictures)]
        if self.notes:
            lines += ["", "## Notes", "", *(f"- {note}" for note in self.notes)]
        return "\n".join(lines) + "\n"

    def write(self, directory: Path) -> None:
        """Write ``<name>.json``, ``<name>.md`` and the pictures."""
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{self.name}.json").write_text(self.json(), encoding="utf-8")
        (directory / f"{self.name}.md").write_text(self.markdown(), encoding="utf-8")
        for name, svg in self.pictures.items():
            (directory / name).write_text(svg, encoding="utf-8")

    def show(self, output: str) -> None:
        """Print as ``json`` or as text."""
        sys.stdout.write(self.json() if output == "json" else self.markdown())


def quantile(values: Sequence[float], share: float) -> float:
    """Return a sample quantile by the nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def machine() -> Row:
    """Say on what it ran; the load is that of the start, the run's own part excluded."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "load before": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "system": platform.system(),
    }


def figure(value: float) -> str:
    """Return a number with three significant digits and separated thousands."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _plain(row: Row) -> Row:
    return {
        name: {"median": value.median, "low": value.low, "high": value.high}
        if isinstance(value, Spread)
        else value
        for name, value in row.items()
    }


def _markdown(rows: list[Row]) -> list[str]:
    if not rows:
        return []
    names = list(rows[0])
    cells = [[_cell(row.get(name, "")) for name in names] for row in rows]
    return [
        "| " + " | ".join(names) + " |",
        "|" + "|".join("---" for _ in names) + "|",
        *("| " + " | ".join(row) + " |" for row in cells),
    ]


def _cell(value: object) -> str:
    return (
        figure(value) if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
    )
