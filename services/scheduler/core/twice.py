"""What queues count twice: room kept for a gang, and the pods that leave for it.

Both are charged, so nothing of that is promised to anybody else. Where those that leave are of the same
queue, or of one beside it, the levels above both hold one or the other at any time, and never both: so much
more may others of such a level have meanwhile. The gang itself takes its room only once all that is charged
is within the capability (``Earmark.is_over``).
"""

from __future__ import annotations

from services.scheduler.core.earmarks import Earmark
from services.scheduler.core.model import Model
from services.scheduler.core.queues import Queue

Sums = dict[Queue, dict[int, int]]


def recount(model: Model) -> set[str]:
    """Bring up to date what the levels count twice; return the queues of which others may have more."""
    more: set[str] = set()
    for mark in model.earmarks:
        there = [victim for victim in mark.victims if model.is_there(victim)]
        if mark.there == (len(there), model.queues.tree_version):
            continue
        mark.there = len(there), model.queues.tree_version
        now = _twice(model, mark, there)
        more.update(level.name for level in now)
        model.earmarks.count_twice(mark, now)
    return more


def _twice(model: Model, mark: Earmark, there: list[tuple[str, str, str]]) -> Sums:
    asked: dict[int, int] = {}
    for shape, _, counts in mark.places:
        for column, amount in shape.amounts:
            asked[column] = asked.get(column, 0) + amount * sum(counts)
    leaving: Sums = {}
    for victim in there:
        pod = model.pods[victim[:2]]
        chain = model.queues.get(pod.queue).chain if pod.queue else ()
        for level in chain:
            if level in mark.queue.chain:
                sums = leaving.setdefault(level, {})
                for column, amount in pod.shape.amounts:
                    sums[column] = sums.get(column, 0) + amount
    return {
        level: {column: min(amount, asked.get(column, 0)) for column, amount in sums.items()}
        for level, sums in leaving.items()
    }
