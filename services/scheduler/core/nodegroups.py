"""Groups of nodes that queues may use, as Volcano's ``nodegroup``.

A node is of the group that its label names. A *lot* is what follows from a queue's affinity: the groups whose
nodes its pods may run on, and how much each is liked. Pods of one content have a shape of their own for each
lot; where the plugin is not configured there are no lots, and queues share their shapes.

Pods may run on groups that the queue requires or prefers, but for those that it must avoid. A group that it
should avoid may be used as well, and is the last to be.

A queue may also say how much its pods may ask for, in all, on the nodes of a group. Such queues have lots of
their own, so that their pods are told from others': what they hold is a column of the nodes (``limits``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from services.scheduler.core.policy import Grouping, Policy, Zones
from shared.events.contracts import NodeGroups, QueueState

_REQUIRED: Final = 100.0
_PREFERRED: Final = 50.0
_AVOIDED: Final = -1.0
_ANY: Final = NodeGroups()


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a queue's pods may ask for, in all, on the nodes of groups."""

    queue: str
    groups: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
    """(group, ((resource, amount in base units), ...)), both in order."""

    @property
    def resources(self) -> list[str]:
        """The resources that are limited in some group, in order."""
        return sorted({resource for _, amounts in self.groups for resource, _ in amounts})

    def of(self, resource: str) -> dict[str, int]:
        """Return the limits of one resource by group."""
        return {group: amount for group, amounts in self.groups for one, amount in amounts if one == resource}


@dataclass(frozen=True, slots=True)
class Lot:
    """The groups of nodes of a queue, and of all queues that have the same."""

    groups: tuple[str, ...] | None = None
    """Their names in order; None: any node will do."""
    loose: bool = False
    """Nodes that are of no group will do, too."""
    likes: tuple[tuple[str, float], ...] = ()
    """Scores of groups that have one."""
    zones: Zones | None = None
    """Nodes of zones are open to some pods at some hours (``zones``)."""
    limits: Limits | None = None
    """How much its pods may have of the nodes of groups."""
    fault: str = ""
    """Why its queue gets no node: limits that cannot be read."""

    def takes(self, group: str | None) -> bool:
        """Whether pods may run on nodes of a group (None: of none)."""
        if self.groups is None:
            return True
        return self.loose if group is None else group in self.groups

    def describe(self) -> str:
        """Return in words where its pods may run."""
        if self.fault:
            return f"none: {self.fault}"
        if not self.groups:
            return "nodes of no group" if self.loose else "none"
        return ", ".join(self.groups)


class Lots:
    """The lot of each queue."""

    def __init__(self, facts: Callable[[str], QueueState | None], policy: Policy) -> None:
        self._facts = facts
        self._grouping = policy.grouping
        self._zones = policy.zones
        self._of: dict[str, Lot | None] = {}
        self.changed = False
        """Queues may have other lots than before: taken by who sorts the gangs anew."""

    def govern(self, policy: Policy) -> None:
        """Follow another policy from now on."""
        if (policy.grouping, policy.zones) != (self._grouping, self._zones):
            self._grouping, self._zones = policy.grouping, policy.zones
            self.changed = True
            self._of.clear()

    def note(self, before: QueueState | None, after: QueueState | None) -> None:
        """A queue came, went, or changed."""
        if self._grouping is None and self._zones is None:
            return
        if (before is None) != (after is None) or (
            before is not None and after is not None and _said(before) != _said(after)
        ):
            self.changed = True
            self._of.clear()

    def of(self, queue: str) -> Lot | None:
        """Return a queue's lot; None where none is needed, and of a queue that is not there."""
        if (self._grouping is None and self._zones is None) or self._facts(queue) is None:
            return None
        if queue not in self._of:
            self._of[queue] = self._lot(queue)
        return self._of[queue]

    def _lot(self, queue: str) -> Lot:
        grouping, facts = self._grouping, self._facts(queue)
        lot = Lot() if grouping is None else lot_of(self._affinity(queue, grouping), grouping)
        if grouping is not None and grouping.filters and facts is not None:
            lot = _limited(lot, facts)
        return replace(lot, zones=self._zones)

    def _affinity(self, queue: str, grouping: Grouping) -> NodeGroups:
        """Return a queue's own affinity, or (with hierarchy) that of the nearest queue above that has any."""
        seen: set[str] = set()
        facts = self._facts(queue)
        while facts is not None and facts.name not in seen:
            if facts.node_groups is not None:
                return facts.node_groups
            if not grouping.hierarchy:
                break
            seen.add(facts.name)
            facts = self._facts(facts.parent)
        return _ANY


def _said(queue: QueueState) -> tuple[object, ...]:
    """Return all of a queue that lots follow from."""
    return queue.parent, queue.node_groups, queue.node_group_limits, queue.node_group_fault


def _limited(lot: Lot, queue: QueueState) -> Lot:
    """Return a lot within its queue's own limits: those of queues above it are not its own."""
    if queue.node_group_fault:
        return replace(lot, groups=(), loose=False, fault=queue.node_group_fault)
    groups = tuple(
        (group, tuple(sorted(amounts.items())))
        for group, amounts in sorted((queue.node_group_limits or {}).items())
        if amounts and lot.takes(group)
    )
    return replace(lot, limits=Limits(queue.name, groups)) if groups else lot


def lot_of(affinity: NodeGroups, grouping: Grouping) -> Lot:
    """Return what a queue's affinity comes to."""
    groups: tuple[str, ...] | None = None
    if grouping.filters:
        wanted = {*affinity.required, *affinity.preferred} - {*affinity.not_required}
        groups = tuple(sorted(wanted | {*affinity.not_preferred}))
    loose = not grouping.strict and affinity == _ANY
    return Lot(groups, loose=loose, likes=_likes(affinity, grouping) if grouping.scores else ())


def _likes(affinity: NodeGroups, grouping: Grouping) -> tuple[tuple[str, float], ...]:
    likes = dict.fromkeys(affinity.required, _REQUIRED)
    places = {group: place for place, group in enumerate(affinity.preferred)}
    for group, place in places.items():
        part = (len(places) - place) / len(places) if grouping.ordered else 1.0
        likes[group] = likes.get(group, 0.0) + _PREFERRED * part
    likes |= dict.fromkeys(affinity.not_preferred, _AVOIDED)
    return tuple(sorted(likes.items()))
