"""Placing a gang as a transaction on the snapshot.

``with plan.attempt() as trial`` charges what ``trial.place`` chooses at once, so that the gang's next
shape sees it; leaving the block without ``trial.commit()`` takes everything back.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from services.scheduler.core.columns import FloatArray, SlotArray
from services.scheduler.core.index import Taken
from services.scheduler.core.shapes import Shape

if TYPE_CHECKING:
    from services.scheduler.core.model import Model


class Trial:
    """An attempt: what was chosen so far, by shape."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._log: list[tuple[Shape, Taken]] = []
        self._kept = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._kept:
            self.rollback()

    def fits(self, shape: Shape) -> int:
        """Return how many pods of a shape fit now, what the trial took being taken."""
        return Plan(self._model).fits(shape)

    def place(self, shape: Shape, count: int) -> bool:
        """Take room for ``count`` pods in the best places; False and no change when they do not fit."""
        if shape.between is not None:
            return self.place_among(shape, self._model.nodes.by_name(), count)
        index = self._model.index(shape)
        if index.total < count:
            return False
        self._log.append((shape, index.take(count)))
        return True

    def place_among(self, shape: Shape, slots: SlotArray, count: int) -> bool:
        """As :meth:`place`, on the nodes given, in order of their names."""
        taken = self._model.index(shape).take_among(slots, count)
        if taken is not None:
            self._log.append((shape, taken))
        return taken is not None

    def place_liked(self, shape: Shape, likes: FloatArray | None) -> Taken | None:
        """Take room for one pod where its scores and how much it likes a node, by slot, are the most."""
        index = self._model.index(shape)
        taken = index.take_liked(self._model.nodes.by_name(), likes) if index.total else None
        if taken is not None:
            self._log.append((shape, taken))
        return taken

    @property
    def mark(self) -> int:
        """How far the trial is: what is placed later can be taken back to here."""
        return len(self._log)

    def since(self, mark: int) -> list[tuple[Shape, Taken]]:
        """Return what was taken since a mark."""
        return self._log[mark:]

    def commit(self) -> list[tuple[Shape, Taken]]:
        """Keep what was taken, and return it."""
        self._kept = True
        return self._log

    def rollback(self, mark: int = 0) -> list[tuple[Shape, Taken]]:
        """Take back, last first, what was taken since a mark: else everything. Return it."""
        gone = self._log[mark:]
        take_back(self._model, gone)
        del self._log[mark:]
        return gone

    def retake(self, gone: list[tuple[Shape, Taken]]) -> None:
        """Take again what was taken back, and is free still."""
        for shape, taken in gone:
            _charge(self._model, shape, taken, 1)
        self._log += gone


def take_back(model: Model, log: Sequence[tuple[Shape, Taken]]) -> None:
    """Give back, last first, what was taken."""
    for shape, taken in reversed(log):
        _charge(model, shape, taken, -1)


def _charge(model: Model, shape: Shape, taken: Taken, sign: int) -> None:
    charge = model.nodes.place if sign > 0 else model.nodes.take_back
    if not taken.placed:
        charge(shape.charged, taken.slots, taken.counts, shape.mounts)
    for slot, placed in zip(taken.places(), taken.placed, strict=False):
        charge(placed.charged, [slot], [1], placed.mounts)


class Plan:
    """Attempts on one model."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def attempt(self) -> Trial:
        """Begin an attempt."""
        return Trial(self._model)

    def fits(self, shape: Shape) -> int:
        """Return how many pods of a shape fit now: of one that asks for others, as many as a trial placed."""
        index = self._model.index(shape)
        return index.total if shape.between is None else index.placed
