"""Shapes: what scheduling sees of a pod, numbered by content.

Pods of one template have the same shape, and so have pods of different jobs that ask for the same.
Shapes that differ only in amounts share their rules (``rules``).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from services.scheduler.core.between import Between
from services.scheduler.core.columns import IntArray, SlotArray
from services.scheduler.core.kin import Allowance, Kin, Kinship
from services.scheduler.core.nodegroups import Limits, Lot
from services.scheduler.core.nodes import Nodes
from services.scheduler.core.numa import Cells
from services.scheduler.core.policy import Proportion
from services.scheduler.core.proportions import Leaves, leaves_of
from services.scheduler.core.resources import PODS, Amounts, Resources, binary
from services.scheduler.core.rules import Limit, Rules
from services.scheduler.core.volumes import Mounts, mounts_key, read_mounts
from shared.api.names import NODEGROUP_NAME
from shared.events.contracts import DeviceRequest, Mount, NodeTerm, Requirement
from shared.events.contracts import Shape as ShapeContract

Asked = tuple[DeviceRequest, ...]
"""The parts of devices that a pod takes, container by container."""
Part = tuple[int, int, int]
"""Device, thousandths of its compute and MiB of its memory."""
_AMPLE: Final = 1 << 50
"""More of any resource than a node has, in base units."""
_MOST_LATEST: Final = 4096
"""Contracts of which it is remembered which shape they are."""


@dataclass(slots=True, eq=False)
class Shape:
    """One shape. ``amounts`` are one pod's requests, ``pods`` (always 1) included."""

    number: int
    amounts: Amounts
    rules: Rules
    contract: ShapeContract
    lot: Lot | None = None
    """The groups of nodes that its queue may use and likes, where that matters."""
    requested: Amounts = field(init=False)
    """The requests without ``pods``."""
    limited: Amounts = ()
    """What a node must have free for a pod: ``amounts`` and host ports."""
    leaves: tuple[Leaves, ...] = ()
    """What stays free beside scarce resources that its pods do not ask for, where the policy says so."""
    charged: Amounts = ()
    """What a node is charged for a pod: ``limited``, a place in the counts of who asks for such pods, and
    what a pod has of devices, and of NUMA nodes."""
    kin: Kin | None = None
    """What its pods ask of other pods, or others may of them."""
    devices: Asked = field(init=False)
    mounts: Mounts | None = None
    """The volumes of its pods, as far as nodes count them; None: they do not."""
    on_devices: tuple[int, ...] = ()
    aligned: tuple[int, ...] = ()
    """The CPUs that its pods have for themselves, container by container, where nodes align them."""
    on_cells: Cells = ()
    of_node: Amounts = ()
    """Of a placed pod: what it has of single devices and NUMA nodes of its node, by their columns."""
    _bare: Shape | None = None
    _between: Between | None = None
    placed: dict[Hashable, Shape] = field(default_factory=dict["Hashable", "Shape"])
    """The shape as it is on devices or with CPUs of its own, by what it has of them."""

    def __post_init__(self) -> None:
        self.requested = tuple(item for item in self.amounts if item[0] != PODS)
        self.limited = self.limited or self.amounts
        self.charged = self.charged or self.limited
        first = self.contract.devices
        self.devices = () if first is None else (first, *self.contract.more_devices)

    @property
    def columns(self) -> set[int]:
        """The columns that say where its pods have room, but for those of single devices."""
        kin = set[int]() if self.kin is None else self.kin.columns
        return kin.union(column for column, _ in self.charged)

    @property
    def bare(self) -> Shape:
        """The shape as gangs ask for it: not on any devices, nor with CPUs of its own."""
        return self._bare or self

    @property
    def between(self) -> Between | None:
        """Where its pods may go for what they ask of others; None where that does not matter."""
        return self._between if self.kin is not None and self.kin.binds else None

    @property
    def apart(self) -> bool:
        """Whether each of its pods has parts of its node for itself: of devices, or CPUs of NUMA nodes."""
        return bool(self.devices or self.aligned)

    @property
    def is_plain(self) -> bool:
        """Whether amounts alone say how many of its pods a node takes."""
        counted = self.apart or self.mounts is not None
        alone = not counted and self.between is None and not self.leaves
        return alone and self.limited == self.amounts

    @property
    def asks_nothing(self) -> bool:
        """Whether its pods ask for no resource, nor for a part of a device."""
        return not self.requested and not self.devices

    @property
    def follows(self) -> bool:
        """Whether its pods ask for others to be there first."""
        return self.kin is not None and any(not term.own for term in self.kin.near)

    def relate(self, between: Between) -> None:
        """Note where its pods may go for what they ask of others."""
        self._between = between

    def count_in(self, column: int, amount: int = 1) -> None:
        """Count the pods of this shape in one more column, on devices or not."""
        self.charged = (*self.charged, (column, amount))
        for one in self.placed.values():
            one.count_in(column, amount)

    def on(self, parts: Amounts, *, devices: tuple[int, ...] = (), cells: Cells = ()) -> Shape:
        """Return the shape of a pod that has these devices, or CPUs, of its node: so much by columns."""
        return replace(
            self,
            charged=(*self.charged, *parts),
            on_devices=devices or self.on_devices,
            on_cells=cells or self.on_cells,
            of_node=(*self.of_node, *parts),
            _bare=self.bare,
            placed={},
        )

    def describe(self, resources: Resources) -> str:
        """Return the requests in words; a pod without any is a best-effort pod."""
        words = [resources.describe(column, amount) for column, amount in self.requested]
        words += map(describe_part, self.devices)
        return ", ".join(words) or "no resources"


