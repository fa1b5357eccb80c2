"""Levelling what nodes really use: pods leave nodes that use too much, for nodes that use little.

Of each gang go members beyond its minimum, or the only one; each has room on another node, which is kept for
it, and which does not use too much with it. Such a decision is about the gang whose pods move.

Nobody measures what single pods use. A pod is taken to use what it asks for, or its part of what its node
uses, whichever is more (one that asks for nothing: as much as the mean of all pods there): so rather too few
leave than too many. What a node uses by pods that figures do not show yet, or that are on their way, is what
these ask for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np

from services.scheduler.core.bundles import Bundle, by_gang
from services.scheduler.core.claims import Budgets
from services.scheduler.core.columns import BoolArray, FloatArray, SlotArray
from services.scheduler.core.decisions import Decision
from services.scheduler.core.displace import begin, kept_rows, kept_until
from services.scheduler.core.gangs import Gang, Member, Pick
from services.scheduler.core.layout import is_laid_out
from services.scheduler.core.load import MEAN, Levelling
from services.scheduler.core.model import Model
from services.scheduler.core.plan import Plan, Trial
from services.scheduler.core.pods import CRITICAL
from services.scheduler.core.queues import Queue
from services.scheduler.core.resources import CPU, MEMORY, PODS
from services.scheduler.core.results import keep_room, launch_evictions
from services.scheduler.core.shapes import Shape
from services.scheduler.core.zones import may_leave
from shared.events.contracts import Eviction

_WORK: Final = "level"
"""Its name among the work that pauses."""
_MOST_PODS: Final = 256
"""That move in one round: so that a cycle does not wait for it."""
_COLUMNS: Final = (CPU, MEMORY, PODS)
_WORDS: Final = ("CPU", "memory", "places for pods")


@dataclass(frozen=True, slots=True)
class _Move:
    """A pod that leaves, the member that it is, and where it has room."""

    row: int
    pick: Pick
    target: int


def level(model: Model, now: datetime) -> tuple[list[Decision], datetime | None]:
    """Decide who leaves for nodes that use little; say when to look again.

    After a round in which somebody moved, the next one waits until that shows in the figures.
    """
    policy = model.policy.levelling
    if policy is None:
        return [], None
    due = model.pauses.get(_WORK, now)
    if due > now:
        return [], due
    use = _Use(model, policy, now)
    if not use.high.any():
        return [], None
    use.expect()
    if not use.low.any():
        return [], None
    moves = _Round(model, policy, use, now).run()
    again = model.pauses[_WORK] = now + (max(policy.period, MEAN) if moves else policy.period)
    return [_decide(model, gang, some, use, now) for gang, some in moves.items()], again


class _Use:
    """What nodes use, in percent, [CPU, memory and pods; slot]."""

    def __init__(self, model: Model, policy: Levelling, now: datetime) -> None:
        self._model = model
        self._shown_since = (now - MEAN).timestamp()
        self.bounds: FloatArray = np.array(policy.high).reshape(3, 1)
        self._low_bounds: FloatArray = np.array(policy.low).reshape(3, 1)
        nodes = model.nodes
        nodes.fit_columns()
        rows = list(_COLUMNS)
        self.capacity: FloatArray = np.maximum(nodes.allocatable[rows], 1).astype(np.float64)
        self.told: FloatArray = 100.0 * nodes.used[rows] / self.capacity
        """As it was measured; pods are counted."""
        self.told[:PODS] = nodes.load.used
        known = nodes.ready & ~np.isnan(self.told).any(axis=0)
        self.high: BoolArray = known & (self.told > self.bounds).any(axis=0)
        """Nodes that use too much: of a node that is not known that is not said, nor the other."""
        self.low: BoolArray = known & ~self.high & ~nodes.unschedulable
        self.left = self.expected = self.told
        self._each: FloatArray = np.ones_like(self.told)
        """How much pods use of each unit that they ask for, ..."""
        self._even: FloatArray = np.zeros_like(self.told)
        """... and how much one uses that asks for none."""

    def expect(self) -> None:
        """Work out what nodes will use with what is on its way to them, and without what is leaving."""
        model, victims = self._model, self._model.victims
        victims.refresh()
        size = victims.size
        here = np.flatnonzero(victims.slot[:size] >= 0)
        here = here[(self.high | self.low)[victims.slot[here]] & (victims.since[here] <= self._shown_since)]
        shown = self._held(
            victims.those(here, lambda pod: pod.phase != "Pending")
        )  # it waits for images, say
        measured = self.told * self.capacity / 100.0
        self._each = np.where(shown > 0, np.maximum(1.0, measured / np.maximum(shown, 1.0)), 1.0)
        self._each[PODS] = 1.0
        self._even = measured / np.maximum(shown[PODS], 1.0)
        unseen = np.maximum(model.nodes.used[list(_COLUMNS)] - shown, 0.0)
        unseen[PODS] = 0.0
        self.expected = self.told + 100.0 * unseen / self.capacity
        self.low &= (self.expected < self._low_bounds).all(axis=0)
        self.left = self.told.copy()
        leaving = victims.leaving[:size] & (victims.since[:size] <= self._shown_since)
        for row in np.flatnonzero(leaving).tolist():
            slot = victims.slot.item(row)
            amounts = self.of(model.shapes.by_number[victims.shape.item(row)], slot)
            self.left[:, slot] -= 100.0 * amounts / self.capacity[:, slot]

    def _held(self, rows: SlotArray) -> FloatArray:
        """Return what pods ask for, by slot."""
        model, victims = self._model, self._model.victims
        sums = np.zeros_like(model.nodes.used)
        if rows.size:
            model.shapes.add_held(sums, victims.slot[rows], victims.shape[rows])
        return sums[list(_COLUMNS)].astype(np.float64)

    def of(self, shape: Shape, slot: int) -> FloatArray:
        """Return what a pod of a shape uses that is on a node."""
        asked = dict(shape.amounts)
        each = np.array([asked.get(column, 0) for column in _COLUMNS])
        amounts: FloatArray = np.where(each > 0, each * self._each[:, slot], self._even[:, slot])
        return amounts

    def too_much(self, slot: int) -> bool:
        """Whether a node uses too much, without those that leave it."""
        return bool((self.left[:, slot] > self.bounds[:, 0]).any())

    def takes(self, amounts: FloatArray) -> BoolArray:
        """Return by slot which nodes that use little have so much to spare."""
        then = self.expected + 100.0 * amounts.reshape(3, 1) / self.capacity
        fits: BoolArray = self.low & (then <= self.bounds).all(axis=0)
        return fits

    def move(self, amounts: FloatArray, source: int, target: int) -> None:
        """Count a pod where it will be."""
        self.left[:, source] -= 100.0 * amounts / self.capacity[:, source]
        self.expected[:, target] += 100.0 * amounts / self.capacity[:, target]


class _Round:
    """Finds who moves, all of them in one trial."""

    def __init__(self, model: Model, policy: Levelling, use: _Use, now: datetime) -> None:
        self._model = model
        self._policy = policy
        self._use = use
        self._now = now.timestamp()
        self._budgets = Budgets(model)
        self._by_name = model.nodes.by_name()
        self._spare: dict[Gang, _Spare] = {}
        self._moves: dict[Gang, list[_Move]] = {}

    def run(self) -> dict[Gang, list[_Move]]:
        """Return who moves where: from the node that uses the most, whoever is the least important."""
        use, names = self._use, self._model.nodes.names
        on = self._candidates()
        order = sorted(on, key=lambda slot: (-float(use.told[:PODS, slot].sum()), names[slot]))
        with Plan(self._model).attempt() as trial:
            for slot in order:
                self._relieve(trial, slot, on[slot])
        return dict(sorted(self._moves.items(), key=lambda item: item[0].key))

    def _relieve(self, trial: Trial, slot: int, candidates: list[tuple[Gang, int]]) -> None:
        """Let pods leave one node, until it uses no more than it should, or nobody else can go."""
        vain: set[int] = set()
        for gang, row in candidates:
            if not self._use.too_much(slot) or sum(map(len, self._moves.values())) >= _MOST_PODS:
                return
            pick = self._pick(gang, row)
            if pick is None or pick.shape.number in vain:
                continue
            amounts = self._use.of(pick.shape, slot)
            alone = Bundle(gang, [row], whole=False, priority=0)
            if not self._budgets.take(alone):
                continue
            target = self._place(trial, pick.shape, amounts)
            if target is None:
                vain.add(pick.shape.number)
                self._budgets.give_back(alone)
                continue
            self._use.move(amounts, slot, target)
            self._spare[gang].take(pick.task)
            self._moves.setdefault(gang, []).append(_Move(row, pick, target))

    def _pick(self, gang: Gang, row: int) -> Pick | None:
        """Return a pod as a member of its gang; None: it has to stay."""
        victims = self._model.victims
        at, pod = gang.position(victims.keys[row][1]), victims.pods[row]
        if at is None or pod is None or not pod.shape.bare.is_plain:
            return None
        spare = self._spare.setdefault(gang, _Spare(gang))
        return Pick(pod.shape.bare, at[0], [at[1]]) if spare.has(at[0]) else None

    def _place(self, trial: Trial, shape: Shape, amounts: FloatArray) -> int | None:
        """Take room for a pod on a node that uses little, the best by the policy's scores."""
        takes = self._use.takes(amounts)
        slots = self._by_name[takes[self._by_name]]
        mark = trial.mark
        if not slots.size or not trial.place_among(shape, slots, 1):
            return None
        ((_, taken),) = trial.since(mark)
        return taken.slots[0]

    # ------------------------------------------------------------------ who may leave

    def _candidates(self) -> dict[int, list[tuple[Gang, int]]]:
        """Return by node who may leave it, in the order in which they go."""
        victims = self._model.victims
        found: list[tuple[tuple[object, ...], Gang, int]] = []
        for gang, rows in by_gang(self._model, self._rows()).items():
            if self._may_give(gang):
                for row in rows:
                    task, number = gang.position(victims.keys[row][1]) or (0, 0)
                    order = (victims.rank.item(row), -victims.since.item(row), gang.key, -task, -number)
                    found.append((order, gang, row))
        by_node: dict[int, list[tuple[Gang, int]]] = {}
        for _, gang, row in sorted(found, key=lambda one: one[0]):
            by_node.setdefault(victims.slot.item(row), []).append((gang, row))
        return by_node

    def _rows(self) -> SlotArray:
        """Return the pods on nodes that use too much which may be evicted, and have been there for long."""
        model, policy, victims = self._model, self._policy, self._model.victims
        size = victims.size
        least = self._spared_from()
        if least is None:
            return np.zeros(0, np.intp)
        rested = victims.rested(policy.rest, max(model.policy.eviction.min_run_time, MEAN))
        may = victims.willing[:size] & ~victims.critical[:size] & (rested <= self._now)
        may &= self._use.high[victims.slot[:size]] & (victims.rank[:size] < least)
        if policy.queues:
            numbers = [victims.queue_number(name) for name in policy.queues]
            may &= np.isin(victims.queue[:size], numbers)
        rows = np.flatnonzero(may)
        return victims.those(rows, lambda pod: pod.phase == "Running")

    def _spared_from(self) -> int | None:
        """Return from which priority on pods stay; None: the class is not there, so nobody may leave."""
        spared = self._policy.spared
        return self._model.classes.get(spared) if spared else CRITICAL

    def _may_give(self, gang: Gang) -> bool:
        """Whether all of a gang has room, none is kept for it elsewhere, and it may lie anywhere.

        A member that waits would take the room of one that moves.
        """
        model, needs = self._model, gang.needs
        kept = model.earmarks.of(gang.key) or model.reservations.of(gang.key)
        queue = model.queues.get(gang.contract.queue)
        ours = gang.contract.pool == model.pool and queue.known and not _holds_too_much(queue)
        return ours and not (needs.must or needs.more or needs.short or kept or is_laid_out(gang))


