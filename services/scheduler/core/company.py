"""Placing a gang whose tasks should be near to each other, or apart (``buckets``): pod after pod.

For each pod all nodes are looked at that have the room for it: by their scores, and by how much the pod's
bucket likes them. That is as many members of the bucket as a node has, and as it would hold of those that
wait, less the members there of tasks from which the pod should be apart; the whole of the largest bucket
is 100, times the weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from services.scheduler.core.buckets import Bucket, Buckets, Seat, Ties
from services.scheduler.core.columns import FloatArray, IntArray, SlotArray
from services.scheduler.core.gangs import Gang, Pick, by_shape
from services.scheduler.core.index import Taken
from services.scheduler.core.model import Model
from services.scheduler.core.plan import Trial
from services.scheduler.core.shapes import Shape

At = tuple[int, int]


def has_company(model: Model, gang: Gang) -> bool:
    """Whether it is wished where the gang's members are to each other."""
    return gang.contract.task_topology is not None and model.policy.scores.task_topology_weight > 0


def place(
    model: Model,
    trial: Trial,
    gang: Gang,
    places: Mapping[str, str],
    picks: Sequence[Pick],
    later: Sequence[Pick],
) -> list[tuple[Shape, Taken]] | None:
    """Place ``picks``, all or (None) none of them.

    ``places`` are the nodes of members that have one, ``later`` members that wait and are not placed now.
    """
    topology = gang.contract.task_topology
    assert topology is not None  # noqa: S101 - it has company
    buckets = Buckets(gang, Ties(topology), [*picks, *later], places)
    now = {(pick.task, member) for pick in picks for member in pick.members}
    mark = trial.mark
    found: dict[At, tuple[int, Shape]] = {}
    for bucket, seats in buckets.in_turn():
        wishes = None if bucket is None else _Wishes(model, buckets, bucket, seats)
        for number, seat in enumerate(seats):
            if (seat.task, seat.member) not in now:
                continue
            taken = trial.place_liked(seat.shape, None if wishes is None else wishes.of(number))
            if taken is None:
                trial.rollback(mark)
                return None
            [slot] = taken.slots
            found[seat.task, seat.member] = slot, next(iter(taken.shapes(seat.shape)))
            buckets.note(bucket, seat, model.nodes.names[slot])
    return [(shape, _in_order(some, found)) for shape, some in by_shape(picks).items()]


def _in_order(picks: Sequence[Pick], found: dict[At, tuple[int, Shape]]) -> Taken:
    """Return the places of the picks' members, one after the other."""
    placed = [found[pick.task, member] for pick in picks for member in pick.members]
    return Taken([slot for slot, _ in placed], [1] * len(placed), [shape for _, shape in placed])


class _Wishes:
    """Which nodes the members of a bucket like."""

    def __init__(self, model: Model, buckets: Buckets, bucket: Bucket, seats: Sequence[Seat]) -> None:
        self._nodes = model.nodes
        self._buckets = buckets
        self._bucket = bucket
        self._seats = seats
        self._weight = model.policy.scores.task_topology_weight * 100.0 / buckets.most
        self._asked = {
            column: np.cumsum([dict(seat.shape.amounts).get(column, 0) for seat in seats])
            for column in sorted({column for seat in seats for column, _ in seat.shape.amounts})
        }
        """By column: what the members ask for, up to each one."""

    def of(self, number: int) -> FloatArray:
        """Return how much the member of a number likes each node, by slot: it, and those after it, wait."""
        nodes, seat = self._nodes, self._seats[number]
        likes = self._holds(number).astype(np.float64)
        for node, count in self._bucket.on.items():
            likes[nodes.slots[node]] += count
        away = self._buckets.ties.away[seat.role]
        for node, counts in self._buckets.roles_on.items():
            likes[nodes.slots[node]] -= int(counts @ away)
        return likes * self._weight

    def _holds(self, number: int) -> IntArray:
        """Return how many of those that wait each node has the room for."""
        slots: SlotArray = np.arange(self._nodes.exists.size)
        held: IntArray = np.full(slots.size, len(self._seats) - number)
        for column, sums in self._asked.items():
            before = sums.item(number - 1) if number else 0
            free = self._nodes.allocatable[column] - self._nodes.used[column]
            np.minimum(held, np.searchsorted(sums[number:], free + before, side="right"), out=held)
        return held
