"""What pods ask of other pods: affinity, anti-affinity, spread; and ports of their nodes.

Each selector that some pod asks for is a *group* of pods: those in its namespaces whose labels match. How
many of a group are on each node is a column of the node table that nobody can run out of, charged
like any resource; so trials, decisions in flight and pods that go are counted without further ado. The same
holds for a *ban*, the pods that keep a group away from their domain, and for host ports, of which
each node has one.

The semantics are kube-scheduler's. A required affinity that no pod fulfils yet is fulfilled by a pod that
matches it itself. Namespace selectors other than the empty one (all namespaces) select nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from services.scheduler.core.resources import Amounts, Resources
from shared.api.meta import LabelSelector
from shared.hypernodes.membership import matches

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - Kubernetes' name for all addresses of a node
_ADDRESSES: Final = 1 << 20
"""Ports on single addresses are counted up to this; one on all addresses takes as many."""


@dataclass(frozen=True, slots=True)
class Group:
    """Pods that a selector finds in some namespaces (None: in all)."""

    column: int
    namespaces: frozenset[str] | None
    selector: LabelSelector | None

    def has(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether pods of a namespace with these labels are of the group; no selector finds none."""
        if self.selector is None or (self.namespaces is not None and namespace not in self.namespaces):
            return False
        empty = not self.selector.match_labels and not self.selector.match_expressions
        return empty or matches(self.selector, labels)


@dataclass(frozen=True, slots=True)
class Term:
    """A group, and the label of nodes whose values are the domains. ``own``: the pod is of the group."""

    column: int
    key: str
    own: bool
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Spread:
    """A spread constraint: domains may differ by so many pods of a group, the new one included."""

    column: int
    key: str
    own: bool
    max_skew: int
    min_domains: int
    honours_affinity: bool
    honours_taints: bool


@dataclass(frozen=True, slots=True, eq=False)
class Allowance:
    """What some pods may ask for in all, of a resource, on the nodes of each value of a label."""

    column: int
    """What they have: of hidden columns."""
    key: str
    amount: int
    """What one of them asks for."""
    most: Mapping[str, int]
    """By the label's value; a value without an entry is not limited."""
    resource: int


@dataclass(slots=True, eq=False)
class Kin:
    """What the pods of one shape ask of other pods, and others of them."""

    namespace: str
    labels: Mapping[str, str]
    near: tuple[Term, ...] = ()
    apart: tuple[Term, ...] = ()
    spread: tuple[Spread, ...] = ()
    wishes: tuple[Term, ...] = ()
    """Preferred affinity; to keep apart has a negative weight."""
    even: tuple[Spread, ...] = ()
    """Spread that is wished for."""
    banned: list[Term] = field(default_factory=list[Term])
    """What pods elsewhere keep these away by."""
    alone: tuple[str, ...] = ()
    """Volumes that one pod at a time mounts."""
    allowances: tuple[Allowance, ...] = ()
    """What it may have of groups of nodes together with the others of its queue."""

    @property
    def columns(self) -> set[int]:
        """The columns of those that it asks for, and of those that keep it away."""
        columns = {one.column for one in (*self.near, *self.apart, *self.wishes, *self.banned)}
        columns |= {one.column for one in (*self.spread, *self.even)}
        return columns | {one.column for one in self.allowances}

    @property
    def binds(self) -> bool:
        """Whether placing depends on where other pods are."""
        others = self.near or self.apart or self.spread or self.wishes or self.even or self.banned
        return bool(others or self.alone or self.allowances)


OnColumn = Callable[[int, "list[Kin]"], None]
"""Told of a column that these count in from now on, as they would always have."""


