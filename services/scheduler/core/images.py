"""Which nodes have which images already (see ``locality``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping


class ImagesOnNodes:
    """Which nodes have an image, and how large it is there."""

    def __init__(self) -> None:
        self._of: dict[int, Mapping[str, int]] = {}
        """By slot, of nodes that have any."""
        self.holders: dict[str, dict[int, int]] = {}
        """By image: bytes by slot."""
        self.versions: Counter[str] = Counter()
        """By image: rises as nodes get it and lose it."""

    def set(self, slot: int, images: Mapping[str, int]) -> None:
        """Note which images a node has."""
        before = self._of.get(slot, {})
        if before == images:
            return
        for name in before.keys() | images.keys():
            if before.get(name) == images.get(name):
                continue
            self.versions[name] += 1
            there = self.holders.setdefault(name, {})
            there.pop(slot, None)
            if name in images:
                there[slot] = images[name]
            if not there:
                del self.holders[name]
        if images:
            self._of[slot] = images
        else:
            del self._of[slot]
