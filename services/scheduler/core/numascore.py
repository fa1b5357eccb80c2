"""The score of nodes by NUMA: the fewer NUMA nodes a pod would have CPUs of, the better."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from services.scheduler.core.columns import FloatArray, SlotArray
from services.scheduler.core.nodes import Nodes
from services.scheduler.core.numa import Numa
from services.scheduler.core.shapes import Shape
from services.scheduler.core.terms import Term

if TYPE_CHECKING:
    from services.scheduler.core.policy import Scores

_MOST: Final = 100


class _Narrow(Term):
    """Volcano's ``numa-aware``: whole numbers 0..100, for pods that ask for a NUMA policy.

    0 is for as many NUMA nodes as those of the pool's nodes have at most that may take the pods, full or not:
    so a score does not move because some other node fills up.
    """

    def __init__(self, shape: Shape, nodes: Nodes, weight: float) -> None:
        self._shape = shape
        self._nodes = nodes
        self._numa = Numa(nodes)
        self._weight = weight
        self._most = self._epoch = 0
        self._seen = -1

    def refresh(self) -> int:
        if self._seen != self._nodes.capacity_version:
            self._seen = self._nodes.capacity_version
            self._shape.rules.refresh()
            most = self._nodes.numa.most_of(np.flatnonzero(self._shape.rules.allowed))
            self._epoch += most != self._most
            self._most = most
        return self._epoch

    def many(self, slots: SlotArray) -> FloatArray:
        spans = self._numa.spans(self._shape.aligned, slots)
        score: FloatArray = (_MOST - _MOST * spans // max(self._most, 1)) * np.float64(self._weight)
        return score

    def one(self, slot: int) -> float:
        spans = len(self._numa.choose(self._shape.aligned, slot))
        return self._weight * (_MOST - _MOST * spans // max(self._most, 1))


def narrow(shape: Shape, nodes: Nodes, scores: Scores) -> Term | None:
    """Return the term for a shape, None where it has no say."""
    asks = shape.contract.numa
    counts = scores.numa_weight > 0 and shape.aligned and asks is not None and asks.policy
    return _Narrow(shape, nodes, scores.numa_weight) if counts else None
