"""Where a lane's gang goes: all of its minimum, or nothing.

The same search places gangs, and says where one would land if others had gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from services.scheduler.core import near
from services.scheduler.core.choice import Choice
from services.scheduler.core.index import Taken
from services.scheduler.core.lanes import Lane, NoRoom, Stop
from services.scheduler.core.layout import Layout
from services.scheduler.core.model import Model
from services.scheduler.core.near import Placed
from services.scheduler.core.plan import Plan, Trial
from services.scheduler.core.reservations import Reserved
from services.scheduler.core.shapes import Shape

Places = dict[Shape, dict[int, int]]
"""Pods by shape, on devices where they take parts of them, and slot."""


def place(model: Model, trial: Trial, lane: Lane) -> tuple[Placed, Stop | None]:
    """Place what a lane's gangs need, or whichever of their members fit; say what stops it."""
    if lane.choice is None:
        return place_shapes(model, trial, lane.shapes, lane.layout)
    counts = find_any(model, lane.choice)
    if counts is None:
        return [], NoRoom(*lane.shapes[0], fits=0, together=True)
    for shape, count in counts.items():
        trial.place(shape, count)
    return [trial.since(0)], None


def place_shapes(
    model: Model, trial: Trial, shapes: Sequence[tuple[Shape, int]], layout: Layout | None
) -> tuple[Placed, Stop | None]:
    """Place where it fits: the shape with the least room to spare first, or as the layout says."""
    if layout is not None:
        found = near.place(model, trial, layout)
        return found or [], None if found is not None else _no_domain(model, shapes, layout)
    order = tuple(shapes)
    if len(order) > 1:
        spare = [(shape.follows, model.index(shape).total - count) for shape, count in order]
        order = tuple(order[at] for at in sorted(range(len(order)), key=spare.__getitem__))
    for shape, count in order:
        if not trial.place(shape, count):
            return [], NoRoom(shape, count, trial.fits(shape), together=True)
    return [trial.since(0)], None


def places_of(taken: Iterable[tuple[Shape, Taken]]) -> Places:
    """Return where pods were placed."""
    places: Places = {}
    for shape, some in taken:
        for slot, one in zip(some.places(), some.shapes(shape), strict=True):
            on = places.setdefault(one, {})
            on[slot] = on.get(slot, 0) + 1
    return places


def place_reserved(model: Model, trial: Trial, lane: Lane, mark: Reserved) -> Placed | None:
    """Place a lane's gang where room is reserved for it; None: it is not all there, or not near any more."""
    layout, before = lane.layout, trial.mark
    if layout is not None and not near.holds(model, layout, mark.by_group()):
        return None
    groups = [""] if layout is None else [part.group for part in layout.parts]
    placed: Placed = []
    for group in groups:
        begin = trial.mark
        places = [
            one for one, of in zip(mark.places, mark.groups, strict=True) if layout is None or of == group
        ]
        for shape, slots, counts in sorted(places, key=lambda one: one[0].follows):
            for slot, count in zip(slots, counts, strict=True):
                if not trial.place_among(shape.bare, np.array([slot], np.intp), count):
                    trial.rollback(before)
                    return None
        placed.append(_merged(trial.since(begin)))
    return placed


def _merged(taken: Iterable[tuple[Shape, Taken]]) -> list[tuple[Shape, Taken]]:
    """Return what was taken of each shape as one."""
    found: dict[Shape, Taken] = {}
    for shape, some in taken:
        one = found.get(shape, Taken([], []))
        found[shape] = Taken(one.slots + some.slots, one.counts + some.counts, [*one.placed, *some.placed])
    return list(found.items())


def find_any(model: Model, choice: Choice) -> dict[Shape, int] | None:
    """Return how many of each shape would be placed, None when too few fit."""
    left = choice.need - sum(offer.least for offer in choice.offers)
    counts: dict[Shape, int] = {}
    with Plan(model).attempt() as trial:
        for offer in choice.offers:
            fits = model.index(offer.shape).total
            count = min(offer.most, offer.least + left, max(offer.least, fits))
            if count and trial.place(offer.shape, count):
                counts[offer.shape] = count
                left -= count - offer.least
            elif offer.least:
                return None
    return None if left else counts


def _no_domain(model: Model, shapes: Sequence[tuple[Shape, int]], layout: Layout) -> Stop:
    """Say what a layout lacks: a hypernode with the room, or one with room for all of it at once."""
    shape, count = shapes[0]
    lacks = near.shortage(model, layout, near.now)
    return lacks or NoRoom(shape, count, Plan(model).fits(shape), together=True)
