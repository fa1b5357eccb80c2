"""All lanes: which are to be tried, what stops the others, and what makes them be tried again.

A stop is what a trial would say now, always: only then does a model that lived through a history decide
as one rebuilt from what exists. So a lane is woken when something changed that its stop depends on, and by
nothing else, which keeps a cycle's cost with what changed:

- too little room for a shape: enough of it; and too little for a shape that is looked at before. Where pods
  leave something beside scarce resources, these are also freed by being used;
- room, but not for all shapes together: any use of a node that one of them may run on, less as well as
  more, since what is placed first then lands elsewhere;
- no quota, queue not open: quota or state;
- too little room, or quota, for any choice of members: any use of a node that one of them may run on;
- room, but not for all that it will need: more of that, or less room or quota, which it would stop at first;
- behind a gang: that gang's stop, its place, the end of its time.

What a lane *holds* follows from its stop. So a lane that holds something is also woken by a gang before
it which holds what it needs, and by quota that runs out: it would not stop at the same thing any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from math import inf

from services.scheduler.core.choice import Choice
from services.scheduler.core.gangs import Gang, OrderKey, by_shape
from services.scheduler.core.lanes import (
    REPAIR,
    START,
    SURPLUS,
    Behind,
    Lane,
    NoDomain,
    NoEntry,
    NoQuota,
    NoRoom,
    NotOpen,
    Scarce,
    Signature,
    Stop,
)
from services.scheduler.core.layout import Layout
from services.scheduler.core.policy import Policy
from services.scheduler.core.queues import Queue, Queues
from services.scheduler.core.shapes import Shape
from services.scheduler.core.timers import Timers

Request = tuple[Signature, Queue, tuple[tuple[Shape, int], ...]]
"""What a lane's gangs need: its signature, queue, and shapes with how many of each."""


