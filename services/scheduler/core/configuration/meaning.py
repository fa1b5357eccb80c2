"""What a configuration means, for people: its words, and every choice that it comes to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import timedelta
from typing import Any

from services.scheduler.core.configuration import Configured
from services.scheduler.core.configuration.reader import ACTIONS, PLUGINS
from services.scheduler.core.configuration.terms import Action, Plugin
from services.scheduler.core.own import Own
from services.scheduler.core.policy import Policy

OWN = "own plugin"


def words(read: Configured) -> list[tuple[str, str, str]]:
    """Return the actions and plugins that are named: name, how we stand to it, what it does."""
    known: list[Action | Plugin | str] = [ACTIONS[name] for name in read.actions if name in ACTIONS]
    known += [PLUGINS.get(name, name) for name in read.plugins]
    return [_word(one) for one in known]


def _word(one: Action | Plugin | str) -> tuple[str, str, str]:
    if isinstance(one, str):
        return one, OWN, ""
    return one.name, one.stand.value, f"{one.says} ({one.why})" if one.why else one.says


def choices(policy: Policy) -> list[tuple[str, str]]:
    """Return every choice of a policy by its name, as text."""
    return list(_choices("", policy))


def _choices(path: str, area: Any) -> Iterator[tuple[str, str]]:
    for field in fields(area):
        value, name = getattr(area, field.name), f"{path}{field.name}"
        if is_dataclass(value):
            yield from _choices(f"{name}.", value)
        elif name != "scores.extra":
            yield name, _text(value)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        text = ", ".join(" ".join(map(_text, one)) if isinstance(one, tuple) else _text(one) for one in value)
        return text or "nothing"
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g} s"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    own = getattr(value, "own", value)
    return own.name if isinstance(own, Own) else "unset" if value is None else str(value)
