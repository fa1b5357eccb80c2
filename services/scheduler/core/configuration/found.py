"""What a configuration file says, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from services.scheduler.core.configuration.measuring import Source
from services.scheduler.core.configuration.terms import SWITCHES


class Code(Enum):
    """Kinds of problems."""

    UNREADABLE = "unreadable"
    UNKNOWN = "unknown"
    VALUE = "value"
    TWICE = "twice"
    CONFLICT = "conflict"
    REFUSED = "refused"
    ALWAYS = "always"
    """It would switch off what is always on."""
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong at a place of the file."""

    path: str
    message: str
    code: Code

    def __str__(self) -> str:
        """One line."""
        return f"{self.path}: {self.message}" if self.path else self.message


@dataclass(frozen=True, slots=True)
class Named:
    """A plugin that a file names. ``arguments`` has every argument of it: as named, or its default.

    An argument that stands for many (its name ends in a dot) is a mapping of keys to values.
    """

    name: str
    switches: Mapping[str, bool]
    arguments: Mapping[str, object]
    on_error: str = "skip"
    path: str = ""

    def on(self, switch: str) -> bool:
        """Whether a switch is on."""
        return self.switches.get(switch, SWITCHES[switch])


@dataclass(slots=True)
class Configuration:
    """What a file says."""

    actions: tuple[str, ...] = ()
    plugins: dict[str, Named] = field(default_factory=dict[str, Named])
    """By name, in the order of the file."""
    settings: dict[str, Mapping[str, object]] = field(default_factory=dict[str, Mapping[str, object]])
    """Arguments of actions."""
    source: Source | None = None
    """Where figures of what nodes really use come from."""
    problems: list[Problem] = field(default_factory=list[Problem])
    notes: list[str] = field(default_factory=list[str])
    """What is taken, and is not done."""

    def plugin(self, name: str, switch: str | None = None) -> Named | None:
        """Return a plugin if it is named (and its switch is on)."""
        found = self.plugins.get(name)
        return found if found is not None and (switch is None or found.on(switch)) else None

    def complain(self, path: str, message: str, code: Code) -> None:
        """Keep a problem."""
        self.problems.append(Problem(path, message, code))