def amounts_of(counts: Mapping[Shape, int]) -> dict[int, int]:
    """Return what so many pods of each shape ask for, by column."""
    total: dict[int, int] = {}
    for shape, count in counts.items():
        for column, amount in shape.amounts:
            total[column] = total.get(column, 0) + amount * count
    return total


LimitMaker = Callable[[Shape, Nodes], Limit]
"""Makes a further limit for a shape."""


class Shapes:
    """All shapes seen, by content. ``limits``: what limits them beside their own rules, by name."""

    def __init__(
        self,
        resources: Resources,
        nodes: Nodes,
        limits: Mapping[str, LimitMaker] | None = None,
        proportions: tuple[Proportion, ...] = (),
    ) -> None:
        self._limits = dict(limits or {})
        self._proportions = proportions
        self._resources = resources
        self._nodes = nodes
        self._shapes: dict[tuple[Hashable, ...], Shape] = {}
        self._rules: dict[Hashable, Rules] = {}
        self._latest: dict[tuple[int, str, Lot | None], tuple[ShapeContract, Shape]] = {}
        """By the contract's identity, which is its own for as long as it is kept here."""
        self.by_number: list[Shape] = []
        self._kinship = Kinship(resources, self._new_column)
        self._of_kin: dict[Kin, Shape] = {}
        self._by_images = False
        """Whether shapes are told apart by their images: it matters where a node that has them is liked."""
        self._unasked: int | None = None
        """The column in which pods count that ask for nothing; None: they do not."""
        self.on_column: Callable[[int, frozenset[Shape]], None] = lambda _column, _shapes: None
        """Told of a column in which pods of these shapes count from now on."""

    def set_limits(self, limits: Mapping[str, LimitMaker]) -> None:
        """Limit the shapes by something else from now on: rules are made anew."""
        if limits == self._limits:
            return
        self._limits = dict(limits)
        self._rules.clear()
        for shape in self.by_number:
            shape.rules = self._rules_of(shape.contract, _rules_key(shape.contract), shape.lot)
            self._limit(shape)
            if shape.kin is not None:
                shape.relate(Between(self._nodes, shape.kin, shape.rules))

    def align(self) -> None:
        """Heed, or not, that pods have CPUs for themselves, as nodes do."""
        for shape in self.by_number:
            shape.aligned = self._aligned(shape.contract)

    def _aligned(self, contract: ShapeContract) -> tuple[int, ...]:
        asks = contract.numa if self._nodes.numa.active else None
        return () if asks is None else asks.cpus

    def set_proportions(self, proportions: tuple[Proportion, ...]) -> None:
        """Let pods leave something else free beside scarce resources from now on."""
        if proportions == self._proportions:
            return
        self._proportions = proportions
        for shape in self.by_number:
            shape.leaves = self._leaves(shape)

    def heed_images(self, *, heeded: bool) -> bool:
        """Tell shapes apart by their images from now on, or no more; say whether that is another way."""
        changed, self._by_images = heeded != self._by_images, heeded
        if changed:
            self._latest.clear()
        return changed

    def count_unasked(self) -> int:
        """Count pods that ask for nothing from now on; return the column in which they do."""
        if self._unasked is None:
            self._unasked = self._resources.hidden("unasked")
            self._nodes.fit_columns()
            shapes = [shape for shape in self.by_number if shape.asks_nothing]
            for shape in shapes:
                shape.count_in(self._unasked)
            self.on_column(self._unasked, frozenset(shapes))
        return self._unasked

    def _leaves(self, shape: Shape) -> tuple[Leaves, ...]:
        if not self._proportions:
            return ()
        found = leaves_of(self._proportions, shape.amounts, self._resources)
        self._nodes.fit_columns()
        return found

    def intern(self, contract: ShapeContract, namespace: str = "", lot: Lot | None = None) -> Shape:
        """Return the shape of this content. Priority, gates and what claims wait for do not belong to it.

        The namespace does where pods are looked for by their labels, and what a queue may use of groups of
        nodes where that is asked.
        """
        asked = (id(contract), namespace, lot)
        known = self._latest.get(asked)
        if known is None:
            if len(self._latest) >= _MOST_LATEST:
                self._latest.clear()
            known = self._latest[asked] = contract, self._find(contract, namespace, lot)
        return known[1]

    def _find(self, contract: ShapeContract, namespace: str, lot: Lot | None) -> Shape:
        rules = _rules_key(contract)
        kin = Kinship.key(namespace, contract.labels, contract.extras)
        mounts = () if contract.volumes is None else contract.volumes.mounts
        key = (
            tuple(sorted(contract.requests.items())),
            rules,
            _device_key(contract),
            _numa_key(contract),
            kin,
            mounts_key(mounts) if mounts else None,
            contract.images if self._by_images else None,
        )
        place = _place_key(contract, lot)
        shape = self._shapes.get((*key, place))
        if shape is None:
            shape = self._make(contract, rules, lot)
            if kin is not None:
                self._relate(shape, namespace)
            if mounts:
                self._mount(shape, namespace, mounts)
            if lot is not None and lot.limits is not None:
                self._restrict(shape, namespace, lot.limits)
            if self._unasked is not None and shape.asks_nothing:
                shape.count_in(self._unasked)
            self._shapes[*key, place] = shape
        return shape

    def _relate(self, shape: Shape, namespace: str) -> None:
        """Let a shape's pods be counted by those who ask for them, and ask for others."""
        kin, counted, ports = self._kinship.make(namespace, shape.contract.labels, shape.contract.extras)
        self._nodes.fit_columns()
        shape.kin = kin
        shape.limited = (*shape.amounts, *ports)
        shape.charged = (*shape.limited, *counted)
        shape.relate(Between(self._nodes, kin, shape.rules))
        self._of_kin[kin] = shape

    def _mount(self, shape: Shape, namespace: str, mounts: Sequence[Mount]) -> None:
        """Let a shape's pods mount their volumes; one that is for one pod alone keeps others off."""
        shape.mounts = read_mounts(mounts)
        alone = tuple(one.volume for one in mounts if one.exclusive and one.volume)
        if alone:
            shape.kin = shape.kin or Kin(namespace, shape.contract.labels)
            shape.kin.alone = alone
            shape.relate(Between(self._nodes, shape.kin, shape.rules))

    def _restrict(self, shape: Shape, namespace: str, limits: Limits) -> None:
        """Count a shape's pods in what their queue has of groups of nodes, within its limits."""
        kin = shape.kin = shape.kin or Kin(namespace, shape.contract.labels)
        asked = dict(shape.amounts)
        found: list[Allowance] = []
        for name in limits.resources:
            resource = self._resources.column(name)
            column = self._resources.hidden(f"group/{limits.queue}/{name}", _AMPLE)
            allowance = Allowance(column, NODEGROUP_NAME, asked.get(resource, 0), limits.of(name), resource)
            found.append(allowance)
            if allowance.amount:
                shape.count_in(column, allowance.amount)
        self._nodes.fit_columns()
        kin.allowances = tuple(found)
        shape.relate(Between(self._nodes, kin, shape.rules))

    def _new_column(self, column: int, kins: list[Kin]) -> None:
        """Count pods of shapes that are known already in a column that is new."""
        self._nodes.fit_columns()
        shapes = [self._of_kin[kin] for kin in kins if kin in self._of_kin]
        for shape in shapes:
            shape.count_in(column)
        if shapes:
            self.on_column(column, frozenset(shapes))

    def amounts(self, quantities: Mapping[str, int]) -> Amounts:
        """Return amounts that a gang names beside its members' shapes."""
        return self._resources.amounts(quantities)

    def add_held(self, to: IntArray, slots: SlotArray, numbers: IntArray, *, charged: bool = False) -> None:
        """Add what pods of shapes, by their numbers, hold on their slots to amounts by column and slot.

        ``charged``: with what they count for in the columns of rules and ports.
        """
        each: dict[int, IntArray] = {}
        for number in np.flatnonzero(np.bincount(numbers)).tolist():
            shape = self.by_number[number]
            for column, amount in shape.charged if charged else shape.amounts:
                amounts = each.get(column)
                if amounts is None:
                    amounts = each[column] = np.zeros(len(self.by_number), np.int64)
                amounts[number] = amount
        for column, amounts in each.items():
            np.add.at(to[column], slots, amounts[numbers])

    def _make(self, contract: ShapeContract, key: Hashable, lot: Lot | None) -> Shape:
        requests = {name: amount for name, amount in contract.requests.items() if name != "pods"}
        amounts = self._resources.amounts({**requests, "pods": 1})
        self._nodes.fit_columns()
        rules = self._rules_of(contract, key, lot)
        shape = Shape(len(self.by_number), amounts, rules, contract, lot)
        shape.aligned = self._aligned(contract)
        self._limit(shape)
        shape.leaves = self._leaves(shape)
        self.by_number.append(shape)
        return shape

    def _rules_of(self, contract: ShapeContract, key: Hashable, lot: Lot | None) -> Rules:
        """Return the rules that shapes of one content share; with further limits each has its own."""
        if self._limits:
            return Rules(self._nodes, contract, lot)
        place = _place_key(contract, lot)
        rules = self._rules.get((key, place))
        if rules is None:
            rules = self._rules[key, place] = Rules(self._nodes, contract, lot)
        return rules

    def _limit(self, shape: Shape) -> None:
        for name, make in self._limits.items():
            shape.rules.limits[name] = make(shape, self._nodes)


