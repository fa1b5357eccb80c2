"""What pods hold on their nodes in all columns: of rules, ports, single devices and NUMA nodes, too."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from services.scheduler.core.columns import IntArray, SlotArray
from services.scheduler.core.nodes import Nodes
from services.scheduler.core.shapes import Shape, Shapes
from services.scheduler.core.victims import Victims

Placed = tuple[int, Shape]
"""A pod's place among others, and its shape with what it has of its node."""


def with_parts(victims: Victims, shapes: Shapes, rows: SlotArray) -> list[Placed]:
    """Return which of the victims' rows have parts of their nodes, by their places among these."""
    numbers = [shape.number for shape in shapes.by_number if shape.apart]
    if not numbers:
        return []
    found = np.flatnonzero(np.isin(victims.shape[rows], numbers))
    pods = ((at, victims.pods[rows.item(at)]) for at in found.tolist())
    return [(at, pod.shape) for at, pod in pods if pod is not None and pod.shape.of_node]


def leaving(nodes: Nodes) -> IntArray:
    """Return what is held by pods that are leaving and kept for nobody: [column, slot]."""
    nodes.fit_columns()
    found: IntArray = np.maximum(nodes.releasing - nodes.earmarked, 0)
    return found


class Held:
    """Pods in the order in which they go: on which slots, of which shapes (by number), who with parts."""

    def __init__(
        self, shapes: Shapes, slots: SlotArray, numbers: IntArray, placed: Iterable[Placed] = ()
    ) -> None:
        self._shapes = shapes
        self._slots = slots
        self._numbers = numbers
        parts = sorted((at, *item) for at, shape in placed for item in shape.of_node)
        table = np.array(parts, np.int64).reshape(len(parts), 3)
        self._pods, self._columns, self._amounts = table.T

    def add_to(self, amounts: IntArray, first: int | None = None) -> None:
        """Add what they hold, or the first so many, to amounts by column and slot."""
        first = self._slots.size if first is None else first
        self._shapes.add_held(amounts, self._slots[:first], self._numbers[:first], charged=True)
        parts = int(np.searchsorted(self._pods, first))
        where = self._slots[self._pods[:parts]]
        np.add.at(amounts, (self._columns[:parts], where), self._amounts[:parts])


def held_by(victims: Victims, shapes: Shapes, rows: SlotArray) -> Held:
    """Return what the pods of rows of the victims hold."""
    return Held(shapes, victims.slot[rows], victims.shape[rows], with_parts(victims, shapes, rows))
