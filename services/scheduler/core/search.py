"""The search for victims: which bundles have to go so that a whole gang can be placed.

Nothing of the model is touched: the search works on a copy of what the nodes will have free once all that
is leaving has left. Each shape takes room that is free first. Then node after node is emptied
as far as one more pod needs, the node first where that costs least: surplus rather than whole gangs,
then the lowest priority, the fewest pods, the last in order. Bounds from prefix sums over each node's pods in
eviction order tell at which nodes to look at all.

In the end each bundle is taken out again that the gang does not need, the most valuable first: so the set is
minimal. With one shape that is exact; with several, as far as placing them one after another can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from operator import add
from typing import Final

import numpy as np

from services.scheduler.core.bundles import Bundle
from services.scheduler.core.columns import SlotArray
from services.scheduler.core.future import Future, On, Plan
from services.scheduler.core.model import Model
from services.scheduler.core.shapes import Shape

Cost = tuple[int, int, int, int, str]
"""Whole gangs, highest priority, pods, last in order, node's name: of what one more pod needs."""
Allows = Callable[[Sequence[Bundle]], Sequence[Bundle]]
"""Of bundles that are to go, those that must not after what went before; it counts them if there are none."""
Deficit = tuple[Callable[[Bundle], int], int]
"""How much a bundle gives back of a quota, and how much has to be given back."""

_FREE: Final[Cost] = (0, 0, 0, 0, "")


@dataclass(slots=True, eq=False)
class Found:
    """Where the gang goes, and the bundles that leave for it."""

    places: list[tuple[Shape, list[int], list[int]]]
    bundles: list[Bundle]


@dataclass(slots=True)
class Request:
    """What is searched for: a gang's shapes and counts, who may go in which order, and the bounds."""

    shapes: Sequence[tuple[Shape, int]]
    bundles: Sequence[Bundle]
    allows: Allows
    deficits: Sequence[Deficit] = ()
    most: int = 5000
    """Pods that may go."""


@dataclass(slots=True)
class _Node:
    """Bundles with pods on a node, in order."""

    rows: list[tuple[Bundle, int]] = field(default_factory=list[tuple[Bundle, int]])
    version: int = 0


