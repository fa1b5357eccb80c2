"""The syntax of label selectors: ``a=b, c in (d,e), !f, g>1`` as terms, or the server's words for a mistake.

A term is a key, an operator and values; a text is a sequence of terms between commas. What is read next
decides what an error says was expected, so the reader goes from left to right with one word in sight.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from simulator.core.errors import StatusError, bad_request

_WORD: Final = re.compile(r"\s*(==|!=|[=!(),<>]|[^\s=!(),<>]+)")
_SYMBOLS: Final = frozenset({"=", "==", "!=", "!", "(", ")", ",", "<", ">"})
_OPERATORS: Final = {"=": "in", "==": "in", "!=": "notin", ">": "gt", "<": "lt", "in": "in", "notin": "notin"}


class Term(NamedTuple):
    """One term. ``op`` is in, notin, exists, absent, gt or lt."""

    key: str
    op: str
    values: tuple[str, ...] = ()


class _Reader:
    """Words of a text, one in sight; the end reads as an empty word."""

    def __init__(self, text: str) -> None:
        self._words = [match[1] for match in _WORD.finditer(text)]
        self._at = 0

    @property
    def next(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else ""

    @property
    def is_name(self) -> bool:
        return bool(self.next) and self.next not in _SYMBOLS

    def take(self) -> str:
        word = self.next
        self._at += 1
        return word


def terms(text: str) -> Iterator[Term]:
    """Read a label selector. Raises StatusError 400."""
    reader = _Reader(text)
    while reader.next:
        if not (reader.is_name or reader.next == "!"):
            raise bad_request(f"found '{reader.next}', expected: !, identifier, or 'end of string'")
        yield _term(reader)
        if reader.next == ",":
            reader.take()
            if not (reader.is_name or reader.next == "!"):
                raise bad_request(f"found '{reader.next}', expected: identifier after ','")
        elif reader.next:
            raise bad_request(f"found '{reader.next}', expected: ',' or 'end of string'")


def refusal(why: str) -> StatusError:
    """Return the refusal of a term."""
    return bad_request(f"unable to parse requirement: {why}")


def _term(reader: _Reader) -> Term:
    absent = reader.next == "!"
    if absent:
        reader.take()
    if not reader.is_name:
        raise refusal(f"found '{reader.next}', expected: identifier")
    key = reader.take()
    if absent or reader.next in ("", ","):
        return Term(key, "absent" if absent else "exists")
    word = reader.next
    op = _OPERATORS.get(word)
    if op is None:
        raise refusal(f"found '{word}', expected: in, notin, =, ==, !=, gt, lt")
    reader.take()
    if word in ("in", "notin"):
        return Term(key, op, _values(reader))
    if reader.next in ("", ","):
        return Term(key, op, ("",))
    if not reader.is_name:
        raise refusal(f"found '{reader.next}', expected: identifier")
    return Term(key, op, (reader.take(),))


def _values(reader: _Reader) -> tuple[str, ...]:
    """Read ``(a,b)``; a comma with nothing beside it stands for an empty value."""
    if reader.next != "(":
        raise refusal(f"found '{reader.next}' expected: '('")
    reader.take()
    if not (reader.is_name or reader.next in (",", ")")):
        raise refusal(f"found '{reader.next}', expected: ',', ')' or identifier")
    found: dict[str, None] = {"": None} if reader.next == ")" else {}
    empty = reader.next == ","
    while reader.next != ")":
        if reader.is_name:
            found[reader.take()] = None
            empty = False
            if reader.next not in (",", ")"):
                raise refusal(f"found '{reader.next}', expected: ',' or ')'")
        elif reader.next == ",":
            reader.take()
            if empty or reader.next in (",", ")"):
                found[""] = None
            empty = True
        else:
            raise refusal(f"found '{reader.next}', expected: ',', or identifier")
    reader.take()
    return tuple(sorted(found))
