"""Counters of what the core looked at: the measure for "work follows the change"."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Work:
    """Running totals since the model was made."""

    nodes: int = 0
    """Single nodes looked at: used by a placement, or repaired in an index."""
    passes: int = 0
    """Passes over all nodes."""
    gangs: int = 0
    """Gangs tried."""
    searches: int = 0
    """Searches for victims."""
