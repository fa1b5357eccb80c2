"""Trying a gang out: what a cycle would decide about it now, and nothing is left of it.

The gang is judged by the very functions that decide. It never enters the waiting lanes: it has its own one,
counts in its queue while it is looked at, and what it takes on the way is taken back. A node that was used
and given back looks like one that changed, which would only make the next cycle look at it again: that is
forgotten, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from services.scheduler.core.choice import choice_of, choose
from services.scheduler.core.cycle import rehearse
from services.scheduler.core.displace import evictions
from services.scheduler.core.eviction import Evictor
from services.scheduler.core.foresight import Foresight, Outlook
from services.scheduler.core.gangs import Gang, Pick, by_shape, make_gang
from services.scheduler.core.groups import assess
from services.scheduler.core.index import Taken
from services.scheduler.core.lanes import Lane
from services.scheduler.core.layout import in_parts, layout_of
from services.scheduler.core.model import Model
from services.scheduler.core.reports import (
    Reasons,
    in_order,
    outside,
    places_in_queues,
    reasons_of,
    report_of,
)
from services.scheduler.core.shapes import Shape
from shared.events import contracts as c


@dataclass(frozen=True, slots=True)
class Trial:
    """What would be decided: bindings (with evictions, once these have left), or a report why it waits."""

    bindings: tuple[c.Binding, ...] = ()
    evictions: tuple[c.Eviction, ...] = ()
    later: int = 0
    """Members beyond the minimum."""
    report: c.GangReport | None = None


def try_out(model: Model, contract: c.Gang, now: datetime) -> Trial:
    """Say what would be decided about a gang that came now. No gang of its name may be there."""
    with _looking(model):
        gang = make_gang(contract, model.shapes)
        gang.needs = assess(gang)
        gang.order = model.order_key(gang)
        if gang.needs.short or not (gang.needs.must or gang.needs.more):
            return Trial(report=_report(model, gang, (outside(gang),), now))
        with _wanting(model, gang):
            return _try_out(model, gang, now)


def _try_out(model: Model, gang: Gang, now: datetime) -> Trial:
    layout = layout_of(gang, gang.needs.must, lambda _: {})
    lane = Lane(*model.waiting.request_of(gang, layout, choice_of(gang)))
    lane.push(gang, 1)
    later = sum(len(pick.members) for pick in gang.needs.more)
    ahead = model.waiting.lanes.get(lane.signature)
    first = None if ahead is None else ahead.head()
    if ahead is not None and first is not None and first[0] < gang.order:
        lane.stops = ahead.stops
        return Trial(report=_report(model, gang, reasons_of(model, ahead), now))
    placed, stop = rehearse(model, lane, gang, now)
    if stop is None:
        rows: list[c.Binding] = []
        for picks, taken in zip(in_parts(lane.layout, gang.needs.must), placed, strict=True):
            rows += _bindings(model, gang, picks, taken)
        return Trial(tuple(rows), later=later)
    lane.stops = (stop,)
    found = Evictor(model, now).find_for(lane, gang)
    if found is None:
        return Trial(report=_report(model, gang, reasons_of(model, lane), now))
    if lane.choice is not None:
        choose(gang, {shape: sum(counts) for shape, _, counts in found.places})
    places = [(shape, Taken(list(slots), list(counts))) for shape, slots, counts in found.places]
    rows = list(_bindings(model, gang, gang.needs.must, places))
    return Trial(tuple(rows), tuple(evictions(model, gang, found)), later)


@contextmanager
def _looking(model: Model) -> Iterator[None]:
    """Forget afterwards which nodes and queues were touched."""
    nodes, queues = model.nodes, model.queues
    queues.refresh()
    before = set(nodes.moved), set(nodes.grown), set(queues.freed), set(queues.charged)
    try:
        yield
    finally:
        nodes.moved, nodes.grown, queues.freed, queues.charged = before


@contextmanager
def _wanting(model: Model, gang: Gang) -> Iterator[None]:
    """Count what a gang asks for in its queue, and the gang among those that wait."""
    model.count_workload(gang, 1)
    model.set_wanted(gang, (*gang.needs.must, *gang.needs.more))
    model.unplaced[gang] = None
    try:
        yield
    finally:
        del model.unplaced[gang]
        model.set_wanted(gang, ())
        model.count_workload(gang, -1)


def _bindings(
    model: Model, gang: Gang, picks: list[Pick], places: Iterable[tuple[Shape, Taken]]
) -> Iterator[c.Binding]:
    members = {
        shape: iter([(pick, member) for pick in some for member in pick.members])
        for shape, some in by_shape(picks).items()
    }
    for shape, taken in places:
        for slot, (pick, member) in zip(taken.places(), members[shape.bare], strict=False):
            task = gang.tasks[pick.task]
            yield c.Binding(pod=task.names[member], task=task.name, node=model.nodes.names[slot])


def _report(model: Model, gang: Gang, reasons: Reasons, now: datetime) -> c.GangReport:
    queue = gang.contract.queue
    mine = [one for one in model.unplaced if one.contract.queue == queue and one is not gang]
    outlook = Outlook() if gang.lane is None else _outlook(model, gang, now)
    position = 1 + sum(one.order < gang.order for one in mine)
    return report_of(gang, position, 1 + len(mine), reasons, outlook, now)


def _outlook(model: Model, gang: Gang, now: datetime) -> Outlook:
    """Look ahead as far as this gang."""
    order = in_order(model, places_in_queues(model))
    ahead = Foresight(model, now, order[: order.index(gang) + 1])
    while ahead.next():
        pass
    return ahead.of(gang.key)
