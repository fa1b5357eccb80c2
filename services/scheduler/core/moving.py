"""Who moves so that a gang can start: room that is free in sum, and nowhere in one piece.

The search is that for victims, among all pods that may move. Then each gang of which some would have to go
is placed anew beside the waiting one, by the search that places every gang: those that find no place
are left where they are, and others are looked for. So everybody lands, or nothing is done.

What moves of a gang is what it could give up to another: pods beyond its minimum one by one, else all of it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import numpy as np

from services.scheduler.core.bundles import Bundle, by_gang, cut, order
from services.scheduler.core.claims import Budgets
from services.scheduler.core.columns import IntArray, SlotArray
from services.scheduler.core.future import Future
from services.scheduler.core.gangs import Gang, Pick
from services.scheduler.core.index import Taken
from services.scheduler.core.landing import freed, search
from services.scheduler.core.lanes import InVain, Lane, NoDomain, NoRoom
from services.scheduler.core.layout import is_laid_out, layout_of
from services.scheduler.core.model import Model
from services.scheduler.core.placing import place, place_shapes, places_of
from services.scheduler.core.plan import Plan, Trial
from services.scheduler.core.resources import PODS
from services.scheduler.core.search import Found, Request
from services.scheduler.core.settle import could_ever_fit
from services.scheduler.core.shapes import Shape
from services.scheduler.core.timers import earlier

_MOST_TRIES: Final = 16
"""Searches for one gang: each leaves out those that found no place in the one before."""

_NODES: Final = 256
"""Nodes on which is looked for who moves, and two for each pod of the gang."""

Places = list[tuple[Shape, list[int], list[int]]]
"""A shape, distinct slots, and how many pods on each."""


@dataclass(slots=True, eq=False)
class Moves:
    """Where the waiting gang goes, which pods leave for it, and where each of their gangs has room."""

    places: Places
    bundles: list[Bundle]
    homes: dict[Gang, tuple[list[Pick], Places]] = field(
        default_factory=dict[Gang, "tuple[list[Pick], Places]"]
    )
    """By gang: its members that move, and where to."""


class Mover:
    """Searches at one moment."""

    def __init__(self, model: Model, now: datetime, rest: timedelta) -> None:
        self._model = model
        self._now = now.timestamp()
        self._rest = rest
        """How long after it was bound a pod stays where it is."""
        self.rested_at: float | None = None
        """When the next pod may move that may not now (POSIX seconds)."""
        model.victims.refresh()

    def asks(self, lane: Lane, gang: Gang) -> bool:
        """Whether others may move for the first gang of a lane, and it could help. Aligned pods stay."""
        lacks = not lane.surplus and isinstance(lane.stop, NoRoom | NoDomain)
        aligned = any(shape.aligned for shape in lane.offered)
        return lacks and not aligned and gang.contract.priority_class not in self._model.peaceful

    def scattered(self, lane: Lane) -> float:
        """Return which part of the scarcest thing that a lane lacks is free where none of its pods fit.

        It is 0..1, of what is free on our nodes in all; 1 where nothing is.
        """
        nodes = self._model.nodes
        shape = lane.stop.shape if isinstance(lane.stop, NoRoom | NoDomain) else lane.shapes[0][0]
        column, amount = self._scarcest(shape)
        shape.rules.refresh()
        nodes.fit_columns()
        free = np.where(nodes.ready, np.maximum(nodes.allocatable[column] - nodes.used[column], 0), 0)
        total = int(free.sum())
        return 1 - min(1.0, self._model.index(shape).total * amount / total) if total else 1.0

    def is_vain(self, lane: Lane, gang: Gang) -> bool:
        """Whether nothing has changed on which a search depends that found nobody."""
        vain = lane.unmoved
        if vain is None or not vain.holds(self._seen(gang), self._now):
            return False
        self.rested_at = earlier(self.rested_at, vain.until)
        return True

    def _seen(self, gang: Gang) -> Hashable:
        """Return all that a search for a gang of a lane depends on, but for the time."""
        model = self._model
        return (
            gang.contract.priority,
            gang.key if model.reservations.of(gang.key) is not None else None,
            self._rest,
            model.victims.version,
            model.nodes.room_version,
            model.nodes.capacity_version,
            model.queues.held_version,
        )

    def find(self, lane: Lane, gang: Gang) -> Moves | None:
        """Return who moves where, None when that does not help."""
        before, self.rested_at = self.rested_at, None
        found = self._find(lane, gang)
        lane.unmoved = InVain(self._seen(gang), self.rested_at) if found is None else None
        self.rested_at = earlier(before, self.rested_at)
        return found

    def _find(self, lane: Lane, gang: Gang) -> Moves | None:
        if not (self._is_free_in_sum(lane) and could_ever_fit(self._model, lane) and self._may_start(lane)):
            return None
        bundles = self._bundles(lane, gang)
        for _ in range(_MOST_TRIES):
            found = self._search(lane, bundles) if bundles else None
            if found is None or not found.bundles:
                return None
            moves, homeless = self._land(lane, found)
            if not homeless:
                return moves
            bundles = [one for one in bundles if one.gang not in homeless]
        return None

    # ------------------------------------------------------------------ whether it could help

    def _scarcest(self, shape: Shape) -> tuple[int, int]:
        """Return the column, and the amount, of which a pod takes the largest part of all that there is."""
        totals = self._model.nodes.totals()
        return max(
            ((column, amount) for column, amount in shape.amounts if column != PODS and column in totals),
            key=lambda item: (item[1] / totals[item[0]], -item[0]),
            default=shape.amounts[0],
        )

    def _is_free_in_sum(self, lane: Lane) -> bool:
        """Whether as much is free as the gang needs, wherever it is: nobody gives up anything by moving."""
        nodes = self._model.nodes
        nodes.fit_columns()
        free = np.where(nodes.ready, np.maximum(nodes.future(), 0), 0).sum(axis=1)
        return all(amount <= free.item(column) for column, amount in lane.total.items())

    def _may_start(self, lane: Lane) -> bool:
        """Whether quotas, and what is promised and kept, allow the gang now: no move changes these."""
        return self._model.queues.over(lane.queue, lane.taking) is None and (
            self._model.promises.obstacle(lane) is None
        )

    # ------------------------------------------------------------------ who may move

    def _bundles(self, lane: Lane, gang: Gang) -> list[Bundle]:
        """Return what may move for a gang, in the order in which it goes."""
        model, victims = self._model, self._model.victims
        rows = self._rows(gang.contract.priority)
        may = np.zeros(victims.size, np.bool_)
        may[rows] = True
        found: list[Bundle] = []
        for one in by_gang(model, self._worthwhile(lane, rows) if lane.is_plain else rows):
            if one is gang or not self._is_at_rest(one):
                continue
            its = (victims.row_of((one.contract.namespace, name)) for name in one.pods)
            bundles = cut(model, one, [row for row in its if row >= 0 and may[row]], whole=True)
            if is_laid_out(one) or not all(task.shape.is_plain for task in one.tasks):
                bundles = [part for part in bundles if part.whole and not part.first]
            found += (part for part in bundles if self._has_other_room(part))
        return order(found)

    def _worthwhile(self, lane: Lane, rows: SlotArray) -> SlotArray:
        """Return the pods on the nodes where the fewest pods move for one more of the gang's.

        So many nodes are enough that the search has a choice, and in a large cluster the others are left out.
        """
        model = self._model
        future = Future(model, (shape for shape, _ in lane.shapes))
        more = future.freed(rows)
        gains = np.zeros(future.free.shape[1], np.bool_)
        for shape, count in lane.shapes:
            then = future.fits(shape, more)
            if int(then.sum()) < count:
                return rows[:0]
            gains |= then > future.fits(shape)
        slots = model.victims.slot[rows]
        pods = np.bincount(slots, minlength=gains.size)
        where = np.flatnonzero(gains[: pods.size] & (pods[: gains.size] > 0))
        most = _NODES + 2 * sum(count for _, count in lane.shapes)
        if where.size > most:
            where = self._in_order(where, pods[where])[:most]
        chosen = np.zeros(gains.size, np.bool_)
        chosen[where] = True
        return rows[chosen[slots]]

    def _in_order(self, slots: SlotArray, pods: IntArray) -> SlotArray:
        """Return nodes by how many pods move, and by name: a slot's number means nothing."""
        names = np.array([self._model.nodes.names[slot] for slot in slots.tolist()])
        return slots[np.lexsort((names, pods))]

    def _rows(self, priority: int) -> SlotArray:
        """Return the pods of no higher priority that may be evicted, and have been there for long."""
        model, victims = self._model, self._model.victims
        size = victims.size
        rested = victims.rested(self._rest, model.policy.eviction.min_run_time)
        may = victims.willing[:size] & ~victims.critical[:size] & model.nodes.mine[victims.slot[:size]]
        may &= victims.rank[:size] <= priority
        waits = may & (rested > self._now)
        if waits.any():
            self.rested_at = earlier(self.rested_at, float(rested[waits].min()))
        return np.flatnonzero(may & ~waits)

    def _is_at_rest(self, gang: Gang) -> bool:
        """Whether a gang has its minimum and no room kept elsewhere, and its pods no CPUs of NUMA nodes."""
        model, needs = self._model, gang.needs
        kept = model.earmarks.of(gang.key) or model.reservations.of(gang.key)
        aligned = any(task.shape.aligned for task in gang.tasks)
        ours = gang.contract.pool == model.pool and model.queues.get(gang.contract.queue).known
        return ours and not (needs.must or needs.short or kept or aligned)

    def _has_other_room(self, bundle: Bundle) -> bool:
        """Whether one of its pods would fit elsewhere now: else it has nowhere to go."""
        numbers = {self._model.victims.shape.item(row) for row in bundle.rows}
        return any(self._model.index(self._model.shapes.by_number[number]).total for number in numbers)

    # ------------------------------------------------------------------ the search

    def _search(self, lane: Lane, bundles: Sequence[Bundle]) -> Found | None:
        request = Request(
            lane.shapes, bundles, _Allowed(self._model), most=self._model.policy.defragmentation.most_pods
        )
        return search(self._model, lane, request)

    def _land(self, lane: Lane, found: Found) -> tuple[Moves, set[Gang]]:
        """Place the gang, and then all that move: the largest first. Return who finds no place, too."""
        model = self._model
        moves = Moves(found.places, found.bundles)
        homeless: set[Gang] = set()
        with model.nodes.relieved(freed(model, found.bundles)), Plan(model).attempt() as trial:
            if lane.is_simple:
                trial.retake([(shape, Taken(list(on), list(counts))) for shape, on, counts in found.places])
            else:
                place(model, trial, lane)
            for gang, picks in self._movers(found.bundles):
                places = self._place(trial, gang, picks)
                if places is None:
                    homeless.add(gang)
                else:
                    moves.homes[gang] = picks, places
        return moves, homeless

    def _movers(self, bundles: Sequence[Bundle]) -> list[tuple[Gang, list[Pick]]]:
        """Return the members that move, by gang: the most first."""
        keys = self._model.victims.keys
        members: dict[Gang, dict[int, list[int]]] = {}
        for bundle in bundles:
            of = members.setdefault(bundle.gang, {})
            for row in bundle.rows:
                at = bundle.gang.position(keys[row][1])
                if at is not None:
                    of.setdefault(at[0], []).append(at[1])
        found = [(gang, _picks(gang, of)) for gang, of in members.items()]
        return sorted(found, key=lambda item: (-sum(len(pick.members) for pick in item[1]), item[0].key))

    def _place(self, trial: Trial, gang: Gang, picks: list[Pick]) -> Places | None:
        """Place members of a gang that move, and return where; None: they find no place, and take none."""
        counts: dict[Shape, int] = {}
        for pick in picks:
            counts[pick.shape] = counts.get(pick.shape, 0) + len(pick.members)
        gone = {gang.tasks[pick.task].names[member] for pick in picks for member in pick.members}

        def stays(of: Gang) -> Mapping[str, str]:
            places = self._model.places_of(of)
            return {name: node for name, node in places.items() if name not in gone}

        mark = trial.mark
        _, stop = place_shapes(self._model, trial, list(counts.items()), layout_of(gang, picks, stays))
        if stop is not None:
            trial.rollback(mark)
            return None
        return [(shape, list(on), list(on.values())) for shape, on in places_of(trial.since(mark)).items()]


class _Allowed:
    """Which bundles may go beside those that went before: as disruption budgets allow."""

    def __init__(self, model: Model) -> None:
        self._budgets = Budgets(model)

    def __call__(self, bundles: Sequence[Bundle]) -> Sequence[Bundle]:
        counted: list[Bundle] = []
        refused: list[Bundle] = []
        for bundle in bundles:
            (counted if self._budgets.take(bundle) else refused).append(bundle)
        if refused:
            for bundle in counted:
                self._budgets.give_back(bundle)
        return refused


def _picks(gang: Gang, members: Mapping[int, list[int]]) -> list[Pick]:
    """Return members as they are made anew, by task and group."""
    picks: list[Pick] = []
    for number, some in sorted(members.items()):
        task = gang.tasks[number]
        groups: dict[str, list[int]] = {}
        for member in sorted(some):
            groups.setdefault(task.groups[member] if task.groups else "", []).append(member)
        picks += (Pick(task.shape, number, chosen, group) for group, chosen in groups.items())
    return picks
