"""Nodes that are left out for a while for a claim which could not be satisfied there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Generic, NoReturn, TypeVar

from shared.clock import Clock

K = TypeVar("K")
_AVOIDED: Final = 120.0
"""For how many seconds."""
_LOOK: Final = 5.0


class Avoided(Generic[K]):
    """``on_change`` is told of a claim that has other nodes to avoid."""

    def __init__(self, clock: Clock, on_change: Callable[[K], None]) -> None:
        self._clock = clock
        self._on_change = on_change
        self._until: dict[K, dict[str, float]] = {}

    def nodes(self, claim: K) -> Iterable[str]:
        """Return the nodes that a claim avoids just now."""
        return sorted(self._until.get(claim, ()))

    def add(self, claim: K, node: str) -> None:
        """Leave a node out."""
        self._until.setdefault(claim, {})[node] = self._clock.monotonic() + _AVOIDED
        self._on_change(claim)

    async def run(self) -> NoReturn:
        """Let nodes be tried again after a while."""
        while True:
            await self._clock.sleep(_LOOK)
            now = self._clock.monotonic()
            for claim, nodes in list(self._until.items()):
                left = {node: until for node, until in nodes.items() if until > now}
                if len(left) < len(nodes):
                    self._until[claim] = left
                    if not left:
                        del self._until[claim]
                    self._on_change(claim)
