"""When waiting gangs may start, and what that rests on; or why nobody can say it.

Worked out now and then, gang by gang, in the order in which they come, and for the first of them only: on no
decision's path, and no decision depends on it. It follows the amounts and the quotas, and takes everybody
at his word; of those that gave none, earlier jobs of their template tell. Who runs in another's shadow
starts sooner than is told; who comes later with a higher priority may put it off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf
from typing import Final

from services.scheduler.core.columns import FloatArray
from services.scheduler.core.course import Course, Found
from services.scheduler.core.earmarks import Place
from services.scheduler.core.gangs import Gang, Key
from services.scheduler.core.lanes import Behind, Lane, NoDomain, NoEntry, NoQuota, NoRoom
from services.scheduler.core.model import Model
from services.scheduler.core.settle import could_ever_fit
from services.scheduler.core.starts import PodsThere, lands_alone, pods_there

_MOST_GANGS: Final = 100
_MOST_LOOKS: Final = 2_000_000
"""Pods and nodes that are looked at in a round, over all gangs."""
_MOST_NAMED: Final = 2
_UNTOLD: Final = "nobody can say when: too few of those that hold its room said for how long they run"


@dataclass(frozen=True, slots=True)
class Outlook:
    """When a gang may start: as likely as not, and nine times of ten. None: nobody can say."""

    half: datetime | None = None
    most: datetime | None = None
    words: str = ""

    def moved(self, told: Outlook, now: datetime) -> bool:
        """Whether it says something else than what was told: by a tenth of the wait, or ten seconds."""
        if (self.half is None, self.most is None) != (told.half is None, told.most is None):
            return True
        if self.half is None:
            return self.words != told.words
        return any(
            new is not None and old is not None and _differs(new, max(old, now), now)
            for new, old in ((self.half, told.half), (self.most, told.most))
        )


def _differs(new: datetime, old: datetime, now: datetime) -> bool:
    return abs((new - old).total_seconds()) > max(10.0, (new - now).total_seconds() / 10)


class Foresight:
    """One look ahead: ``gangs`` in the order in which they come."""

    def __init__(self, model: Model, now: datetime, gangs: Sequence[Gang]) -> None:
        self._model = model
        self._now = now
        there = pods_there(model)
        half, late = _ends(model, there, now)
        self._likely = Course(model, now, there, half)
        self._late = Course(model, now, there, late) if model.learned else self._likely
        """What the ninetieth of a hundred rests on; the same one where nothing was learned."""
        size = self._likely.size * (1 if self._late is self._likely else 2)
        most = max(1, min(_MOST_GANGS, _MOST_LOOKS // max(1, size)))
        self._of: dict[Key, Outlook] = {
            gang.key: Outlook(words=f"not worked out: {number} gangs come first")
            for number, gang in enumerate(gangs[most:], most)
        }
        self._left: Iterator[Gang] = iter(gangs[:most])

    def next(self) -> bool:
        """Look at the next gang; False when all were looked at."""
        gang = next(self._left, None)
        if gang is None:
            return False
        if gang in self._model.unplaced:
            self._of[gang.key] = self._look(gang)
        return True

    def of(self, key: Key) -> Outlook:
        """Return what was found out about a gang."""
        return self._of.get(key, Outlook())

    # ------------------------------------------------------------------ inside

    def _look(self, gang: Gang) -> Outlook:
        lane, model = gang.lane, self._model
        if lane is None or lane.surplus or not self._likely.is_current:
            return Outlook()
        mark = model.reservations.of(gang.key)
        why = self._unforeseen(lane)
        if why is not None:
            return why
        learned = model.learned.of(gang.contract)
        places = None if mark is None else mark.places
        found = self._start(self._likely, gang, lane, places, None if learned is None else learned.half)
        late = found
        if self._late is not self._likely:
            late = self._start(self._late, gang, lane, places, None if learned is None else learned.most)
        if found is None:
            ever = could_ever_fit(model, lane) and lands_alone(model, gang, lane)
            return Outlook(words=_UNTOLD) if ever else Outlook()
        passes = self._passes(lane)
        half = max(found.at, passes)
        most = None if late is None else datetime.fromtimestamp(max(late.at, half), UTC)
        return Outlook(datetime.fromtimestamp(half, UTC), most, self._words(found, gang))

    def _start(
        self,
        course: Course,
        gang: Gang,
        lane: Lane,
        places: tuple[Place, ...] | None,
        learned: float | None,
    ) -> Found | None:
        """Return when a gang starts by a course, and let it hold its room there for as long as it runs."""
        found = course.soonest(lane, places)
        if found is None:
            if places is not None:
                course.add(gang.key, lane.queue, places, inf)
            return None
        seconds = gang.contract.run_seconds
        seconds = learned if seconds is None else seconds
        at = max(found.at, self._passes(lane))
        course.add(gang.key, lane.queue, found.places, inf if seconds is None else at + seconds)
        return found

    def _unforeseen(self, lane: Lane) -> Outlook | None:
        """Return what is said of a gang whose start does not follow from amounts and ends."""
        match lane.stop:
            case NoQuota(level=level, column=column, asked=asked):
                limit = dict(level.capability or ()).get(column, 0)
                if asked + level.held.get(column, 0) <= limit:
                    return Outlook(words="nobody can say when: it depends on what is kept for guarantees")
            case NoEntry():
                return Outlook(words="nobody can say when: it depends on what is kept for others")
            case Behind(holder=holder) if (head := holder.head()) is not None:
                if self.of(head[1].key).half is None:
                    return Outlook(words=f"nobody can say when: it comes after {_name(head[1])}")
            case NoRoom() | NoDomain() | Behind():
                pass
            case _:
                return Outlook()
        if not lane.is_foreseeable:
            return Outlook(
                words="nobody can say when: volumes, CPUs of NUMA nodes, or what stays free beside others, "
                "matter to it"
            )
        return None

    def _passes(self, lane: Lane) -> float:
        """Return until when the gang before it keeps it from room that it finds (POSIX seconds)."""
        if not isinstance(lane.stop, Behind) or (head := lane.stop.holder.head()) is None:
            return 0.0
        start = self.of(head[1].key).half
        until = lane.stop.holder.held_until(self._model.policy.hold.total_seconds())
        return until if start is None else min(until, start.timestamp())

    def _words(self, found: Found, gang: Gang) -> str:
        if not found.after:
            return "there is room for it beside those that come first"
        names = [self._named(key) for key in found.after if key != gang.key]
        who = " and ".join(names[:_MOST_NAMED])
        who += f" and {len(names) - _MOST_NAMED} others" if len(names) > _MOST_NAMED else ""
        ends = "ends" if len(names) == 1 else "end"
        late = ", which should have been by now" if found.at <= self._now.timestamp() else ""
        slots = sorted({slot for _, some, _ in found.places for slot in some})
        node = f" on {self._model.nodes.names[slots[0]]}" if len(slots) == 1 else ""
        gangs = (self._model.gangs.get(key) for key in found.after)
        learned = any(one is not None and self._model.learned.of(one.contract) for one in gangs)
        how = ", by the run times of earlier jobs" if learned else ""
        return f"when {who} {ends}{node}{late}{how}"

    def _named(self, key: Key) -> str:
        gang = self._model.gangs.get(key)
        return "/".join(key) if gang is None else _name(gang)


def _name(gang: Gang) -> str:
    return f"{gang.contract.namespace}/{gang.contract.job or gang.contract.name}"


def _ends(model: Model, there: PodsThere, now: datetime) -> tuple[FloatArray, FloatArray]:
    """Return when pods end, as likely as not and nine times of ten: as declared, else as learned."""
    if not model.learned:
        return there.ends, there.ends
    at = {row: number for number, row in enumerate(there.rows.tolist()) if row >= 0}
    half, most = there.ends.copy(), there.ends.copy()
    for key, gang in model.gangs.items():
        learned = model.learned.of(gang.contract)
        for name, pod in model.pods_of(key).items() if learned is not None else ():
            number = at.get(model.victims.row_of((key[0], name)))
            if number is not None and learned is not None:
                half[number], most[number] = learned.ends(pod.since, now.timestamp())
    return half, most
