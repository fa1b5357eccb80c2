"""A gang as the scheduler keeps it: its members, what they are doing, and what it still needs.

A member is a candidate for placing when its pod exists unbound, or when the gang was not queued yet:
then the pods are made by carrying the decision out. Bound and succeeded members, and those of a
decision in flight, count towards the minimum; failed ones and those being deleted do not, nor do pods
of another generation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from services.scheduler.core.nodegroups import Lot
from services.scheduler.core.pods import Pod, is_gated
from services.scheduler.core.policy import Sharing
from services.scheduler.core.resources import Amounts
from services.scheduler.core.shapes import Shape, Shapes
from shared.events.contracts import Gang as GangContract
from shared.events.contracts import NetworkTopology, Reason

if TYPE_CHECKING:
    from services.scheduler.core.lanes import Lane

Key = tuple[str, str]
"""namespace, name"""
OrderKey = tuple[int, tuple[float, ...], float, str, str, str]
"""Has its minimum, what the policy compares, age, namespace, name, UID: a total order."""


class Member(IntEnum):
    """What a member is doing."""

    ABSENT = 0
    """No pod, or a failed one."""
    UNBOUND = 1
    GATED = 2
    LEAVING = 3
    FLYING = 4
    """In a decision that is not seen in the state yet. From here on members count."""
    HELD = 5
    DONE = 6


@dataclass(slots=True)
class Task:
    """Members of one template; ``states[i]`` is that of ``names[i]``."""

    name: str
    shape: Shape
    names: tuple[str, ...]
    minimum: int
    states: bytearray
    groups: tuple[str, ...]
    """The group of each member, empty for none; no entries in a gang without groups."""
    counting: int = 0
    gated: bool = False
    """Its template has scheduling gates, or a claim that is in no state to be placed by."""


@dataclass(frozen=True, slots=True)
class Near:
    """Pods must be, or (not ``hard``) should be, inside one hypernode of no higher tier than this."""

    hard: bool
    tier: int | None
    tier_name: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A kind of groups: ``size`` members of one start together, ``minimum`` groups must run."""

    name: str
    size: int
    minimum: int
    near: Near | None


class Pick(NamedTuple):
    """Members of one task, one shape and one group to be placed; numbers are positions in the task."""

    shape: Shape
    task: int
    members: list[int]
    group: str = ""


class Needs(NamedTuple):
    """What a gang lacks: ``must`` all together, then any of ``more``; ``short`` members are missing."""

    must: list[Pick]
    more: list[Pick]
    short: int = 0
    gated: int = 0


NOTHING = Needs([], [])


