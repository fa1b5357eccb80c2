"""Domains: the nodes of each hypernode as slots, by tier, kept up to date change by change.

A hypernode that is a member of itself is left out, and so is one that holds no node: neither can hold a
gang. Tiers are in rising order, the domains of one in order of their names, and the slots of one in order
of the nodes' names, so that ties break the same way whatever came first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from pydantic import ValidationError

from services.scheduler.core.columns import BoolArray, IntArray, SlotArray
from services.scheduler.core.nodes import Nodes
from shared.api.topology import HyperNode
from shared.hypernodes.tree import Topology


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """One hypernode's nodes."""

    name: str
    tier: int
    slots: SlotArray


@dataclass(frozen=True, slots=True, eq=False)
class Tier:
    """The domains of one tier; ``slots`` are those of all, one after the other."""

    number: int
    names: frozenset[str]
    """What the hypernodes of this tier call it."""
    domains: tuple[Domain, ...]
    slots: SlotArray
    starts: SlotArray

    def sums(self, values: IntArray) -> IntArray:
        """Return for each domain the sum of a column over its nodes."""
        return np.add.reduceat(values[self.slots], self.starts)

    def holding(self, slots: SlotArray) -> BoolArray:
        """Return for each domain whether it holds all these slots."""
        inside = np.isin(self.slots, slots)
        held: BoolArray = np.add.reduceat(inside.astype(np.int64), self.starts) == slots.size
        return held

    def within(self, mask: BoolArray) -> BoolArray:
        """Return for each domain whether all its nodes are among those of ``mask``."""
        inside: BoolArray = np.logical_and.reduceat(mask[self.slots], self.starts)
        return inside


class Domains:
    """All domains of a node table."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._tree = Topology()
        self._specs: dict[str, tuple[int, str]] = {}
        self._domains: dict[str, Domain] = {}
        self._dirty: set[str] = set()
        self._tiers: tuple[Tier, ...] = ()

    def set_node(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Take a node over, or (None) out."""
        self._changed(self._tree.set_node(name, labels))

    def set_hypernode(self, name: str, spec: Mapping[str, Any] | None) -> None:
        """Take a hypernode over, or (None, or when it cannot be read) out."""
        read = None
        if spec is not None:
            try:
                read = HyperNode.model_validate({"metadata": {"name": name}, "spec": spec})
            except ValidationError:
                read = None
        if read is None:
            self._specs.pop(name, None)
        else:
            self._specs[name] = (read.spec.tier, read.spec.tier_name)
        self._changed(self._tree.set_hypernode(name, read) | {name})

    def tiers(self) -> tuple[Tier, ...]:
        """Return the tiers that hold nodes, in rising order."""
        if self._dirty:
            for name in self._dirty:
                self._rebuild(name)
            self._dirty.clear()
            self._tiers = tuple(self._group())
        return self._tiers

    def __bool__(self) -> bool:
        return bool(self.tiers())

    def _changed(self, names: set[str]) -> None:
        """With other domains other gangs fit: that is a change of capacity."""
        if names:
            self._dirty |= names
            self._nodes.capacity_version += 1

    def _rebuild(self, name: str) -> None:
        self._domains.pop(name, None)
        spec = self._specs.get(name)
        if spec is None or self._tree.circular(name):
            return
        known = self._nodes.slots
        slots = [known[node] for node in sorted(self._tree.nodes(name)) if node in known]
        if slots:
            self._domains[name] = Domain(name, spec[0], np.array(slots, np.intp))

    def _group(self) -> Iterator[Tier]:
        by_tier: dict[int, list[Domain]] = {}
        for name in sorted(self._domains):
            by_tier.setdefault(self._domains[name].tier, []).append(self._domains[name])
        for number, domains in sorted(by_tier.items()):
            sizes = [domain.slots.size for domain in domains]
            yield Tier(
                number,
                frozenset(self._specs[domain.name][1] for domain in domains) - {""},
                tuple(domains),
                np.concatenate([domain.slots for domain in domains]),
                np.array([0, *accumulate(sizes[:-1])], np.intp),
            )
