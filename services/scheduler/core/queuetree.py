"""The tree of queues: who is below whom, and what is wrong with it.

Every queue hangs below another or below the root, always: one whose parents form a loop, or whose parent
is missing, hangs below the root and has a fault. A queue with such a fault above it takes no new gangs; what
runs there goes on. Quotas that contradict each other are faults, too, and stop nobody: a bound holds at
each level, and what is owed is cut to what there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.api.names import ROOT_QUEUE

if TYPE_CHECKING:
    from services.scheduler.core.queues import Queue
    from services.scheduler.core.resources import Resources


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a queue. ``code`` is kebab-case, for programs."""

    queue: str
    code: str
    message: str


def link(queues: Mapping[str, Queue], root: Queue, *, flat: bool) -> list[Queue]:
    """Work out ``above``, ``below``, ``chain`` and ``broken``; return the tree, those below first."""
    looping = {} if flat else _loops(queues)
    for queue in queues.values():
        queue.below = []
        queue.above, queue.broken = _above(queue, queues, root, looping)
        if flat and queue is not root:
            queue.above, queue.broken = root, None
    for name in sorted(queues):
        queue = queues[name]
        if queue.above is not None and queue.known:
            queue.above.below.append(queue)
    for queue in queues.values():
        chain = [queue]
        while (above := chain[-1].above) is not None:
            chain.append(above)
        queue.chain = tuple(chain)
    known = [queue for queue in queues.values() if queue.known and queue is not root]
    return [*sorted(known, key=lambda queue: (-len(queue.chain), queue.name)), root]


def _above(
    queue: Queue, queues: Mapping[str, Queue], root: Queue, looping: Mapping[str, str]
) -> tuple[Queue | None, Fault | None]:
    name = queue.parent or ROOT_QUEUE
    if queue is root:
        return None, None
    if queue.name in looping:
        words = f"the queues above {queue.name} form a loop: {looping[queue.name]}"
        return root, Fault(queue.name, "parents-loop", words)
    if name == ROOT_QUEUE:
        return root, None
    parent = queues.get(name)
    if parent is None or not parent.known:
        words = f"queue {queue.name} is below queue {name}, which does not exist"
        return root, Fault(queue.name, "parent-missing", words)
    return parent, None


def _loops(queues: Mapping[str, Queue]) -> dict[str, str]:
    """Return the members of loops, and the loop in words."""
    found: dict[str, str] = {}
    done: set[str] = set()
    for start in sorted(queues):
        path: dict[str, None] = {}
        name = start
        while name in queues and name != ROOT_QUEUE and name not in done and name not in path:
            path[name] = None
            name = queues[name].parent or ROOT_QUEUE
        if name in path:
            members = list(path)[list(path).index(name) :]
            words = " below ".join([*members, name])
            found.update(dict.fromkeys(members, words))
        done.update(path)
    return found


def faults(queues: Iterable[Queue], resources: Resources) -> list[Fault]:
    """Return all that is wrong with the tree, by queue."""
    found: list[Fault] = []
    for queue in sorted(queues, key=lambda queue: queue.name):
        if queue.broken is not None:
            found.append(queue.broken)
        found += _contradictions(queue, resources)
    return found


def _contradictions(queue: Queue, resources: Resources) -> Iterator[Fault]:
    """Say where the quotas of a queue, and of those below it, cannot all hold."""
    if queue.facts is None:
        return
    if queue.facts.weight < 1:
        yield Fault(
            queue.name, "weight", f"queue {queue.name} has weight {queue.facts.weight}: it counts as 1"
        )
    capability, deserved, guarantee = dict(queue.capability or ()), queue.deserved or {}, queue.guarantee
    owed = _sum(child.deserved or {} for child in queue.below)
    kept = _sum(child.guarantee for child in queue.below)
    here, below = f"queue {queue.name}", f"the queues below {queue.name}"
    for code, larger, what, smaller, bound in (
        ("guarantee-above-capability", guarantee, f"{here} is guaranteed", capability, "may hold"),
        ("deserved-above-capability", deserved, f"{here} deserves", capability, "may hold"),
        ("deserved-below-guarantee", guarantee, f"{here} is guaranteed", deserved, "deserves"),
        ("guarantees-above-parent", kept, f"{below} are guaranteed", guarantee, "is guaranteed"),
        ("guarantees-above-capability", kept, f"{below} are guaranteed", capability, "may hold"),
        ("deserved-above-parent", owed, f"{below} deserve", deserved, "deserves"),
    ):
        for column in sorted(set(larger) & set(smaller)):
            if larger[column] > smaller[column]:
                much, most = (resources.describe(column, one[column]) for one in (larger, smaller))
                yield Fault(queue.name, code, f"{what} {much}, more than the {most} that it {bound}")


def _sum(amounts: Iterable[Mapping[int, int]]) -> dict[int, int]:
    total: dict[int, int] = {}
    for one in amounts:
        for column, amount in one.items():
            total[column] = total.get(column, 0) + amount
    return total
