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
from typing import Final

import numpy as np

from services.scheduler.core.bundles import Bundle
from services.scheduler.core.columns import BoolArray, IntArray, SlotArray
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
        self._columns = sorted({column for shape, _ in request.shapes for column, _ in shape.amounts})
        self._at = {column: number for number, column in enumerate(self._columns)}
        nodes = model.nodes
        nodes.fit_columns()
        everything = list(range(nodes.used.shape[0]))
        self._free: IntArray = nodes.future(self._columns)
        """By column and slot: what is left for more pods, victims' room included."""
        self._shut: BoolArray = np.asarray((nodes.future(everything) < 0).any(axis=0))
        self._names = nodes.names
        self._taken: dict[Bundle, None] = {}
        self._refused: set[Bundle] = set()
        self._nodes: dict[int, _Node] = {}
        self._plan: list[tuple[Shape, dict[int, int]]] = []

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
        for shape, _ in self._request.shapes:
            shape.rules.refresh()
        all_free = self._free + self._freed(rows)
        return all(self._fits(shape, all_free).sum() >= count for shape, count in self._request.shapes)

    def _by_need(self) -> list[tuple[Shape, int]]:
        """Return the shapes, the one with the least room to spare first."""
        spare = [
            (int(self._fits(shape, self._free).sum()) - count, number, shape, count)
            for number, (shape, count) in enumerate(self._request.shapes)
        ]
        return [(shape, count) for _, _, shape, count in sorted(spare, key=lambda item: item[:2])]

    def _freed(self, rows: SlotArray) -> IntArray:
        """Return what pods hold, by column and slot."""
        victims, size = self._model.victims, self._free.shape[1]
        slots, amounts = victims.slot[rows], self._amounts(rows)
        freed = np.zeros_like(self._free)
        for number in range(len(self._columns)):
            freed[number] = np.bincount(slots, weights=amounts[number], minlength=size)[:size]
        return freed

    def _amounts(self, rows: SlotArray) -> IntArray:
        """Return what pods hold, by column and row."""
        shapes, numbers = self._model.shapes.by_number, self._model.victims.shape[rows]
        table = np.zeros((len(self._columns), int(numbers.max(initial=0)) + 1), np.int64)
        for number in np.unique(numbers).tolist():
            for column, amount in shapes[number].amounts:
                if column in self._at:
                    table[self._at[column], number] = amount
        return table[:, numbers]

    def _fits(self, shape: Shape, free: IntArray) -> IntArray:
        """Return how many pods of a shape fit, by slot."""
        fits: IntArray | None = None
        for column, amount in shape.amounts:
            room = free[self._at[column]] // amount
            fits = room if fits is None else np.minimum(fits, room)
        assert fits is not None  # noqa: S101 - every shape takes the place of one pod
        fits = np.maximum(fits, 0)
        fits[~shape.rules.allowed[: fits.size] | self._shut] = 0
        return fits

    # ------------------------------------------------------------------ placing

    def _line_up(self) -> None:
        victims = self._model.victims
        for bundle in self._request.bundles:
            for row in bundle.rows:
                self._nodes.setdefault(victims.slot.item(row), _Node()).rows.append((bundle, row))

    def _place(self, shape: Shape, count: int) -> bool:
        """Take room for pods of a shape: what is free, then what evictions free."""
        on: dict[int, int] = {}
        self._plan.append((shape, on))
        left = self._fill(shape, count, on)
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
            left -= self._put(shape, slot, left, on)
            node.version += 1
            heappush(heap, (_FREE, slot, node.version))
        return not left

    def _fill(self, shape: Shape, count: int, on: dict[int, int]) -> int:
        """Take what is free, the tightest node first; return how many are left."""
        fits = self._fits(shape, self._free)
        order = self._model.nodes.by_name()
        order = order[fits[order] > 0]
        for slot in order[np.argsort(fits[order], kind="stable")].tolist():
            if not count:
                break
            count -= self._put(shape, slot, min(count, fits.item(slot)), on)
        return count

    def _put(self, shape: Shape, slot: int, most: int, on: dict[int, int]) -> int:
        """Place as many pods as fit on a node."""
        fits = min(self._free.item(self._at[column], slot) // amount for column, amount in shape.amounts)
        count = max(0, min(fits, most))
        for column, amount in shape.amounts:
            self._free[self._at[column], slot] -= amount * count
        if count:
            on[slot] = on.get(slot, 0) + count
        return count

    def _take(self, bundles: Iterable[Bundle], sign: int) -> set[int]:
        """Let bundles go (or, -1, stay); return the nodes that it concerns."""
        touched: set[int] = set()
        for bundle in bundles:
            for slot, amounts in self._holds(bundle):
                touched.add(slot)
                for number, amount in enumerate(amounts):
                    self._free[number, slot] += sign * amount
            if sign > 0:
                self._taken[bundle] = None
            else:
                del self._taken[bundle]
        return touched

    def _holds(self, bundle: Bundle) -> list[tuple[int, list[int]]]:
        """Return slot and amounts by column of a bundle's pods."""
        victims, shapes = self._model.victims, self._model.shapes.by_number
        found: list[tuple[int, list[int]]] = []
        for row in bundle.rows:
            held = dict(shapes[victims.shape.item(row)].amounts)
            found.append((victims.slot.item(row), [held.get(column, 0) for column in self._columns]))
        return found

    def _estimates(self, shape: Shape) -> list[tuple[Cost, int, int]]:
        """Return for each node a lower bound of what one more pod costs there."""
        slots: list[int] = []
        rows: list[int] = []
        bundles: list[Bundle] = []
        allowed = shape.rules.allowed
        for slot, node in self._nodes.items():
            if not allowed.item(slot) or self._shut.item(slot):
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
        held = self._amounts(np.array(rows, np.intp))
        for column, amount in shape.amounts:
            number = self._at[column]
            sums = np.cumsum(held[number])
            before = np.repeat(sums[begins] - held[number][begins], np.diff(begins, append=where.size))
            lacks = amount - self._free[number][where]
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
        if not shape.rules.allowed.item(slot) or self._shut.item(slot):
            return None
        lacks = {
            self._at[column]: amount - self._free.item(self._at[column], slot)
            for column, amount in shape.amounts
        }
        chosen: dict[Bundle, dict[int, int]] = {}
        for bundle, row in self._nodes[slot].rows:
            if all(lack <= 0 for lack in lacks.values()):
                break
            if bundle in self._taken or bundle in self._refused or self._is_dead(bundle):
                continue
            held = dict(self._model.shapes.by_number[self._model.victims.shape.item(row)].amounts)
            given = chosen.setdefault(bundle, {})
            for number in lacks:
                amount = held.get(self._columns[number], 0)
                given[number] = given.get(number, 0) + amount
                lacks[number] -= amount
        if any(lack > 0 for lack in lacks.values()):
            return None
        for bundle in reversed(list(chosen)):
            if all(lacks[number] + amount <= 0 for number, amount in chosen[bundle].items()):
                for number, amount in chosen.pop(bundle).items():
                    lacks[number] += amount
        return self._with_first(chosen, slot)

    def _is_dead(self, bundle: Bundle) -> bool:
        """Whether something that goes before it must not go."""
        return any(one in self._refused for one in bundle.first)

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
        self._lift()
        totals = [int(self._fits(shape, self._free).sum()) for shape, _ in self._request.shapes]
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
        slots = sorted({slot for slot, _ in self._holds(bundle)})
        before = [sum(self._fit_at(shape, slot) for slot in slots) for shape, _ in self._request.shapes]
        self._take((bundle,), -1)
        after = [sum(self._fit_at(shape, slot) for slot in slots) for shape, _ in self._request.shapes]
        lost = [more - less for more, less in zip(before, after, strict=True)]
        counts = [count for _, count in self._request.shapes]
        enough = all(total - less >= count for total, less, count in zip(totals, lost, counts, strict=True))
        if enough and (len(counts) == 1 or self._replan()):
            return lost
        self._take((bundle,), 1)
        return None

    def _lift(self) -> None:
        """Take the plan's pods off again."""
        for shape, on in self._plan:
            where = np.array(list(on), np.intp)
            counts = np.array(list(on.values()), np.int64)
            for column, amount in shape.amounts:
                self._free[self._at[column], where] += amount * counts

    def _replan(self) -> bool:
        """Place the gang anew in what is free and freed; False when it does not."""
        free, plan = self._free, self._plan
        self._free, self._plan = free.copy(), []
        whole = True
        for shape, count in self._by_need():
            on = dict[int, int]()
            self._plan.append((shape, on))
            if self._fill(shape, count, on):
                whole = False
                break
        self._free = free
        if not whole:
            self._plan = plan
        return whole

    def _fit_at(self, shape: Shape, slot: int) -> int:
        """Return how many pods of a shape fit on a node."""
        if self._shut.item(slot) or not shape.rules.allowed.item(slot):
            return 0
        return max(
            0, min(self._free.item(self._at[column], slot) // amount for column, amount in shape.amounts)
        )
