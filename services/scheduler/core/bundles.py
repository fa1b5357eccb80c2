"""What is evicted together, and in which order.

A gang gives first what it has beyond its minimum, pod by pod: each such pod is a *bundle* of its own. What
is left of it then is one bundle: below its minimum it is of no use, so it goes whole or not at all. Inside a
gang the pods of the lowest priority go first, then those of the last task and of the highest number.

The order of bundles is total: surplus before whole gangs, then the queue that has most beyond its share, then
the reverse of the order in which gangs are served (lowest priority, youngest), then by name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from services.scheduler.core.columns import SlotArray
from services.scheduler.core.gangs import Gang, Key, Member
from services.scheduler.core.model import Model


@dataclass(slots=True, eq=False)
class Bundle:
    """Rows of one gang that are evicted together; ``first`` are the bundles that go before it."""

    gang: Gang
    rows: list[int]
    whole: bool
    priority: int
    """The highest of the gang's and its pods'."""
    first: list[Bundle] = field(default_factory=list["Bundle"])
    excess: float = 0.0
    """How much its queue holds, of what it deserves, when it is this bundle's turn."""
    rank: int = 0
    """Its place in the order."""
    amounts: dict[int, int] = field(default_factory=dict[int, int])
    """What its pods hold in all, by column: see ``amounts_of``."""


def by_gang(model: Model, rows: SlotArray) -> dict[Gang, list[int]]:
    """Return rows by gang; pods of no gang's present generation are left out."""
    found: dict[Gang, list[int]] = {}
    pods, gangs = model.victims.pods, model.gangs
    key: Key | None = None
    gang: Gang | None = None
    for row in rows.tolist():
        pod = pods[row]
        if pod is None or pod.gang is None:
            continue
        if pod.gang != key:
            key, gang = pod.gang, gangs.get(pod.gang)
        if gang is not None and gang.contract.generation == pod.generation:
            found.setdefault(gang, []).append(row)
    return found


def cut(model: Model, gang: Gang, rows: list[int], *, whole: bool) -> list[Bundle]:
    """Cut those of a gang's rows that may go into bundles; ``whole``: it may go whole."""
    victims = model.victims
    if gang.counting <= gang.minimum:
        if not whole or len(rows) != _held(gang):
            return []
        highest = max(gang.contract.priority, *(victims.priority.item(row) for row in rows))
        return [Bundle(gang, rows, whole=True, priority=highest)]
    places: list[tuple[int, int, int, int]] = []
    for row in rows:
        at = gang.position(victims.keys[row][1])
        if at is not None:
            places.append((victims.priority.item(row), -at[0], -at[1], row))
    places.sort()
    spare = gang.counting - gang.minimum
    left = [task.counting - task.minimum if gang.strict_tasks else spare for task in gang.tasks]
    least = gang.contract.priority
    surplus: list[Bundle] = []
    rest: list[int] = []
    for priority, task, _, row in places:
        if spare > 0 and left[-task] > 0:
            spare -= 1
            left[-task] -= 1
            surplus.append(Bundle(gang, [row], whole=False, priority=max(least, priority)))
        else:
            rest.append(row)
    if not (whole and rest and len(places) == _held(gang)):
        return surplus
    highest = max(least, *(place[0] for place in places))
    return [*surplus, Bundle(gang, rest, whole=True, priority=highest, first=list(surplus))]


def amounts_of(model: Model, bundle: Bundle) -> dict[int, int]:
    """Return what the pods of a bundle hold in all."""
    if not bundle.amounts:
        shapes, shape_of = model.shapes.by_number, model.victims.shape
        for row in bundle.rows:
            for column, amount in shapes[shape_of.item(row)].amounts:
                bundle.amounts[column] = bundle.amounts.get(column, 0) + amount
    return bundle.amounts


def _held(gang: Gang) -> int:
    """Count the members that would all have to go; none can be told while some are in flight."""
    if any(Member.FLYING in task.states for task in gang.tasks):
        return -1
    return sum(task.states.count(Member.HELD) for task in gang.tasks)


def order(bundles: Iterable[Bundle]) -> list[Bundle]:
    """Put bundles in the order in which they go, and number them."""
    found = sorted(bundles, key=lambda one: (-one.gang.contract.priority, one.gang.order[1:]), reverse=True)
    found.sort(key=lambda one: (one.whole, -one.excess))
    for rank, one in enumerate(found):
        one.rank = rank
    return found
