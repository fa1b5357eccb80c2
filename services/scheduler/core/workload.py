"""The present workload: how many pods there are of each shape, running and waiting.

Counts are used roughly, as powers of four: what is made of them is made anew only when the workload changed
in kind, not with each pod. They follow from the gangs and pods that exist, not from when those came.
"""

from __future__ import annotations

from services.scheduler.core.shapes import Shape, Shapes


class Workload:
    """Pods that take parts of devices, by shape."""

    def __init__(self, shapes: Shapes) -> None:
        self._shapes = shapes
        self._counts: dict[int, int] = {}
        self.version = 0
        """Rises when a count became another power of four."""

    def add(self, shape: Shape, count: int) -> None:
        """Count ``count`` more pods of a shape (negative: less)."""
        if not shape.devices:
            return
        before = self._counts.get(shape.number, 0)
        after = self._counts[shape.number] = before + count
        if _power(before) != _power(after):
            self.version += 1

    def shapes(self) -> list[tuple[Shape, int]]:
        """Return the shapes and how many pods of each there are, roughly."""
        by_number = self._shapes.by_number
        counts = sorted(self._counts.items())
        return [(by_number[number], 1 << 2 * _power(count)) for number, count in counts if count]


def _power(count: int) -> int:
    """Return the number of the power of four that is nearest in order of size; -1 for nothing."""
    return count.bit_length() // 2 if count else -1
