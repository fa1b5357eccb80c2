"""CEL expressions that say which devices a class or a request means.

What they see is what Kubernetes shows them: ``device.driver``, ``device.attributes[DOMAIN].NAME`` and
``device.capacity[DOMAIN].NAME``. Quantities and versions are compared by ``compareTo``, ``isGreaterThan`` and
``isLessThan``, made by ``quantity(TEXT)`` and ``semver(TEXT)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from shared.api.quantity import Quantity

if TYPE_CHECKING:
    import cel

Facts = Mapping[str, Any]
"""A device as expressions see it."""


def quantity(text: str) -> int:
    """Return a quantity in thousandths, as it is compared here. Raises ValueError."""
    return Quantity.parse(text).milli_value()


def version(text: str) -> list[Any]:
    """Return a semantic version as it is compared here: a release comes after what led to it.

    Raises ValueError.
    """
    core, _, extra = text.partition("+")[0].partition("-")
    major, minor, patch = (int(part) for part in core.split("."))
    # Parts that are numbers come before others, and fewer parts before more.
    parts = [[0, int(one), ""] if one.isdigit() else [1, 0, one] for one in extra.split(".") if one]
    return [major, minor, patch, 0 if parts else 1, parts]


def _order(one: Any, other: Any) -> int:
    return int(one > other) - int(one < other)


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "quantity": quantity,
    "semver": version,
    "compareTo": _order,
    "isGreaterThan": lambda one, other: one > other,
    "isLessThan": lambda one, other: one < other,
    "lowerAscii": str.lower,
    "upperAscii": str.upper,
}


@lru_cache(maxsize=1024)
def _program(expression: str) -> cel.Program:
    import cel

    return cel.compile(expression)


def problem_of(expression: str) -> str:
    """Say why an expression cannot be read; empty: it can."""
    try:
        _program(expression)
    except ValueError as error:
        return " ".join(str(error).split())
    return ""


def selects(expression: str, device: Facts) -> bool:
    """Whether an expression means a device; one that fails for it, as by an attribute it lacks, does not."""
    import cel

    context = cel.Context()
    context.add_variable("device", dict(device))
    for name, function in _FUNCTIONS.items():
        context.add_function(name, function)
    try:
        return _program(expression).execute(context) is True
    except (KeyError, RuntimeError, TypeError, ValueError):
        return False
