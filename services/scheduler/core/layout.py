"""What a gang asks about where its pods are to each other: its nearness and its parts.

A *part* is a group of the gang that is placed as one, or all its members that belong to no group. Gangs
which ask for the same layout, and hold room on the same nodes already, share a lane.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from services.scheduler.core.gangs import Gang, Member, Near, Pick

Counts = tuple[tuple[int, int], ...]
"""(number of a shape, how many of it), in order."""


@dataclass(frozen=True, slots=True)
class Part:
    """Pods that are placed as one, inside one domain if they say so."""

    group: str
    counts: Counts
    near: Near | None = None
    anchors: tuple[str, ...] = ()
    """Nodes on which members of the group are already, in order of name."""


@dataclass(frozen=True, slots=True)
class Layout:
    """All parts of what a gang needs now, and how near to each other they must be."""

    parts: tuple[Part, ...]
    near: Near | None = None
    anchors: tuple[str, ...] = ()
    """Nodes on which members of the gang are already, in order of name."""


def is_laid_out(gang: Gang) -> bool:
    """Whether it matters where the gang's pods are to each other."""
    return gang.near is not None or bool(gang.rules)


def by_group(picks: list[Pick]) -> dict[str, list[Pick]]:
    """Group picks by the group of their members, in order of first appearance."""
    groups: dict[str, list[Pick]] = {}
    for pick in picks:
        groups.setdefault(pick.group, []).append(pick)
    return groups


def in_parts(layout: Layout | None, picks: list[Pick]) -> list[list[Pick]]:
    """Return the picks of each of a layout's parts; None: all are one part."""
    return [picks] if layout is None else list(by_group(picks).values())


def layout_of(gang: Gang, picks: list[Pick], places_of: Callable[[Gang], Mapping[str, str]]) -> Layout | None:
    """Return how ``picks`` must be placed; None: each pod where it likes.

    ``places_of`` a gang are the nodes of the members that hold room or are in flight.
    """
    if not is_laid_out(gang):
        return None
    places = places_of(gang)
    parts = tuple(
        Part(group, _counts(some), _near(gang, group), _anchors(gang, group, places))
        for group, some in by_group(picks).items()
    )
    return Layout(parts, gang.near, tuple(sorted(set(places.values()))))


def plain_layout(picks: list[Pick]) -> Layout:
    """Return the layout of picks of one group that may be anywhere."""
    return Layout((Part(picks[0].group, _counts(picks)),))


def in_steps(gang: Gang, picks: list[Pick]) -> list[list[Pick]]:
    """Divide picks of one group: what begins it is placed together, then each alone."""
    group = picks[0].group
    rule = gang.rules.get(group)
    first = 0 if rule is None or _has_begun(gang, group) else rule.size
    steps: list[list[Pick]] = []
    left = first
    whole: list[Pick] = []
    for pick in picks:
        together = pick.members[:left]
        left -= len(together)
        if together:
            whole.append(Pick(pick.shape, pick.task, together, group))
        steps += [[Pick(pick.shape, pick.task, [one], group)] for one in pick.members[len(together) :]]
    return [whole, *steps] if whole else steps


def _has_begun(gang: Gang, group: str) -> bool:
    return any(
        name == group and state >= Member.FLYING
        for task in gang.tasks
        for name, state in zip(task.groups, task.states, strict=True)
    )


def _counts(picks: list[Pick]) -> Counts:
    counts: dict[int, int] = {}
    for pick in picks:
        number = pick.shape.number
        counts[number] = counts.get(number, 0) + len(pick.members)
    return tuple(counts.items())


def _near(gang: Gang, group: str) -> Near | None:
    return gang.rules[group].near if group else None


def _anchors(gang: Gang, group: str, places: Mapping[str, str]) -> tuple[str, ...]:
    if not group:
        return ()
    return tuple(sorted({node for name, node in places.items() if _group(gang, name) == group}))


def _group(gang: Gang, name: str) -> str:
    at = gang.position(name)
    return "" if at is None else gang.tasks[at[0]].groups[at[1]]
