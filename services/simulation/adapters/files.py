"""Reads manifests, policies and traces. Everything that is wrong with them is a line."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import orjson

from pumice.errors import ManifestError
from pumice.manifest import documents
from services.scheduler.core.configuration import configure
from services.scheduler.core.extending import unasked
from services.scheduler.core.policy import Policy
from services.simulation.core.pages import charts, page
from services.simulation.core.scenario import Document, Scenario, ScenarioError, read_scenario
from services.simulation.core.trace import Trace, read_trace
from services.simulation.core.tracerun import TraceOutcome
from shared.errors import ConfigurationError
from shared.plugin_entries import installed

STDIN: Final = "-"
_BYTE_ORDER_MARK: Final = "\ufeff"


def read_text(path: str) -> str:
    """Return a file's text; ``-`` is standard input. Raises ConfigurationError.

    Spreadsheets write a mark of byte order before a table: it is no part of the first column's name.
    """
    try:
        text = sys.stdin.read() if path == STDIN else Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: is no text in UTF-8: byte {error.start} is wrong") from error
    return text.removeprefix(_BYTE_ORDER_MARK)


def scenario_of(paths: Iterable[str]) -> Scenario:
    """Read a scenario from files. Raises ScenarioError and ConfigurationError."""
    found: list[Document] = []
    problems: list[str] = []
    for path in paths:
        try:
            found += _documents(path)
        except ManifestError as error:
            problems.append(str(error))
    if problems:
        raise ScenarioError(problems)
    return read_scenario(found)


def _documents(path: str) -> Iterator[Document]:
    source = "standard input" if path == STDIN else path
    for number, content in enumerate(documents(read_text(path), source), 1):
        yield Document(source, number, content)


def trace_of(path: str) -> Trace:
    """Read a trace. Raises ConfigurationError when it is none, or has no job that can be read."""
    try:
        trace = read_trace(read_text(path).splitlines(), path)
    except ValueError as error:
        raise ConfigurationError(str(error)) from error
    if not trace.jobs:
        raise ConfigurationError("\n".join((f"{path}: no job can be read", *trace.problems)))
    return trace


def write_report(directory: Path, title: str, outcome: TraceOutcome, problems: Sequence[str]) -> None:
    """Write ``trace.json``, ``trace.md`` and its charts. Raises ConfigurationError."""
    document = orjson.dumps({**outcome.as_json(), "problems": list(problems)}, option=orjson.OPT_INDENT_2)
    files = {
        "trace.json": document.decode() + "\n",
        "trace.md": page(title, outcome, problems),
        **charts({"": outcome}),
    }
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (directory / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"--report {directory}: {error.strerror or error}") from error


def policy_of(path: str | None) -> tuple[Policy, tuple[str, ...]]:
    """Read a policy from Volcano's configuration file, and remarks about it. Raises ScenarioError."""
    if path is None:
        return Policy(), ()
    configured = configure(read_text(path), Policy(), installed())
    if configured.problems:
        raise ScenarioError([f"{path}: {problem}" for problem in configured.problems])
    notes = [f"{path}: {note}" for note in configured.notes]
    if configured.policy.extender is not None:
        notes.append(
            f"{path}: the extender is not asked in a simulation: every node is accepted, and it has no vote"
        )
    return unasked(configured.policy), tuple(notes)


def skipped_answers(policy: Policy) -> tuple[str, ...]:
    """Return a line about each plugin of whose answers some were wrong: the most frequent mistake."""
    return tuple(
        f"{own.failures.most_common(1)[0][0]} (skipped; wrong answers: {own.failures.total()})"
        for own in policy.own
        if own.failures
    )
