"""A plugin's arguments, read as Go's flag package reads them.

``-port 22``, ``--port=22``, ``-flag`` and ``--flag=false`` for switches; numbers also as ``0x16``. Volcano
logs a wrong argument and goes on without it and what follows. Here a new job with one is not started, for
running with another port than its author meant is worse than waiting and saying why; but one that has been
started (by Volcano, or by an older version) goes on as there: that is what not ``strict`` means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from shared.errors import Refused

Value = str | int | bool
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})
_OCTAL: Final = re.compile(r"[+-]?0[0-7_]+")
_LIMIT: Final = 2**63


class PluginError(Refused):
    """A plugin cannot do its part for this job as it is; the message names the field."""


class Flags:
    """Arguments of one plugin; each flag's kind is that of its default. If ``strict``, raises PluginError."""

    def __init__(
        self, plugin: str, arguments: Sequence[str], defaults: Mapping[str, Value], *, strict: bool
    ) -> None:
        self._plugin = plugin
        self._strict = strict
        self._defaults = defaults
        self._values: dict[str, Value] = dict(defaults)
        try:
            self._take_all(iter(arguments))
        except PluginError:
            if strict:
                raise

    def _take_all(self, rest: Iterator[str]) -> None:
        for argument in rest:
            if argument == "--":
                break
            self._take(argument, rest)

    def text(self, name: str) -> str:
        """Return a flag's text."""
        return str(self._values[name])

    def number(self, name: str) -> int:
        """Return a flag's number."""
        return int(self._values[name])

    def switch(self, name: str) -> bool:
        """Return whether a switch is on."""
        return bool(self._values[name])

    def _take(self, argument: str, rest: Iterator[str]) -> None:
        if len(argument) < 2 or not argument.startswith("-"):  # noqa: PLR2004 - a dash and a letter
            raise self._wrong(f'"{argument[:80]}" is no flag: write --name=value')
        name, equals, text = argument[2 if argument.startswith("--") else 1 :].partition("=")
        default = self._values.get(name)
        if default is None or not name or name.startswith("-"):
            raise self._wrong(f'there is no argument "{argument[:80]}"; there are {self._known()}')
        if isinstance(default, bool):
            self._values[name] = self._switch(name, text) if equals else True
            return
        if not equals:
            following = next(rest, None)
            if following is None:
                raise self._wrong(f"--{name} needs a value")
            text = following
        self._values[name] = self._number(name, text) if isinstance(default, int) else text

    def _switch(self, name: str, text: str) -> bool:
        if text in _TRUE or text in _FALSE:
            return text in _TRUE
        raise self._wrong(f'--{name} is true or false, not "{text[:80]}"')

    def _number(self, name: str, text: str) -> int:
        digits = text.replace("0", "0o", 1) if _OCTAL.fullmatch(text) else text
        try:
            value = int(digits, 0)
        except ValueError:
            value = _LIMIT
        if text.strip() != text or not -_LIMIT <= value < _LIMIT:
            raise self._wrong(f'--{name} is a number, not "{text[:80]}"')
        return value

    def port(self, name: str) -> int:
        """Return a flag's number if it can be a port."""
        value = self.number(name)
        if 0 < value <= 65535:  # noqa: PLR2004 - the ports of TCP
            return value
        if self._strict:
            raise self._wrong(f"--{name} is a port from 1 to 65535, not {value}")
        return int(self._defaults[name])

    def _known(self) -> str:
        return ", ".join(f"--{name}" for name in self._values) or "none"

    def _wrong(self, problem: str) -> PluginError:
        return PluginError(f"spec.plugins[{self._plugin}]: {problem}")
