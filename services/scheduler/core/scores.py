"""Scores of nodes: a sum of terms, each a formula over nodes for the pods of one shape.

A term has two forms that are equal to the last bit: ``many`` over an array of slots, ``one`` for a
single slot. ``rising`` says that a pod on a node never lowers the node's score by this term, so that a
node which got a pod stays the best until it is full: such terms place whole nodes at a time, any
other pod after pod (see ``index``). ``epoch`` rises when scores changed of nodes that are not in the log.

The formulas are Volcano's (``docs/policy/scores.md`` lists them with their arguments); a score is of the
node as it would be with one more pod.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from services.scheduler.core.columns import FloatArray, IntArray, SlotArray
from services.scheduler.core.devices import MEMORY as DEVICE_MEMORY
from services.scheduler.core.devices import Devices
from services.scheduler.core.fragments import Gradient, Typical
from services.scheduler.core.lightness import lightness
from services.scheduler.core.locality import locality
from services.scheduler.core.nodes import Nodes
from services.scheduler.core.numascore import narrow
from services.scheduler.core.resources import CPU, MEMORY
from services.scheduler.core.shapes import Shape
from services.scheduler.core.terms import Term
from shared.api.names import NODEGROUP_NAME, REVOCABLE_ZONE

if TYPE_CHECKING:
    from services.scheduler.core.policy import Scores

_MOST: Final = 100
_UNASKED: Final = ((CPU, 100), (MEMORY, 200 << 20))
"""What kube-scheduler's ``nodeorder`` formulas take a pod to use that asks for nothing."""
_BALANCED: Final = ("cpu", "memory", "nvidia.com/gpu")


class Score:
    """The sum of the terms that have a say on a shape."""

    def __init__(self, shape: Shape, nodes: Nodes, scores: Scores, typical: Typical) -> None:
        made = [make(shape, nodes, scores) for make in _TERMS]
        if scores.fragmentation is not None and nodes.resources.devices:
            made.append(Gradient(shape, nodes, typical, scores.fragmentation))
        made += [make(shape, nodes) for make in scores.extra]
        self._terms = [term for term in made if term is not None]
        self._moving = [term for term in self._terms if type(term).refresh is not Term.refresh]
        self.rising = all(term.rising for term in self._terms)

    def refresh(self) -> int:
        """Return a number that rises when scores changed of nodes that are not in the log."""
        epoch = 0
        for term in self._moving:
            epoch += term.refresh()
        return epoch

    def many(self, slots: SlotArray) -> FloatArray:
        """Return the scores of nodes that have room for one more pod."""
        total = np.zeros(slots.size)
        for term in self._terms:
            total += term.many(slots)
        return total

    def one(self, slot: int) -> float:
        """Return ``many`` of one node."""
        total = 0.0
        for term in self._terms:
            total += term.one(slot)
        return total


class _Use(Term):
    """What part of each weighed resource would be used (or, if not ``most``, free): 0..100 times a weight."""

    def __init__(self, nodes: Nodes, weighed: list[tuple[int, int, float, bool]], weight: float) -> None:
        self._nodes = nodes
        self._weighed = weighed
        self._sum = sum(each for _, _, each, _ in weighed)
        self._scale = 100.0 * weight
        self.rising = all(most for *_, most in weighed)

    def many(self, slots: SlotArray) -> FloatArray:
        allocatable, used = self._nodes.allocatable, self._nodes.used
        total = np.zeros(slots.size)
        for column, amount, weight, most in self._weighed:
            there = allocatable[column][slots]
            taken = used[column][slots] + amount
            total += weight * ((taken if most else there - taken) / there)
        score: FloatArray = total / self._sum * self._scale
        return score

    def one(self, slot: int) -> float:
        allocatable, used = self._nodes.allocatable_rows, self._nodes.used_rows
        total = 0.0
        for column, amount, weight, most in self._weighed:
            there = allocatable[column][slot]
            taken = used[column][slot] + amount
            total += weight * ((taken if most else there - taken) / there)
        return total / self._sum * self._scale


def _binpack(shape: Shape, nodes: Nodes, scores: Scores) -> Term | None:
    """Volcano's ``binpack``, over what the pod asks for."""
    names = nodes.resources.names
    weights = [
        (column, amount, scores.resource_weight(names[column]), True) for column, amount in shape.amounts
    ]
    return _use(nodes, weights, scores.binpack_weight)


def _strategy_fit(shape: Shape, nodes: Nodes, scores: Scores) -> Term | None:
    """Volcano's ``resource-strategy-fit``: the longest pattern that a resource's name matches counts."""
    fit = scores.strategy_fit
    if fit is None:
        return None
    names = nodes.resources.names
    found = [(column, amount, fit.rule(names[column])) for column, amount in shape.requested]
    return _use(
        nodes,
        [(column, amount, rule.weight, rule.most) for column, amount, rule in found if rule],
        fit.weight,
    )


