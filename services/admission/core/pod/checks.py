"""Small checks that the rules for pods are made of."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from services.admission.core.formats import label_value, qualified_name
from services.admission.core.violations import Violation, listing

Violations = Iterator[Violation]
Format = Callable[[str], str | None]


def required(text: str, path: str) -> Violations:
    """A text must not be empty."""
    if not text:
        yield Violation("required", path, f"{_leaf(path)} is required")


def formed(text: str, path: str, check: Format, *, code: str = "invalid") -> Violations:
    """A text must be empty or have a format."""
    if text and (problem := check(text)):
        yield Violation(code, path, f'"{_short(text)}" {problem}')


def named(text: str, path: str, check: Format) -> Violations:
    """A text must be there and have a format."""
    yield from required(text, path)
    yield from formed(text, path, check)


def one_of(text: str | None, path: str, allowed: Collection[str]) -> Violations:
    """A text must be absent or one of some."""
    if text and text not in allowed:
        yield Violation("unsupported", path, f'"{_short(text)}" is not one of {listing(allowed)}')


def within(number: int | None, path: str, low: int, high: int | None = None) -> Violations:
    """A number must be absent or in a range, ends included."""
    if number is None or (number >= low and (high is None or number <= high)):
        return
    allowed = f"at least {low}" if high is None else f"between {low} and {high}"
    yield Violation("invalid", path, f"{number} must be {allowed}")


def unique(text: str, path: str, seen: set[str]) -> Violations:
    """A text must not have been seen before; it is now."""
    if text and text in seen:
        yield Violation("duplicate", path, f'"{_short(text)}" is there already')
    seen.add(text)


def label_map(values: Mapping[str, str], path: str) -> Violations:
    """Labels have qualified names and label values."""
    for key, value in values.items():
        if problem := qualified_name(key):
            yield Violation("invalid", path, f'the label name "{_short(key)}" {problem}')
        if problem := label_value(value):
            yield Violation("invalid", f"{path}[{key}]", f'"{_short(value)}" {problem}')


def annotation_map(values: Mapping[str, str], path: str) -> Violations:
    """Annotations have qualified names (any case) and at most 256 KiB in all."""
    for key in values:
        if problem := qualified_name(key.lower()):
            yield Violation("invalid", path, f'the annotation name "{_short(key)}" {problem}')
    size = sum(len(key.encode()) + len(value.encode()) for key, value in values.items())
    if size > 256 * 1024:
        yield Violation("invalid", path, f"annotations have {size} bytes; the limit is 262144")


def stays_inside(text: str, path: str) -> Violations:
    """A path must not lead upwards."""
    if ".." in text.split("/"):
        yield Violation("invalid", path, f'"{_short(text)}" must not contain ".."')


def _leaf(path: str) -> str:
    return path.rpartition(".")[2]


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."  # noqa: PLR2004 - a line's width
