"""Where pods may go, and like to go, for what they ask of other pods: over all nodes at once.

Affinity and spread change with each pod that is placed, so these are worked out anew for each: sums over the
domains of a label, by its codes. The scores are kube-scheduler's, scaled to 0..100 over the nodes that are
left: preferred affinity by the weights of what the domain holds, spread by how few of the group it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from services.scheduler.core.columns import BoolArray, CodeArray, FloatArray, IntArray, SlotArray
from services.scheduler.core.kin import Allowance, Kin, Spread
from services.scheduler.core.nodes import Nodes
from services.scheduler.core.rules import Rules


class Between:
    """What the pods of one shape ask of others, on one node table."""

    def __init__(self, nodes: Nodes, kin: Kin, rules: Rules) -> None:
        self._nodes = nodes
        self._kin = kin
        self._rules = rules

    def open(self, slots: SlotArray) -> BoolArray:
        """Return which of the nodes may take one more pod."""
        kin = self._kin
        if any(map(self._nodes.volumes.is_mounted, kin.alone)):
            return np.zeros(slots.size, np.bool_)
        found = np.ones(slots.size, np.bool_)
        if kin.near:
            found &= self._near(slots)
        for term in (*kin.apart, *kin.banned):
            sums, codes = self._sums(term.column, term.key)
            found &= (sums[codes[slots]] == 0) | (codes[slots] == 0)
        for constraint, sums, codes, least in self._spreads(kin.spread):
            here = codes[slots]
            found &= (here > 0) & (sums[here] + constraint.own - least <= constraint.max_skew)
        for allowance in kin.allowances:
            left, codes = self.left(allowance)
            found &= left[codes[slots]] >= allowance.amount
        return found

    def left(self, allowance: Allowance) -> tuple[FloatArray, CodeArray]:
        """Return what may still be asked for, by the label's codes, and the code of each node."""
        sums, codes = self._sums(allowance.column, allowance.key)
        values = self._nodes.label(allowance.key).values
        limits = (None if value is None else allowance.most.get(value) for value in values)
        most = np.array([np.inf if limit is None else limit for limit in limits])
        return most - sums, codes

    def wide(self, slots: SlotArray, fits: IntArray, need: int) -> BoolArray:
        """Return which nodes are in domains with room for so many, where these are to be near each other.

        ``fits`` says how many pods a node has room for. Where some are there already these decide; where no
        domain has room for all it does not matter.
        """
        found = np.ones(slots.size, np.bool_)
        terms = self._kin.near
        if not terms or not self._is_first([self._present(term.column, term.key)[0] for term in terms]):
            return found
        for term in terms:
            labels = self._nodes.label(term.key)
            here = labels.codes[slots]
            found &= np.bincount(here, weights=fits, minlength=len(labels.values))[here] >= need
        return found if found.any() else ~found

    def _is_first(self, sums: Iterable[FloatArray]) -> bool:
        """Whether pods that ask for each other have none to be near to: the first may be anywhere."""
        return all(term.own for term in self._kin.near) and not any(some[1:].any() for some in sums)

    def scores(self, slots: SlotArray, affinity_weight: float, spread_weight: float) -> FloatArray:
        """Return how much each of the nodes is liked, each part 0..100 times its weight."""
        total = np.zeros(slots.size)
        if self._kin.wishes and slots.size:
            total += affinity_weight * _scaled(self._wishes(slots))
        if self._kin.even and slots.size:
            total += spread_weight * self._evenness(slots)
        return total

    def _near(self, slots: SlotArray) -> BoolArray:
        found = np.ones(slots.size, np.bool_)
        sums = [self._present(term.column, term.key) for term in self._kin.near]
        first = self._is_first(some for some, _ in sums)
        for some, codes in sums:
            here = codes[slots]
            found &= (here > 0) if first else (here > 0) & (some[here] > 0)
        return found

    def _wishes(self, slots: SlotArray) -> FloatArray:
        raw = np.zeros(slots.size)
        for term in self._kin.wishes:
            sums, codes = self._sums(term.column, term.key)
            here = codes[slots]
            raw += np.where(here > 0, term.weight * sums[here], 0.0)
        return raw

    def _evenness(self, slots: SlotArray) -> FloatArray:
        """Return 0..100, the most where the domains hold the fewest pods; 0 for nodes without a label."""
        raw = np.zeros(slots.size)
        labelled = np.ones(slots.size, np.bool_)
        for constraint, sums, codes, _ in self._spreads(self._kin.even):
            here = codes[slots]
            labelled &= here > 0
            domains = np.unique(here[here > 0]).size
            raw += sums[here] * np.log(domains + 2) + (constraint.max_skew - 1)
        if not labelled.any():
            return np.zeros(slots.size)
        most, least = raw[labelled].max(), raw[labelled].min()
        if most == 0:
            return np.where(labelled, 100.0, 0.0)
        return np.where(labelled, 100.0 * (most + least - raw) / most, 0.0)

    def _spreads(
        self, constraints: Iterable[Spread]
    ) -> Iterator[tuple[Spread, FloatArray, CodeArray, float]]:
        """Yield for each constraint the sums by domain, the domains of nodes, and the smallest sum."""
        constraints = tuple(constraints)
        if not constraints:
            return
        slots = np.arange(len(self._nodes.names))
        passed = self._rules.refusals(slots)
        keyed = np.logical_and.reduce([self._nodes.label(one.key).codes[slots] > 0 for one in constraints])
        for one in constraints:
            counted = keyed & self._nodes.exists[slots]
            if one.honours_affinity:
                counted &= passed.selected & passed.affine
            if one.honours_taints:
                counted &= passed.untainted
            sums, codes = self._sums(one.column, one.key, slots[counted])
            domains = np.unique(codes[slots[counted]])
            least = float(sums[domains].min()) if domains.size >= max(1, one.min_domains) else 0.0
            yield one, sums, codes, least

    def _present(self, column: int, key: str) -> tuple[FloatArray, CodeArray]:
        """Return the sums of pods that are there: not of those for which room is kept."""
        nodes, labels = self._nodes, self._nodes.label(key)
        kept = np.maximum(nodes.earmarked[column] - nodes.releasing[column], 0) + nodes.kept[column]
        there = np.maximum(nodes.used[column] - kept, 0)
        sums = np.bincount(labels.codes, weights=there, minlength=len(labels.values)).astype(np.float64)
        return sums, labels.codes

    def _sums(self, column: int, key: str, slots: SlotArray | None = None) -> tuple[FloatArray, CodeArray]:
        """Return what the domains of a label hold of a column, by code, and the code of each node."""
        labels = self._nodes.label(key)
        codes, used = labels.codes, self._nodes.used[column]
        if slots is not None:
            codes, used = codes[slots], used[slots]
        sums: FloatArray = np.bincount(codes, weights=used, minlength=len(labels.values)).astype(np.float64)
        return sums, labels.codes


def _scaled(raw: FloatArray) -> FloatArray:
    spread = raw.max() - raw.min()
    return np.zeros(raw.size) if spread == 0 else 100.0 * (raw - raw.min()) / spread