def _use(nodes: Nodes, weighed: list[tuple[int, int, float, bool]], weight: float) -> Term | None:
    counted = [item for item in weighed if item[2] > 0]
    return _Use(nodes, counted, weight) if counted and weight > 0 else None


class _Scarcity(Term):
    """100 for nodes without any scarce resource, less for each that they have, in use or not."""

    rising = True

    def __init__(self, nodes: Nodes, scarce: list[tuple[int, float]], weight: float) -> None:
        self._nodes = nodes
        self._scarce = scarce
        self._sum = sum(each for _, each in scarce)
        self._scale = 100.0 * weight

    def many(self, slots: SlotArray) -> FloatArray:
        has = np.zeros(slots.size)
        for column, each in self._scarce:
            has += each * (self._nodes.allocatable[column][slots] > 0)
        score: FloatArray = (1.0 - has / self._sum) * self._scale
        return score


def _scarcity(shape: Shape, nodes: Nodes, scores: Scores) -> Term | None:  # noqa: ARG001 - as every maker
    """Volcano's ``sra``: a pod that asks for a scarce resource only fits on nodes that have it."""
    scarce = scores.scarce
    if scarce is None or scarce.weight <= 0:
        return None
    found = [(nodes.resources.column(name), each) for name, each in scarce.resources if each > 0]
    nodes.fit_columns()
    return _Scarcity(nodes, found, scarce.weight) if found else None


