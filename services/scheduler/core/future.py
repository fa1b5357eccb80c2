"""What nodes will have free once all that is leaving has left: a copy to try evictions and placements on."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from services.scheduler.core.bundles import Bundle
from services.scheduler.core.columns import BoolArray, IntArray, SlotArray
from services.scheduler.core.model import Model
from services.scheduler.core.shapes import Shape

On = dict[int, int]
"""Pods of a shape by slot."""
Plan = list[tuple[Shape, On]]


class Future:
    """Free amounts by column and slot, of the columns that some shapes ask for."""

    def __init__(self, model: Model, shapes: Iterable[Shape]) -> None:
        self._model = model
        self._columns = sorted({column for shape in shapes for column, _ in shape.amounts})
        self.at = {column: number for number, column in enumerate(self._columns)}
        """A column's number here."""
        nodes = model.nodes
        nodes.fit_columns()
        self.free: IntArray = nodes.future(self._columns)
        self._held: dict[int, list[int]] = {}
        self._shut: BoolArray = nodes.lacking(nodes.future())
        """More will be used than there is, in some resource: nothing is placed there."""

    # ------------------------------------------------------------------ how many fit

    def fits(self, shape: Shape, more: IntArray | None = None) -> IntArray:
        """Return how many pods of a shape fit, by slot, with ``more`` room."""
        free = self.free if more is None else self.free + more
        fits: IntArray | None = None
        for column, amount in shape.amounts:
            room = free[self.at[column]] // amount
            fits = room if fits is None else np.minimum(fits, room)
        assert fits is not None  # noqa: S101 - every shape takes the place of one pod
        fits = np.maximum(fits, 0)
        fits[~shape.rules.allowed[: fits.size] | self._shut] = 0
        return fits

    def fit_at(self, shape: Shape, slot: int) -> int:
        """Return how many pods of a shape fit on a node."""
        if not self.takes(shape, slot):
            return 0
        return max(
            0, min(self.free.item(self.at[column], slot) // amount for column, amount in shape.amounts)
        )

    def takes(self, shape: Shape, slot: int) -> bool:
        """Whether a node takes pods of a shape at all."""
        return shape.rules.allowed.item(slot) and not self._shut.item(slot)

    # ------------------------------------------------------------------ placing

    def fill(self, shape: Shape, count: int, on: On) -> int:
        """Take what is free, the tightest node first; return how many are left."""
        fits = self.fits(shape)
        order = self._model.nodes.by_name()
        order = order[fits[order] > 0]
        for slot in order[np.argsort(fits[order], kind="stable")].tolist():
            if not count:
                break
            count -= self.put(shape, slot, min(count, fits.item(slot)), on)
        return count

    def put(self, shape: Shape, slot: int, most: int, on: On) -> int:
        """Place as many pods as fit on a node."""
        count = min(self.fit_at(shape, slot), most)
        for column, amount in shape.amounts:
            self.free[self.at[column], slot] -= amount * count
        if count:
            on[slot] = on.get(slot, 0) + count
        return count

    def lift(self, plan: Plan) -> None:
        """Take a plan's pods off again."""
        for shape, on in plan:
            where = np.array(list(on), np.intp)
            counts = np.array(list(on.values()), np.int64)
            for column, amount in shape.amounts:
                self.free[self.at[column], where] += amount * counts

    # ------------------------------------------------------------------ victims

    def change(self, bundle: Bundle, sign: int) -> set[int]:
        """Let a bundle go (or, -1, stay); return the nodes that it concerns."""
        touched: set[int] = set()
        for slot, amounts in self.holds(bundle):
            touched.add(slot)
            for number, amount in enumerate(amounts):
                self.free[number, slot] += sign * amount
        return touched

    def holds(self, bundle: Bundle) -> list[tuple[int, list[int]]]:
        """Return slot and amounts by column of a bundle's pods."""
        slot = self._model.victims.slot
        return [(slot.item(row), self.held(row)) for row in bundle.rows]

    def held(self, row: int) -> list[int]:
        """Return what a pod holds, by column."""
        number = self._model.victims.shape.item(row)
        held = self._held.get(number)
        if held is None:
            amounts = dict(self._model.shapes.by_number[number].amounts)
            held = self._held[number] = [amounts.get(column, 0) for column in self._columns]
        return held

    def amounts(self, rows: SlotArray) -> IntArray:
        """Return what pods hold, by column and row."""
        shapes, numbers = self._model.shapes.by_number, self._model.victims.shape[rows]
        table = np.zeros((len(self._columns), int(numbers.max(initial=0)) + 1), np.int64)
        for number in np.unique(numbers).tolist():
            for column, amount in shapes[number].amounts:
                if column in self.at:
                    table[self.at[column], number] = amount
        return table[:, numbers]

    def freed(self, rows: SlotArray) -> IntArray:
        """Return what pods hold, by column and slot."""
        slots, amounts, size = self._model.victims.slot[rows], self.amounts(rows), self.free.shape[1]
        freed = np.zeros_like(self.free)
        for number in range(len(self._columns)):
            freed[number] = np.bincount(slots, weights=amounts[number], minlength=size)[:size]
        return freed
