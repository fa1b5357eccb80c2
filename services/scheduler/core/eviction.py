"""Finding victims for the gangs that were stopped for lack of room or quota.

First it is asked cheaply whether anybody could be evicted at all: a queue without pods of lower
priority, and without others that hold more than they deserve, costs a comparison. Then reclaim is
tried before preemption: what a queue deserves should not cost it pods of its own. Where neither is enough,
both together are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from datetime import datetime

import numpy as np

from services.scheduler.core.bundles import Bundle, amounts_of, order
from services.scheduler.core.candidates import Candidates, Group, asks_as
from services.scheduler.core.claims import Accounts, Budgets, Claim, Sums, leaving
from services.scheduler.core.gangs import Gang
from services.scheduler.core.landing import search
from services.scheduler.core.lanes import InVain, Lane, NoDomain, NoQuota, NoRoom
from services.scheduler.core.model import Model
from services.scheduler.core.queues import Queue
from services.scheduler.core.search import Deficit, Found, Request
from services.scheduler.core.settle import could_ever_fit
from services.scheduler.core.shapes import amounts_of as amounts_of_counts
from services.scheduler.core.shares import Shares
from services.scheduler.core.timers import earlier


class Evictor:
    """The search for one cycle."""

    def __init__(self, model: Model, now: datetime) -> None:
        self._model = model
        self._policy = model.policy.eviction
        self._now = now
        self.cool_at: float | None = None
        """When the next pod can be evicted that is safe now."""
        self.forget()

    def forget(self) -> None:
        """Look anew at who could go and what is held: somebody was evicted."""
        self._shares: Shares | None = None
        self._leaving: dict[Queue, Sums] | None = None
        self._ordered: dict[Hashable, list[Bundle]] = {}
        self._ranked: Hashable = None
        self._candidates = Candidates(self._model, self._now)
        self._model.victims.refresh()
        self._losing = self._model.victims.queues_with_victims()
        self._versions: dict[bool, Hashable] = {}
        """What all searches depend on; by whether it matters what queues deserve."""

    def heads(self) -> list[tuple[Lane, Gang]]:
        """Return the stopped lanes that somebody might be evicted for, in the order of their turns."""
        model = self._model
        if not len(model.victims):
            return []
        found: list[tuple[Lane, Gang]] = []
        news = False
        for lane in model.waiting.lanes.values():
            head = lane.head()
            if head is None or not self._asks(lane, head[1]):
                continue
            vain = self._is_vain(lane, head[1])
            if vain or self._might(lane, head[1]):
                found.append((lane, head[1]))
                news = news or not vain
        if not news:
            return []
        turns = {queue: self._turn(queue) for queue in {lane.queue for lane, _ in found}}
        return sorted(found, key=lambda item: (turns[item[0].queue], item[1].order))

    def find_for(self, lane: Lane, gang: Gang) -> Found | None:
        """As :meth:`find`, for a gang that is in no lane of the model; ``lane`` says what stopped it."""
        asks = len(self._model.victims) and self._asks(lane, gang) and self._might(lane, gang)
        return self.find(lane, gang) if asks else None

    def find(self, lane: Lane, gang: Gang) -> Found | None:
        """Return who has to go for a gang, None when it cannot be helped."""
        if self._is_vain(lane, gang):
            return None
        self._model.work.searches += 1
        self._candidates.cool_at = None
        found = self._find(lane, gang)
        until = self._candidates.cool_at
        self.cool_at = earlier(self.cool_at, until)
        lane.in_vain = InVain(self._seen(lane, gang), until) if found is None else None
        return found

    def _asks(self, lane: Lane, gang: Gang) -> bool:
        """Whether a gang may evict, and it could help."""
        lacks = not lane.surplus and isinstance(lane.stop, NoRoom | NoDomain | NoQuota)
        return lacks and gang.contract.priority_class not in self._model.peaceful

    # ------------------------------------------------------------------ what was searched for before

    def _is_vain(self, lane: Lane, gang: Gang) -> bool:
        """Whether nothing has changed on which a search depends that found nobody."""
        vain = lane.in_vain
        if vain is None or not vain.holds(self._seen(lane, gang), self._now.timestamp()):
            return False
        self.cool_at = earlier(self.cool_at, vain.until)
        return True

    def _seen(self, lane: Lane, gang: Gang) -> Hashable:
        """Return all that a search for a gang of a lane depends on, but for the time."""
        claims = self._policy.reclaim and self._others(lane.queue)
        versions = self._versions.get(claims)
        if versions is None:
            versions = self._versions[claims] = self._now_versions(claims=claims)
        reserved = gang.key if self._model.reservations.of(gang.key) is not None else None
        return asks_as(gang, self._policy), reserved, versions

    def _now_versions(self, *, claims: bool) -> Hashable:
        model = self._model
        if claims:
            self._now_shares()
        return (
            model.victims.version,
            model.nodes.room_version,
            model.nodes.capacity_version,
            model.queues.held_version,
            model.queues.shares_version if claims else None,
        )

    # ------------------------------------------------------------------ who at all

    def _might(self, lane: Lane, gang: Gang) -> bool:
        return self._has_lower(lane.queue, gang.contract.priority) or (
            self._policy.reclaim and self._others(lane.queue) and bool(self._claim(lane, None).deserves())
        )

    def _has_lower(self, queue: Queue, priority: int) -> bool:
        lowest = self._model.victims.lowest(queue.name)
        return self._policy.preempt and lowest is not None and lowest < priority

    def _others(self, queue: Queue) -> bool:
        """Whether another queue has pods that could be evicted."""
        return len(self._losing) > (queue.name in self._losing)

    def _turn(self, queue: Queue) -> tuple[object, ...]:
        """Return a queue's place: as its levels are served, from the top of the tree down."""
        orders = self._model.policy.sharing.queue_order
        shares = self._now_shares()
        return tuple(
            (*(-level.priority if what == "priority" else shares.share(level) for what in orders), level.name)
            for level in reversed(queue.chain)
        )

    def _groups(self, lane: Lane, gang: Gang) -> list[Group]:
        """Return who may be victims: of queues that hold too much, and of lower priority in the gang's."""
        found: list[Group] = []
        if self._policy.reclaim and self._others(lane.queue):
            claim = self._claim(lane, None, self._lacking(lane, gang))
            names = [
                name
                for name in self._losing
                if name != lane.queue.name and claim.columns(self._model.queues.get(name))
            ]
            found += [self._candidates.of_queues(names)] if names else []
        if self._has_lower(lane.queue, gang.contract.priority):
            found.append(self._candidates.below(lane.queue, gang.contract.priority))
        return [group for group in found if group.rows.size]

    # ------------------------------------------------------------------ the search

    def _find(self, lane: Lane, gang: Gang) -> Found | None:
        groups = self._groups(lane, gang)
        attempts = [[one] for one in groups]
        if len(groups) > 1:
            attempts.append(groups)
        for attempt in attempts:
            found = self._search(lane, gang, attempt)
            if found is not None:
                return found
        return None

    def _search(self, lane: Lane, gang: Gang, groups: Sequence[Group]) -> Found | None:
        model = self._model
        helps = self._candidates.could_help(lane, gang, groups, self._short(lane))
        if not helps or not could_ever_fit(model, lane):
            return None
        budgets = any("pdb" in self._candidates.bundles(gang, group)[1] for group in groups)
        claim = self._claim(lane, Budgets(model) if budgets else None, self._lacking(lane, gang))
        bundles = self._in_order(gang, groups, claim)
        if not bundles:
            return None
        request = Request(lane.shapes, bundles, claim, self._deficits(lane), self._policy.most_victims)
        found = search(model, lane, request)
        return found if found is not None and self._is_due(lane, claim, found) else None

    def _is_due(self, lane: Lane, claim: Claim, found: Found) -> bool:
        """Whether what the gang takes is its queue's due and within all quotas once the victims have gone."""
        total = amounts_of_counts({shape: sum(counts) for shape, _, counts in found.places})
        if total != claim.total:
            budgets = None if claim.budgets is None else Budgets(self._model)
            accounts = Accounts(self._model, claim.accounts.shares, claim.accounts.leaving)
            claim = Claim(self._model, lane.queue, total, accounts, budgets, claim.lacking)
            if claim(found.bundles):
                return False
        return claim.falls(found.bundles) and self._has_quota(lane.queue, total, found.bundles)

    def _in_order(self, gang: Gang, groups: Sequence[Group], claim: Claim) -> list[Bundle]:
        """Return the bundles of groups in the order in which they go."""
        bundles = [one for group in groups for one in self._candidates.bundles(gang, group)[0]]
        bundles = self._that_may_go(bundles, claim)
        queues = {one.gang.contract.queue for one in bundles}
        weights = tuple((name, claim.columns(self._model.queues.get(name))) for name in sorted(queues))
        key = (tuple(group.key for group in groups), asks_as(gang, self._policy), weights)
        if key not in self._ordered:
            self._weigh(bundles, claim)
            self._ordered[key] = order(bundles)
        elif self._ranked != key:
            for rank, one in enumerate(self._ordered[key]):
                one.rank = rank
        self._ranked = key
        return self._ordered[key]

    def _that_may_go(self, bundles: Iterable[Bundle], claim: Claim) -> list[Bundle]:
        """Leave out bundles that their queues may not even lose alone, and those behind which these stand."""
        known: dict[Hashable, bool] = {}
        found: dict[Bundle, None] = {}
        for one in bundles:
            queue = one.gang.contract.queue
            amounts = amounts_of(self._model, one)
            key = (queue, *amounts.items())
            may = known.get(key)
            if may is None:
                may = known[key] = claim.may_lose(self._model.queues.get(queue), amounts)
            if may and all(before in found for before in one.first):
                found[one] = None
        return list(found)

    def _weigh(self, bundles: Iterable[Bundle], claim: Claim) -> None:
        """Say how far beyond its share each bundle's queue is when it is that bundle's turn."""
        held: dict[tuple[str, int], float] = {}
        for bundle in bundles:
            bundle.excess = 0.0
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

    def _has_quota(self, queue: Queue, total: dict[int, int], bundles: Sequence[Bundle]) -> bool:
        """Whether all that binds queues, and what is kept for them, allow ``total`` once these have gone."""
        model = self._model
        freed: Counter[int] = Counter()
        gone: dict[Queue, Counter[int]] = {}
        for one in bundles:
            amounts = amounts_of(model, one)
            freed.update(amounts)
            gone.setdefault(model.queues.get(one.gang.contract.queue), Counter()).update(amounts)
        victims = model.victims
        for row in np.flatnonzero(victims.leaving[: victims.size]).tolist():
            pod = victims.pods[row]
            if pod is not None and pod.queue:
                gone.setdefault(model.queues.get(pod.queue), Counter()).update(dict(pod.shape.amounts))
        with model.queues.without(gone):
            return not (model.queues.over(queue, total) or model.promises.kept(queue, total, freed))

    # ------------------------------------------------------------------ what is held

    def _claim(self, lane: Lane, budgets: Budgets | None, lacking: frozenset[int] = frozenset()) -> Claim:
        accounts = Accounts(self._model, self._now_shares(), self._now_leaving())
        return Claim(self._model, lane.queue, lane.total, accounts, budgets, lacking)

    def _lacking(self, lane: Lane, gang: Gang) -> frozenset[int]:
        """Return the resources of which too little is free for the gang on all its nodes, or in its quota."""
        everything = self._candidates.free(gang)
        found = {column for _, column in self._short(lane)}
        for shape, count in lane.shapes:
            shape.rules.refresh()
            allowed = np.flatnonzero(shape.rules.allowed)
            for column, amount in shape.amounts:
                free = np.maximum(everything[column, allowed], 0)
                if int((free // amount).sum()) < count:
                    found.add(column)
        return frozenset(found)

    def _short(self, lane: Lane) -> dict[tuple[Queue, int], int]:
        """Return by level and column what capabilities lack."""
        found: dict[tuple[Queue, int], int] = {}
        for level in lane.queue.chain:
            gone = self._now_leaving().get(level, {})
            for column, limit in level.capability or ():
                asked = lane.taking.get(column, 0)
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