class _Requested(Term):
    """kube-scheduler's least (or most) allocated: whole numbers 0..100, the mean of CPU and memory."""

    def __init__(self, shape: Shape, nodes: Nodes, weight: float, *, most: bool) -> None:
        asked = dict(shape.amounts)
        self._nodes = nodes
        self._amounts = [(column, asked.get(column, unasked)) for column, unasked in _UNASKED]
        self._weight = weight
        self._most = most
        self.rising = most

    def many(self, slots: SlotArray) -> FloatArray:
        nodes = self._nodes
        total, count = np.zeros(slots.size, np.int64), np.zeros(slots.size, np.int64)
        for column, amount in self._amounts:
            there = nodes.allocatable[column][slots]
            taken = np.minimum(nodes.used[column][slots] + amount, there)
            total += (taken if self._most else there - taken) * _MOST // np.maximum(there, 1)
            count += there > 0
        return (total // np.maximum(count, 1)) * np.float64(self._weight)

    def one(self, slot: int) -> float:
        allocatable, used = self._nodes.allocatable_rows, self._nodes.used_rows
        total = count = 0
        for column, amount in self._amounts:
            there = allocatable[column][slot]
            taken = min(used[column][slot] + amount, there)
            total += (taken if self._most else there - taken) * _MOST // max(there, 1)
            count += there > 0
        return self._weight * (total // max(count, 1))


def _least_requested(shape: Shape, nodes: Nodes, scores: Scores) -> Term | None:
    weight = scores.least_requested_weight
    return _Requested(shape, nodes, weight, most=False) if weight > 0 else None


def _most_requested(shape: Shape, nodes: Nodes, scores: Scores) -> Term | None:
    weight = scores.most_requested_weight
    return _Requested(shape, nodes, weight, most=True) if weight > 0 else None


class _Balanced(Term):
    """kube-scheduler's balanced allocation: 100 less the deviation of the used fractions, whole numbers.

    Over CPU, memory and ``nvidia.com/gpu``, those that the node has and (GPUs) that the pod asks for.
    """

    def __init__(self, shape: Shape, nodes: Nodes, weight: float) -> None:
        asked = dict(shape.amounts)
        defaults = dict(_UNASKED)
        columns = [nodes.resources.column(name) for name in _BALANCED]
        self._amounts = [
            (column, asked.get(column, defaults.get(column, 0)))
            for column in columns
            if column in asked or column in defaults
        ]
        self._nodes = nodes
        self._weight = weight

    def many(self, slots: SlotArray) -> FloatArray:
        nodes = self._nodes
        count = np.zeros(slots.size)
        total, fractions = np.zeros(slots.size), list[tuple[FloatArray, FloatArray]]()
        for column, amount in self._amounts:
            there: IntArray = nodes.allocatable[column][slots]
            has = (there > 0).astype(np.float64)
            part = np.minimum((nodes.used[column][slots] + amount) / np.maximum(there, 1), 1.0) * has
            fractions.append((part, has))
            total += part
            count += has
        mean = total / np.maximum(count, 1.0)
        squares = np.zeros(slots.size)
        for part, has in fractions:
            squares += has * ((part - mean) * (part - mean))
        deviation = np.sqrt(squares / np.maximum(count, 1.0))
        return self._weight * np.floor((1.0 - deviation) * _MOST)


def _balanced(shape: Shape, nodes: Nodes, scores: Scores) -> Term | None:
    weight = scores.balanced_weight
    return _Balanced(shape, nodes, weight) if weight > 0 else None


class _Preference(Term):
    """Preferred node affinity and PreferNoSchedule taints: what pods on the nodes do not change."""

    rising = True

    def __init__(self, shape: Shape, scores: Scores) -> None:
        self._rules = shape.rules
        self._weights = scores.node_affinity_weight, scores.taint_weight

    def refresh(self) -> int:
        return self._rules.epoch

    def many(self, slots: SlotArray) -> FloatArray:
        if self._rules.indifferent:
            return np.zeros(slots.size)
        return np.zeros(slots.size) + self._rules.preference(slots, *self._weights)

    def one(self, slot: int) -> float:
        if self._rules.indifferent:
            return 0.0
        return super().one(slot)


def _preference(shape: Shape, nodes: Nodes, scores: Scores) -> Term | None:  # noqa: ARG001 - as every maker
    return _Preference(shape, scores)


class _Liking(Term):
    """How much a queue likes groups of nodes (``nodegroups``): pods on the nodes do not change it."""

    rising = True

    def __init__(self, likes: tuple[tuple[str, float], ...], nodes: Nodes) -> None:
        self._likes = dict(likes)
        self._nodes = nodes
        self._table: FloatArray = np.zeros(0)
        """By the label's codes."""

    def many(self, slots: SlotArray) -> FloatArray:
        column = self._nodes.label(NODEGROUP_NAME)
        if self._table.size != len(column.values):
            likes = [0.0 if value is None else self._likes.get(value, 0.0) for value in column.values]
            self._table = np.array(likes)
        liked: FloatArray = self._table[column.codes[slots]]
        return liked


def _liking(shape: Shape, nodes: Nodes, scores: Scores) -> Term | None:  # noqa: ARG001 - as every maker
    return _Liking(shape.lot.likes, nodes) if shape.lot is not None and shape.lot.likes else None


class _Zoned(Term):
    """100 where a zone is open to the pods (``zones``): pods on the nodes do not change it."""

    rising = True

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def many(self, slots: SlotArray) -> FloatArray:
        column, now = self._nodes.label(REVOCABLE_ZONE), self._nodes.zones or frozenset()
        table = np.array([100.0 if value in now else 0.0 for value in column.values])
        liked: FloatArray = table[column.codes[slots]]
        return liked


def _zoned(shape: Shape, nodes: Nodes, scores: Scores) -> Term | None:  # noqa: ARG001 - as every maker
    zones = None if shape.lot is None else shape.lot.zones
    return _Zoned(nodes) if zones is not None and zones.scores and shape.contract.revocable else None


class _DeviceShare(Term):
    """Volcano's ``deviceshare``, over the parts that a pod would get: devices full, or its alone."""

    def __init__(self, shape: Shape, nodes: Nodes, scores: Scores) -> None:
        self._asked = shape.devices
        self._nodes = nodes
        self._devices = Devices(nodes, spread=scores.spreads)
        self._spread = scores.spreads
        self._weight = scores.device_weight

    def many(self, slots: SlotArray) -> FloatArray:
        if not self._devices.most:
            return np.zeros(slots.size)
        free, nodes = self._devices.free(slots), np.arange(slots.size)
        before = free.taken.copy()
        chosen = self._devices.take(self._asked, free)
        if self._spread:
            points = (before[chosen, nodes] == 0).sum(axis=0) * float(_MOST)
        else:
            there = self._nodes.allocatable[self._devices.columns[:, DEVICE_MEMORY]][:, slots]
            full = 1.0 - free.parts[DEVICE_MEMORY] / np.maximum(there, 1)
            points = (full[chosen, nodes] * (there[chosen, nodes] > 0)).sum(axis=0) * _MOST
        score: FloatArray = np.floor(points + 0.5) * self._weight
        return score


def _device_share(shape: Shape, nodes: Nodes, scores: Scores) -> Term | None:
    counts = shape.devices and scores.device_weight > 0 and scores.device_policy
    return _DeviceShare(shape, nodes, scores) if counts else None


_TERMS: Final[tuple[Callable[[Shape, Nodes, Scores], Term | None], ...]] = (
    _binpack,
    _preference,
    _strategy_fit,
    _scarcity,
    _least_requested,
    _most_requested,
    _balanced,
    _liking,
    _zoned,
    _device_share,
    narrow,
    lightness,
    locality,
)
