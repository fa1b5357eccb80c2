"""Reads manifests, policies and traces. Everything that is wrong with them is a line."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from pumice.errors import ManifestError
from pumice.manifest import documents
from services.scheduler.core.configuration import configure
from services.scheduler.core.policy import Policy
from services.simulation.core.scenario import Document, Scenario, ScenarioError, read_scenario
from shared.errors import ConfigurationError

STDIN: Final = "-"


def read_text(path: str) -> str:
    """Return a file's text; ``-`` is standard input. Raises ConfigurationError."""
    try:
        if path == STDIN:
            return sys.stdin.read()
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


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


def policy_of(path: str | None) -> tuple[Policy, tuple[str, ...]]:
    """Read a policy from Volcano's configuration file, and remarks about it. Raises ScenarioError."""
    if path is None:
        return Policy(), ()
    configured = configure(read_text(path), Policy())
    if configured.problems:
        raise ScenarioError([f"{path}: {problem}" for problem in configured.problems])
    return configured.policy, tuple(f"{path}: {note}" for note in configured.notes)
