"""What a scenario's annotations say.

When an object appears and goes, how long pods run and how they end, and what nodes really use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from typing import Any, Final

from services.admission.core.violations import Violation
from shared.api import names
from shared.api.duration import parse_duration

AT: Final = "pumice.dev/at"
DELETE_AT: Final = "pumice.dev/delete-at"
RUN_FOR: Final = "pumice.dev/run-for"
EXIT_CODE: Final = "pumice.dev/exit-code"
GRACE: Final = "pumice.dev/grace-period"
LOAD: Final = "pumice.dev/load"

OF_OBJECTS: Final = (AT, DELETE_AT)
OF_PODS: Final = (RUN_FOR, EXIT_CODE, GRACE)
OF_NODES: Final = (LOAD,)
_ALL: Final = (*OF_OBJECTS, *OF_PODS, *OF_NODES)
_OF_CLUSTERS: Final = (names.RUN_TIME, names.TEMPLATE)
"""Named alike, and of the same meaning in every cluster."""
_MOST_CODE: Final = 255
_PERCENT: Final = re.compile(r"\d{1,3}(\.\d{1,6})?", re.ASCII)
_ALIKE: Final = 0.75
PATH: Final = "metadata.annotations"


@dataclass(frozen=True, slots=True)
class Run:
    """How a pod runs. ``seconds`` None: until it is taken away."""

    seconds: timedelta | None = None
    exit_code: int = 0
    grace: timedelta = timedelta()
    """From its deletion until it is gone."""


def read_run(*levels: Mapping[str, str]) -> Run:
    """Return how a pod runs, each annotation from the first level that has it; they were checked before."""
    found: dict[str, str] = {}
    for level in reversed(levels):
        found |= {name: level[name] for name in OF_PODS if name in level}
    return Run(
        parse_duration(found[RUN_FOR]) if RUN_FOR in found else None,
        int(found.get(EXIT_CODE, "0")),
        parse_duration(found.get(GRACE, "0")),
    )


def read_times(annotations: Mapping[str, str]) -> tuple[timedelta, timedelta | None]:
    """Return when an object appears and, if it does, when it goes; they were checked before."""
    gone = annotations.get(DELETE_AT)
    return parse_duration(annotations.get(AT, "0")), None if gone is None else parse_duration(gone)


def read_load(annotations: Mapping[str, str]) -> dict[str, float] | None:
    """Return the percent of ``cpu`` and ``memory`` that a node really uses; None where it is not measured.

    Raises ValueError.
    """
    text = annotations.get(LOAD)
    if text is None:
        return None
    found: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        percent = float(value) if _PERCENT.fullmatch(value.strip()) else -1.0
        if name.strip() not in ("cpu", "memory") or name.strip() in found or not 0 <= percent <= 100:  # noqa: PLR2004
            raise ValueError(f'"{text[:80]}" is not as cpu=75,memory=40: percent of what the node has')
        found[name.strip()] = percent
    return found


def annotation_rules(
    annotations: Mapping[str, Any], path: str, allowed: tuple[str, ...]
) -> Iterator[Violation]:
    """Yield what is wrong with a scenario's annotations; ``allowed`` are those that mean something here."""
    right = True
    for name, value in annotations.items():
        at = f"{path}[{name}]"
        if name in _ALL and name not in allowed:
            yield Violation("misplaced", at, f"means nothing here; it is for {_where(name)}")
        elif name in allowed and not isinstance(value, str):
            right = False  # what is no text is told by the object's own schema
        elif name in allowed:
            problem = _problem(name, value)
            if problem:
                right = False
                yield Violation("invalid", at, problem)
        elif (
            name.startswith("pumice.dev/")
            and name not in _OF_CLUSTERS
            and (close := get_close_matches(name, _ALL, 1, _ALIKE))
        ):
            yield Violation("unknown-annotation", at, f'is not known; did you mean "{close[0]}"?')
    if right and AT in allowed and DELETE_AT in annotations:
        appears, gone = read_times(annotations)
        if gone is not None and gone <= appears:
            message = f"{annotations[DELETE_AT]} is not after it appears at {annotations.get(AT, '0s')}"
            yield Violation("invalid", f"{path}[{DELETE_AT}]", message)


def _where(name: str) -> str:
    if name in OF_NODES:
        return "nodes"
    return "objects themselves" if name in OF_OBJECTS else "jobs, templates of their tasks, and pods"


def _problem(name: str, text: str) -> str:
    if name == EXIT_CODE:
        is_code = text.isdecimal() and int(text) <= _MOST_CODE
        return "" if is_code else f'"{text[:80]}" is no exit code: a number from 0 to {_MOST_CODE}'
    try:
        if name == LOAD:
            read_load({name: text})
            return ""
        duration = parse_duration(text)
    except ValueError as error:
        return str(error)
    return f"{text[:80]} is before the beginning" if duration < timedelta() else ""