class Kinship:
    """All groups and bans, and who is in them."""

    def __init__(self, resources: Resources, on_column: OnColumn) -> None:
        self._resources = resources
        self._on_column = on_column
        self._groups: dict[Hashable, Group] = {}
        self._bans: dict[tuple[int, str], int] = {}
        """Columns of bans, by the column of the group and the key of the domains."""
        self._all: list[Kin] = []

    @staticmethod
    def key(namespace: str, labels: Mapping[str, str], extras: Mapping[str, Any]) -> Hashable:
        """Return what tells shapes apart here; None where nothing does."""
        asked = {name: extras[name] for name in _ASKED if name in extras} if extras else {}
        if not labels and not asked:
            return None
        return namespace, tuple(sorted(labels.items())), _frozen(asked)

    def make(
        self, namespace: str, labels: Mapping[str, str], extras: Mapping[str, Any]
    ) -> tuple[Kin, Amounts, Amounts]:
        """Return what pods ask of others, the columns that they count in, and the ports that they need."""
        kin = Kin(namespace, labels)
        affinity, anti = extras.get("podAffinity") or {}, extras.get("podAntiAffinity") or {}
        kin.near = tuple(self._term(kin, one) for one in affinity.get(_REQUIRED) or ())
        kin.apart = tuple(self._term(kin, one) for one in anti.get(_REQUIRED) or ())
        kin.wishes = (
            *(self._wish(kin, one, 1) for one in affinity.get(_PREFERRED) or ()),
            *(self._wish(kin, one, -1) for one in anti.get(_PREFERRED) or ()),
        )
        constraints = extras.get("topologySpreadConstraints") or ()
        hard = [one for one in constraints if one.get("whenUnsatisfiable") != "ScheduleAnyway"]
        kin.spread = tuple(self._spread(kin, one) for one in hard)
        kin.even = tuple(self._spread(kin, one) for one in constraints if one not in hard)
        bans = [self._ban(term) for term in kin.apart]
        self._all.append(kin)
        counted = [group.column for group in self._groups.values() if group.has(namespace, labels)]
        self._keep_away(kin)
        ports = self._ports(extras.get("hostPorts") or ())
        return kin, tuple((column, 1) for column in sorted({*counted, *bans})), ports

    def _term(self, kin: Kin, raw: Mapping[str, Any]) -> Term:
        group = self._group(kin, raw)
        return Term(group.column, raw.get("topologyKey") or "", group.has(kin.namespace, kin.labels))

    def _wish(self, kin: Kin, raw: Mapping[str, Any], sign: int) -> Term:
        term = self._term(kin, raw.get("podAffinityTerm") or {})
        return Term(term.column, term.key, term.own, sign * float(raw.get("weight") or 0))

    def _spread(self, kin: Kin, raw: Mapping[str, Any]) -> Spread:
        everybody = _is_empty(_selector(raw, kin.labels))
        # As in kube-scheduler an empty selector finds the pod itself and counts no other.
        group = self._group(kin, {**raw, "labelSelector": None} if everybody else raw)
        return Spread(
            group.column,
            raw.get("topologyKey") or "",
            everybody or group.has(kin.namespace, kin.labels),
            max(1, int(raw.get("maxSkew") or 1)),
            int(raw.get("minDomains") or 1),
            raw.get("nodeAffinityPolicy") != "Ignore",
            raw.get("nodeTaintsPolicy") == "Honor",
        )

    def _group(self, kin: Kin, raw: Mapping[str, Any]) -> Group:
        """Return the group of a term, a new one with all who are in it already."""
        selector = _selector(raw, kin.labels)
        namespaces: frozenset[str] | None = frozenset(raw.get("namespaces") or ())
        if raw.get("namespaceSelector") == {}:
            namespaces = None
        elif not namespaces and "namespaceSelector" not in raw:
            namespaces = frozenset((kin.namespace,))
        key = namespaces, None if selector is None else _frozen(selector)
        group = self._groups.get(key)
        if group is None:
            column = self._resources.hidden(f"kin/{len(self._groups)}")
            read = None if selector is None else LabelSelector.model_validate(selector)
            group = self._groups[key] = Group(column, namespaces, read)
            self._on_column(column, [one for one in self._all if group.has(one.namespace, one.labels)])
        return group

    def _ban(self, term: Term) -> int:
        """Return the column of those that keep a group away; all of the group see it from now on."""
        at = term.column, term.key
        column = self._bans.get(at)
        if column is None:
            column = self._bans[at] = self._resources.hidden(f"ban/{len(self._bans)}")
            for kin in self._all:
                self._keep_away(kin)
        return column

    def _keep_away(self, kin: Kin) -> None:
        """Note all bans of groups that a kin is in."""
        columns = {group.column: group for group in self._groups.values()}
        kin.banned[:] = [
            Term(ban, key, own=False)
            for (column, key), ban in self._bans.items()
            if columns[column].has(kin.namespace, kin.labels)
        ]

    def _ports(self, ports: Iterable[tuple[str, str, int]]) -> Amounts:
        """Return the columns of host ports: one on all addresses leaves none for others."""
        asked: dict[int, int] = {}
        for protocol, address, number in ports:
            every = address in ("", _ANY_ADDRESS, "::")
            on_all = self._resources.hidden(f"port/{protocol}/{number}", _ADDRESSES)
            asked[on_all] = _ADDRESSES if every else 1
            if not every:
                asked[self._resources.hidden(f"port/{protocol}/{number}/{address}", 1)] = 1
        return tuple(sorted(asked.items()))


_ASKED: Final = ("podAffinity", "podAntiAffinity", "topologySpreadConstraints", "hostPorts")


def _selector(raw: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any] | None:
    """Return a term's selector with the values that its label keys have in the pod; None finds nothing."""
    selector = raw.get("labelSelector")
    if selector is None:
        return None
    more = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for name, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in raw.get(name) or ()
        if key in labels
    ]
    return {**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), *more]}


def _is_empty(selector: Mapping[str, Any] | None) -> bool:
    return selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions")


def _frozen(value: object) -> Hashable:
    """Return something like JSON as a value to compare by."""
    if isinstance(value, Mapping):
        return tuple(sorted((key, _frozen(one)) for key, one in value.items()))
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    return value if isinstance(value, Hashable) else repr(value)
