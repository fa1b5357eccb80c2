"""What a term of a score is; those of plugins are such too."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from services.scheduler.core.columns import FloatArray, SlotArray
from services.scheduler.core.nodes import Nodes
from services.scheduler.core.shapes import Shape


class Term:
    """One formula for one shape. A term of a plugin needs ``many`` only."""

    rising: bool = False

    def refresh(self) -> int:
        """Take in what changed outside of the nodes' log; return the term's epoch."""
        return 0

    def many(self, slots: SlotArray) -> FloatArray:
        """Return the scores of nodes that have room for one more pod."""
        raise NotImplementedError

    def one(self, slot: int) -> float:
        """Return ``many`` of one node."""
        return float(self.many(np.array([slot], np.intp))[0])


TermFactory = Callable[[Shape, Nodes], "Term | None"]
"""Makes a plugin's term for a shape, or None where it has no say."""
