"""Who may evict whom: preemption inside a queue, reclaim between queues.

Preemption: gangs of a queue yield to one of strictly higher priority.

Reclaim: a gang may claim those resources of which its queue, and each level above it up to where the other's
levels join, would hold no more than it deserves. It takes from queues each of whose levels holds more than
it deserves of one of these, and leaves them what they deserve and are guaranteed. And what all queues hold
beyond what they deserve must be less afterwards than before: that falls with every round of
reclaim, so none of them can be undone by another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from services.scheduler.core.bundles import Bundle, amounts_of
from services.scheduler.core.model import Model
from services.scheduler.core.queues import Queue
from services.scheduler.core.resources import PODS
from services.scheduler.core.shares import Shares, apart

Sums = dict[int, int]
_ROUNDING: Final = 1e-9


@dataclass(slots=True)
class Accounts:
    """What queues hold at every level, without what is leaving, while more and more of it is taken."""

    model: Model
    shares: Shares
    leaving: Mapping[Queue, Mapping[int, int]]
    taken: dict[Queue, Sums] = field(default_factory=dict[Queue, Sums])

    def held(self, level: Queue, column: int) -> int:
        """Return what a level would hold."""
        left = level.held.get(column, 0) - self.leaving.get(level, {}).get(column, 0)
        return left - self.taken.get(level, {}).get(column, 0)

    def due(self, level: Queue, column: int) -> float:
        """Return what a level deserves; nothing of what it does not name, when others do (capacity mode)."""
        return self.shares.deserved(level).get(column, 0.0)

    def take(self, queue: Queue, amounts: Mapping[int, int], sign: int) -> None:
        """Take from a queue and the levels above it (or give back)."""
        for level in queue.chain:
            sums = self.taken.setdefault(level, {})
            for column, amount in amounts.items():
                sums[column] = sums.get(column, 0) + sign * amount

    def excess(
        self, levels: Iterable[Queue], totals: Mapping[int, int], adding: Mapping[Queue, Sums]
    ) -> float:
        """Return what levels hold (with ``adding``) beyond what they deserve, as parts of the cluster."""
        beyond = 0.0
        for level in levels:
            more = adding.get(level, {})
            for column, total in totals.items():
                if column != PODS:
                    held = self.held(level, column) + more.get(column, 0)
                    beyond += max(0.0, held - self.due(level, column)) / total
        return beyond


def leaving(model: Model) -> dict[Queue, Sums]:
    """Return by level what pods hold that are leaving."""
    victims = model.victims
    found: dict[Queue, Sums] = {}
    for row in np.flatnonzero(victims.leaving[: victims.size]).tolist():
        pod = victims.pods[row]
        if pod is None or not pod.queue:
            continue
        for level in model.queues.get(pod.queue).chain:
            sums = found.setdefault(level, {})
            for column, amount in pod.shape.amounts:
                sums[column] = sums.get(column, 0) + amount
    return found


class Budgets:
    """What PodDisruptionBudgets still allow while more and more pods are taken."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._left = dict(model.budgets)
        if self._left:
            for one in model.evictions.by_number.values():
                for key in one.left.values():
                    pod = model.pods.get(key)
                    for name in () if pod is None else pod.budgets:
                        self._change((key[0], name), -1)

    def take(self, bundle: Bundle) -> bool:
        """Count a bundle's pods; False, and nothing is counted, when a budget forbids one of them."""
        if not self._left:
            return True
        named = [
            (self._model.victims.keys[row][0], name)
            for row in bundle.rows
            if (pod := self._model.victims.pods[row]) is not None
            for name in pod.budgets
        ]
        for number, key in enumerate(named):
            if self._left.get(key, 1) <= 0:
                self._give(named[:number])
                return False
            self._change(key, -1)
        return True

    def give_back(self, bundle: Bundle) -> None:
        """Undo ``take``."""
        if self._left:
            victims = self._model.victims
            for row in bundle.rows:
                pod = victims.pods[row]
                self._give([(victims.keys[row][0], name) for name in (() if pod is None else pod.budgets)])

    def _give(self, keys: Iterable[tuple[str, str]]) -> None:
        for key in keys:
            self._change(key, 1)

    def _change(self, key: tuple[str, str], by: int) -> None:
        if key in self._left:
            self._left[key] += by


