"""Tasks of a gang near to each other, or apart, as Volcano's ``task-topology``.

Members of tasks that the topology of a gang names are gathered in *buckets*. One after the other, in order of
their tasks, each goes into the bucket with which it has the most in common: members of tasks that it likes,
less those that it avoids. Of equals it is the one that asks for the least; if all repel it, a new one begins.
Members that are on a node already are one bucket for each node. Which bucket a member is in is a wish: it
says which node is liked for it, beside all other scores, and never whether the gang is placed.

Where Volcano forgets between two sessions who keeps away from whom, members that run count here as well; and
where it takes members out of a bucket at random to see how much of it a node would hold, it is the last ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from services.scheduler.core.columns import FloatArray, IntArray
from services.scheduler.core.gangs import Gang, Pick
from services.scheduler.core.resources import CPU, MEMORY, PODS
from services.scheduler.core.shapes import Shape
from shared.events.contracts import TaskTopology

_SELF_APART, _NEAR, _SELF_NEAR, _APART = 4, 3, 2, 1
"""Whose members choose first."""
_MI: Final = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Seat:
    """A member to be placed. ``role``: its task's number in the topology, -1 if that does not name it."""

    task: int
    member: int
    role: int
    shape: Shape


@dataclass(slots=True, eq=False)
class Bucket:
    """Members that go together: ``seats`` wait, in order, ``on`` says how many are on which node."""

    number: int
    seats: list[Seat] = field(default_factory=list[Seat])
    on: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def size(self) -> int:
        """All its members."""
        return len(self.seats) + sum(self.on.values())


class Ties:
    """What the tasks of a topology are to each other; tasks have numbers, in order of name."""

    def __init__(self, topology: TaskTopology) -> None:
        sets = (*topology.affinity, *topology.anti_affinity, topology.order)
        self.roles = {
            name: number for number, name in enumerate(sorted({one for some in sets for one in some}))
        }
        size = len(self.roles)
        self.toward: IntArray = np.zeros((size, size), np.int64)
        self.away: IntArray = np.zeros((size, size), np.int64)
        self._urgency = [0] * size
        self._relate(topology.affinity, self.toward, _NEAR, _SELF_NEAR)
        self._relate(topology.anti_affinity, self.away, _APART, _SELF_APART)
        self._order = {name: len(topology.order) - at for at, name in enumerate(topology.order)}
        self._names = list(self.roles)

    def role(self, task: str) -> int:
        """Return a task's number, -1 where affinity does not name it."""
        found = self.roles.get(task, self.roles.get(task.partition(".")[0], -1))
        return found if found >= 0 and self._urgency[found] else -1

    def rank(self, role: int) -> tuple[int, int]:
        """Return when members of a task choose: the least first."""
        return -self._order.get(self._names[role], 0), -self._urgency[role]

    def _relate(self, sets: Iterable[Sequence[str]], ties: IntArray, between: int, alone: int) -> None:
        for some in sets:
            numbers = [self.roles[name] for name in some]
            for one in numbers:
                self._urgency[one] = max(self._urgency[one], between if len(numbers) > 1 else alone)
                for other in numbers:
                    if one != other or len(numbers) == 1:
                        ties[one, other] = 1


class Buckets:
    """The buckets of one gang: of the members that wait, and of those that are on nodes (``places``)."""

    def __init__(self, gang: Gang, ties: Ties, picks: Sequence[Pick], places: Mapping[str, str]) -> None:
        self.ties = ties
        self.all: list[Bucket] = []
        self.loose: list[Seat] = []
        self.roles_on: dict[str, IntArray] = {}
        """By node: how many members of each task are there."""
        self._counts: IntArray = np.zeros((16, len(ties.roles)), np.int64)
        self._asked: FloatArray = np.zeros(16)
        self._seat_there(gang, places)
        self._seat_waiting(list(_seats(gang, ties, picks)))
        self.most = max((bucket.size for bucket in self.all), default=0)

    def note(self, bucket: Bucket | None, seat: Seat, node: str) -> None:
        """A member got a node."""
        if bucket is not None:
            bucket.on[node] = bucket.on.get(node, 0) + 1
        if seat.role >= 0:
            self._count_on(node, seat.role)

    def in_turn(self) -> Iterator[tuple[Bucket | None, list[Seat]]]:
        """Yield buckets with those of their members that wait: the largest first, the loose ones last."""
        for bucket in sorted(self.all, key=lambda one: (-len(one.seats), one.number)):
            if bucket.seats:
                yield bucket, bucket.seats
        if self.loose:
            yield None, self.loose

    def _count_on(self, node: str, role: int) -> None:
        counts = self.roles_on.get(node)
        if counts is None:
            counts = self.roles_on[node] = np.zeros(len(self.ties.roles), np.int64)
        counts[role] += 1

    def _seat_there(self, gang: Gang, places: Mapping[str, str]) -> None:
        on: dict[str, Bucket] = {}
        for name, node in sorted(places.items(), key=lambda item: (item[1], item[0])):
            at = gang.position(name)
            role = -1 if at is None else self.ties.role(gang.tasks[at[0]].name)
            if role < 0:
                continue
            bucket = on.get(node) or on.setdefault(node, self._new())
            bucket.on[node] = bucket.on.get(node, 0) + 1
            self._counts[bucket.number, role] += 1
            self._count_on(node, role)

    def _seat_waiting(self, seats: Iterable[Seat]) -> None:
        tied: list[Seat] = []
        for seat in seats:
            (self.loose if seat.role < 0 else tied).append(seat)
        for seat in sorted(tied, key=lambda one: self.ties.rank(one.role)):
            bucket = self._best(seat.role) or self._new()
            bucket.seats.append(seat)
            self._counts[bucket.number, seat.role] += 1
            self._asked[bucket.number] += _size(seat.shape)

    def _best(self, role: int) -> Bucket | None:
        """Return the bucket that a member of a task joins, None where all repel it."""
        count = len(self.all)
        if not count:
            return None
        drawn = self._counts[:count] @ (self.ties.toward[role] - self.ties.away[role])
        best = drawn.max()
        if best < 0:
            return None
        equals = np.flatnonzero(drawn == best)
        return self.all[int(equals[np.argmin(self._asked[equals])])]

    def _new(self) -> Bucket:
        bucket = Bucket(len(self.all))
        self.all.append(bucket)
        if len(self.all) > self._asked.size:
            self._counts = np.pad(self._counts, ((0, self._asked.size), (0, 0)))
            self._asked = np.pad(self._asked, (0, self._asked.size))
        return bucket


def _seats(gang: Gang, ties: Ties, picks: Iterable[Pick]) -> Iterator[Seat]:
    for pick in picks:
        role = ties.role(gang.tasks[pick.task].name)
        for member in pick.members:
            yield Seat(pick.task, member, role, pick.shape)


def _size(shape: Shape) -> float:
    """Return what a pod asks for as one number: a core is as much as 1000 MiB, or one of anything else."""
    return sum(
        amount if column == CPU else amount / _MI if column == MEMORY else 1000 * amount
        for column, amount in shape.amounts
        if column != PODS
    )
