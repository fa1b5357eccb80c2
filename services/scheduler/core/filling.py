"""Where a gang fits into amounts that are free at some time: only amounts are looked at."""

from __future__ import annotations

import numpy as np

from services.scheduler.core.columns import BoolArray, IntArray
from services.scheduler.core.earmarks import Place
from services.scheduler.core.nodes import Nodes
from services.scheduler.core.shapes import Shape

Counts = tuple[tuple[Shape, int], ...]


def places(nodes: Nodes, counts: Counts, free: IntArray, shut: BoolArray) -> list[Place] | None:
    """Place a gang in what is free, the shape with the least room to spare first; None: it fits not.

    ``free`` is [column, slot] and is changed; nothing is placed where ``shut``.
    """
    spare = sorted(
        (
            (int(fits(shape, free, shut).sum()) - count, number, shape, count)
            for number, (shape, count) in enumerate(counts)
        ),
        key=lambda item: item[:2],
    )
    if spare[0][0] < 0:
        return None
    found: list[Place] = []
    for _, _, shape, count in spare:
        chosen = _fill(nodes, shape, count, free, shut)
        if chosen is None:
            return None
        found.append(chosen)
    return found


def fits(shape: Shape, free: IntArray, shut: BoolArray) -> IntArray:
    """Return how many pods of a shape fit, by slot."""
    shape.rules.refresh()
    rooms = [free[column] // amount for column, amount in shape.amounts]
    found: IntArray = np.maximum(np.minimum.reduce(rooms), 0)
    found[~shape.rules.allowed[: found.size] | shut] = 0
    return found


def _fill(nodes: Nodes, shape: Shape, count: int, free: IntArray, shut: BoolArray) -> Place | None:
    """Take what pods of a shape need, the tightest node first, then by name."""
    room = fits(shape, free, shut)
    order = nodes.by_name()
    order = order[room[order] > 0]
    order = order[np.argsort(room[order], kind="stable")]
    filled = np.cumsum(room[order])
    if not filled.size or filled[-1] < count:
        return None
    last = int(np.searchsorted(filled, count))
    slots, taken = order[: last + 1], room[order[: last + 1]]
    taken[-1] -= int(filled[last]) - count
    for column, amount in shape.amounts:
        free[column, slots] -= taken * amount
    return shape, tuple(slots.tolist()), tuple(taken.tolist())
