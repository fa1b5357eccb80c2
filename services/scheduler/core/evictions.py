"""Evictions that were decided: their victims leave, though the state does not say so yet.

A victim is *doomed* from its decision on until

- the state shows it leaving or gone;
- the decision's result refuses it, or says that this pod could not be taken away;
- its result says that it was, and nothing is seen of that within the policy's patience.

Without a result the decision is sent again after that patience, which is harmless.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from services.scheduler.core.decisions import Decision
from services.scheduler.core.gangs import Key
from services.scheduler.core.timers import Timers


@dataclass(slots=True, eq=False)
class Evicting:
    """A decision in flight that evicts."""

    decision: Decision
    left: dict[str, Key] = field(default_factory=dict[str, Key])
    """By UID: the doomed pods, those that have the state's word excepted."""
    resolved: bool = False
    """Its result said that those left here were taken away."""
    due: float = 0.0
    """When to ask what became of it (POSIX seconds)."""


class Evictions:
    """All of them, by the decision's number."""

    def __init__(self) -> None:
        self.by_number: dict[str, Evicting] = {}
        self.timers: Timers[Evicting] = Timers()
        self.given_up = 0
        """Victims that were not seen to leave."""
        self._by_uid: dict[str, Evicting] = {}

    def __len__(self) -> int:
        return len(self.by_number)

    def dooms(self, uid: str) -> bool:
        """Whether a pod is doomed."""
        return uid in self._by_uid

    def launch(self, one: Evicting, due: float) -> None:
        """Note a decision whose victims are doomed; ask what became of it at ``due``."""
        self.by_number[one.decision.number] = one
        for uid in one.left:
            self._by_uid[uid] = one
        self.watch(one, due)

    def watch(self, one: Evicting, due: float) -> None:
        """Ask again at ``due`` (POSIX seconds)."""
        one.due = due
        self.timers.add(due, one)

    def seen(self, uid: str) -> None:
        """The state shows that a victim leaves, or has gone."""
        one = self._by_uid.pop(uid, None)
        if one is not None:
            one.left.pop(uid, None)
            self.close(one)

    def spare(self, one: Evicting, uid: str) -> Key | None:
        """A victim stays after all; return who it is if it was doomed."""
        self._by_uid.pop(uid, None)
        return one.left.pop(uid, None)

    def close(self, one: Evicting) -> None:
        """Forget a decision with its result, or all of whose victims are seen to leave."""
        if not one.left:
            self.by_number.pop(one.decision.number, None)
