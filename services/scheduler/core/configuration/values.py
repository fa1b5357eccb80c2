"""Values of arguments: what each kind of value may be, and how it is read.

A number may be written as text, as in files that were made for older versions. Every reader raises
ValueError with what was wanted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from math import isfinite
from urllib.parse import urlsplit

from shared.api.duration import parse_duration

Read = Callable[[object], object]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value: its name for readers, and its reader."""

    name: str
    read: Read


def number(low: float, high: float | None = None) -> Kind:
    """A number from ``low`` to ``high``, both included; read as float."""
    wanted = f"a number of {low:g} or more" if high is None else f"a number from {low:g} to {high:g}"

    def read(value: object) -> float:
        try:
            found = float(_digits(value))
        except ValueError:
            raise ValueError(wanted) from None
        if not isfinite(found) or found < low or (high is not None and found > high):
            raise ValueError(wanted)
        return found

    return Kind("number", read)


def whole(low: int) -> Kind:
    """A whole number, ``low`` or more; read as int."""
    wanted = f"a whole number of {low} or more"

    def read(value: object) -> int:
        try:
            found = int(_digits(value))
        except ValueError:
            raise ValueError(wanted) from None
        if found < low:
            raise ValueError(wanted)
        return found

    return Kind("whole number", read)


def _digits(value: object) -> str:
    """Return a number as text; Python would take more for one than YAML does."""
    text = str(value)
    if isinstance(value, bool) or "_" in text:
        raise ValueError("not a number")
    return text


def choice(*values: str) -> Kind:
    """One of some words."""

    def read(value: object) -> str:
        if value not in values:
            raise ValueError(f"one of {', '.join(values)}")
        return str(value)

    return Kind(" or ".join(values), read)


def _boolean(value: object) -> bool:
    found = {"true": True, "false": False}.get(str(value).lower())
    if found is None:
        raise ValueError("true or false")
    return found


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a text")
    return value.strip()


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, str):
        raise ValueError("names, separated by commas")  # noqa: TRY004 - a wrong value like others
    return tuple(dict.fromkeys(name for part in value.split(",") if (name := part.strip())))


def _duration(value: object) -> timedelta:
    wanted = "a time such as 90s, 5m or 1h30m"
    try:
        found = parse_duration(str(value))
    except ValueError:
        raise ValueError(wanted) from None
    if found < timedelta(0):
        raise ValueError(wanted)
    return found


def _interval(value: object) -> timedelta:
    found = _duration(value)
    if found < timedelta(seconds=1):
        raise ValueError("a time of 1s or more")
    return found


_HOURS = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")


def _hours(value: object) -> tuple[int, int]:
    found = _HOURS.fullmatch(str(value).replace(" ", ""))
    if found is None:
        raise ValueError("hours such as 22:00-06:00")
    begin, begin_minute, end, end_minute = map(int, found.groups())
    return begin * 60 + begin_minute, end * 60 + end_minute


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise ValueError("a mapping")
    return value


def _strategies(value: object) -> tuple[tuple[str, bool, float], ...]:
    wanted = "a mapping of resources to {type: LeastAllocated or MostAllocated, weight: a number}"
    read: list[tuple[str, bool, float]] = []
    for name, one in _mapping(value).items():
        if not isinstance(one, dict) or set(one) - {"type", "weight"} or "*" in name[:-1]:
            raise ValueError(wanted)
        kind = one.get("type", "LeastAllocated")
        if kind not in ("LeastAllocated", "MostAllocated"):
            raise ValueError(wanted)
        weight = WEIGHT.read(one.get("weight", 1))
        read.append((name, kind == "MostAllocated", float(str(weight))))
    return tuple(read)


def _scarcity(value: object) -> tuple[float, tuple[tuple[str, float], ...]] | None:
    wanted = "a mapping of enable, resources (names by commas), weight and resourceWeight (by resource)"
    given = _mapping(value)
    if set(given) - {"enable", "resources", "weight", "resourceWeight"}:
        raise ValueError(wanted)
    if not _boolean(given.get("enable", False)):
        return None
    if "resources" not in given or "weight" not in given:
        raise ValueError(wanted)
    weights = _mapping(given.get("resourceWeight") or {})
    each = ((name, float(str(WEIGHT.read(weights.get(name, 1))))) for name in _names(given["resources"]))
    return float(str(WEIGHT.read(given["weight"]))), tuple(each)


def _proportions(value: object) -> tuple[tuple[str, float, float], ...]:
    wanted = (
        "a mapping of enable, resources (names by commas) and resourceProportion (<resource>.cpu, .memory)"
    )
    given = _mapping(value)
    if set(given) - {"enable", "resources", "resourceProportion"}:
        raise ValueError(wanted)
    if not _boolean(given.get("enable", False)):
        return ()
    if "resources" not in given:
        raise ValueError(wanted)
    names, parts = _names(given["resources"]), _mapping(given.get("resourceProportion") or {})
    if set(parts) - {f"{name}.{what}" for name in names for what in ("cpu", "memory")}:
        raise ValueError(wanted)

    def part(name: str) -> float:
        return float(str(WEIGHT.read(parts.get(name, 1))))

    return tuple((name, 1e3 * part(f"{name}.cpu"), 1e9 * part(f"{name}.memory")) for name in names)


def _listing(value: object) -> tuple[object, ...]:
    if not isinstance(value, list):
        raise ValueError("a list")  # noqa: TRY004 - a wrong value like others
    return tuple(value)


def url(shown: str, wanted: str) -> Kind:
    """Return the kind of addresses to which paths are added: of HTTP, without a query."""

    def read(value: object) -> str:
        text = value.strip() if isinstance(value, str) else ""
        try:
            parts = urlsplit(text)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable or re.search(r"[\s?#]", text):
            raise ValueError(wanted)
        return text.rstrip("/")

    return Kind(shown, read)


def texts(what: str) -> Kind:
    """Return the kind of lists of texts that say ``what``, each of them once."""

    def read(value: object) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
            raise ValueError(f"a list of {what}")
        return tuple(dict.fromkeys(value))

    return Kind(f"list of {what}", read)


BOOLEAN = Kind("true or false", _boolean)
RESOURCES = texts("resources")
TEXT = Kind("text", _text)
NAMES = Kind("names, by commas", _names)
DURATION = Kind("time", _duration)
INTERVAL = Kind("time, 1s or more", _interval)
HOURS = Kind("hours of the day", _hours)
"""Read as minutes after midnight: when they begin and end."""
MAPPING = Kind("mapping", _mapping)
STRATEGIES = Kind("type and weight by resource", _strategies)
"""Read as (name of a resource or its beginning with ``*``, most, weight)."""
SCARCITY = Kind("enable, resources, weight, resourceWeight", _scarcity)
"""Read as (weight, weight by resource); None when it is not enabled."""
PROPORTIONS = Kind("enable, resources, resourceProportion", _proportions)
"""Read as (resource, milli-CPU, bytes for each unit); nothing when it is not enabled."""
LISTING = Kind("list", _listing)
WEIGHT = number(0)
