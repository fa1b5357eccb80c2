"""Parts of the node table: array types, a label's column, a numbered log of changes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
CodeArray = npt.NDArray[np.int32]
SlotArray = npt.NDArray[np.intp]


class LabelColumn:
    """One label over all nodes: small codes for its values, 0 where it is absent."""

    def __init__(self, size: int) -> None:
        self.codes: CodeArray = np.zeros(size, np.int32)
        self.values: list[str | None] = [None]
        self._codes: dict[str, int] = {}

    def set(self, slot: int, value: str | None) -> None:
        """Set a node's value."""
        self.codes[slot] = 0 if value is None else self._code(value)

    def _code(self, value: str) -> int:
        code = self._codes.get(value)
        if code is None:
            code = self._codes[value] = len(self.values)
            self.values.append(value)
        return code


class ChangeLog:
    """Numbered changes, of which only the latest are kept.

    A follower remembers the number up to which it has read; one that is too far behind (``since``
    returns None) has to look at everything.
    """

    def __init__(self, keep: int = 65536) -> None:
        self.end = 0
        """The number of the latest change."""
        self._slots: list[int] = []
        self._start = 0
        self._keep = keep

    def append(self, slot: int) -> int:
        """Note a change and return its number."""
        self._slots.append(slot)
        self.end += 1
        if self.end - self._start > 2 * self._keep:
            self._forget()
        return self.end

    def extend(self, slots: Sequence[int]) -> None:
        """Note several changes."""
        self._slots.extend(slots)
        self.end += len(slots)
        if self.end - self._start > 2 * self._keep:
            self._forget()

    def since(self, number: int) -> list[int] | None:
        """Return the slots of later changes, oldest first, or None when they are forgotten."""
        if number < self._start:
            return None
        return self._slots[number - self._start :]

    def _forget(self) -> None:
        del self._slots[: self._keep]
        self._start += self._keep
