"""Durations as Go writes them (``metav1.Duration``): ``1h30m``, ``1.5s``, ``300ms``."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_NANOS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_MAX_NANOS: Final = 2**63 - 1


def parse_duration(text: str) -> timedelta:
    """Read a duration, to the microsecond (finer parts are cut). Raises ValueError."""
    sign, body = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if body == "0":
        return timedelta()
    total, position = 0, 0
    for part in _PART.finditer(body):
        if part.start() != position or len(part[1]) > 30:  # noqa: PLR2004 - digits
            break
        position = part.end()
        whole, _, fraction = part[1].partition(".")
        total += (
            (int(whole or 0) * 10 ** len(fraction) + int(fraction or 0))
            * _NANOS[part[2]]
            // 10 ** len(fraction)
        )
    if not body or position != len(body) or total > _MAX_NANOS:
        raise ValueError(f"{text[:64]!r} is not a duration: write for example 90s, 10m or 1h30m")
    return timedelta(microseconds=sign * (total // 1000))


def format_duration(duration: timedelta) -> str:
    """Write a duration as Go's ``Duration.String``: ``1h0m0s``, ``1.5s``, ``300ms``, ``0s``."""
    micros = duration // timedelta(microseconds=1)
    sign, micros = ("-", -micros) if micros < 0 else ("", micros)
    if micros == 0:
        return "0s"
    if micros < 1000:  # noqa: PLR2004 - microseconds in a millisecond
        return f"{sign}{micros}µs"
    if micros < 10**6:
        return f"{sign}{_decimal(micros, 1000)}ms"
    minutes, rest = divmod(micros, 60 * 10**6)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{_decimal(rest, 10**6)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else f"{sign}{seconds}"


def _decimal(amount: int, unit: int) -> str:
    whole, rest = divmod(amount, unit)
    return f"{whole}.{rest:0{len(str(unit)) - 1}d}".rstrip("0") if rest else str(whole)
