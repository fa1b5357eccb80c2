"""What the benchmarks' command lines have in common: numbers within bounds, errors in one line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from math import inf
from pathlib import Path

from bench.report import Report
from shared.process import Arguments


def parser(name: str, about: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options of every benchmark."""
    made = Arguments(prog=name, description=(about or "").split("\n", 1)[0])
    made.add_argument("--repeats", type=at_least(1), default=3, help="of each burst")
    made.add_argument("-o", "--output", choices=["text", "json"], default="text")
    made.add_argument("--report", type=Path, help=f"directory for {name.rpartition('.')[2]}.json and .md")
    return made


def at_least(least: int) -> Callable[[str], int]:
    """Return an argument's type: a whole number, ``least`` or more."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least} on")
        return value

    return read


def factor(text: str) -> float:
    """Read an argument: a number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return value


def show(report: Report, options: argparse.Namespace) -> None:
    """Write a report where the options say."""
    if options.report:
        report.write(options.report)
    report.show(options.output)