@dataclass(slots=True, eq=False)
class Gang:
    """One generation of a gang."""

    contract: GangContract
    tasks: list[Task]
    minimum: int
    strict_tasks: bool
    """Minimums of tasks bind, too: as in Volcano only when the gang's minimum covers their sum."""
    floor: Amounts = ()
    """What it will need in all, when it said more than its minimum needs."""
    near: Near | None = None
    kinds: tuple[Rule, ...] = ()
    rules: Mapping[str, Rule] = field(default_factory=dict[str, Rule])
    """By group: what it is of; empty in a gang without groups."""
    lot: Lot | None = None
    """What its queue may use of groups of nodes, as it was when its shapes were found."""
    phase: str = ""
    """The PodGroup's, empty while it was not seen."""
    confirmed: bool = False
    """Its PodGroup was seen."""
    enqueued: bool = False
    """A decision that queues it is in flight or was applied."""
    pods: dict[str, Pod] = field(default_factory=dict[str, Pod])
    positions: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    needs: Needs = NOTHING
    order: OrderKey = (0, (), 0.0, "", "", "")
    """Its place among the gangs of its queue, as of the last assessment."""
    lane: Lane | None = None
    ticket: int = 0
    wanted: Mapping[int, int] = field(default_factory=dict[int, int])
    """What it asks for and does not have, as counted in its queue."""
    share: float = 0.0
    """Its dominant share, as of the last assessment, if that is compared."""
    failures: int = 0
    trouble: str = ""
    """What its last decision failed of, in the controller's words."""
    not_before: datetime | None = None
    held: Reason | None = None
    """Why it is not decided although it may be: its decision cannot be said. A change of it is tried anew."""
    decided: int = 0
    """Number in the identifier of its last decision."""
    traceparent: str | None = None

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self.contract.namespace, self.contract.name

    @property
    def pending(self) -> bool:
        """Not queued yet: it may be decided before its pods exist."""
        return self.phase in ("", "Pending") and not self.enqueued

    @property
    def counting(self) -> int:
        """Members that count towards the minimum."""
        return sum(task.counting for task in self.tasks)

    def order_key(self, sharing: Sharing, totals: Mapping[int, int]) -> OrderKey:
        """Work out its place among the gangs of its queue; ``totals`` is what the cluster has."""
        contract = self.contract
        since = contract.ready_since.timestamp()
        starved = bool(self.needs.must)
        compared: list[float] = []
        for what in sharing.gang_order:
            match what:
                case "priority":
                    compared.append(-contract.priority)
                case "broken":
                    compared.append(0 if starved and self.started else 1)
                case "deadline":
                    compared.append(since + self._waiting_limit(sharing))
                case "lasting":
                    compared.append(int(contract.preemptable))
                case "share":
                    self.share = self._dominant_share(totals)
                    compared.append(self.share)
                case _:
                    compared.append(what(contract))
        return int(not starved), tuple(compared), since, contract.namespace, contract.name, contract.uid

    def _waiting_limit(self, sharing: Sharing) -> float:
        limit = self.contract.waiting_limit_seconds
        if limit is None and sharing.waiting_limit is not None:
            limit = sharing.waiting_limit.total_seconds()
        return inf if limit is None else limit

    def _dominant_share(self, totals: Mapping[int, int]) -> float:
        """Return how much of the cluster its members hold, of the resource of which it is most."""
        held: dict[int, int] = {}
        for task in self.tasks if self.counting else ():
            count = task.states.count(Member.FLYING) + task.states.count(Member.HELD)
            for column, amount in task.shape.requested if count else ():
                held[column] = held.get(column, 0) + amount * count
        return max(
            (amount / total for column, amount in held.items() if (total := totals.get(column))), default=0.0
        )

    @property
    def started(self) -> bool:
        """Some of its members hold room: when it is below its minimum it lost others."""
        if self.phase == "Running":
            return True
        for task in self.tasks:  # noqa: SIM110 - for every gang of a cycle, and any() takes thrice as long
            if Member.HELD in task.states:
                return True
        return False

    def set_state(self, name: str, state: Member) -> None:
        """Note what a member is doing; names of nobody's are ignored."""
        at = self.position(name)
        if at is None:
            return
        task = self.tasks[at[0]]
        before = task.states[at[1]]
        if state == Member.ABSENT and task.gated:
            state = Member.GATED
        task.states[at[1]] = state
        task.counting += (state >= Member.FLYING) - (before >= Member.FLYING)

    def position(self, name: str) -> tuple[int, int] | None:
        """Return (task, number) of a member."""
        if not self.positions:
            self.positions.update(
                (name, (task, number))
                for task, content in enumerate(self.tasks)
                for number, name in enumerate(content.names)
            )
        return self.positions.get(name)

    def assess(self) -> Needs:
        """Work out what the gang needs now; it has no groups."""
        must: list[list[int]] = []
        more: list[list[int]] = []
        short = gated = 0
        least = self.first_minimum
        for task, free in zip(self.tasks, self.candidates(), strict=True):
            lacks = self.lacks_of(task)
            must.append(free[:lacks])
            more.append(free[lacks:])
            if lacks > len(free):
                short += lacks - len(free)
            least -= task.counting + min(lacks, len(free))
            gated += task.states.count(Member.GATED)
        for number, free in enumerate(more):
            if least > 0 and free:
                must[number] += free[:least]
                more[number] = free[least:]
                least -= len(free) - len(more[number])
        return Needs(self._picks(must), self._picks(more), max(short, least), gated)

    def lacks_of(self, task: Task) -> int:
        """Return how many more of a task must run, where that binds."""
        lacks = task.minimum - task.counting
        return lacks if lacks > 0 and self.strict_tasks else 0

    @property
    def first_minimum(self) -> int:
        """How many must run at least. A gang without a minimum is queued with its first pod."""
        return (
            max(self.minimum, 1) if self.pending and any(task.names for task in self.tasks) else self.minimum
        )

    def candidates(self) -> list[list[int]]:
        """Return the members of each task that may be placed."""
        return [self._candidates(task) for task in self.tasks]

    def _candidates(self, task: Task) -> list[int]:
        states = task.states
        if not self.pending:
            if Member.UNBOUND not in states:
                return []
            return [number for number, state in enumerate(states) if state == Member.UNBOUND]
        if not any(states):
            return list(range(len(states)))
        return [number for number, state in enumerate(states) if state <= Member.UNBOUND]

    def _picks(self, chosen: list[list[int]]) -> list[Pick]:
        picks: list[Pick] = []
        for number, members in enumerate(chosen):
            if members:
                picks += self.picks_of(number, members)
        return picks

    def picks_of(self, number: int, members: list[int], group: str = "") -> list[Pick]:
        """Return members of one task by shape: that of their pod, where there is one."""
        task = self.tasks[number]
        if not self.pods:
            return [Pick(task.shape, number, members, group)]
        by_shape: dict[Shape, list[int]] = {}
        for member in members:
            pod = self.pods.get(task.names[member])
            by_shape.setdefault(task.shape if pod is None else pod.shape, []).append(member)
        return [Pick(shape, number, some, group) for shape, some in by_shape.items()]


