"""What a gang of groups needs: whole groups, as many as its minimums ask for.

A group with a member that holds room has begun, and is made whole first. Then groups begin, in the order
of their first members, until the gang's minimum, the tasks' and the number of groups are reached; the
others may begin with what room is left, each as a whole. Members of a group beyond its size, and those
of no group, are placed one by one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from services.scheduler.core.gangs import NOTHING, Gang, Member, Needs, Pick

At = tuple[int, int]
"""A task's number, and a member's in it."""


@dataclass(slots=True)
class _Group:
    name: str
    size: int
    free: list[At] = field(default_factory=list[At])
    members: int = 0
    counting: int = 0
    chosen: bool = False
    """It must be placed now."""

    @property
    def begun(self) -> bool:
        return self.counting > 0 or self.chosen

    @property
    def lacks(self) -> int:
        """How many it needs to be whole; of those that have ended it needs none again."""
        size = min(self.size, self.members) if self.begun else self.size
        return max(0, size - self.counting)

    @property
    def possible(self) -> bool:
        return len(self.free) >= self.lacks


class _Choice:
    """Members by group (empty: of none) that must be placed together; what counts with them."""

    def __init__(self, gang: Gang) -> None:
        self.must: dict[str, list[At]] = {}
        self._tasks = [task.counting for task in gang.tasks]
        self._least = [task.minimum if gang.strict_tasks else 0 for task in gang.tasks]
        self._count = gang.counting
        self._goal = gang.first_minimum

    def needs(self, at: At) -> bool:
        """Whether a minimum is not reached to which a member would count."""
        return self._count < self._goal or self._tasks[at[0]] < self._least[at[0]]

    def take(self, group: str, members: list[At]) -> None:
        self.must.setdefault(group, []).extend(members)
        self._count += len(members)
        for task, _ in members:
            self._tasks[task] += 1

    def begin(self, group: _Group) -> None:
        """Take what makes a group whole."""
        self.take(group.name, _cut(group.free, group.lacks))
        group.chosen = True

    @property
    def short(self) -> int:
        """How many are missing still."""
        lacking = sum(max(0, least - count) for least, count in zip(self._least, self._tasks, strict=True))
        return max(lacking, self._goal - self._count, 0)


def assess(gang: Gang) -> Needs:
    """Return what a gang needs now: ``must`` all together, then of ``more`` what fits."""
    if gang.phase == "Completed":
        return NOTHING
    return _assess_groups(gang) if gang.rules else gang.assess()


def _assess_groups(gang: Gang) -> Needs:
    groups, loose = _read(gang, gang.candidates())
    choice = _Choice(gang)
    short = 0
    for group in groups:
        if group.begun and group.lacks:
            if group.possible:
                choice.begin(group)
            else:
                short += group.lacks - len(group.free)
    short += _begin_minimums(gang, groups, choice)
    for group in groups:
        if not group.begun and group.possible and any(choice.needs(at) for at in group.free):
            choice.begin(group)
    for group in groups:
        if group.begun:
            _take_needed(choice, group.name, group.free)
    _take_needed(choice, "", loose)
    more = {group.name: group.free for group in groups if group.free and (group.begun or group.possible)}
    if loose:
        more[""] = loose
    gated = sum(task.states.count(Member.GATED) for task in gang.tasks)
    return Needs(_picks(gang, choice.must), _picks(gang, more), max(short, choice.short), gated)


def _begin_minimums(gang: Gang, groups: list[_Group], choice: _Choice) -> int:
    """Let as many groups of each kind begin as must run; return how many members are missing for that."""
    begun = Counter(gang.rules[group.name].name for group in groups if group.begun)
    short = 0
    for rule in gang.kinds:
        missing = rule.minimum - begun[rule.name]
        for group in groups:
            if missing <= 0:
                break
            if gang.rules[group.name] is rule and not group.begun and group.possible:
                choice.begin(group)
                missing -= 1
        short += max(0, missing) * rule.size
    return short


def _take_needed(choice: _Choice, group: str, free: list[At]) -> None:
    needed: list[At] = []
    for at in list(free):
        if choice.needs(at):
            choice.take(group, [at])
            needed.append(at)
    for at in needed:
        free.remove(at)


def _read(gang: Gang, free: list[list[int]]) -> tuple[list[_Group], list[At]]:
    groups: dict[str, _Group] = {}
    loose: list[At] = []
    for number, task in enumerate(gang.tasks):
        for member, name in enumerate(task.groups):
            if name:
                group = groups.setdefault(name, _Group(name, gang.rules[name].size))
                group.members += 1
                group.counting += task.states[member] >= Member.FLYING
        for member in free[number]:
            name = task.groups[member]
            if name:
                groups[name].free.append((number, member))
            else:
                loose.append((number, member))
    return list(groups.values()), loose


def _picks(gang: Gang, chosen: dict[str, list[At]]) -> list[Pick]:
    picks: list[Pick] = []
    for name, members in chosen.items():
        by_task: dict[int, list[int]] = {}
        for task, member in members:
            by_task.setdefault(task, []).append(member)
        picks += [pick for task, some in by_task.items() for pick in gang.picks_of(task, some, name)]
    return picks


def _cut(members: list[At], count: int) -> list[At]:
    """Take the first so many out of a list."""
    first = members[:count]
    del members[:count]
    return first
