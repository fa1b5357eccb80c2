"""Quantities of resources, by the rules of Kubernetes' ``resource.Quantity``.

A quantity is a fixed-point number with nine decimal places and the *family* of suffixes it was written
in, which it keeps when it is written again: decimal SI (``n u m k M G T P E``), binary SI
(``Ki … Ei``), or a decimal exponent (``e3``). Reading rounds away from zero to the next nano ("if you
want some, you get some") and caps binary quantities at 2^63-1. The canonical form has no fraction and
the largest suffix that allows it.

Where Go's code differs by accident we keep its documentation instead: it sometimes writes its input
back untouched (``+1``, ``1.123``), wraps values that do not fit 64 bits, and rounds some negative
numbers towards zero. Exponents above :data:`MAX_EXPONENT` are refused here: no resource needs
them, and a short text must not make a number of a million digits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final, Literal

MAX_EXPONENT: Final = 99
_NANO: Final = 10**9
_CAP: Final = 2**63 - 1
_TEXT: Final = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)", re.ASCII)
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)", re.ASCII)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX: Final = {exponent: suffix for suffix, exponent in _BINARY.items()}


class QuantityError(ValueError):
    """A text that is no quantity."""


class Format(Enum):
    """The family of suffixes that a quantity is written with."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


def _up(number: int, unit: int) -> int:
    """Divide, rounding away from zero."""
    return -(-number // unit) if number >= 0 else number // unit


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """An amount in nanos (10^-9) and the family it is written in. Equality and order are by amount."""

    nanos: int
    format: Format = Format.DECIMAL_SI

    @staticmethod
    def parse(text: str | float) -> Quantity:
        """Read a JSON value: a text (surrounding blanks are dropped, as Kubernetes does) or a number.

        Raises QuantityError, a ValueError, for anything else. Results are cached.
        """
        if isinstance(text, str):
            return _parse(text.strip())
        if isinstance(text, bool) or not isinstance(text, (int, float)):  # pyright: ignore[reportUnnecessaryIsInstance] - raw JSON
            raise QuantityError(f"{text!r} is not a quantity")
        if isinstance(text, int):
            if abs(text) > 10**MAX_EXPONENT:
                raise QuantityError("number out of range")
            return Quantity(text * _NANO)
        return _parse(repr(text))

    @staticmethod
    def of(value: int, format: Format = Format.DECIMAL_SI) -> Quantity:  # noqa: A002 - Kubernetes' word
        """Return a whole number of units."""
        return Quantity(value * _NANO, format)

    @staticmethod
    def of_milli(value: int, format: Format = Format.DECIMAL_SI) -> Quantity:  # noqa: A002
        """Return a whole number of thousandths."""
        return Quantity(value * 10**6, format)

    def value(self) -> int:
        """Return whole units, rounded away from zero."""
        return _up(self.nanos, _NANO)

    def milli_value(self) -> int:
        """Return thousandths, rounded away from zero."""
        return _up(self.nanos, 10**6)

    def scaled_value(self, exponent: int) -> int:
        """Return units of 10^exponent, rounded away from zero; exponents below -9 multiply."""
        shift = exponent + 9
        return _up(self.nanos, 10**shift) if shift >= 0 else self.nanos * 10**-shift

    def is_integer(self) -> bool:
        """Say whether this is a whole number of units."""
        return self.nanos % _NANO == 0

    def __add__(self, other: Quantity) -> Quantity:
        """Add; the sum has the family of the first, or of the second when the first is zero."""
        return Quantity(self.nanos + other.nanos, self.format if self.nanos else other.format)

    def __sub__(self, other: Quantity) -> Quantity:
        """Subtract; the family is chosen as by addition."""
        return Quantity(self.nanos - other.nanos, self.format if self.nanos else other.format)

    def __mul__(self, factor: int) -> Quantity:
        """Multiply by a whole number."""
        return Quantity(self.nanos * factor, self.format)

    __rmul__ = __mul__

    def __neg__(self) -> Quantity:
        """Change the sign."""
        return Quantity(-self.nanos, self.format)

    def __bool__(self) -> bool:
        """Say whether this is not zero."""
        return self.nanos != 0

    def __eq__(self, other: object) -> bool:
        """Compare by amount: ``1Gi`` equals ``1024Mi``."""
        return self.nanos == other.nanos if isinstance(other, Quantity) else NotImplemented

    def __hash__(self) -> int:
        """Hash by amount."""
        return hash(self.nanos)

    def __lt__(self, other: Quantity) -> bool:
        """Compare by amount."""
        return self.nanos < other.nanos

    def __le__(self, other: Quantity) -> bool:
        """Compare by amount."""
        return self.nanos <= other.nanos

    def __gt__(self, other: Quantity) -> bool:
        """Compare by amount."""
        return self.nanos > other.nanos

    def __ge__(self, other: Quantity) -> bool:
        """Compare by amount."""
        return self.nanos >= other.nanos

    def __str__(self) -> str:
        """Return the canonical form."""
        if not self.nanos:
            return "0"
        if self.format is Format.BINARY_SI and abs(self.nanos) >= 1024 * _NANO and self.is_integer():
            return _binary_text(self.nanos // _NANO)
        # A small or fractional binary quantity is written in decimals, so that no precision is lost.
        return _decimal_text(self.nanos, exponent_form=self.format is Format.DECIMAL_EXPONENT)


def _binary_text(units: int) -> str:
    exponent = 0
    while units % 1024 == 0 and exponent < max(_BINARY_SUFFIX):
        units //= 1024
        exponent += 10
    return f"{units}{_BINARY_SUFFIX[exponent]}" if exponent else str(units)


def _decimal_text(nanos: int, *, exponent_form: bool) -> str:
    exponent = -9
    largest = None if exponent_form else max(_DECIMAL_SUFFIX)
    while nanos % 1000 == 0 and exponent != largest:
        nanos //= 1000
        exponent += 3
    if exponent_form:
        return f"{nanos}e{exponent}" if exponent else str(nanos)
    return f"{nanos}{_DECIMAL_SUFFIX[exponent]}"


@lru_cache(maxsize=16384)
def _parse(text: str) -> Quantity:
    match = _TEXT.fullmatch(text) if text else None
    if match is None:
        raise QuantityError(f"{text[:64]!r} is not a quantity: a number and a suffix such as m, k, Gi or e3")
    sign, whole, fraction, suffix = match.groups(default="")
    base, exponent, family = _suffix(suffix, text)
    try:
        digits = int((whole + fraction) or "0")
    except ValueError:
        raise QuantityError("a quantity of too many digits") from None
    nanos = _nanos(digits, len(fraction), base, exponent)
    if family is Format.BINARY_SI:
        nanos = min(nanos, _CAP * _NANO)
        if 0 < nanos < _NANO:
            family = Format.DECIMAL_SI
    return Quantity(-nanos if sign == "-" else nanos, family)


def _nanos(digits: int, places: int, base: Literal[2, 10], exponent: int) -> int:
    """Return ``digits * 10^-places * base^exponent`` in nanos, rounded up."""
    if base == 2:  # noqa: PLR2004 - the base of a power
        return _up((digits << exponent) * _NANO, 10**places)
    shift = exponent - places + 9
    if shift >= 0:
        return digits * int(10**shift)
    # No number of so few digits reaches a nano: skip the division by a huge power.
    return _up(digits, int(10**-shift)) if -shift <= 5000 else min(digits, 1)  # noqa: PLR2004


def _suffix(suffix: str, text: str) -> tuple[Literal[2, 10], int, Format]:
    if (decimal := _DECIMAL.get(suffix)) is not None:
        return 10, decimal, Format.DECIMAL_SI
    if (binary := _BINARY.get(suffix)) is not None:
        return 2, binary, Format.BINARY_SI
    match = _EXPONENT.fullmatch(suffix)
    if match is None:
        raise QuantityError(f"{text[:64]!r} has the unknown suffix {suffix[:16]!r}")
    if len(match[1]) > 12 or (exponent := int(match[1])) > MAX_EXPONENT:  # noqa: PLR2004 - digits
        raise QuantityError(f"{text[:64]!r} has an exponent out of range")
    return 10, exponent, Format.DECIMAL_EXPONENT
