"""Which nodes each hypernode holds, kept up to date change by change.

A changed node costs a look at the patterns and label selectors of hypernodes, not at other nodes; a changed
hypernode a look at the nodes for its own members only. Exact names are looked up.

Unlike Volcano's, a count is of nodes that exist, at any depth: a member that is a hypernode counts with
all that it holds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from shared.api.topology import HyperNode, MemberType
from shared.hypernodes.membership import Index, Members

_SHOWN: Final = 5


@dataclass(slots=True)
class _Group:
    """A hypernode as it was read."""

    nodes: Members = field(default_factory=Members)
    groups: Members = field(default_factory=Members)
    problems: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a hypernode holds, and whether its members are all there."""

    count: int
    reason: str
    message: str

    @property
    def ready(self) -> bool:
        """Whether nothing is wrong with it."""
        return self.reason == "MembersFound"


class Topology:
    """Nodes and hypernodes; each change returns the hypernodes whose verdict may differ."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self._nodes_of = Index()
        self._groups_of = Index()

    def set_node(self, name: str, labels: Mapping[str, str] | None) -> set[str]:
        """Take a node over, or (None) out."""
        return self._with_ancestors(self._nodes_of.set_item(name, labels))

    def set_hypernode(self, name: str, spec: HyperNode | None) -> set[str]:
        """Take a hypernode over, or (None) out."""
        affected = self._with_ancestors({name})
        group = None if spec is None else _read(spec)
        if group is None:
            self._groups.pop(name, None)
        else:
            self._groups[name] = group
        self._nodes_of.set_members(name, None if group is None else group.nodes)
        self._groups_of.set_members(name, None if group is None else group.groups)
        self._groups_of.set_item(name, None if group is None else {})
        return affected | self._with_ancestors({name})

    def verdict(self, name: str) -> Verdict | None:
        """Return what a hypernode holds; None: it is gone."""
        group = self._groups.get(name)
        if group is None:
            return None
        below = self._below(name)
        count = len(self._nodes(name, below))
        return Verdict(count, *self._reason(name, group, count))

    def nodes(self, name: str) -> set[str]:
        """Return the nodes that a hypernode holds, at any depth; of a circle, all that is in it."""
        return self._nodes(name, self._below(name))

    def circular(self, name: str) -> bool:
        """Say whether a hypernode is a member of itself, at any depth."""
        group = self._groups.get(name)
        return group is not None and (name in self._below(name) or name in group.groups.exact)

    def _nodes(self, name: str, below: set[str]) -> set[str]:
        return set[str]().union(*(self._nodes_of.held(key) for key in (name, *below)))

    def _reason(self, name: str, group: _Group, count: int) -> tuple[str, str]:
        if group.problems:
            return "InvalidMember", "; ".join(group.problems)
        if self.circular(name):
            return "MemberCycle", f"hypernode {name} is a member of itself"
        if missing := sorted(self._nodes_of.missing(name) | self._groups_of.missing(name)):
            more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
            return "MemberMissing", f"there is no {', '.join(missing[:_SHOWN])}{more}"
        if not count:
            return "NoNodes", "no node is in it"
        return "MembersFound", "every member exists"

    def _below(self, name: str) -> set[str]:
        """Return the hypernodes below one, itself only when it is in a circle."""
        seen: set[str] = set()
        waiting = [name]
        while waiting:
            at = waiting.pop()
            for child in self._groups_of.held(at) - seen - {at}:  # a pattern may find its own hypernode
                seen.add(child)
                waiting.append(child)
        return seen

    def _with_ancestors(self, start: set[str]) -> set[str]:
        seen, waiting = set(start), list(start)
        while waiting:
            for parent in self._groups_of.holders(waiting.pop()) - seen:
                seen.add(parent)
                waiting.append(parent)
        return seen


def _read(spec: HyperNode) -> _Group:
    group = _Group()
    for index, member in enumerate(spec.spec.members):
        members = group.groups if member.type == MemberType.HYPER_NODE else group.nodes
        selector, at = member.selector, f"spec.members[{index}].selector"
        if selector.exact_match is not None:
            members.exact.add(selector.exact_match.name)
        if selector.regex_match is not None:
            try:
                members.patterns.append(re.compile(selector.regex_match.pattern))
            except (re.error, OverflowError, RecursionError) as error:
                group.problems.append(f"{at}.regexMatch.pattern: no regular expression: {error}")
        if selector.label_match is not None:
            if member.type == MemberType.HYPER_NODE:
                group.problems.append(f"{at}.labelMatch: is for nodes only")
            else:
                members.selectors.append(selector.label_match)
    return group