def make_gang(contract: GangContract, shapes: Shapes, lot: Lot | None = None) -> Gang:
    """Return the gang of a contract, no member placed; ``lot`` is its queue's."""
    kinds = tuple(Rule(one.name, one.size, one.minimum, _near(one.topology)) for one in contract.sub_groups)
    rules = _rules(contract, kinds)
    tasks = [
        Task(
            task.name,
            shapes.intern(task.shape, contract.namespace, lot),
            tuple(member.pod for member in task.members),
            task.minimum,
            bytearray([Member.GATED if is_gated(task.shape) else Member.ABSENT]) * len(task.members),
            tuple(member.group if member.group in rules else "" for member in task.members) if rules else (),
            gated=is_gated(task.shape),
        )
        for task in contract.tasks
    ]
    least = sum(task.minimum for task in contract.tasks)
    return Gang(
        contract,
        tasks,
        contract.min_member,
        strict_tasks=contract.min_member >= least,
        floor=shapes.amounts(contract.min_resources),
        near=_near(contract.topology),
        kinds=kinds,
        rules=rules,
        lot=lot,
    )


def _rules(contract: GangContract, kinds: tuple[Rule, ...]) -> dict[str, Rule]:
    """Return what each group is of. The name of a kind may have a slash: the longest one counts."""
    named = {member.group for task in contract.tasks for member in task.members if member.group}
    longest = sorted(kinds, key=lambda kind: -len(kind.name))
    found = ((group, next((k for k in longest if group.startswith(f"{k.name}/")), None)) for group in named)
    return {group: kind for group, kind in found if kind is not None}


def _near(topology: NetworkTopology | None) -> Near | None:
    if topology is None:
        return None
    return Near(topology.mode == "hard", topology.highest_tier, topology.highest_tier_name)


def by_shape(picks: Iterable[Pick]) -> dict[Shape, list[Pick]]:
    """Group picks of the same shape, in order of first appearance."""
    groups: dict[Shape, list[Pick]] = {}
    for pick in picks:
        groups.setdefault(pick.shape, []).append(pick)
    return groups


def first(picks: Iterable[Pick], count: int) -> list[Pick]:
    """Return the first ``count`` members of picks."""
    chosen: list[Pick] = []
    for pick in picks:
        part = pick.members[:count]
        if part:
            chosen.append(pick._replace(members=part))
        count -= len(part)
    return chosen
