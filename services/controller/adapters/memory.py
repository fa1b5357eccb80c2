"""What the controller remembers of a job between two looks at it.

All of it can be lost: it saves writes, says less twice, and gives spans their exact times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from services.controller.adapters.pausing import Reports, Since
from services.controller.core.commands import is_final_refusal, ultimatum
from services.controller.core.model import GroupView, Wanted
from services.controller.core.podview import PodView
from services.controller.core.policies import Order
from services.controller.core.status import Status
from shared.events.contracts import Gang

_FIRST_PAUSE: Final = 0.01
_LONGEST_PAUSE: Final = 10.0
"""Shorter than the pauses between tries: a look in between is no try."""


@dataclass(slots=True)
class Refusals:
    """How often in a row the API server has said no to the same."""

    count: int = 0
    due: float = 0.0

    def add(self, now: float) -> int:
        """Count one more, unless it comes too soon after the last one, and return the count."""
        if now >= self.due:
            self.count += 1
            self.due = now + min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(self.count, 16))
        return self.count


@dataclass(slots=True)
class Memory:
    """One job, by UID."""

    uid: str
    lost: dict[str, PodView] = field(default_factory=dict[str, PodView])
    """Pods that somebody else took away, by UID; until a plan that knows of them is carried out."""
    ours: set[str] = field(default_factory=set[str])
    """UIDs of pods that we deleted: no evictions."""
    taken: set[str] = field(default_factory=set[str])
    """UIDs of pods that had not ended when their deletion was asked for."""
    told: set[str] = field(default_factory=set[str])
    """Ids of phase changes that were published."""
    noted: set[str] = field(default_factory=set[str])
    """Kubernetes events that were written in this round."""
    round: tuple[int, int] = (0, 0)
    """Generation and retries: what happens again after a restart is told again."""
    reports: Reports = field(default_factory=Reports)
    decision: str = ""
    decided_generation: int | None = None
    """The generation that ``decision`` was about."""
    decided_at: datetime | None = None
    """When it was decided: reports of before are late."""
    placed_generation: int | None = None
    """The generation whose gang ``decision`` placed, as long as its PodGroup does not say so."""
    asked: tuple[object, float] | None = None
    """The job's own generation for which the API server was asked about pods, and until when that holds."""
    announced: Gang | None = None
    announced_unplaced: frozenset[str] = frozenset()
    status: Since = field(default_factory=Since)
    """A status that may wait is not written."""
    partial: Since = field(default_factory=Since)
    """A part of the gang holds room."""
    wanted: Wanted | None = None
    """The job as it was last seen."""
    ended: bool = False
    """Whether its stored phase is a final one."""
    admitted_at: datetime | None = None
    times: dict[str, datetime] = field(default_factory=dict[str, datetime])
    """When a phase was entered last, exactly."""
    refusals: dict[str, Refusals] = field(default_factory=dict[str, Refusals])
    """What the API server refuses: ``requests`` about its objects, ``decisions`` that would bind its pods."""
    ultimatum: Order | None = None
    """What is to be done because too much was refused."""

    def is_placed(self, group: GroupView) -> bool:
        """Say whether a decision placed the gang and its PodGroup does not say so yet; then only it does."""
        if group.admitted:
            self.placed_generation = None
        return self.placed_generation == group.generation

    def begin(self, status: Status) -> None:
        """Forget which events were written, once the job is in another round."""
        if self.round != (status.generation, status.retries):
            self.round = (status.generation, status.retries)
            self.noted.clear()

    def refused(self, what: str, message: str, *, now: float, limit: int) -> None:
        """Count a refusal; too many in a row end the job."""
        if limit >= 0 and is_final_refusal(message):
            tries = self.refusals.setdefault(what, Refusals()).add(now)
            if tries >= limit:
                self.ultimatum = ultimatum(tries, message)

    def worked(self, what: str) -> None:
        """Count refusals anew."""
        self.refusals.pop(what, None)


class Memories:
    """The memories of all jobs, by job key."""

    def __init__(self) -> None:
        self._by_key: dict[str, Memory] = {}
        self.replaced: Callable[[str, Memory], None] = lambda _key, _memory: None
        """Called with the memory of a job that was made anew under its name."""

    def of(self, key: str, uid: str) -> Memory:
        """Return the memory of a job; a new one when another job has the name now."""
        memory = self._by_key.get(key)
        if memory is not None and memory.uid == uid:
            return memory
        if memory is not None:
            self.replaced(key, memory)
        memory = self._by_key[key] = Memory(uid)
        return memory

    def get(self, key: str) -> Memory | None:
        """Return what is remembered of a job."""
        return self._by_key.get(key)

    def forget(self, key: str) -> Memory | None:
        """Drop and return what is remembered of a job that is gone."""
        return self._by_key.pop(key, None)
