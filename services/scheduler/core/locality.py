"""Nodes that have a pod's images before others: kube-scheduler's ``ImageLocality``.

Large images on a node make points, the more so the more nodes have them: one that a node alone has would
draw all pods there. So the points of all nodes with an image change as one more gets it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from services.scheduler.core.columns import FloatArray, SlotArray
from services.scheduler.core.nodes import Nodes
from services.scheduler.core.shapes import Shape
from services.scheduler.core.terms import Term

if TYPE_CHECKING:
    from services.scheduler.core.policy import Scores

_LEAST: Final = 23 << 20
"""Bytes that make no point yet."""
_MOST: Final = 1000 << 20
"""Bytes that make all points, for each container."""


class _Locality(Term):
    rising = True

    def __init__(self, names: tuple[str, ...], nodes: Nodes, weight: float) -> None:
        self._names = Counter(names)
        self._most = _MOST * len(names)
        self._nodes = nodes
        self._weight = weight
        self._seen: tuple[int, ...] = ()
        self._epoch = 0
        self._points: FloatArray = np.zeros(0)
        """By slot."""

    def refresh(self) -> int:
        nodes, images = self._nodes, self._nodes.images
        seen: tuple[int, ...] = ()
        if any(name in images.holders for name in self._names):
            seen = (nodes.count, nodes.exists.size, *map(images.versions.__getitem__, self._names))
        if seen != self._seen:
            self._seen = seen
            self._points = self._score()
            self._epoch += 1
        return self._epoch

    def many(self, slots: SlotArray) -> FloatArray:
        if not self._points.size:
            return np.zeros(slots.size)
        points: FloatArray = self._points[slots]
        return points

    def _score(self) -> FloatArray:
        nodes = self._nodes
        if not self._seen:
            return np.zeros(0)
        sums = np.zeros(nodes.exists.size, np.int64)
        for name, times in self._names.items():
            holders = nodes.images.holders.get(name, {})
            spread = len(holders) / max(nodes.count, 1)
            for slot, size in holders.items():
                sums[slot] += times * int(size * spread)
        sums = np.clip(sums, _LEAST, self._most)
        return (100 * (sums - _LEAST) // (self._most - _LEAST)) * np.float64(self._weight)


def locality(shape: Shape, nodes: Nodes, scores: Scores) -> Term | None:
    """Return the term of a shape, if it counts."""
    names = shape.contract.images
    return _Locality(names, nodes, scores.image_weight) if names and scores.image_weight > 0 else None