class Waiting:
    """The waiting gangs of a pool."""

    def __init__(self, queues: Queues) -> None:
        self._queues = queues
        self.lanes: dict[Signature, Lane] = {}
        self.active: dict[Queue, None] = {}
        """Queues with lanes to be tried."""
        self.queues: dict[Queue, None] = {}
        """Queues with waiting gangs."""
        self.by_room: dict[int, dict[Lane, None]] = {}
        """Lanes stopped for lack of room, by the shape that lacks it."""
        self.by_use: dict[int, dict[Lane, None]] = {}
        """Lanes whose stop for lack of room depends on more than that: by each other shape."""
        self.by_quota: dict[str, dict[Lane, None]] = {}
        self.by_state: dict[str, dict[Lane, None]] = {}
        self.by_entry: dict[Lane, None] = {}
        """Lanes that could be placed, and may not begin."""
        self.holders: dict[Scarce, dict[Lane, None]] = {}
        self.exposed: dict[Scarce, dict[Lane, None]] = {}
        """Lanes that hold something, by all that they need."""
        self.timers: Timers[Lane] = Timers()
        self.late: dict[Lane, None] = {}
        """Lanes that lack room and whose head has waited for too long."""
        self.overdue: Timers[Lane] = Timers()
        self.size = 0
        self._tickets = 0
        self._woken: dict[Lane, None] = {}

    # ------------------------------------------------------------------ gangs

    def enter(self, gang: Gang, layout: Layout | None = None, choice: Choice | None = None) -> None:
        """Put a gang that needs something in its lane."""
        lane = self.lane_of(gang, layout, choice)
        if lane.signature not in self.lanes:
            self.lanes[lane.signature] = lane
            self._activate(lane)
        self._tickets += 1
        self.size += 1
        lane.queue.waiting += 1
        self.queues[lane.queue] = None
        if lane.push(gang, self._tickets):
            self.wake(lane)

    def lane_of(self, gang: Gang, layout: Layout | None, choice: Choice | None) -> Lane:
        """Return the lane of gangs that need the same: one that is not noted where there are none."""
        request = self.request_of(gang, layout, choice)
        return self.lanes.get(request[0]) or Lane(*request)

    def request_of(self, gang: Gang, layout: Layout | None, choice: Choice | None) -> Request:
        """Return what a lane is made of: what a gang and its like need."""
        queue = self._queues.get(gang.contract.queue)
        groups = by_shape(gang.needs.must or gang.needs.more)
        surplus = not gang.needs.must
        shapes = tuple(
            (shape, 0 if surplus else sum(len(pick.members) for pick in picks))
            for shape, picks in groups.items()
        )
        kind = SURPLUS if surplus else REPAIR if gang.started else START
        signature = (
            queue.name,
            kind,
            not gang.pending,
            tuple((shape.number, count) for shape, count in shapes),
            gang.floor if kind == START else (),
            layout,
            choice,
        )
        return signature, queue, shapes

    def leave(self, gang: Gang) -> None:
        """Take a gang out of its lane, if it is in one."""
        lane = gang.lane
        if lane is None:
            return
        was_head = lane.drop(gang)
        self.size -= 1
        lane.queue.waiting -= 1
        if not lane.queue.waiting:
            self.queues.pop(lane.queue, None)
        if not lane.size:
            self.wake(lane)
            self._deactivate(lane)
            del self.lanes[lane.signature]
        elif was_head:
            self.wake(lane)

    # ------------------------------------------------------------------ stops

    def stop(self, lane: Lane, *stops: Stop) -> None:
        """Do not try the lane until something it lacks grows. The first stop is the one that is told."""
        if not lane.size:
            return
        self._deactivate(lane)
        lane.stops = stops
        for stop in stops:
            for watchers in self._watchers(lane, stop):
                watchers[lane] = None

    def hold(self, lane: Lane, scarce: Scarce, until: float) -> None:
        """Let a stopped lane keep what it lacks from later gangs until the time given."""
        lane.holding = scarce
        self.holders.setdefault(scarce, {})[lane] = None
        self.timers.add(until, lane)
        for other in list(self.exposed.get(scarce, ())):
            head = other.head()
            if head is not None and _precedes(lane, other.queue, head[0]):
                self.wake(other)
        lane.exposed = tuple(_scarce(lane.queue, lane.offered))
        for needed in lane.exposed:
            self.exposed.setdefault(needed, {})[lane] = None

    def watch(self, lane: Lane, at: float, now: float) -> None:
        """Note that a stopped lane is late from the time given on (POSIX seconds)."""
        lane.late_at = at
        if at <= now:
            self.late[lane] = None
        else:
            self.overdue.add(at, lane)

    def wake(self, lane: Lane) -> None:
        """Try the lane again, and those behind it."""
        if lane.stop is None:
            return
        for stop in lane.stops:
            for watchers in self._watchers(lane, stop):
                watchers.pop(lane, None)
        lane.stops = ()
        lane.late_at = inf
        self.late.pop(lane, None)
        if lane.holding is not None:
            _take_out(self.holders, lane.holding, lane)
            for needed in lane.exposed:
                _take_out(self.exposed, needed, lane)
            lane.holding, lane.exposed = None, ()
        self._activate(lane)
        self._free_followers(lane)

    def wake_due(self, now: datetime) -> None:
        """Let those pass that a gang held back for long enough."""
        for lane in self.timers.due(now.timestamp()):
            self._free_followers(lane)
        for lane in self.overdue.due(now.timestamp()):
            if lane.late_at <= now.timestamp():
                self.late[lane] = None

    def wake_queues(self, names: set[str]) -> None:
        """Try lanes again whose queue holds less or has other rules."""
        for name in sorted(names):
            for lane in list(self.by_quota.get(name, ())) + list(self.by_state.get(name, ())):
                self.wake(lane)

    def wake_where_quota_ran_out(self, names: set[str]) -> None:
        """Try lanes again that hold something, or then would, if a queue with more than before stops them."""
        for lane in list(self.by_entry):
            if self._queues.over(lane.queue, lane.taking):
                self.wake(lane)
        for name in sorted(names):
            level = self._queues.get(name)
            for column, _ in level.capability or ():
                for lane in list(self.exposed.get(("quota", column, name), ())):
                    stop = lane.stop
                    told = (stop.level, stop.column) if isinstance(stop, NoQuota) else None
                    if self._queues.over(lane.queue, lane.taking) != told:
                        self.wake(lane)

    def wake_lanes_of(self, names: set[str]) -> None:
        """Try all lanes again of queues whose rules, or a parent's, are others now."""
        for lane in list(self.lanes.values()):
            if any(level.name in names for level in lane.queue.chain):
                self.wake(lane)

    def holder_of(
        self, queue: Queue, shapes: Iterable[Shape], key: OrderKey, policy: Policy, now: datetime
    ) -> Lane | None:
        """Return a lane that comes before ``key`` and holds something which one of the shapes needs."""
        if not self.holders:
            return None
        hold = policy.hold.total_seconds()
        for scarce in _scarce(queue, shapes):
            for holder in self.holders.get(scarce, ()):
                if _precedes(holder, queue, key) and holder.held_until(hold) > now.timestamp():
                    return holder
        return None

    def take_woken(self) -> list[Lane]:
        """Return and forget the lanes that are to be tried since the last call."""
        if not self._woken:
            return []
        woken, self._woken = self._woken, {}
        return list(woken)

    # ------------------------------------------------------------------ inside

    def _watchers(self, lane: Lane, stop: Stop) -> list[dict[Lane, None]]:
        """Return where the lanes are noted that are woken by what ``stop`` depends on."""
        match stop:
            case NoRoom(together=True) | NoDomain():
                return self._users(lane)
            case NoRoom(shape=shape):
                before = [] if lane.surplus else list(lane.counts)[: list(lane.counts).index(shape.number)]
                used = [self.by_use.setdefault(number, {}) for number in before]
                used = self._users(lane) if shape.leaves else used
                return [self.by_room.setdefault(shape.number, {}), *used]
            case NoQuota(level=level):
                used = [] if lane.choice is None else self._users(lane)
                return [self.by_quota.setdefault(level.name, {}), *used]
            case NoEntry():
                return [self.by_entry, *self._users(lane)]
            case NotOpen():
                return [self.by_state.setdefault(lane.queue.name, {})]
            case Behind(holder=holder):
                return [holder.followers]

    def _users(self, lane: Lane) -> list[dict[Lane, None]]:
        return [self.by_use.setdefault(shape.number, {}) for shape in lane.offered]

    def _free_followers(self, lane: Lane) -> None:
        for follower in list(lane.followers):
            self.wake(follower)

    def _activate(self, lane: Lane) -> None:
        lane.queue.active[lane] = None
        self._woken[lane] = None
        self.active[lane.queue] = None

    def _deactivate(self, lane: Lane) -> None:
        lane.queue.active.pop(lane, None)
        self._woken.pop(lane, None)
        if not lane.queue.active:
            self.active.pop(lane.queue, None)


def _take_out(lanes: dict[Scarce, dict[Lane, None]], scarce: Scarce, lane: Lane) -> None:
    noted = lanes[scarce]
    noted.pop(lane, None)
    if not noted:
        del lanes[scarce]


def _scarce(queue: Queue, shapes: Iterable[Shape]) -> list[Scarce]:
    shapes = tuple(shapes)
    levels = [level.name for level in queue.chain if level.capability]
    columns = sorted({column for shape in shapes for column, _ in shape.amounts}) if levels else []
    return [
        *(("room", shape.number, "") for shape in shapes),
        *(("quota", column, level) for level in levels for column in columns),
    ]


def _precedes(holder: Lane, queue: Queue, key: OrderKey) -> bool:
    """In its own queue, the order of gangs; between queues, only priority: shares change."""
    if holder.queue is not queue:
        return holder.queue.outranks(queue)
    head = holder.head()
    return head is not None and head[0] < key
