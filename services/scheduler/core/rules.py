"""Which nodes a pod may run on at all, and which it would like: a shape's rules over all nodes.

The semantics are kube-scheduler's: node selector and required affinity (terms are alternatives, an
empty term matches nothing), NoSchedule and NoExecute taints against tolerations, ``unschedulable``
tolerated as the taint ``node.kubernetes.io/unschedulable``, readiness. Scores are those of Volcano's
``nodeorder``: preferred affinity and PreferNoSchedule taints, each scaled to 0..100 by the largest
value; here over all nodes the pod may run on, full or not, so that a score does not move because some
other node fills up.

Results are kept as columns and repaired from the log of rule changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from services.scheduler.core.columns import BoolArray, FloatArray, SlotArray
from services.scheduler.core.nodegroups import Lot
from services.scheduler.core.nodes import Nodes
from shared.api.matching import UNSCHEDULABLE, TaintKey, Test, requirement, tolerated
from shared.api.names import NODEGROUP_NAME, REVOCABLE_ZONE
from shared.events.contracts import NodeTerm, Requirement
from shared.events.contracts import Shape as ShapeContract

_MANY: Final = 64

Limit = Callable[[SlotArray], BoolArray]
"""Another test of nodes, for one shape: True where its pods may run."""


@dataclass(frozen=True, slots=True)
class Refusals:
    """Over some nodes: True where the node passes each of the rules (for reasons)."""

    ready: BoolArray
    schedulable: BoolArray
    untainted: BoolArray
    selected: BoolArray
    affine: BoolArray
    grouped: BoolArray
    """It is of a group that the pods' queue may use."""
    zoned: BoolArray
    """It is of no zone, or of one that is open to the pods now."""
    unloaded: BoolArray
    """It does not really use more than the policy lets be."""
    reachable: BoolArray
    """Volumes can be reached from the node."""
    aligning: BoolArray
    """Its kubelet aligns pods by the NUMA policy that they ask for."""
    accepted: BoolArray
    """By further limits; of nodes that pass all else, otherwise True."""

    @property
    def allowed(self) -> BoolArray:
        """Where the node passes all."""
        plain = self.ready & self.schedulable & self.untainted & self.selected & self.affine
        here = self.grouped & self.zoned & self.unloaded & self.reachable & self.aligning
        return plain & here & self.accepted