class Search:
    """One search."""

    def __init__(self, model: Model, request: Request) -> None:
        self._model = model
        self._request = request
        for shape, _ in request.shapes:
            shape.rules.refresh()
        self._future = Future(model, (shape for shape, _ in request.shapes))
        self._names = model.nodes.names
        self._taken: dict[Bundle, None] = {}
        self._refused: set[Bundle] = set()
        self._nodes: dict[int, _Node] = {}
        self._plan: Plan = []

    def run(self) -> Found | None:
        """Return what was found, None when it cannot be."""
        rows = [row for bundle in self._request.bundles for row in bundle.rows]
        if not self.could_help(np.array(rows, np.intp)):
            return None
        self._line_up()
        if not all(self._place(shape, count) for shape, count in self._by_need()):
            return None
        if not self._give_back():
            return None
        self._minimise()
        if sum(len(bundle.rows) for bundle in self._taken) > self._request.most:
            return None
        places = [(shape, list(on), list(on.values())) for shape, on in self._plan]
        return Found(places, sorted(self._taken, key=lambda one: one.rank))

    # ------------------------------------------------------------------ bounds

    def could_help(self, rows: SlotArray) -> bool:
        """Whether there is room if all these pods go: an upper bound, without a search."""
        more = self._future.freed(rows)
        return all(self._future.fits(shape, more).sum() >= count for shape, count in self._request.shapes)

    def _by_need(self) -> list[tuple[Shape, int]]:
        """Return the shapes, the one with the least room to spare first."""
        spare = [
            (int(self._future.fits(shape).sum()) - count, number, shape, count)
            for number, (shape, count) in enumerate(self._request.shapes)
        ]
        return [(shape, count) for _, _, shape, count in sorted(spare, key=lambda item: item[:2])]

    # ------------------------------------------------------------------ placing

    def _line_up(self) -> None:
        pairs = [(bundle, row) for bundle in self._request.bundles for row in bundle.rows]
        slots = self._model.victims.slot[[row for _, row in pairs]].tolist()
        nodes = self._nodes = {slot: _Node() for slot in dict.fromkeys(slots)}
        for slot, pair in zip(slots, pairs, strict=True):
            nodes[slot].rows.append(pair)

    def _place(self, shape: Shape, count: int) -> bool:
        """Take room for pods of a shape: what is free, then what evictions free."""
        on: On = {}
        self._plan.append((shape, on))
        left = self._future.fill(shape, count, on)
        if not left:
            return True
        heap = self._estimates(shape)
        heapify(heap)
        while left and heap:
            cost, slot, version = heappop(heap)
            node = self._nodes[slot]
            if version != node.version:
                continue
            exact = self._next(shape, slot)
            if exact is None:
                continue
            if heap and exact[0] > cost and exact[0] > heap[0][0]:
                heappush(heap, (exact[0], slot, version))
                continue
            refused = self._request.allows(exact[1])
            if refused:
                self._refused.update(refused)
                heappush(heap, (cost, slot, version))
                continue
            for touched in self._take(exact[1], 1):
                other = self._nodes.setdefault(touched, _Node())
                other.version += 1
                if touched != slot:
                    heappush(heap, (_FREE, touched, other.version))
            left -= self._future.put(shape, slot, left, on)
            node.version += 1
            heappush(heap, (_FREE, slot, node.version))
        return not left

    def _take(self, bundles: Iterable[Bundle], sign: int) -> set[int]:
        """Let bundles go (or, -1, stay); return the nodes that it concerns."""
        touched: set[int] = set()
        for bundle in bundles:
            touched |= self._future.change(bundle, sign)
            if sign > 0:
                self._taken[bundle] = None
            else:
                del self._taken[bundle]
        return touched

    def _estimates(self, shape: Shape) -> list[tuple[Cost, int, int]]:
        """Return for each node a lower bound of what one more pod costs there."""
        slots: list[int] = []
        rows: list[int] = []
        bundles: list[Bundle] = []
        for slot, node in self._nodes.items():
            if not self._future.takes(shape, slot):
                continue
            for bundle, row in node.rows:
                if bundle not in self._taken and bundle not in self._refused:
                    slots.append(slot)
                    rows.append(row)
                    bundles.append(bundle)
        if not rows:
            return []
        where = np.array(slots, np.intp)
        begins = np.flatnonzero(np.diff(where, prepend=-1))
        enough = np.ones(where.size, np.bool_)
        fewest = np.ones(begins.size, np.int64)
        held = self._future.amounts(np.array(rows, np.intp))
        for column, amount in shape.amounts:
            number = self._future.at[column]
            sums = np.cumsum(held[number])
            before = np.repeat(sums[begins] - held[number][begins], np.diff(begins, append=where.size))
            lacks = amount - self._future.free[number][where]
            enough &= sums - before >= lacks
            largest = np.maximum(np.maximum.reduceat(held[number], begins), 1)
            np.maximum(fewest, -(-lacks[begins] // largest), out=fewest)
        found: list[tuple[Cost, int, int]] = []
        ends = [*begins[1:].tolist(), where.size]
        hits = np.flatnonzero(enough)
        firsts = np.searchsorted(hits, begins)
        for number, (begin, end) in enumerate(zip(begins.tolist(), ends, strict=True)):
            first = firsts.item(number)
            if first < hits.size and begin <= hits.item(first) < end:
                last, slot = bundles[hits.item(first)], slots[begin]
                cost = (int(last.whole), last.priority, fewest.item(number), last.rank, "")
                found.append((cost, slot, self._nodes[slot].version))
        return found

    def _next(self, shape: Shape, slot: int) -> tuple[Cost, list[Bundle]] | None:
        """Return which bundles have to go for one more pod on a node, and their cost."""
        future = self._future
        if not future.takes(shape, slot):
            return None
        numbers = [future.at[column] for column, _ in shape.amounts]
        lacks = [
            amount - future.free.item(number, slot)
            for number, (_, amount) in zip(numbers, shape.amounts, strict=True)
        ]
        chosen: dict[Bundle, list[int]] = {}
        for bundle, row in self._nodes[slot].rows:
            if max(lacks) <= 0:
                break
            if bundle in self._taken or bundle in self._refused or self._is_dead(bundle):
                continue
            held = future.held(row)
            gives = [held[number] for number in numbers]
            lacks = [lack - give for lack, give in zip(lacks, gives, strict=True)]
            before = chosen.get(bundle)
            chosen[bundle] = gives if before is None else [*map(add, before, gives)]
        if max(lacks) > 0:
            return None
        for bundle in reversed(list(chosen)):
            without = [*map(add, lacks, chosen[bundle])]
            if max(without) <= 0:
                lacks = without
                del chosen[bundle]
        return self._with_first(chosen, slot)

    def _is_dead(self, bundle: Bundle) -> bool:
        """Whether something that goes before it must not go."""
        return bool(self._refused) and any(one in self._refused for one in bundle.first)

    def _with_first(self, chosen: Iterable[Bundle], slot: int) -> tuple[Cost, list[Bundle]]:
        """Add what goes before whole gangs, and work out the cost."""
        every = {one: None for bundle in chosen for one in (*bundle.first, bundle) if one not in self._taken}
        bundles = sorted(every, key=lambda one: one.rank)
        if not bundles:
            return _FREE, []
        return (
            int(any(one.whole for one in bundles)),
            max(one.priority for one in bundles),
            sum(len(one.rows) for one in bundles),
            bundles[-1].rank,
            self._names[slot],
        ), bundles

    # ------------------------------------------------------------------ quotas and the minimum

    def _give_back(self) -> bool:
        """Let more go until quotas have enough; False when they cannot."""
        for give, least in self._request.deficits:
            given = sum(map(give, self._taken))
            for bundle in self._request.bundles:
                if given >= least:
                    break
                if bundle in self._taken or bundle in self._refused or give(bundle) <= 0:
                    continue
                needed = [one for one in (*bundle.first, bundle) if one not in self._taken]
                if self._request.allows(needed):
                    continue
                self._take(needed, 1)
                given += sum(map(give, needed))
            if given < least:
                return False
        return True

    def _minimise(self) -> None:
        """Let every bundle stay that the gang can do without, the most valuable first."""
        self._future.lift(self._plan)
        totals = [int(self._future.fits(shape).sum()) for shape, _ in self._request.shapes]
        given = [sum(map(give, self._taken)) for give, _ in self._request.deficits]
        goes_before = {one: bundle for bundle in self._taken for one in bundle.first}
        for bundle in sorted(self._taken, key=lambda one: one.rank, reverse=True):
            if goes_before.get(bundle) in self._taken:
                continue
            gives = [give(bundle) for give, _ in self._request.deficits]
            least = [least for _, least in self._request.deficits]
            if any(all_ - one < low for all_, one, low in zip(given, gives, least, strict=True)):
                continue
            lost = self._without(bundle, totals)
            if lost is not None:
                totals = [total - less for total, less in zip(totals, lost, strict=True)]
                given = [all_ - one for all_, one in zip(given, gives, strict=True)]
        self._replan()

    def _without(self, bundle: Bundle, totals: list[int]) -> list[int] | None:
        """Let a bundle stay; return how many pods of each shape fit less, None when it has to go."""
        slots = {slot for slot, _ in self._future.holds(bundle)}
        before = self._fit_on(slots)
        self._take((bundle,), -1)
        after = self._fit_on(slots)
        lost = [more - less for more, less in zip(before, after, strict=True)]
        counts = [count for _, count in self._request.shapes]
        enough = all(total - less >= count for total, less, count in zip(totals, lost, counts, strict=True))
        if enough and (len(counts) == 1 or self._replan()):
            return lost
        self._take((bundle,), 1)
        return None

    def _fit_on(self, slots: Iterable[int]) -> list[int]:
        """Return how many pods of each shape fit on some nodes."""
        return [sum(self._future.fit_at(shape, slot) for slot in slots) for shape, _ in self._request.shapes]

    def _replan(self) -> bool:
        """Place the gang anew in what is free and freed; False when it does not."""
        future, plan = self._future, self._plan
        free = future.free
        future.free, self._plan = free.copy(), []
        whole = True
        for shape, count in self._by_need():
            on: On = {}
            self._plan.append((shape, on))
            if future.fill(shape, count, on):
                whole = False
                break
        future.free = free
        if not whole:
            self._plan = plan
        return whole
