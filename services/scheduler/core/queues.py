"""Queues: what they may hold, what they hold, and in which order they are served.

Every amount is charged to the queue and to each of its parents, so that a capability is a bound at
every level. The order is priority, then share: what a queue holds over what it deserves, where
``deserved`` is Volcano's proportion: the cluster divided by weight, no queue getting more than it asks
for or may hold, what is left over divided again. (Flat: a tree is served by its leaves.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from services.scheduler.core.resources import PODS, Amounts, Resources
from shared.api.names import ROOT_QUEUE
from shared.events.contracts import QueueState

if TYPE_CHECKING:
    from services.scheduler.core.lanes import Lane


@dataclass(slots=True, eq=False)
class Queue:
    """One queue's account. ``known`` is False for a name that gangs or pods use and no Queue has."""

    name: str
    known: bool = False
    facts: QueueState | None = None
    state: str = ""
    parent: str = ""
    weight: int = 1
    priority: int = 0
    capability: Amounts | None = None
    held: dict[int, int] = field(default_factory=dict[int, int])
    """By column: bound pods and decisions in flight, those of queues below included."""
    own: dict[int, int] = field(default_factory=dict[int, int])
    wanted: dict[int, int] = field(default_factory=dict[int, int])
    """By column: what its waiting members ask for."""
    chain: tuple[Queue, ...] = ()
    """The queue itself, its parent, and so on."""
    active: dict[Lane, None] = field(default_factory=dict["Lane", None])
    """Lanes that are to be tried."""
    waiting: int = 0
    children: int = 0
    """Queues directly below it."""

    @property
    def takes_new(self) -> bool:
        """Whether gangs may enter: an open queue does, unless it is there to hold other queues."""
        return self.known and self.state == "Open" and not self.children and self.name != ROOT_QUEUE


