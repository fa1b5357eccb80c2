"""Which hypernodes hold which nodes or hypernodes, by names, patterns and labels, kept change by change."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from shared.api.matching import requirement
from shared.api.meta import LabelSelector

_OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})
"""Of label selectors; nodes' affinity has more."""


@dataclass(slots=True)
class Members:
    """A hypernode's members of one type."""

    exact: set[str] = field(default_factory=set[str])
    patterns: list[re.Pattern[str]] = field(default_factory=list[re.Pattern[str]])
    selectors: list[LabelSelector] = field(default_factory=list[LabelSelector])

    @property
    def searches(self) -> bool:
        """Whether more than names must be looked at."""
        return bool(self.patterns or self.selectors)

    def find(self, name: str, labels: Mapping[str, str]) -> bool:
        """Say whether a pattern or selector finds a node or hypernode."""
        return any(pattern.search(name) for pattern in self.patterns) or self.select(labels)

    def select(self, labels: Mapping[str, str]) -> bool:
        """Say whether a selector selects something with these labels."""
        return any(matches(selector, labels) for selector in self.selectors)


class Index:
    """Which hypernodes hold which items (nodes, or hypernodes), by names, patterns and labels."""

    def __init__(self) -> None:
        self._items: dict[str, Mapping[str, str]] = {}
        self._named: dict[str, set[str]] = {}
        """Hypernodes by the exact names of their members."""
        self._searching: dict[str, Members] = {}
        self._patterns: list[tuple[Callable[[str], object], str]] | None = None
        """The patterns of all hypernodes, flat: each node is compared with all of them."""
        self._members: dict[str, Members] = {}
        self._holders: dict[str, set[str]] = {}
        self._held: dict[str, set[str]] = {}

    def set_item(self, name: str, labels: Mapping[str, str] | None) -> set[str]:
        """Take an item over, or (None) out; return the hypernodes that hold it now and did not, or did."""
        before = self._holders.pop(name, set[str]())
        now: set[str] = set()
        if labels is None:
            self._items.pop(name, None)
        else:
            self._items[name] = labels
            now.update(self._named.get(name, ()))
            now.update([key for search, key in self._all_patterns() if search(name)])
            for key, members in self._searching.items():
                if members.selectors and members.select(labels):
                    now.add(key)
            self._holders[name] = now
        for key in before - now:
            self._held[key].discard(name)
        for key in now - before:
            self._held[key].add(name)
        return before ^ now

    def set_members(self, key: str, members: Members | None) -> None:
        """Take a hypernode's members over, or (None) out."""
        old = self._members.pop(key, None)
        self._searching.pop(key, None)
        self._patterns = None
        for name in old.exact if old else ():
            self._named[name].discard(key)
        for name in self._held.pop(key, ()):
            self._holders[name].discard(key)
        if members is None:
            return
        self._members[key] = members
        for name in members.exact:
            self._named.setdefault(name, set()).add(key)
        held = {name for name in members.exact if name in self._items}
        if members.searches:
            self._searching[key] = members
            held.update(name for name, labels in self._items.items() if members.find(name, labels))
        self._held[key] = held
        for name in held:
            self._holders[name].add(key)

    def _all_patterns(self) -> list[tuple[Callable[[str], object], str]]:
        if self._patterns is None:
            self._patterns = [
                (pattern.search, key)
                for key, members in self._searching.items()
                for pattern in members.patterns
            ]
        return self._patterns

    def held(self, key: str) -> set[str]:
        """Return the items that a hypernode holds."""
        return self._held.get(key, set())

    def holders(self, name: str) -> set[str]:
        """Return the hypernodes that hold an item."""
        return self._holders.get(name, set())

    def missing(self, key: str) -> set[str]:
        """Return the names among a hypernode's members of which there is no item."""
        members = self._members.get(key)
        return members.exact - self._items.keys() if members else set()


def matches(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Say whether labels match; as in Volcano, an empty selector selects nothing."""
    if not selector.match_labels and not selector.match_expressions:
        return False
    plain = all(labels.get(key) == value for key, value in selector.match_labels.items())
    return plain and all(
        one.operator in _OPERATORS and requirement(one.operator, one.values)(labels.get(one.key))
        for one in selector.match_expressions
    )
