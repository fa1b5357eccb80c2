"""Nodes that really use less before others: the score of Volcano's ``usage``.

What a node uses is what was measured, and what the pods will use that the figures do not show yet: a part
of what they ask for, more of it where the node is busy. Volcano adds such pods one by one, in no order, and
looks before each whether the node is busy by then; here it is as if they came in very many equal parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from services.scheduler.core.columns import FloatArray, IntArray, SlotArray
from services.scheduler.core.load import LoadScore
from services.scheduler.core.nodes import Nodes
from services.scheduler.core.resources import CPU, MEMORY
from services.scheduler.core.shapes import Shape
from services.scheduler.core.terms import Term

if TYPE_CHECKING:
    from services.scheduler.core.policy import Scores

_UNASKED: Final = 2
_TINY: Final = 1e-12


class _Lightness(Term):
    """100 times the part that is not used, the mean of CPU and memory; 0 where nothing is known."""

    def __init__(self, nodes: Nodes, score: LoadScore) -> None:
        self._nodes = nodes
        self._score = score
        weights = np.array([score.cpu_weight, score.memory_weight])
        self._weights = (weights / weights.sum()).reshape(2, 1)
        self._unasked = np.array([[score.unasked_cpu], [score.unasked_memory]])

    def refresh(self) -> int:
        return self._nodes.load.version

    def many(self, slots: SlotArray) -> FloatArray:
        known = self._nodes.load.used[:, slots] / 100.0
        calm, busy = self._unseen(slots)
        before = (self._weights * known).sum(axis=0)
        more = (self._weights * calm).sum(axis=0)
        part = np.clip((self._score.risk_threshold - before) / np.maximum(more, _TINY), 0.0, 1.0)
        used = np.minimum(known + part * calm + (1.0 - part) * busy, 1.0)
        free: FloatArray = 100.0 * self._score.weight * (self._weights * (1.0 - used)).sum(axis=0)
        return np.nan_to_num(free)

    def _unseen(self, slots: SlotArray) -> tuple[FloatArray, FloatArray]:
        """Return which part of a node its unseen pods will use if it is calm, and if it is busy."""
        nodes, score = self._nodes, self._score
        shown = nodes.load.shown[:, slots]
        asked = np.stack([self._held(column, slots) - shown[column] for column in (CPU, MEMORY)])
        unasked = self._unasked * self._asking_nothing(slots, shown[_UNASKED])
        there = nodes.allocatable[: MEMORY + 1, slots]
        scale = (there > 0) / np.maximum(there, 1)
        busy_ratio = min(score.request_ratio * score.risk_factor, 1.0)
        calm = (score.request_ratio * np.maximum(asked, 0) + unasked) * scale
        busy = (busy_ratio * np.maximum(asked, 0) + score.risk_factor * unasked) * scale
        return calm, busy

    def _asking_nothing(self, slots: SlotArray, shown: IntArray) -> IntArray:
        column = self._nodes.load.unasked
        if column is None:
            return np.zeros(slots.size, np.int64)
        asking: IntArray = np.maximum(self._held(column, slots) - shown, 0)
        return asking

    def _held(self, column: int, slots: SlotArray) -> IntArray:
        """Return what pods hold that are there or placed by now: not what is kept for others."""
        nodes = self._nodes
        kept = np.maximum(nodes.earmarked[column, slots] - nodes.releasing[column, slots], 0)
        held: IntArray = nodes.used[column, slots] - nodes.kept[column, slots] - kept
        return held


def lightness(shape: Shape, nodes: Nodes, scores: Scores) -> Term | None:  # noqa: ARG001 - as every maker
    """Return the term, if it counts."""
    score = scores.load
    if score is None or score.weight <= 0 or score.cpu_weight + score.memory_weight <= 0:
        return None
    return _Lightness(nodes, score)
