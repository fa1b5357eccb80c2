"""Decisions in flight: they count on their nodes and in their queues like pods."""

from __future__ import annotations

from collections.abc import Iterable

from services.scheduler.core.decisions import Flight
from services.scheduler.core.nodes import Nodes
from services.scheduler.core.queues import Queues
from services.scheduler.core.shapes import Shape
from services.scheduler.core.timers import Timers
from shared.events.contracts import Gang, GangRef

Landed = tuple[Flight, int, Shape]
"""A flight, and the slot and shape of a pod that was in it."""


class InFlight:
    """All flights of a pool, by number and by gang."""

    def __init__(self, nodes: Nodes, queues: Queues) -> None:
        self._nodes = nodes
        self._queues = queues
        self.by_number: dict[str, Flight] = {}
        self.timers: Timers[Flight] = Timers()
        self.given_up = 0
        """Pods that no longer count because nothing was heard of them."""
        self._by_gang: dict[tuple[str, str], dict[str, Flight]] = {}

    def __len__(self) -> int:
        return len(self.by_number)

    def launch(self, flight: Flight, due: float) -> None:
        """Note a decision whose pods are charged already; ask what became of it at ``due``."""
        self.by_number[flight.decision.number] = flight
        self._by_gang.setdefault(flight.key, {})[flight.decision.number] = flight
        self.watch(flight, due)

    def watch(self, flight: Flight, due: float) -> None:
        """Ask again at ``due`` (POSIX seconds)."""
        flight.due = due
        self.timers.add(due, flight)

    def charge(self, flight: Flight, name: str, node: str, shape: Shape) -> None:
        """Count a pod of a flight that was not decided here."""
        slot = self._nodes.hold(node)
        self._nodes.charge(slot, shape.charged, 1, shape.mounts)
        self._queues.charge(flight.queue, shape.amounts, 1)
        flight.pods[name] = (slot, shape)

    def land(self, key: tuple[str, str], name: str, generation: int) -> Landed | None:
        """Take a pod out of its flight because the state shows it; it counts until ``release``.

        Of several flights (a gang of that name was deleted and came again) it is the latest.
        """
        for flight in reversed(self._by_gang.get(key, {}).values()):
            if flight.decision.generation == generation and name in flight.pods:
                slot, shape = flight.pods.pop(name)
                self.close(flight)
                return flight, slot, shape
        return None

    def release(self, flight: Flight, slot: int, shape: Shape) -> None:
        """No longer count a pod."""
        self._nodes.charge(slot, shape.charged, -1, shape.mounts)
        self._nodes.release(slot)
        self._queues.charge(flight.queue, shape.amounts, -1)

    def drop(self, flight: Flight, names: Iterable[str]) -> list[str]:
        """Take pods out of a flight and no longer count them; return those that were in it."""
        dropped = [name for name in names if name in flight.pods]
        for name in dropped:
            self.release(flight, *flight.pods.pop(name))
        self.close(flight)
        return dropped

    def close(self, flight: Flight) -> None:
        """Forget the flight if nothing is left in it."""
        if flight.pods:
            return
        self.by_number.pop(flight.decision.number, None)
        of_gang = self._by_gang.get(flight.key)
        if of_gang is not None:
            of_gang.pop(flight.decision.number, None)
            if not of_gang:
                del self._by_gang[flight.key]

    def has(self, gang: Gang | GangRef, name: str) -> bool:
        """Whether a pod of this generation of a gang is in flight."""
        return any(
            name in flight.pods and flight.of(gang.uid, gang.generation)
            for flight in self._by_gang.get((gang.namespace, gang.name), {}).values()
        )

    def places_of(self, gang: Gang | GangRef) -> list[tuple[str, int]]:
        """Return the pods of this generation of a gang which are in flight, and the slots they fly to."""
        return [
            (name, slot)
            for flight in self._by_gang.get((gang.namespace, gang.name), {}).values()
            if flight.of(gang.uid, gang.generation)
            for name, (slot, _) in flight.pods.items()
        ]

    def pods_of(self, gang: Gang | GangRef) -> list[str]:
        """Return the pods of this generation of a gang which are in flight."""
        return [
            name
            for flight in self._by_gang.get((gang.namespace, gang.name), {}).values()
            if flight.of(gang.uid, gang.generation)
            for name in flight.pods
        ]