class _Spare:
    """How many of a gang's members may still leave it."""

    def __init__(self, gang: Gang) -> None:
        there = [task.states.count(Member.HELD) + task.states.count(Member.DONE) for task in gang.tasks]
        count = sum(there)
        only = count == 1 and gang.counting == 1
        self._in_all = min(may_leave(gang), 1 if only else count - gang.minimum)
        tasks = zip(gang.tasks, there, strict=True)
        bound = gang.strict_tasks and not only
        self._of_task = [held - task.minimum if bound else held for task, held in tasks]

    def has(self, task: int) -> bool:
        """Whether one of a task may leave."""
        return self._in_all > 0 and self._of_task[task] > 0

    def take(self, task: int) -> None:
        """One of a task leaves."""
        self._in_all -= 1
        self._of_task[task] -= 1


def _holds_too_much(queue: Queue) -> bool:
    """Whether a queue, or one above it, holds more than it may now: who leaves it would not come back."""
    return any(
        level.held.get(column, 0) > limit for level in queue.chain for column, limit in level.capability or ()
    )


def _decide(model: Model, gang: Gang, moves: list[_Move], use: _Use, now: datetime) -> Decision:
    decision = begin(model, gang, now, enqueue=False)
    decision.minimum = 0
    decision.evictions = tuple(_leaving(model, gang, moves, use))
    places: dict[Shape, dict[int, int]] = {}
    for one in moves:
        on = places.setdefault(one.pick.shape, {})
        on[one.target] = on.get(one.target, 0) + 1
    homes = [(shape, list(on), list(on.values())) for shape, on in places.items()]
    rows = kept_rows(model, gang, [one.pick for one in moves], homes, kept_until(model, now))
    decision.reservations = tuple(row.model_copy(update={"gang": gang.contract.ref}) for row in rows)
    launch_evictions(model, decision, now)
    keep_room(model, gang, decision)
    return decision


def _leaving(model: Model, gang: Gang, moves: Iterable[_Move], use: _Use) -> Iterator[Eviction]:
    """Yield who leaves, as the log has it."""
    victims, names = model.victims, model.nodes.names
    for one in sorted(moves, key=lambda move: victims.keys[move.row]):
        pod = victims.pods[one.row]
        if pod is not None:
            namespace, name = victims.keys[one.row]
            why = f"node {names[pod.slot]} really uses {_excess(use, pod.slot)}: room is kept on"
            yield Eviction(
                namespace=namespace,
                pod=name,
                uid=pod.uid,
                reason=f"{why} {names[one.target]}",
                gang=gang.key[1],
            )


def _excess(use: _Use, slot: int) -> str:
    """Say of what a node uses too much, and how much it should."""
    found = zip(_WORDS, use.told[:, slot].tolist(), use.bounds[:, 0].tolist(), strict=True)
    return " and ".join(
        f"{used:.0f}% of its {word}, more than {bound:g}%" for word, used, bound in found if used > bound
    )
