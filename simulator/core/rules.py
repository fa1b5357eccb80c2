"""The few forms of ``x-kubernetes-validations`` that are evaluated here; all others are not checked.

CEL is a language of its own. Read here: comparisons (== != < <= > >=) between ``self``/``oldSelf`` paths,
``size(path)`` and literals, ``has(path)``, joined by ``&&``, ``||``, ``!`` and brackets. A rule that uses
anything else is skipped: :func:`supported` says which.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from simulator.core.errors import Cause, shown

_TOKEN: Final = re.compile(
    r"\s*(&&|\|\||==|!=|<=|>=|<|>|!|\(|\)|-?\d+(?:\.\d+)?|'[^'\\]*'|\"[^\"\\]*\"|true|false|null"
    r"|(?:has|size)(?=\()|(?:self|oldSelf)(?:\.[A-Za-z_]\w*)*)"
)
_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
Rule = Callable[[Any, Any], Any]


class _Unsupported(Exception):  # noqa: N818
    """The rule is outside the subset."""


class _Missing(Exception):  # noqa: N818
    """A path that is not there: the rule fails, as CEL's evaluation does."""


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        at = 0
        text = text.strip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise _Unsupported(text)
            self.tokens.append(match[1])
            at = match.end()
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, wanted: str = "") -> str:
        token = self.peek()
        if not token or (wanted and token != wanted):
            raise _Unsupported(token)
        self.at += 1
        return token

    def either(self) -> Rule:
        left = self.both()
        while self.peek() == "||":
            self.take()
            left = _or(left, self.both())
        return left

    def both(self) -> Rule:
        left = self.comparison()
        while self.peek() == "&&":
            self.take()
            left = _and(left, self.comparison())
        return left

    def comparison(self) -> Rule:
        left = self.term()
        if self.peek() in _COMPARE:
            compare, right = _COMPARE[self.take()], self.term()
            return lambda new, old: compare(left(new, old), right(new, old))
        return left

    def term(self) -> Rule:
        token = self.take()
        if token == "!":  # noqa: S105
            inner = self.term()
            return lambda new, old: not inner(new, old)
        if token == "(":  # noqa: S105
            inner = self.either()
            self.take(")")
            return inner
        if token in ("has", "size"):
            self.take("(")
            path = self.take()
            self.take(")")
            if not path.startswith(("self", "oldSelf")):
                raise _Unsupported(path)
            return _has(path) if token == "has" else _size(path)  # noqa: S105
        return _literal(token)


def _or(left: Rule, right: Rule) -> Rule:
    return lambda new, old: left(new, old) or right(new, old)


def _and(left: Rule, right: Rule) -> Rule:
    return lambda new, old: left(new, old) and right(new, old)


def _read(path: str, new: Any, old: Any) -> Any:
    first, *rest = path.split(".")
    value = new if first == "self" else old
    for part in rest:
        if not isinstance(value, dict) or part not in value:
            raise _Missing(path)
        value = value[part]
    return value


def _has(path: str) -> Rule:
    def has(new: Any, old: Any) -> bool:
        try:
            _read(path, new, old)
        except _Missing:
            return False
        return True

    return has


def _size(path: str) -> Rule:
    return lambda new, old: len(_read(path, new, old))


def _literal(token: str) -> Rule:
    if token.startswith(("self", "oldSelf")):
        return lambda new, old: _read(token, new, old)
    words: dict[str, Any] = {"true": True, "false": False, "null": None}
    if token in words:
        return lambda _new, _old: words[token]
    if token[0] in "'\"":
        return lambda _new, _old: token[1:-1]
    if token[0].isdigit() or token[0] == "-":
        number = float(token) if "." in token else int(token)
        return lambda _new, _old: number
    raise _Unsupported(token)


@lru_cache(maxsize=512)
def _compiled(text: str) -> Rule | None:
    try:
        parser = _Parser(text)
        rule = parser.either()
        if parser.peek():
            return None
    except _Unsupported:
        return None
    return rule


def supported(text: str) -> bool:
    """Say whether a rule is evaluated here."""
    return _compiled(text) is not None


def check(schema: Mapping[str, Any], value: Any, old: Any, path: str, causes: list[Cause]) -> None:
    """Evaluate the rules of a schema and of all schemas below it."""
    for entry in schema.get("x-kubernetes-validations") or ():
        _apply(entry, value, old, path, causes)
    before = old if isinstance(old, dict) else {}
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        additional = schema.get("additionalProperties")
        for key, one in value.items():
            below = properties.get(key) or (additional if isinstance(additional, dict) else None)
            if below:
                check(below, one, before.get(key), f"{path}.{key}" if path else key, causes)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for at, one in enumerate(value):
            check(schema["items"], one, None, f"{path}[{at}]", causes)


def _apply(entry: Mapping[str, Any], value: Any, old: Any, path: str, causes: list[Cause]) -> None:
    text = entry.get("rule", "")
    rule = _compiled(text)
    if rule is None or ("oldSelf" in text and old is None):  # transition rules hold for updates only
        return
    try:
        holds = bool(rule(value, old))
    except (_Missing, TypeError):
        holds = False
    if not holds:
        message = entry.get("message") or f"failed rule: {text}"
        written = "" if isinstance(value, (dict, list)) else f"{shown(value)}: "
        reason = entry.get("reason") or "FieldValueInvalid"
        causes.append(Cause(reason, f"Invalid value: {written}{message}", path + entry.get("fieldPath", "")))
