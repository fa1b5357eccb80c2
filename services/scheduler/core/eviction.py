"""Finding victims for the gangs that were stopped for lack of room or quota.

First it is asked cheaply whether anybody could be evicted at all: a queue without pods of lower
priority, and without others that hold more than they deserve, costs a comparison. Then reclaim is
tried before preemption: what a queue deserves should not cost it pods of its own. Where neither is enough,
both together are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from services.scheduler.core.bundles import Bundle, amounts_of, by_gang, cut, order
from services.scheduler.core.claims import Accounts, Budgets, Claim, Sums, leaving
from services.scheduler.core.columns import BoolArray, SlotArray
from services.scheduler.core.gangs import Gang
from services.scheduler.core.lanes import Lane, NoQuota, NoRoom
from services.scheduler.core.model import Model
from services.scheduler.core.policy import VictimFilter
from services.scheduler.core.queues import Queue
from services.scheduler.core.search import Deficit, Found, Request, Search
from services.scheduler.core.settle import could_ever_fit
from services.scheduler.core.shares import Shares
from services.scheduler.core.zones import in_zones, within_budget

Tiers = Sequence[Sequence[VictimFilter]]


@dataclass(slots=True)
class _Group:
    """Pods that may be victims for one reason, and how they are cut and filtered."""

    rows: SlotArray
    tiers: Tiers


class Evictor:
    """The search for one cycle."""

    def __init__(self, model: Model, now: datetime) -> None:
        self._model = model
        self._policy = model.policy.eviction
        self._now = now.timestamp()
        self._shares: Shares | None = None
        self._leaving: dict[Queue, Sums] | None = None
        self.cool_at: float | None = None
        """When the next pod can be evicted that is safe now."""

    def heads(self) -> list[tuple[Lane, Gang]]:
        """Return the stopped lanes that somebody might be evicted for, in the order of their turns."""
        stopped = [lane for lane in self._model.waiting.lanes.values() if _lacks(lane)]
        if not stopped:
            return []
        self._model.victims.refresh()
        found: list[tuple[tuple[object, ...], Lane, Gang]] = []
        for lane in stopped if len(self._model.victims) else ():
            head = lane.head()
            if head and self._helps(lane, head[1]):
                found.append(((*self._turn(lane.queue), head[0]), lane, head[1]))
        return [(lane, gang) for _, lane, gang in sorted(found, key=lambda item: item[0])]

    def find_for(self, lane: Lane, gang: Gang) -> Found | None:
        """As :meth:`find`, for a gang that is in no lane of the model; ``lane`` says what stopped it."""
        self._model.victims.refresh()
        if not (_lacks(lane) and len(self._model.victims) and self._helps(lane, gang)):
            return None
        return self.find(lane, gang)

    def find(self, lane: Lane, gang: Gang) -> Found | None:
        """Return who has to go for a gang, None when it cannot be helped."""
        groups = [
            _Group(rows, tiers)
            for rows, tiers in (
                (self._reclaimable(lane), self._policy.reclaim_filters),
                (self._preemptable(lane, gang), self._policy.preempt_filters),
            )
            if rows.size
        ]
        attempts = [[one] for one in groups]
        if len(groups) > 1:
            attempts.append(groups)
        for attempt in attempts:
            found = self._search(lane, gang, attempt)
            if found is not None:
                return found
        return None

    def forget(self) -> None:
        """Look anew at what is held: somebody was evicted."""
        self._shares = self._leaving = None
        self._model.victims.refresh()

    # ------------------------------------------------------------------ who at all

    def _helps(self, lane: Lane, gang: Gang) -> bool:
        """Whether it could help a stopped gang at all that somebody goes."""
        return self._might(lane, gang) and could_ever_fit(self._model, lane)

    def _might(self, lane: Lane, gang: Gang) -> bool:
        contract = gang.contract
        if contract.priority_class in self._model.peaceful:
            return False
        return self._has_lower(lane.queue, contract.priority) or (
            self._policy.reclaim and self._others(lane.queue) and bool(self._claim(lane, None).deserves())
        )

    def _has_lower(self, queue: Queue, priority: int) -> bool:
        lowest = self._model.victims.lowest(queue.name)
        return self._policy.preempt and lowest is not None and lowest < priority

    def _others(self, queue: Queue) -> bool:
        """Whether another queue has pods that could be evicted."""
        return any(name != queue.name for name in self._model.victims.queues_with_victims())

    def _turn(self, queue: Queue) -> tuple[object, ...]:
        """Return a queue's place: as its levels are served, from the top of the tree down."""
        orders = self._model.policy.sharing.queue_order
        shares = self._now_shares()
        return tuple(
            (*(-level.priority if what == "priority" else shares.share(level) for what in orders), level.name)
            for level in reversed(queue.chain)
        )

    def _preemptable(self, lane: Lane, gang: Gang) -> SlotArray:
        """Return the pods of lower priority in the gang's queue."""
        priority = gang.contract.priority
        if not self._has_lower(lane.queue, priority):
            return np.zeros(0, np.intp)
        victims = self._model.victims
        which = victims.queue[: victims.size] == victims.queues.get(lane.queue.name, -1)
        which &= victims.priority[: victims.size] < priority
        return self._willing(which)

    def _reclaimable(self, lane: Lane) -> SlotArray:
        """Return the pods of queues that hold more than they deserve of what this one does not have."""
        victims = self._model.victims
        if not self._policy.reclaim or not self._others(lane.queue):
            return np.zeros(0, np.intp)
        claim = self._claim(lane, None, self._lacking(lane))
        numbers = [
            victims.queues[name]
            for name in victims.queues_with_victims()
            if name != lane.queue.name and claim.columns(self._model.queues.get(name))
        ]
        if not numbers:
            return np.zeros(0, np.intp)
        return self._willing(np.isin(victims.queue[: victims.size], numbers))

    def _willing(self, which: BoolArray) -> SlotArray:
        """Return which of the rows may be evicted now, on our nodes; remember when the next may."""
        victims, size = self._model.victims, self._model.victims.size
        which = which & victims.willing[:size] & self._model.nodes.mine[victims.slot[:size]]
        cold = victims.since[:size] + self._policy.min_run_time.total_seconds()
        waits = which & (cold > self._now)
        if waits.any():
            self._cools(float(cold[waits].min()))
        return np.flatnonzero(which & ~waits)

    def _cools(self, at: float) -> None:
        self.cool_at = at if self.cool_at is None else min(at, self.cool_at)

    # ------------------------------------------------------------------ the search

    def _search(self, lane: Lane, gang: Gang, groups: Sequence[_Group]) -> Found | None:
        model = self._model
        request = Request(lane.shapes, (), self._claim(lane, None), (), self._policy.most_victims)
        if not Search(model, request).could_help(np.concatenate([group.rows for group in groups])):
            return None
        bundles: list[Bundle] = []
        budgets = False
        for group in groups:
            some, tier = self._bundles(gang, group)
            bundles += some
            budgets = budgets or "pdb" in tier
        if not bundles:
            return None
        claim = self._claim(lane, Budgets(model) if budgets else None, self._lacking(lane))
        self._weigh(bundles, claim)
        request = Request(lane.shapes, order(bundles), claim, self._deficits(lane), self._policy.most_victims)
        found = Search(model, request).run()
        if found is None or not claim.falls(found.bundles) or not self._has_quota(lane, found.bundles):
            return None
        return found

    def _bundles(self, gang: Gang, group: _Group) -> tuple[list[Bundle], Sequence[VictimFilter]]:
        """Cut what may go into bundles, by the first tier of filters that leaves any."""
        priority = gang.contract.priority
        own = gang.contract.queue
        for tier in group.tiers or ((),):
            found: list[Bundle] = []
            for one, rows in by_gang(self._model, self._filtered(gang, group.rows, tier)).items():
                same = one.contract.queue == own or "priority" in tier
                if not same or one.contract.priority < priority:
                    some = within_budget(self._model, one, rows) if "tdm" in tier else rows
                    found += cut(self._model, one, some, whole="gang" not in tier)
            if found:
                return found, tier
        return [], ()

    def _filtered(self, gang: Gang, rows: SlotArray, tier: Sequence[VictimFilter]) -> SlotArray:
        victims = self._model.victims
        if "conformance" in tier:
            rows = rows[~victims.critical[rows]]
        if "tdm" in tier:
            lasting = not any(task.shape.preemptable for task in gang.contract.tasks)
            rows = np.setdiff1d(rows, in_zones(self._model, rows)) if lasting else rows[:0]
        if "cdp" in tier:
            cooldown = np.maximum(victims.cooldown[rows], self._policy.cooldown.total_seconds())
            warm = victims.scheduled[rows] + cooldown
            if (warm > self._now).any():
                self._cools(float(warm[warm > self._now].min()))
                rows = rows[warm <= self._now]
        return rows

    def _weigh(self, bundles: Iterable[Bundle], claim: Claim) -> None:
        """Say how far beyond its share each bundle's queue is when it is that bundle's turn."""
        held: dict[tuple[str, int], float] = {}
        for bundle in order(bundles):
            queue = self._model.queues.get(bundle.gang.contract.queue)
            if queue is claim.queue:
                continue
            amounts = amounts_of(self._model, bundle)
            for column in claim.columns(queue):
                key = (queue.name, column)
                left = held.setdefault(key, claim.accounts.held(queue, column))
                due = max(claim.accounts.due(queue, column), 1e-9 * max(1.0, left))
                bundle.excess = max(bundle.excess, left / due)
                held[key] = left - amounts.get(column, 0)

    def _deficits(self, lane: Lane) -> list[Deficit]:
        """Return what has to be given back of capabilities, and how much a bundle gives."""
        return [(self._giver(*where), lacks) for where, lacks in self._short(lane).items()]

    def _giver(self, level: Queue, column: int) -> Callable[[Bundle], int]:
        def give(bundle: Bundle) -> int:
            queue = self._model.queues.get(bundle.gang.contract.queue)
            return amounts_of(self._model, bundle).get(column, 0) if level in queue.chain else 0

        return give

    def _has_quota(self, lane: Lane, bundles: Sequence[Bundle]) -> bool:
        """Whether all that binds queues, and what is kept for them, allow the gang once these have gone."""
        model = self._model
        freed: Counter[int] = Counter()
        for one in bundles:
            freed.update(amounts_of(model, one))
        gone = [
            (model.queues.get(one.gang.contract.queue), tuple(amounts_of(model, one).items()))
            for one in bundles
        ]
        victims = model.victims
        for row in np.flatnonzero(victims.leaving[: victims.size]).tolist():
            pod = victims.pods[row]
            if pod is not None and pod.queue:
                gone.append((model.queues.get(pod.queue), pod.shape.amounts))
        for queue, amounts in gone:
            model.queues.charge(queue, amounts, -1)
        refused = model.queues.over(lane.queue, lane.total) or model.promises.kept(
            lane.queue, lane.total, freed
        )
        for queue, amounts in gone:
            model.queues.charge(queue, amounts, 1)
        return refused is None

    # ------------------------------------------------------------------ what is held

    def _claim(self, lane: Lane, budgets: Budgets | None, lacking: frozenset[int] = frozenset()) -> Claim:
        accounts = Accounts(self._model, self._now_shares(), self._now_leaving())
        return Claim(self._model, lane.queue, lane.total, accounts, budgets, lacking)

    def _lacking(self, lane: Lane) -> frozenset[int]:
        """Return the resources of which too little is free for the gang on all its nodes, or in its quota."""
        nodes = self._model.nodes
        found = {column for _, column in self._short(lane)}
        for shape, count in lane.shapes:
            shape.rules.refresh()
            allowed = np.flatnonzero(shape.rules.allowed)
            columns = [column for column, _ in shape.amounts]
            free = np.maximum(nodes.future(columns)[:, allowed], 0)
            for number, (column, amount) in enumerate(shape.amounts):
                if int((free[number] // amount).sum()) < count:
                    found.add(column)
        return frozenset(found)

    def _short(self, lane: Lane) -> dict[tuple[Queue, int], int]:
        """Return by level and column what capabilities lack."""
        found: dict[tuple[Queue, int], int] = {}
        for level in lane.queue.chain:
            gone = self._now_leaving().get(level, {})
            for column, limit in level.capability or ():
                asked = lane.total.get(column, 0)
                lacks = level.held.get(column, 0) - gone.get(column, 0) + asked - limit
                if asked and lacks > 0:
                    found[level, column] = lacks
        return found

    def _now_shares(self) -> Shares:
        if self._shares is None:
            self._shares = self._model.shares()
        return self._shares

    def _now_leaving(self) -> dict[Queue, Sums]:
        if self._leaving is None:
            self._leaving = leaving(self._model)
        return self._leaving


def _lacks(lane: Lane) -> bool:
    """Whether a lane's gangs lack what others hold."""
    return not lane.surplus and isinstance(lane.stop, NoRoom | NoQuota) and lane.is_plain
