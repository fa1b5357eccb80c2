"""Addresses of pods: 10.128.0.0/9, each used by one pod at a time."""

from __future__ import annotations

from typing import Final

_BASE: Final = (10 << 24) | (128 << 16)
_SIZE: Final = 1 << 23


class PodAddresses:
    """Gives out addresses in turn, so that one is used again as late as possible."""

    def __init__(self) -> None:
        self._used: set[int] = set()
        self._next = 1

    def take(self) -> str:
        """Return an address that no pod has."""
        while self._next in self._used:
            self._next = (self._next + 1) % _SIZE or 1
        number = self._next
        self._used.add(number)
        self._next = (number + 1) % _SIZE or 1
        number += _BASE
        return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))

    def keep(self, address: str) -> None:
        """Note an address that a pod has already."""
        self._used.add(_number(address))

    def free(self, address: str) -> None:
        """Take an address back."""
        self._used.discard(_number(address))


def _number(address: str) -> int:
    number = 0
    for part in address.split("."):
        number = number << 8 | int(part)
    return number - _BASE
