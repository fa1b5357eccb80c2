"""Which nodes each hypernode holds, kept up to date change by change.

A changed node costs a look at the patterns and label selectors of hypernodes, not at other nodes; a changed
hypernode a look at the nodes for its own members only. Exact names are looked up.

Unlike Volcano's, a count is of nodes that exist, at any depth: a member that is a hypernode counts with
all that it holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from services.workflows.core.model import JSON
from shared.api.meta import LabelSelector, LabelSelectorRequirement, format_time
from shared.api.topology import HyperNode, HyperNodeCondition, MemberType

READY: Final = "Ready"
_SHOWN: Final = 5


@dataclass(slots=True)
class _Members:
    """A hypernode's members of one type."""

    exact: set[str] = field(default_factory=set[str])
    patterns: list[re.Pattern[str]] = field(default_factory=list[re.Pattern[str]])
    selectors: list[LabelSelector] = field(default_factory=list[LabelSelector])

    def match(self, name: str, labels: Mapping[str, str]) -> bool:
        """Say whether a node or hypernode is one of them."""
        return (
            name in self.exact
            or any(pattern.search(name) for pattern in self.patterns)
            or any(matches(selector, labels) for selector in self.selectors)
        )


@dataclass(slots=True)
class _Group:
    """A hypernode as it is known."""

    nodes: _Members = field(default_factory=_Members)
    groups: _Members = field(default_factory=_Members)
    problems: list[str] = field(default_factory=list[str])
    direct: set[str] = field(default_factory=set[str])
    """Nodes that are members themselves."""
    children: set[str] = field(default_factory=set[str])
    """Hypernodes that are members."""


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
        self._nodes: dict[str, Mapping[str, str]] = {}
        self._groups: dict[str, _Group] = {}
        self._parents: dict[str, set[str]] = {}

    def set_node(self, name: str, labels: Mapping[str, str] | None) -> set[str]:
        """Take a node over, or (None) out."""
        if labels is None:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = labels
        changed: set[str] = set()
        for key, group in self._groups.items():
            is_member = labels is not None and group.nodes.match(name, labels)
            if is_member != (name in group.direct):
                (group.direct.add if is_member else group.direct.discard)(name)
                changed.add(key)
        return self._with_ancestors(changed)

    def set_hypernode(self, name: str, spec: HyperNode | None) -> set[str]:
        """Take a hypernode over, or (None) out."""
        affected = self._with_ancestors({name})
        old = self._groups.pop(name, None)
        for child in old.children if old else ():
            self._parents[child].discard(name)
        if spec is not None:
            group = self._groups[name] = _read(spec)
            group.direct = set(self._matching(group.nodes, self._nodes))
            group.children = set(self._matching(group.groups, {key: {} for key in self._groups})) - {name}
            for child in group.children:
                self._parents.setdefault(child, set()).add(name)
        for key, group in self._groups.items():
            is_member = spec is not None and key != name and group.groups.match(name, {})
            if is_member != (name in group.children):
                (group.children.add if is_member else group.children.discard)(name)
                parents = self._parents.setdefault(name, set())
                (parents.add if is_member else parents.discard)(key)
        return affected | self._with_ancestors({name})

    def verdict(self, name: str) -> Verdict | None:
        """Return what a hypernode holds; None: it is gone."""
        group = self._groups.get(name)
        if group is None:
            return None
        count = len(set[str]().union(*(self._groups[key].direct for key in self._below(name))))
        return Verdict(count, *self._reason(name, group, count))

    def _reason(self, name: str, group: _Group, count: int) -> tuple[str, str]:
        if group.problems:
            return "InvalidMember", "; ".join(group.problems)
        missing = sorted((group.nodes.exact - group.direct) | (group.groups.exact - group.children))
        if name in self._below(name, itself=False):
            return "MemberCycle", f"hypernode {name} is a member of itself"
        if missing:
            more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
            return "MemberMissing", f"there is no {', '.join(missing[:_SHOWN])}{more}"
        if not count:
            return "NoNodes", "no node is in it"
        return "MembersFound", "every member exists"

    def _below(self, name: str, *, itself: bool = True) -> set[str]:
        """Return the hypernodes below one that exist; ``itself`` is among them when asked, or in a circle."""
        seen: set[str] = {name} if itself else set()
        waiting = [name]
        while waiting:
            group = self._groups.get(waiting.pop())
            for child in group.children - seen if group else ():
                seen.add(child)
                waiting.append(child)
        return seen & self._groups.keys()

    def _with_ancestors(self, start: set[str]) -> set[str]:
        seen, waiting = set(start), list(start)
        while waiting:
            for parent in self._parents.get(waiting.pop(), set()) - seen:
                seen.add(parent)
                waiting.append(parent)
        return seen

    @staticmethod
    def _matching(members: _Members, among: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
        if not members.patterns and not members.selectors:
            yield from (name for name in members.exact if name in among)
            return
        yield from (name for name, labels in among.items() if members.match(name, labels))


def status(hypernode: HyperNode, verdict: Verdict, now: datetime) -> JSON:
    """Return a hypernode's status; a condition's time is that of its last change of status."""
    wanted = "True" if verdict.ready else "False"
    old = next((one for one in hypernode.status.conditions if one.type == READY), HyperNodeCondition())
    since = old.last_transition_time if old.status == wanted else None
    condition = {
        "type": READY,
        "status": wanted,
        "reason": verdict.reason,
        "message": verdict.message,
        "lastTransitionTime": since or format_time(now),
        "observedGeneration": hypernode.metadata.generation,
    }
    others = [one.dump() for one in hypernode.status.conditions if one.type != READY]
    return {"nodeCount": verdict.count, "conditions": [*others, condition]}


def matches(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Say whether labels match; as in Volcano, an empty selector selects nothing."""
    if not selector.match_labels and not selector.match_expressions:
        return False
    plain = all(labels.get(key) == value for key, value in selector.match_labels.items())
    return plain and all(_holds(one, labels) for one in selector.match_expressions)


def _holds(requirement: LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return False


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