def describe_part(request: DeviceRequest) -> str:
    """Return in words which part of devices is asked for: ``47% of a GPU``."""
    part = f"{request.cores / 10:g}%" if request.cores else ""
    if request.memory_percent:
        memory = f"{request.memory_percent}% of the memory"
    else:
        memory = f"{binary(request.memory << 20)} memory" if request.memory else ""
    of = "a GPU" if request.count == 1 else f"each of {request.count} GPUs"
    return f"{' and '.join(one for one in (part, memory) if one) or 'any part'} of {of}{_choosy(request)}"


def _choosy(request: DeviceRequest) -> str:
    """Return in words which devices will do, if not any: `` (model A100)``."""
    words = [
        f"model {' or '.join(request.models)}" if request.models else "",
        f"no model {' or '.join(request.not_models)}" if request.not_models else "",
        f"UUID {' or '.join(request.ids)}" if request.ids else "",
        f"no UUID {' or '.join(request.not_ids)}" if request.not_ids else "",
        f"mode {request.mode}" if request.mode else "",
    ]
    given = ", ".join(filter(None, words))
    return f" ({given})" if given else ""


def _device_key(shape: ShapeContract) -> Hashable:
    return None if shape.devices is None else (shape.devices, *shape.more_devices)


def _numa_key(shape: ShapeContract) -> Hashable:
    return None if shape.numa is None else (shape.numa.policy, shape.numa.cpus)


def _place_key(contract: ShapeContract, lot: Lot | None) -> Hashable:
    """Return what tells shapes apart where some nodes are not for everybody."""
    return None if lot is None else (lot, lot.zones is not None and contract.revocable)


def _rules_key(shape: ShapeContract) -> Hashable:
    reach = () if shape.volumes is None else shape.volumes.reach
    policy = "" if shape.numa is None else shape.numa.policy
    if not (
        shape.node_selector
        or shape.required_terms is not None
        or shape.preferred_terms
        or shape.tolerations
        or reach
        or policy
    ):
        return None
    return (
        tuple(sorted(shape.node_selector.items())),
        None if shape.required_terms is None else tuple(map(_term_key, shape.required_terms)),
        tuple((preferred.weight, _term_key(preferred.term)) for preferred in shape.preferred_terms),
        tuple((t.key, t.operator, t.value, t.effect) for t in shape.tolerations),
        tuple(tuple(map(_term_key, terms)) for terms in reach),
        policy,
    )


def _term_key(term: NodeTerm) -> Hashable:
    return tuple(map(_requirement_key, term.expressions)), tuple(map(_requirement_key, term.fields))


def _requirement_key(requirement: Requirement) -> Hashable:
    return requirement.key, requirement.operator, requirement.values