@dataclass(slots=True)
class Claim:
    """What a gang of ``queue`` that asks for ``total`` may take; the callable of a search."""

    model: Model
    queue: Queue
    total: Mapping[int, int]
    accounts: Accounts
    budgets: Budgets | None
    lacking: frozenset[int] = frozenset()
    """Resources of which not enough is free, wherever it is."""
    _columns: dict[Queue, tuple[int, ...]] = field(default_factory=dict[Queue, "tuple[int, ...]"])

    def __call__(self, bundles: Sequence[Bundle]) -> Sequence[Bundle]:
        """Return those that must not go; count them all as gone if there are none."""
        counted: list[Bundle] = []
        refused: list[Bundle] = []
        for bundle in bundles:
            if self.budgets is not None and not self.budgets.take(bundle):
                refused.append(bundle)
                continue
            amounts = amounts_of(self.model, bundle)
            victim = self.model.queues.get(bundle.gang.contract.queue)
            if not self.may_lose(victim, amounts):
                refused.append(bundle)
                if self.budgets is not None:
                    self.budgets.give_back(bundle)
                continue
            self.accounts.take(victim, amounts, 1)
            counted.append(bundle)
        if refused:
            for bundle in counted:
                victim = self.model.queues.get(bundle.gang.contract.queue)
                self.accounts.take(victim, amounts_of(self.model, bundle), -1)
                if self.budgets is not None:
                    self.budgets.give_back(bundle)
        return refused

    def deserves(self) -> bool:
        """Whether the queue itself would hold no more than it deserves of anything that is asked for."""
        accounts, queue = self.accounts, self.queue
        return any(
            column != PODS
            and amount > 0
            and _within(accounts.held(queue, column) + amount, accounts.due(queue, column))
            for column, amount in self.total.items()
        )

    def columns(self, victim: Queue) -> tuple[int, ...]:
        """Return the resources that may be claimed from a queue; none when nothing may."""
        if victim not in self._columns:
            self._columns[victim] = self._claimable(victim)
        return self._columns[victim]

    def _claimable(self, victim: Queue) -> tuple[int, ...]:
        theirs, mine = apart(victim, self.queue)
        if not theirs or not mine or not all(level.reclaimable for level in theirs):
            return ()
        accounts = self.accounts
        entitled = [
            column
            for column, amount in self.total.items()
            if column != PODS
            and amount
            and all(_within(accounts.held(one, column) + amount, accounts.due(one, column)) for one in mine)
        ]
        if not self._covers(entitled):
            return ()
        if all(any(self._has_more(level, column) for column in entitled) for level in theirs):
            return tuple(entitled)
        return ()

    def _covers(self, entitled: Sequence[int]) -> bool:
        """Whether it deserves what is lacking: all of that which its queue's share tells of."""
        lacking = self.lacking - {PODS}
        told = self.accounts.shares.deserved(self.queue)
        return not lacking or (
            all(column in entitled for column in lacking if column in told)
            and any(column in entitled for column in lacking)
        )

    @property
    def _names_count(self) -> bool:
        """Whether queues deserve what they name."""
        return self.model.policy.sharing.mode in ("mixed", "capacity")

    def _has_more(self, level: Queue, column: int) -> bool:
        held, due = self.accounts.held(level, column), self.accounts.due(level, column)
        return not _within(held, due)

    def may_lose(self, victim: Queue, amounts: Mapping[int, int]) -> bool:
        """Whether a queue may lose so much: the gang's own may lose anything."""
        if victim is self.queue:
            return True
        columns = [column for column in self.columns(victim) if amounts.get(column)]
        return all(self._can_spare(level, columns, amounts) for level in apart(victim, self.queue)[0])

    def _can_spare(self, level: Queue, columns: Iterable[int], amounts: Mapping[int, int]) -> bool:
        accounts = self.accounts
        more = [column for column in columns if self._has_more(level, column)]
        for column, least in level.guarantee.items():
            if amounts.get(column) and accounts.held(level, column) - amounts[column] < least:
                return False
        for column, named in (level.deserved or {}).items() if self._names_count else ():
            held = accounts.held(level, column)
            if column not in (*more, PODS) and held >= named > held - amounts.get(column, 0):
                return False
        if self.model.policy.eviction.undershoot:
            return bool(more)
        return bool(more) and all(
            _within(accounts.due(level, column), accounts.held(level, column) - amounts[column])
            for column in more
        )

    def falls(self, bundles: Sequence[Bundle]) -> bool:
        """Whether queues hold less beyond what they deserve once these go and the gang is placed."""
        names = sorted({one.gang.contract.queue for one in bundles} - {self.queue.name})
        if not names:
            return True
        queues = (self.queue, *map(self.model.queues.get, names))
        levels = list(dict.fromkeys(level for queue in queues for level in queue.chain))
        totals = self.model.nodes.totals()
        accounts = Accounts(self.model, self.accounts.shares, self.accounts.leaving)
        before = accounts.excess(levels, totals, {})
        for bundle in bundles:
            victim = self.model.queues.get(bundle.gang.contract.queue)
            accounts.take(victim, amounts_of(self.model, bundle), 1)
        adding = {level: dict(self.total) for level in self.queue.chain}
        return accounts.excess(levels, totals, adding) < before - _ROUNDING


def _within(amount: float, bound: float) -> bool:
    return amount <= bound + _ROUNDING * max(1.0, abs(bound))
