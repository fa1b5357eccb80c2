"""Circles in graphs of names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def cycle(graph: Mapping[str, Sequence[str]]) -> list[str]:
    """Return names that wait for each other in a circle, or nothing; what is no name of the graph is free."""
    waiting = dict(graph)
    while True:
        free = [name for name, needs in waiting.items() if not any(need in waiting for need in needs)]
        if not free:
            break
        for name in free:
            del waiting[name]
    walk: list[str] = []
    while waiting:
        needs = waiting[walk[-1]] if walk else waiting
        name = next(need for need in needs if need in waiting)
        if name in walk:
            return walk[walk.index(name) :]
        walk.append(name)
    return []
