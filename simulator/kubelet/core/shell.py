r"""A pure interpreter of the little shell that tests and demos put into containers.

Understood: ``sleep`` (GNU's suffixes and ``infinity``), ``exit``, ``echo``, ``true``, ``false``, ``:``,
``test`` / ``[`` with ``=``, ``!=``, ``-eq``, ``-ne``, ``-n``, ``-z``; ``NAME=value``, ``export``, ``set -e``,
``exec``; joined by ``;``, line ends, ``&&`` and ``||``, with quotes, ``\`` escapes, comments, ``$NAME``,
``${NAME}`` and ``$?``. Anything else (a pipe, a loop, ``python train.py``) is a command that runs until it
is stopped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_SUFFIXES: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_INTERVAL: Final = re.compile(r"(\d+\.?\d*|\.\d+)([smhd]?)")
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_VARIABLE: Final = re.compile(r"\$(?:\{([A-Za-z_]\w*|\?)\}|([A-Za-z_]\w*|\?))")
_STRANGE: Final = frozenset("|&<>()`")
_OPERATORS: Final = ("&&", "||", ";", "\n")
_CHAINS: Final = ("&&", "||")


@dataclass(frozen=True, slots=True)
class Program:
    """What a container does in one run. ``seconds`` is None for one that runs until it is stopped."""

    seconds: float | None = None
    exit_code: int = 0
    output: tuple[tuple[float, str], ...] = ()
    """Lines for the log, each with the second of the run when it is written."""
    failure: str = ""
    """Why the container cannot be started at all; empty when it can."""


@dataclass(slots=True)
class _Run:
    """The state of a running script; ``clock`` is the seconds since its start, infinite once it hangs."""

    env: dict[str, str]
    errexit: bool = False
    clock: float = 0.0
    status: int = 0
    ended: bool = False
    output: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])

    def program(self) -> Program:
        return Program(None if math.isinf(self.clock) else self.clock, self.status % 256, tuple(self.output))


def run_script(text: str, env: Mapping[str, str], *, errexit: bool = False) -> Program:
    """Return what ``sh -c text`` does."""
    run = _Run(dict(env), errexit)
    reader = _Reader(text)
    wanted = True
    while not (reader.done or run.ended):
        words, strange, operator = reader.command(run)
        if wanted and (words or strange):
            _execute([] if strange else words, run)
            run.ended |= run.errexit and run.status != 0 and operator not in _CHAINS
        wanted = {"&&": run.status == 0, "||": run.status != 0}.get(operator, True)
    return run.program()


def run_command(words: list[str]) -> Program:
    """Return what a command does which is started without a shell."""
    run = _Run({})
    _execute(words, run)
    return run.program()


class _Reader:
    """Reads a script command by command, as a shell does, so that words expand with the variables of then."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    @property
    def done(self) -> bool:
        return self._at >= len(self._text)

    def command(self, run: _Run) -> tuple[list[str], bool, str]:
        """Return the next command's words, whether it has something strange, and the operator after it."""
        words: list[str] = []
        strange = False
        while not self.done:
            rest = self._text[self._at :]
            operator = next((op for op in _OPERATORS if rest.startswith(op)), "")
            if operator:
                self._at += len(operator)
                if operator == "\n" and not words and not strange:
                    continue
                return words, strange, operator
            if rest[0].isspace() or rest.startswith("\\\n"):
                self._at += 2 if rest[0] == "\\" else 1
            elif rest[0] == "#":
                self._at += len(rest.split("\n", 1)[0])
            elif rest[0] in _STRANGE:
                strange = True
                self._at += 1
            else:
                word, is_strange = self._word(run)
                strange = strange or is_strange
                if word is not None:
                    words.append(word)
        return words, strange, ""

    def _word(self, run: _Run) -> tuple[str | None, bool]:
        """Return one word (None if it expands to nothing at all) and whether it has something strange."""
        text, parts = self._text, list[str]()
        quoted = strange = False
        quote = ""
        while self._at < len(text):
            char = text[self._at]
            if quote == "'" and char != "'":
                parts.append(char)
            elif char == (quote or None) or (not quote and char in "'\""):
                quote, quoted = ("" if quote else char), True
            elif char == "\\" and self._at + 1 < len(text):
                following = text[self._at + 1]
                parts.append(following if not quote or following in '"\\$`' else char + following)
                self._at += 1
            elif char == "$":
                value, length, odd = _variable(text, self._at, run)
                parts.append(value)
                strange = strange or odd
                self._at += length - 1
            elif not quote and (char.isspace() or char == ";" or char in _STRANGE):
                break
            else:
                strange = strange or char == "`"
                parts.append(char)
            self._at += 1
        word = "".join(parts)
        return (word if word or quoted else None), strange or bool(quote)


def _variable(text: str, at: int, run: _Run) -> tuple[str, int, bool]:
    """Return the value of the ``$`` at a place, the length of what it replaces, whether it is strange."""
    match = _VARIABLE.match(text, at)
    if match is None:
        return "$", 1, text[at + 1 : at + 2] in ("(", "{")
    name = match[1] or match[2]
    return (str(run.status) if name == "?" else run.env.get(name, "")), len(match[0]), False


def _execute(words: list[str], run: _Run) -> None:  # noqa: C901 - one case a command
    name, args = (words[0], words[1:]) if words else ("", [])
    match name.rsplit("/", 1)[-1]:
        case "sleep":
            _sleep(args, run)
        case "echo":
            while args and args[0] in ("-n", "-e", "-E"):
                args = args[1:]
            run.output += [(run.clock, line) for line in " ".join(args).split("\n")]
            run.status = 0
        case "exit":
            run.ended = True
            run.status = _integer(args[0]) if args else run.status
        case "true" | ":":
            run.status = 0
        case "false":
            run.status = 1
        case "test" | "[":
            run.status = _test([word for word in args if word != "]"])
        case "set":
            run.errexit = run.errexit or any(re.fullmatch(r"-[a-z]*e[a-z]*", word) for word in args)
            run.status = 0
        case "exec" if args:
            _execute(args, run)
            run.ended = True
        case _ if name and all(_ASSIGNMENT.fullmatch(word) for word in (args if name == "export" else words)):
            for word in args if name == "export" else words:
                key, _, value = word.partition("=")
                run.env[key] = value
            run.status = 0
        case _:
            run.clock, run.ended = math.inf, True


def _sleep(args: list[str], run: _Run) -> None:
    seconds = 0.0
    for arg in args:
        match = _INTERVAL.fullmatch(arg)
        if match is None and arg not in ("inf", "infinity"):
            break
        seconds += math.inf if match is None else float(match[1]) * _SUFFIXES[match[2]]
    else:
        if args:
            run.clock += seconds
            run.status, run.ended = 0, run.ended or math.isinf(seconds)
            return
    run.output.append((run.clock, f"sleep: invalid time interval '{' '.join(args)}'"))
    run.status = 1


def _integer(text: str) -> int:
    return int(text) if re.fullmatch(r"-?\d+", text) else 2


def _test(words: list[str]) -> int:
    match words:
        case [left, "=" | "==", right]:
            holds = left == right
        case [left, "!=", right]:
            holds = left != right
        case [left, "-eq", right]:
            holds = _integer(left) == _integer(right)
        case [left, "-ne", right]:
            holds = _integer(left) != _integer(right)
        case ["-n", word] | [word]:
            holds = word != ""
        case ["-z", word]:
            holds = word == ""
        case _:
            return 2
    return 0 if holds else 1
