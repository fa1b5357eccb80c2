"""A cycle: order the queues and their gangs, place what fits, note what stops the rest.

``decide(model, now)`` is total and deterministic: it depends on the model's contents and ``now``, not on
the order in which the contents arrived. First every waiting minimum is tried, in order; then, when all
were tried, members beyond the minimum take what room is left. A gang placed in this cycle gets its
surplus in the same decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from services.scheduler.core import company, near
from services.scheduler.core.choice import Choice, choose
from services.scheduler.core.clearing import clear
from services.scheduler.core.decisions import Decision, Flight, Outcome
from services.scheduler.core.defragment import defragment
from services.scheduler.core.displace import begin, make_room
from services.scheduler.core.gangs import NOTHING, Gang, Member, OrderKey, Pick, by_shape, first
from services.scheduler.core.held import leaving
from services.scheduler.core.index import Taken
from services.scheduler.core.lanes import (
    Behind,
    Lane,
    NoDomain,
    NoEntry,
    NoQuota,
    NoRoom,
    NotOpen,
    Scarce,
    Stop,
)
from services.scheduler.core.layout import by_group, in_parts, in_steps, is_laid_out, layout_of, plain_layout
from services.scheduler.core.levelling import level
from services.scheduler.core.model import Model
from services.scheduler.core.near import Placed
from services.scheduler.core.placing import find_any, place, place_reserved, place_shapes
from services.scheduler.core.plan import Plan, Trial, take_back
from services.scheduler.core.queues import Queue
from services.scheduler.core.reserving import next_renewal, reserve
from services.scheduler.core.settle import arrangement_of, assign, could_ever_fit, follow, settle
from services.scheduler.core.shadow import Shadow
from services.scheduler.core.shapes import Shape, amounts_of
from services.scheduler.core.turns import Turns
from services.scheduler.core.twice import recount
from services.scheduler.core.zones import keep_hours

_FLYING: Final = int(Member.FLYING)
_MOST_PODS: Final = 10_000
"""Pods in a decision, beyond the minimum: a record of the log is made for so many with the longest names."""


def decide(model: Model, now: datetime, *, limit: int | None = None) -> Outcome:
    """Decide about all that wait, or about the first ``limit`` gangs (the rest with the next call)."""
    keep_hours(model, now)
    model.measured.refresh(now)
    resend = settle(model, now)
    cycle = _Cycle(model, now)
    cycle.use_earmarks()
    finished = cycle.start_gangs(limit)
    evicting: list[Decision] = []
    cool_at = look_at = level_at = move_at = None
    reserving: list[Decision] = []
    if finished:
        cycle.backfill()
        evicting, cool_at = make_room(model, now)
        clearing, look_at = clear(model, now)
        levelling, level_at = level(model, now)
        moving, move_at = defragment(model, now)
        evicting += (*clearing, *levelling, *moving)
        cycle.add_surplus()
    placing = cycle.launch()
    if evicting:  # what is kept and those who leave it are one to others
        model.waiting.wake_queues(recount(model))
    if finished and not model.waiting.active:
        reserving = reserve(model, now)
    alarms = (
        model.retries.next(),
        model.waiting.timers.next(),
        model.flights.timers.next(),
        model.evictions.timers.next(),
        model.earmarks.timers.next(),
        model.waiting.overdue.next(),
        next_renewal(model),
        model.measured.next(),
        cool_at,
        *(at.timestamp() for at in (look_at, level_at, move_at) if at is not None),
    )
    wake = [at for at in alarms if at]
    return Outcome(
        [*resend, *placing, *evicting, *reserving],
        not finished or bool(model.waiting.active),
        datetime.fromtimestamp(min(wake), UTC) if wake else None,
    )


def rehearse(model: Model, lane: Lane, gang: Gang, now: datetime) -> tuple[Placed, Stop | None]:
    """Try a gang that is in no lane of the model, as a cycle would whose turn it is; nothing is kept.

    The gang is in ``lane``. Return what each of its parts would take, or what would stop it.
    """
    return _Cycle(model, now).rehearse(lane, gang)


@dataclass(slots=True, eq=False)
class _Draft:
    """A decision being made."""

    gang: Gang
    flight: Flight
    more: list[Pick] = field(default_factory=list[Pick])
    whole: bool = False
    """It places all that the gang needs."""


class _Cycle:
    def __init__(self, model: Model, now: datetime) -> None:
        self.model = model
        self.now = now
        self._plan = Plan(model)
        self._drafts: dict[Gang, _Draft] = {}

    # ------------------------------------------------------------------ minimums

    def use_earmarks(self) -> None:
        """Place the gangs whose room was kept for them and is free now."""
        model = self.model
        for mark in sorted(model.earmarks, key=lambda one: model.gangs[one.key].order):
            gang = model.gangs[mark.key]
            back = not mark.moves or (_is_back(gang) and model.earmarks.is_free(mark))
            if mark.is_over or not back:
                continue
            if is_laid_out(gang) or not all(shape.bare.is_plain for shape, _, _ in mark.places):
                if not any(map(model.is_there, mark.victims)):
                    self._land(gang)
                continue
            if not model.earmarks.is_free(mark):
                continue
            picks, places = mark.divide(gang) if mark.moves else (gang.needs.must, mark.places)
            model.earmarks.drop(mark.key)
            taken: list[tuple[Shape, Taken]] = []
            for shape, slots, counts in places:
                model.nodes.place(shape.charged, slots, counts, shape.mounts)
                taken.append((shape, Taken(list(slots), list(counts))))
            self._book(gang, picks, taken, more=not mark.moves)

    def _land(self, gang: Gang) -> None:
        """Place a gang for which it matters where others are: these may be others than when room was kept.

        Where it would land once all that is leaving has left, it waits for that.
        """
        model = self.model
        lane = model.waiting.lane_of(gang, *arrangement_of(model, gang))
        if lane.surplus:  # it moved, and has its minimum without those that come back
            model.earmarks.drop(gang.key)
            self._place_more(gang, gang.order, gang.needs.more)
            if gang not in self._drafts:
                assign(model, gang, self.now)
            return
        with model.earmarks.lifted(gang.key):
            with self._plan.attempt() as trial:
                placed, stop = place(model, trial, lane)
                if stop is None:
                    trial.commit()
            if stop is not None and self._will_land(lane):
                return
        model.earmarks.drop(gang.key)
        if stop is not None:
            assign(model, gang, self.now)
            return
        if lane.choice is not None:
            choose(gang, {shape: sum(taken.counts) for shape, taken in placed[0]})
        self._enter(lane, gang, placed)

    def _will_land(self, lane: Lane) -> bool:
        """Whether there is room for a gang of a lane once all that is leaving has left."""
        model = self.model
        with model.nodes.relieved(leaving(model.nodes)), self._plan.attempt() as trial:
            return place(model, trial, lane)[1] is None

    def start_gangs(self, limit: int | None) -> bool:
        """Try the gangs below their minimum; False when ``limit`` ended it."""
        turns = Turns(self.model, surplus=False)
        left = limit
        while (turn := turns.next()) is not None:
            if left is not None:
                if left == 0:
                    return False
                left -= 1
            self.model.work.gangs += 1
            self._start(*turn)
            turns.put(turn[0])
        return True

    def add_surplus(self) -> None:
        """Give what is left to members beyond the minimum."""
        turns = Turns(self.model, surplus=True)
        while (turn := turns.next()) is not None:
            self.model.work.gangs += 1
            self._extend(*turn)
            turns.put(turn[0])
        for draft in list(self._drafts.values()):
            if draft.more:
                self._place_more(draft.gang, self.model.order_key(draft.gang), draft.more)

    def _start(self, lane: Lane, gang: Gang, key: OrderKey) -> None:
        stop = self._obstacle(lane, key)
        placed: Placed = []
        if stop is None:
            with self.model.reservations.lifted((gang.key,)):
                placed, stop = self._try(lane, gang)
                if stop is None:
                    self._enter(lane, gang, placed)
                    return
        if stop is not None:
            self.model.waiting.stop(lane, stop)
            self._hold(lane, stop)
            self._watch(lane, gang, stop)

    def _try(self, lane: Lane, gang: Gang) -> tuple[Placed, Stop | None]:
        """Place a lane's gang, or whichever of its members fit."""
        return self._place(lane, gang) if lane.choice is None else self._place_any(lane, gang, lane.choice)

    def backfill(self) -> None:
        """Place gangs in room that is kept for others, where they do not delay these."""
        shadow = Shadow(self.model, self.now)
        for lane, gang, usable in shadow.turns():
            with self.model.reservations.lifted(usable):
                if gang.lane is not lane:
                    continue
                stop = self._obstacle(lane, gang.order)
                if stop is None:
                    placed, stop = self._try(lane, gang)
                    if stop is None:
                        self._enter(lane, gang, placed)
                        continue
            shadow.fail(lane, usable)

    def rehearse(self, lane: Lane, gang: Gang) -> tuple[Placed, Stop | None]:
        """Try a gang beside all reservations, then in the shadow of those that it may use."""
        stop = self._obstacle(lane, gang.order)
        if stop is not None:
            return [], stop
        placed, stop = self._tried(lane, gang)
        lacks = isinstance(stop, NoRoom | NoDomain)
        usable = Shadow(self.model, self.now).usable_by(gang) if lacks else ()
        if usable:
            with self.model.reservations.lifted(usable):
                found, still = self._tried(lane, gang)
            placed, stop = (found, None) if still is None else (placed, stop)
        return placed, stop

    def _tried(self, lane: Lane, gang: Gang) -> tuple[Placed, Stop | None]:
        """Place a lane's gang, and take it back."""
        placed, stop = self._try(lane, gang)
        for part in reversed(placed):
            take_back(self.model, part)
        return placed, stop

    def _enter(self, lane: Lane, gang: Gang, placed: Placed) -> None:
        """Decide what was placed of a gang's minimum."""
        self.model.reservations.drop(gang.key)
        for picks, taken in zip(in_parts(lane.layout, gang.needs.must), placed, strict=True):
            self._book(gang, picks, taken)

    def _obstacle(self, lane: Lane, key: OrderKey) -> Stop | None:
        """Return what forbids a trial."""
        entering = lane.starts and not lane.signature[2]
        if not (lane.queue.takes_new if entering else lane.queue.known):
            return NotOpen()
        holder = self.model.waiting.holder_of(lane.queue, lane.offered, key, self.model.policy, self.now)
        if holder is not None:
            return Behind(holder)
        return None if lane.choice is not None else self._over(lane)

    def _over(self, lane: Lane) -> NoQuota | None:
        over = self.model.queues.over(lane.queue, lane.taking)
        return None if over is None else NoQuota(*over, lane.taking[over[1]])

    def _place(self, lane: Lane, gang: Gang) -> tuple[Placed, Stop | None]:
        """Place every part of a gang or none."""
        model = self.model
        for shape, count in lane.shapes:
            fits = model.index(shape).total
            if fits < count:
                return [], NoRoom(shape, count, fits)
        entry = model.promises.obstacle(lane)
        with self._plan.attempt() as trial:
            placed, stop = place_shapes(model, trial, lane.shapes, lane.layout)
            if stop is not None and (there := self._place_reserved(trial, lane, gang)) is not None:
                placed, stop = there, None
            if stop is None and entry is None:
                placed = self._in_company(trial, gang, placed)
                trial.commit()
            return ([], stop or entry) if stop or entry else (placed, None)

    def _place_reserved(self, trial: Trial, lane: Lane, gang: Gang) -> Placed | None:
        """Place where room is reserved, if all of that is free: with more room the search may find less."""
        reservations = self.model.reservations
        mark = reservations.of(gang.key)
        if mark is None or not reservations.is_free(mark):
            return None
        trial.rollback()
        return place_reserved(self.model, trial, lane, mark)

    def _in_company(self, trial: Trial, gang: Gang, placed: Placed) -> Placed:
        """Place anew, as its tasks wish it, a gang that has room; where that does not work it stays."""
        if not company.has_company(self.model, gang) or is_laid_out(gang):
            return placed
        kept = trial.rollback()
        better = self._place_in_company(trial, gang, gang.needs.must, gang.needs.more)
        if better is None:
            trial.retake(kept)
        return placed if better is None else [better]

    def _place_in_company(
        self, trial: Trial, gang: Gang, picks: list[Pick], later: list[Pick]
    ) -> list[tuple[Shape, Taken]] | None:
        return company.place(self.model, trial, gang, self._places_of(gang), picks, later)

    def _place_any(self, lane: Lane, gang: Gang, choice: Choice) -> tuple[Placed, Stop | None]:
        """Place as many of what is offered as are needed, or none."""
        counts = find_any(self.model, choice)
        if counts is None:
            return self._place_chosen(lane, gang)
        lane.taking = amounts_of(counts)
        stop = self._over(lane) or self.model.promises.obstacle(lane)
        if stop is not None:
            return [], stop
        with self._plan.attempt() as trial:
            for shape, count in counts.items():
                trial.place(shape, count)
            choose(gang, counts)
            placed = self._in_company(trial, gang, [trial.since(0)])
            trial.commit()
            return placed, None

    def _place_chosen(self, lane: Lane, gang: Gang) -> tuple[Placed, Stop | None]:
        """Place those of a gang's members for which room is reserved and free, if no search finds any."""
        model = self.model
        mark = model.reservations.of(gang.key)
        if mark is not None and model.reservations.is_free(mark):
            counts = mark.counts()
            lane.taking = amounts_of(counts)
            stop = self._over(lane) or model.promises.obstacle(lane)
            if stop is not None:
                return [], stop
            with self._plan.attempt() as trial:
                placed = place_reserved(model, trial, lane, mark)
                if placed is not None:
                    choose(gang, counts)
                    trial.commit()
                    return placed, None
        lane.taking = lane.total
        return [], NoRoom(*lane.shapes[0], fits=0, together=True)

    def _hold(self, lane: Lane, stop: Stop) -> None:
        """Keep later gangs off what this one lacks, if it could ever have it and not for too long.

        Only what stops it is held: a gang that has no quota starts no sooner with more room. One that has
        room reserved needs no other.
        """
        scarce: Scarce
        match stop:
            case NoRoom(shape=shape) | NoDomain(shape=shape):
                scarce = ("room", shape.number, "")
            case NoQuota(level=level, column=column):
                scarce = ("quota", column, level.name)
            case _:
                return
        head = lane.head()
        if head is not None and self.model.reservations.of(head[1].key) is not None:
            return
        until = lane.held_until(self.model.policy.hold.total_seconds())
        if until > self.now.timestamp() and could_ever_fit(self.model, lane):
            self.model.waiting.hold(lane, scarce, until)

    def _watch(self, lane: Lane, gang: Gang, stop: Stop) -> None:
        """See to it that room is reserved for a gang that finds none for too long.

        What is kept for it may be all that lets it stop at something else. To end it for that would bring
        back what it was made for, and so on for ever.
        """
        kept = isinstance(stop, NoEntry) or (lane.choice is not None and isinstance(stop, NoQuota))
        kept = kept and self.model.reservations.of(gang.key) is not None
        if self.model.policy.backfill.enabled and (kept or isinstance(stop, NoRoom | NoDomain)):
            # Instead of all room for its pods, which it could not use, it gets some where it can be.
            at_once = lane.layout is not None and near.is_confined(self.model, lane.layout)
            at = lane.held_until(0.0 if at_once else self.model.policy.late_after.total_seconds())
            self.model.waiting.watch(lane, at, self.now.timestamp())

    # ------------------------------------------------------------------ surplus

    def _extend(self, lane: Lane, gang: Gang, key: OrderKey) -> None:
        stops = self._place_more(gang, key, gang.needs.more)
        stops.sort(key=lambda stop: not isinstance(stop, NoEntry))
        if gang.lane is lane:
            self.model.waiting.stop(lane, *stops)

    def _place_more(self, gang: Gang, key: OrderKey, picks: list[Pick]) -> list[Stop]:
        """Place as many as fit, into the room and into a record of the log; return what stopped the rest."""
        if is_laid_out(gang) or any(pick.shape.between is not None for pick in picks):
            return self._place_more_singly(gang, key, picks)
        model = self.model
        draft = self._drafts.get(gang)
        left = _MOST_PODS - (0 if draft is None else len(draft.flight.decision.rows))
        queue = model.queues.get(gang.contract.queue)
        if not queue.known:
            return [NotOpen()]
        stops: list[Stop] = []
        groups = by_shape(picks)
        for shape in list(groups):
            group = groups.pop(shape)
            wanted = min(left, sum(len(pick.members) for pick in group))
            if wanted <= 0:
                break
            holder = model.waiting.holder_of(queue, (shape,), key, model.policy, self.now)
            if holder is not None:
                stops.append(Behind(holder))
                continue
            count, stop = self._allowed(queue, shape, wanted)
            if stop is not None:
                stops.append(stop)
            if count:
                chosen = first(group, count)
                later = [pick for some in groups.values() for pick in some]
                self._book(gang, chosen, [(shape, self._take_more(gang, shape, chosen, later))], more=False)
                left -= count
        return stops

    def _take_more(self, gang: Gang, shape: Shape, picks: list[Pick], later: list[Pick]) -> Taken:
        """Take room that there is for members beyond the minimum, of one shape."""
        if company.has_company(self.model, gang):
            with self._plan.attempt() as trial:
                placed = self._place_in_company(trial, gang, picks, later)
                if placed is not None:
                    trial.commit()
                    return placed[0][1]
        return self.model.index(shape).take(sum(len(pick.members) for pick in picks))

    def _places_of(self, gang: Gang) -> dict[str, str]:
        """Return the nodes of members that hold room, are in flight, or are placed by now."""
        places = self.model.places_of(gang)
        draft = self._drafts.get(gang)
        if draft is not None:
            names = self.model.nodes.names
            places |= {name: names[slot] for name, (slot, _) in draft.flight.pods.items()}
        return places

    def _allowed(self, queue: Queue, shape: Shape, wanted: int) -> tuple[int, Stop | None]:
        """Return how many of ``wanted`` pods have room and quota, and what stops the others."""
        model = self.model
        quota, bound = model.queues.room(queue, shape.amounts, wanted)
        fits = model.index(shape).total
        count, kept = model.promises.room(queue, shape, min(quota, fits))
        if count == wanted or kept is not None:
            return count, kept
        if bound is None or fits == count:
            return count, NoRoom(shape, 1, 0)
        return count, NoQuota(bound[0], bound[1], dict(shape.amounts)[bound[1]])

    def _place_more_singly(self, gang: Gang, key: OrderKey, picks: list[Pick]) -> list[Stop]:
        """Place what depends on where others are: each group as a whole, then one by one."""
        stops: list[Stop] = []
        for group in by_group(picks).values():
            for some in in_steps(gang, group):
                stop = self._place_step(gang, key, some)
                if stop is not None:
                    stops.append(stop)
                    break
        return stops

    def _place_step(self, gang: Gang, key: OrderKey, picks: list[Pick]) -> Stop | None:
        """Place picks of one group, all or none; return what stops them."""
        model, queue = self.model, self.model.queues.get(gang.contract.queue)
        counts = {shape: sum(len(one.members) for one in some) for shape, some in by_shape(picks).items()}
        shape, count = next(iter(counts.items()))
        draft = self._drafts.get(gang)
        if not queue.known:
            return NotOpen()
        if draft is not None and len(draft.flight.pods) + sum(counts.values()) > _MOST_PODS:
            return NoRoom(shape, count, 0)
        holder = model.waiting.holder_of(queue, counts, key, model.policy, self.now)
        if holder is not None:
            return Behind(holder)
        total = amounts_of(counts)
        over = model.queues.over(queue, total)
        stop = NoQuota(*over, total[over[1]]) if over else model.promises.kept(queue, total)
        if stop is not None:
            return stop
        layout = layout_of(gang, picks, self._places_of) or plain_layout(picks)
        with self._plan.attempt() as trial:
            placed = near.place(model, trial, layout)
            if placed is None:
                lacks = near.shortage(model, layout, near.now)
                return lacks or NoRoom(shape, count, trial.fits(shape), together=True)
            trial.commit()
        self._book(gang, picks, placed[0], more=False)
        return None

    # ------------------------------------------------------------------ booking

    def _book(
        self,
        gang: Gang,
        picks: list[Pick],
        taken: list[tuple[Shape, Taken]],
        *,
        more: bool = True,
    ) -> None:
        """Write the chosen places into the gang's decision; without ``more`` it asks for nothing else."""
        model = self.model
        draft = self._drafts.get(gang) or self._begin(gang, gang.needs.more if more else [])
        groups = by_shape(picks)
        holders = model.nodes.holders
        for shape, chosen in taken:
            model.queues.charge(draft.flight.queue, shape.amounts, sum(chosen.counts))
            for slot, count in zip(chosen.slots, chosen.counts, strict=True):
                holders[slot] += count
            self._write(draft, groups[shape], chosen.places(), chosen.shapes(shape))
            model.nodes.move(chosen.slots)
        model.promises.note(gang)
        follow(model)

    def _begin(self, gang: Gang, later: list[Pick]) -> _Draft:
        """Begin a gang's decision: it waits no longer."""
        model = self.model
        decision = begin(model, gang, self.now, enqueue=gang.pending)
        gang.enqueued = True
        flight = Flight(decision, model.queues.get(gang.contract.queue))
        draft = self._drafts[gang] = _Draft(gang, flight, later, not gang.needs.more)
        model.waiting.leave(gang)
        model.unplaced.pop(gang, None)
        return draft

    def _write(
        self, draft: _Draft, picks: list[Pick], places: Sequence[int], shapes: Sequence[Shape]
    ) -> None:
        """Write the places of members, in order, into a decision."""
        decision, flying, known = draft.flight.decision, draft.flight.pods, draft.gang.pods
        names, rows = self.model.nodes.names, decision.rows
        there = iter(zip(places, shapes, strict=True))
        for pick in picks:
            task = draft.gang.tasks[pick.task]
            for member, (slot, placed) in zip(pick.members, there, strict=False):
                name = task.names[member]
                if placed.on_devices:
                    decision.devices[name] = placed.on_devices
                if placed.on_cells:
                    decision.cells[name] = placed.on_cells
                pod = known.get(name)
                rows.append((name, task.name, names[slot], None if pod is None else pod.uid))
                flying[name] = (slot, placed)
                task.states[member] = _FLYING
            task.counting += len(pick.members)

    def launch(self) -> list[Decision]:
        """Put the drafts in flight and return them."""
        due = self.now.timestamp() + self.model.policy.patience.total_seconds()
        for draft in self._drafts.values():
            self.model.flights.launch(draft.flight, due)
            if draft.whole:
                draft.gang.needs = NOTHING
                self.model.set_wanted(draft.gang, ())
            else:
                self.model.dirty[draft.gang] = None
        return [draft.flight.decision for draft in self._drafts.values()]


def _is_back(gang: Gang) -> bool:
    """Whether those of a gang that move can be placed: who left has gone, and enough are made anew."""
    leaving = any(Member.LEAVING in task.states for task in gang.tasks)
    return bool(gang.needs.must or gang.needs.more) and not gang.needs.short and not leaving
