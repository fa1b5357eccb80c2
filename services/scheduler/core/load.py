"""What nodes really use: the choices about it, and the columns.

Figures are in percent of a node's CPU and memory. They show what pods used that began some time ago; what the
others will use is estimated from what they ask for (``lightness``). So that it is known at each moment how
much is asked for by pods that the figures do not show, the columns keep what those ask for that they do show.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import numpy as np

from services.scheduler.core.columns import BoolArray, FloatArray, IntArray

FRESH: Final = timedelta(minutes=5)
"""For how long figures count after they were measured."""
MEAN: Final = timedelta(minutes=10)
"""Figures are means of so long: what came or went later shows in part."""


@dataclass(frozen=True, slots=True)
class LoadScore:
    """Nodes that really use less before others: Volcano's ``usage``, and its estimator."""

    weight: float = 5.0
    cpu_weight: float = 1.0
    memory_weight: float = 1.0
    unseen_for: timedelta = timedelta(seconds=30)
    """For how long after its start the figures do not show a pod."""
    request_ratio: float = 0.7
    """So much of what a pod asks for it will use."""
    risk_threshold: float = 0.6
    """On a node that uses more than this part, the mean of CPU and memory by their weights, ..."""
    risk_factor: float = 1.2
    """... pods are taken to use so many times more."""
    unasked_cpu: float = 250.0
    """What a pod that asks for nothing is taken to use, in milli-CPU."""
    unasked_memory: float = 200.0 * (1 << 20)
    """In bytes."""


@dataclass(frozen=True, slots=True)
class LoadLimit:
    """Nodes that really use more take no pods; in percent."""

    cpu: float = 80.0
    memory: float = 80.0


@dataclass(frozen=True, slots=True)
class Levelling:
    """Pods leave nodes that use too much for nodes that use little: Volcano's ``rescheduling``.

    Bounds are in percent, of CPU, of memory and of how many pods a node takes.
    """

    low: tuple[float, float, float] = (100.0, 100.0, 100.0)
    """A node that uses less of each takes pods that leave others, ..."""
    high: tuple[float, float, float] = (100.0, 100.0, 100.0)
    """... up to these; one that uses more of any gives pods up."""
    period: timedelta = timedelta(minutes=5)
    """Between two rounds."""
    rest: timedelta = timedelta(minutes=30)
    """How long after it was bound a pod stays where it is: so nobody is moved to and fro."""
    queues: tuple[str, ...] = ()
    """Only pods of these leave; empty: of all."""
    spared: str = ""
    """The priority class whose pods stay, and all whose priority is no lower; empty: those of the system."""


class LoadOnNodes:
    """Columns over node slots; rows are CPU and memory."""

    def __init__(self) -> None:
        self.used: FloatArray = np.full((2, 16), np.nan)
        """In percent; NaN: not known, or not any more."""
        self.over: BoolArray = np.zeros(16, np.bool_)
        """More is used than the policy lets be: no pods."""
        self.shown: IntArray = np.zeros((3, 16), np.int64)
        """What pods ask for that the figures show: CPU, memory, and how many of them ask for nothing."""
        self.unasked: int | None = None
        """The column in which pods count that ask for nothing."""
        self.version = 0
        """Rises with new figures."""

    def grow(self, size: int) -> None:
        """Make room for so many slots."""
        extra = size - self.over.size
        self.used = np.pad(self.used, ((0, 0), (0, extra)), constant_values=np.nan)
        self.over = np.pad(self.over, (0, extra))
        self.shown = np.pad(self.shown, ((0, 0), (0, extra)))

    def forget(self, slot: int) -> None:
        """Forget the figures of a node whose slot another may get."""
        self.used[:, slot] = np.nan
        self.over[slot] = False
