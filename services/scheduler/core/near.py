"""Placing gangs near: inside one hypernode, each of its groups inside one of its own.

The lowest tier that holds the gang wins; in it, the hypernode that has the least room left for it, so
that larger holes stay for larger gangs; then the first by name. Sums of room over all hypernodes of a
tier say which could hold it; those are tried in that order, until one holds all the gang's shapes at once.
A gang that should be near, and cannot, is placed anywhere. So is one that may use a tier above the
highest there is: that is the whole cluster, as in Volcano.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from services.scheduler.core.columns import BoolArray, IntArray, SlotArray
from services.scheduler.core.domains import Domain, Domains, Tier
from services.scheduler.core.gangs import Near
from services.scheduler.core.index import ShapeIndex, Taken
from services.scheduler.core.lanes import NoDomain
from services.scheduler.core.layout import Counts, Layout, Part
from services.scheduler.core.model import Model
from services.scheduler.core.plan import Trial
from services.scheduler.core.shapes import Shape

Placed = list[list[tuple[Shape, Taken]]]
"""What was taken for each part."""
Room = Callable[[ShapeIndex], IntArray]
"""How many pods of a shape there is room for on each node."""


def now(index: ShapeIndex) -> IntArray:
    """Return the room that there is now."""
    return index.fits


def ever(index: ShapeIndex) -> IntArray:
    """Return the room that empty nodes have."""
    return index.potentials()


def place(model: Model, trial: Trial, layout: Layout) -> Placed | None:
    """Place all parts of a layout or none of them."""
    whole = _sum(layout.parts)
    start = trial.mark
    for ground in _grounds(model, layout.near, layout.anchors, whole, None):
        placed = _place_parts(model, trial, layout, ground)
        if placed is not None:
            return placed
        trial.rollback(start)
    return None


def shortage(model: Model, layout: Layout, room: Room) -> NoDomain | None:
    """Say what of a layout finds no hypernode that has the room; None: the gang and each part does."""
    asked = [(layout.near, layout.anchors, _sum(layout.parts))]
    asked += [(part.near, part.anchors, part.counts) for part in layout.parts]
    for near, anchors, counts in asked:
        if near is None or _anywhere(model, near):
            continue
        if next(_candidates(model, near, anchors, counts, None, room), None) is None:
            return _nearest(model, near, anchors, counts, room)
    return None


def is_confined(model: Model, layout: Layout) -> bool:
    """Whether nodes that would take its pods lie where the gang can never be: others may well use them."""
    asked = [(layout.near, _sum(layout.parts)), *((part.near, part.counts) for part in layout.parts)]
    for near, counts in asked:
        if near is None or _anywhere(model, near):
            continue
        inside = np.zeros(model.nodes.exists.size, np.bool_)
        for domain in _candidates(model, near, (), counts, None, ever):
            inside[domain.slots] = True
        rooms = [model.index(model.shapes.by_number[number]).potentials() for number, _ in counts]
        if any(((room > 0) & ~inside[: room.size]).any() for room in rooms):
            return True
    return False


def holds(model: Model, layout: Layout, slots: Mapping[str, SlotArray]) -> bool:
    """Whether pods of groups on these slots, with those that are there, are as near as a layout asks."""
    every = np.unique(np.concatenate([*slots.values(), np.zeros(0, np.intp)]))
    asked = [(layout.near, layout.anchors, every)]
    asked += [(part.near, part.anchors, slots.get(part.group, every[:0])) for part in layout.parts]
    for near, anchors, some in asked:
        if near is None or _anywhere(model, near):
            continue
        held = np.union1d(_slots(model, anchors), some)
        if not any(tier.holding(held).any() for tier in allowed(model.domains, near)):
            return False
    return True


def _place_parts(model: Model, trial: Trial, layout: Layout, ground: Domain | None) -> Placed | None:
    """Place all parts inside a domain: those that must be near themselves first, the largest first."""
    order = sorted(range(len(layout.parts)), key=lambda at: _rank(layout.parts[at]))
    placed: Placed = [[] for _ in layout.parts]
    for at in order:
        part, mark = layout.parts[at], trial.mark
        if not _place_part(model, trial, part, ground):
            return None
        placed[at] = trial.since(mark)
    return placed


def _rank(part: Part) -> tuple[bool, int]:
    return part.near is None, -sum(count for _, count in part.counts)


def _place_part(model: Model, trial: Trial, part: Part, ground: Domain | None) -> bool:
    mark = trial.mark
    for inner in _grounds(model, part.near, part.anchors, part.counts, ground):
        if all(_place_shape(model, trial, number, count, inner) for number, count in _in_order(model, part)):
            return True
        trial.rollback(mark)
    return False


def _in_order(model: Model, part: Part) -> Counts:
    """Return shapes that ask for other pods to be there after the others."""
    return tuple(sorted(part.counts, key=lambda item: model.shapes.by_number[item[0]].follows))


def _place_shape(model: Model, trial: Trial, number: int, count: int, ground: Domain | None) -> bool:
    shape = model.shapes.by_number[number]
    return trial.place(shape, count) if ground is None else trial.place_among(shape, ground.slots, count)


def _grounds(
    model: Model, near: Near | None, anchors: tuple[str, ...], counts: Counts, outer: Domain | None
) -> Iterator[Domain | None]:
    """Yield where to try, best first; None is everywhere."""
    if near is not None:
        yield from _candidates(model, near, anchors, counts, outer, now)
    if near is None or _anywhere(model, near):
        yield outer


def _anywhere(model: Model, near: Near) -> bool:
    """Whether any node will do where no hypernode does."""
    if not near.hard:
        return True
    tiers = model.domains.tiers()
    return not near.tier_name and (near.tier is None or near.tier > (tiers[-1].number if tiers else 0))


def _candidates(
    model: Model,
    near: Near,
    anchors: tuple[str, ...],
    counts: Counts,
    outer: Domain | None,
    room: Room,
) -> Iterator[Domain]:
    """Yield the domains that have the room in sum, hold all anchors, and lie inside ``outer``."""
    held = _slots(model, anchors)
    mask = None if outer is None else _mask(model, outer)
    for tier in allowed(model.domains, near):
        fit = np.ones(len(tier.domains), np.bool_)
        left: IntArray | None = None
        for number, count in counts:
            sums = tier.sums(room(model.index(model.shapes.by_number[number])))
            fit &= sums >= count
            left = sums - count if left is None else left
        if held.size:
            fit &= tier.holding(held)
        if mask is not None:
            fit &= tier.within(mask)
        found = np.flatnonzero(fit)
        if left is not None:
            found = found[np.argsort(left[found], kind="stable")]
        for at in found.tolist():
            yield tier.domains[at]


def allowed(domains: Domains, near: Near) -> list[Tier]:
    """Return the tiers whose hypernodes may hold what must be near, the lowest first."""
    tiers = domains.tiers()
    highest = near.tier
    if near.tier_name:
        named = [tier.number for tier in tiers if near.tier_name in tier.names]
        highest = max(named, default=-1)
    return [tier for tier in tiers if highest is None or tier.number <= highest]


def _nearest(model: Model, near: Near, anchors: tuple[str, ...], counts: Counts, room: Room) -> NoDomain:
    """Return the shape that lacks the most room, and the domain that has the most of it."""
    tiers, held = allowed(model.domains, near), _slots(model, anchors)
    domains = sum(len(tier.domains) for tier in tiers)
    lacking: list[NoDomain] = []
    for number, count in counts:
        shape = model.shapes.by_number[number]
        fits, best = 0, ""
        for tier in tiers:
            sums = tier.sums(room(model.index(shape)))
            if held.size:
                sums = np.where(tier.holding(held), sums, 0)
            at = int(sums.argmax())
            if sums[at] > fits:
                fits, best = int(sums[at]), tier.domains[at].name
        lacking.append(NoDomain(shape, count, fits, best, domains, near))
    return min(lacking, key=lambda one: one.fits - one.need)


def _sum(parts: tuple[Part, ...]) -> Counts:
    counts: dict[int, int] = {}
    for part in parts:
        for number, count in part.counts:
            counts[number] = counts.get(number, 0) + count
    return tuple(counts.items())


def _slots(model: Model, nodes: tuple[str, ...]) -> SlotArray:
    """Return the slots of those nodes that are there: what is left of pods on others goes soon."""
    known = model.nodes
    slots = [slot for name in nodes if (slot := known.slots.get(name)) is not None and known.exists[slot]]
    return np.array(slots, np.intp)


def _mask(model: Model, domain: Domain) -> BoolArray:
    mask = np.zeros(model.nodes.exists.size, np.bool_)
    mask[domain.slots] = True
    return mask