class Rules:
    """The rules of one or more shapes: ``allowed`` nodes and their ``preference``."""

    def __init__(self, nodes: Nodes, shape: ShapeContract, lot: Lot | None = None) -> None:
        self._nodes = nodes
        self.lot = lot
        self._revocable = shape.revocable
        self.selector = dict(shape.node_selector)
        self.required = shape.required_terms
        self._reach = () if shape.volumes is None else shape.volumes.reach
        self.numa_policy = "" if shape.numa is None else shape.numa.policy
        self._preferred = shape.preferred_terms
        self._tolerations = shape.tolerations
        self._tolerates_cordon = tolerated(UNSCHEDULABLE, shape.tolerations)
        self.allowed: BoolArray = np.zeros(0, np.bool_)
        self.epoch = 0
        """Rises when preferences of nodes changed that are not in the log (another maximum)."""
        self._wish: FloatArray = np.zeros(0)
        self._dislike: FloatArray = np.zeros(0)
        self._most = (0.0, 0.0)
        self.limits: dict[str, Limit] = {}
        """Further limits by the names of those who set them; set before the first use."""
        self._seen = -1
        self._hard_taints: list[bool] = []
        self._soft_taints: list[int] = []

    def refresh(self) -> None:
        """Bring ``allowed`` and preferences up to date; costs in proportion to what changed."""
        nodes = self._nodes
        extra = nodes.exists.size - self.allowed.size
        if extra:
            self.allowed = np.pad(self.allowed, (0, extra))
            self._wish = np.pad(self._wish, (0, extra))
            self._dislike = np.pad(self._dislike, (0, extra))
        if self._seen == nodes.rules_log.end:
            return
        changed = nodes.rules_log.since(self._seen) if self._seen >= 0 else None
        if changed is None or len(changed) > _MANY:
            slots = np.arange(len(nodes.names))
        else:
            slots = np.array(sorted(set(changed)), np.intp)
        self._evaluate(slots)
        self._seen = nodes.rules_log.end

    @property
    def indifferent(self) -> bool:
        """No node is preferred to another."""
        return self._most == (0.0, 0.0)

    def preference(self, slots: SlotArray, affinity_weight: float, taint_weight: float) -> FloatArray | float:
        """Return the static score of nodes, each part 0..100 times its weight."""
        most_wished, most_disliked = self._most
        score: FloatArray | float = 0.0
        if most_wished > 0:
            score = affinity_weight * (100.0 * self._wish[slots] / most_wished)
        if most_disliked > 0:
            score = score + taint_weight * (100.0 - 100.0 * self._dislike[slots] / most_disliked)
        return score

    def tolerates(self, taint: TaintKey) -> bool:
        """Whether the pods tolerate a taint."""
        return tolerated(taint, self._tolerations)

    def refusals(self, slots: SlotArray) -> Refusals:
        """Say for each node which rule it passes."""
        nodes = self._nodes
        self._learn_taints()
        passed = Refusals(
            ready=nodes.ready[slots],
            schedulable=~nodes.unschedulable[slots] | self._tolerates_cordon,
            untainted=~np.array(self._hard_taints, np.bool_)[nodes.taint_code[slots]],
            selected=self._selected(slots),
            affine=self._affine(slots),
            grouped=self._grouped(slots),
            zoned=self._zoned(slots),
            unloaded=~nodes.load.over[slots],
            reachable=self._reachable(slots),
            aligning=nodes.numa.passes(self.numa_policy, slots),
            accepted=np.ones(slots.size, np.bool_),
        )
        for limit in self.limits.values():
            left = np.flatnonzero(passed.allowed)
            passed.accepted[left] = limit(slots[left])
        return passed

    # ------------------------------------------------------------------ inside

    def _evaluate(self, slots: SlotArray) -> None:
        passed = self.refusals(slots)
        allowed = passed.allowed
        self.allowed[slots] = allowed
        if self._preferred:
            wish = np.zeros(slots.size)
            for preferred in self._preferred:
                wish += preferred.weight * self._term(preferred.term, slots)
            self._wish[slots] = np.where(allowed, wish, 0.0)
        if any(self._soft_taints):
            dislike = np.array(self._soft_taints, np.float64)[self._nodes.taint_code[slots]]
            self._dislike[slots] = np.where(allowed, dislike, 0.0)
        most = (float(self._wish.max(initial=0.0)), float(self._dislike.max(initial=0.0)))
        if most != self._most:
            self._most = most
            self.epoch += 1

    def _learn_taints(self) -> None:
        for taints in self._nodes.taint_sets[len(self._hard_taints) :]:
            open_taints = [taint for taint in taints if not tolerated(taint, self._tolerations)]
            self._hard_taints.append(any(effect != "PreferNoSchedule" for _, _, effect in open_taints))
            self._soft_taints.append(sum(effect == "PreferNoSchedule" for _, _, effect in open_taints))

    def _selected(self, slots: SlotArray) -> BoolArray:
        passed = np.ones(slots.size, np.bool_)
        for key, value in self.selector.items():
            passed &= self._where(key, _equals(value), slots)
        return passed

    def _grouped(self, slots: SlotArray) -> BoolArray:
        if self.lot is None or self.lot.groups is None:
            return np.ones(slots.size, np.bool_)
        return self._where(NODEGROUP_NAME, self.lot.takes, slots)

    def _zoned(self, slots: SlotArray) -> BoolArray:
        zones = None if self.lot is None else self.lot.zones
        if zones is None or not zones.filters:
            return np.ones(slots.size, np.bool_)
        now = (self._nodes.zones or frozenset()) if self._revocable else frozenset[str]()
        return self._where(REVOCABLE_ZONE, lambda zone: not zone or zone in now, slots)

    def _affine(self, slots: SlotArray) -> BoolArray:
        if self.required is None:
            return np.ones(slots.size, np.bool_)
        return self._any(self.required, slots)

    def _reachable(self, slots: SlotArray) -> BoolArray:
        passed = np.ones(slots.size, np.bool_)
        for terms in self._reach:
            passed &= self._any(terms, slots)
        return passed

    def _any(self, terms: tuple[NodeTerm, ...], slots: SlotArray) -> BoolArray:
        passed = np.zeros(slots.size, np.bool_)
        for term in terms:
            passed |= self._term(term, slots)
        return passed

    def _term(self, term: NodeTerm, slots: SlotArray) -> BoolArray:
        if not term.expressions and not term.fields:
            return np.zeros(slots.size, np.bool_)
        passed = np.ones(slots.size, np.bool_)
        for expression in term.expressions:
            passed &= self._where(expression.key, requirement(expression.operator, expression.values), slots)
        for one in term.fields:
            passed &= self._field(one, slots)
        return passed

    def _where(self, key: str, test: Test, slots: SlotArray) -> BoolArray:
        """Test a label on many nodes by testing each of its values once."""
        column = self._nodes.label(key)
        if len(column.values) > 4 * slots.size:
            values = column.values
            return np.array([bool(test(values[code])) for code in column.codes[slots].tolist()], np.bool_)
        table = np.array([bool(test(value)) for value in column.values], np.bool_)
        return table[column.codes[slots]]

    def _field(self, field: Requirement, slots: SlotArray) -> BoolArray:
        """``metadata.name`` is the only field that nodes are selected by."""
        if field.key != "metadata.name":
            return np.zeros(slots.size, np.bool_)
        test = requirement(field.operator, field.values)
        names = self._nodes.names
        return np.array([bool(test(names[slot])) for slot in slots.tolist()], np.bool_)


def _equals(value: str) -> Test:
    return lambda held: held == value