class Queues:
    """All queues by name."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self.by_name: dict[str, Queue] = {}
        self.freed: set[str] = set()
        """Queues that hold less, or may hold more, than before: taken by the cycle."""
        self.charged: set[str] = set()
        """Queues with a capability that hold more than before: taken by those who hold something."""
        self.changed: set[str] = set()
        """Queues with other rules than before: taken by the cycle."""
        self._deserved: dict[str, dict[int, float]] = {}
        self._deserved_of: tuple[int, int] | None = None
        self._version = 0

    def get(self, name: str) -> Queue:
        """Return the queue of a name, unknown yet if need be."""
        queue = self.by_name.get(name)
        if queue is None:
            queue = self.by_name[name] = Queue(name)
            queue.chain = (queue,)
        return queue

    def upsert(self, state: QueueState) -> None:
        """Take in a queue's facts."""
        queue = self.get(state.name)
        if queue.facts == state:
            return
        queue.facts = state
        self.changed.add(state.name)
        capability = None if state.capability is None else self._limits(state.capability)
        moved = not queue.known or queue.parent != state.parent
        queue.known, queue.state, queue.parent = True, state.state, state.parent
        queue.weight, queue.priority, queue.capability = state.weight, state.priority, capability
        if moved:
            self._link()
        self.freed.add(state.name)
        self._version += 1

    def remove(self, name: str) -> None:
        """Forget a queue's facts; what it holds stays counted."""
        queue = self.by_name.get(name)
        if queue is not None:
            queue.known, queue.state, queue.parent, queue.capability = False, "", "", None
            queue.facts = None
            self.changed.add(name)
            self._link()
            self.freed.add(name)
            self._version += 1

    def charge(self, queue: Queue, amounts: Amounts, count: int) -> None:
        """Count ``count`` pods (negative: fewer) in the queue and its parents."""
        self._version += 1
        for column, amount in amounts:
            queue.own[column] = queue.own.get(column, 0) + amount * count
        for level in queue.chain:
            held = level.held
            for column, amount in amounts:
                held[column] = held.get(column, 0) + amount * count
            if count < 0:
                self.freed.add(level.name)
            elif level.capability:
                self.charged.add(level.name)

    def want(self, queue: Queue, wanted: Mapping[int, int], sign: int) -> None:
        """Count (1) or no longer count (-1) what a waiting gang asks for."""
        self._version += 1
        for column, amount in wanted.items():
            queue.wanted[column] = queue.wanted.get(column, 0) + sign * amount

    def over(self, queue: Queue, total: Mapping[int, int]) -> tuple[Queue, int] | None:
        """Return the first level and column where ``total`` more would pass the capability."""
        for level in queue.chain:
            if level.capability:
                for column, limit in level.capability:
                    asked = total.get(column, 0)
                    if asked and level.held.get(column, 0) + asked > limit:
                        return level, column
        return None

    @staticmethod
    def allows(queue: Queue, total: Mapping[int, int]) -> bool:
        """Whether the capabilities are not less than ``total``, however much of them is used."""
        return all(
            total.get(column, 0) <= limit for level in queue.chain for column, limit in level.capability or ()
        )

    def room(self, queue: Queue, amounts: Amounts, count: int) -> tuple[int, tuple[Queue, int] | None]:
        """Return how many of ``count`` such pods the capabilities allow, and what bounds them."""
        bound = None
        for level in queue.chain:
            limits = dict(level.capability or ())
            for column, amount in amounts:
                limit = limits.get(column)
                if limit is not None and amount * count > limit - level.held.get(column, 0):
                    count = max(0, (limit - level.held.get(column, 0)) // amount)
                    bound = level, column
        return count, bound

    def deserved(self, cluster: Mapping[int, int], version: int) -> dict[str, dict[int, float]]:
        """Return what each queue deserves of a cluster (``version`` names its contents)."""
        if self._deserved_of != (self._version, version):
            self._deserved = divide(self.by_name.values(), cluster)
            self._deserved_of = (self._version, version)
        return self._deserved

    @staticmethod
    def share(queue: Queue, deserved: Mapping[str, Mapping[int, float]]) -> float:
        """Return held over deserved, the largest of all resources."""
        mine = deserved.get(queue.name, {})
        share = 0.0
        for column, held in queue.own.items():
            if held > 0 and column != PODS:
                part = mine.get(column, 0.0)
                share = max(share, held / part if part > 0 else float("inf"))
        return share

    def _limits(self, quantities: Mapping[str, int]) -> Amounts:
        """A limit of zero is a limit; a resource that is not named has none."""
        return tuple(sorted((self._resources.column(name), amount) for name, amount in quantities.items()))

    def _link(self) -> None:
        """Work out chains and sums anew; a loop of parents ends where it closes."""
        for queue in self.by_name.values():
            chain = [queue]
            while (parent := self.by_name.get(chain[-1].parent)) and parent.known and parent not in chain:
                chain.append(parent)
            queue.chain = tuple(chain)
            queue.held = {}
            queue.children = 0
        for queue in self.by_name.values():
            if queue.known and len(queue.chain) > 1:
                queue.chain[1].children += 1
            for level in queue.chain:
                for column, amount in queue.own.items():
                    level.held[column] = level.held.get(column, 0) + amount
        self.freed.update(self.by_name)
        self.changed.update(self.by_name)


def divide(queues: Iterable[Queue], cluster: Mapping[int, int]) -> dict[str, dict[int, float]]:
    """Return what each queue deserves of each resource: water-filling by weight, capped by demand."""
    deserved: dict[str, dict[int, float]] = {queue.name: {} for queue in queues}
    for column, total in cluster.items():
        caps: list[tuple[float, int, str]] = []
        for queue in queues:
            cap = max(0, queue.own.get(column, 0)) + queue.wanted.get(column, 0)
            for limited, limit in queue.capability or ():
                if limited == column:
                    cap = min(cap, limit)
            if cap > 0:
                weight = max(1, queue.weight)
                caps.append((cap / weight, weight, queue.name))
        left, weights = float(total), sum(weight for _, weight, _ in caps)
        for level, weight, name in sorted(caps):
            part = min(level, left / weights) * weight
            deserved[name][column] = part
            left -= part
            weights -= weight
    return deserved
