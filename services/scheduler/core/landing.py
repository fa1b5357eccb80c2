"""The search for victims where amounts do not say whether a gang has room.

Where pods lie, or beside whom, matters to gangs with a layout or with rules between pods, some take parts of
devices, and of some the minimum may be made of several things. So they are placed for trial, by the search
that places every gang, as if all that is leaving and the victims had gone; then all of it is taken back.

In the order in which bundles go, the shortest beginning is looked for after which the gang lands. Of that
only what lies where it lands is kept, if that is enough. Then bundles stay that it can do without, the most
valuable first, in halves: so each that is left is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from services.scheduler.core.bundles import Bundle
from services.scheduler.core.columns import IntArray
from services.scheduler.core.held import held_by, leaving
from services.scheduler.core.lanes import Lane
from services.scheduler.core.model import Model
from services.scheduler.core.placing import Places, place, places_of
from services.scheduler.core.plan import Plan
from services.scheduler.core.search import Found, Request, Search


def search(model: Model, lane: Lane, request: Request) -> Found | None:
    """Find who has to go for the gangs of a lane: by amounts where these alone say it."""
    return Search(model, request).run() if lane.is_simple else Landing(model, lane, request).run()


class Landing:
    """One search, for the gangs of a lane."""

    def __init__(self, model: Model, lane: Lane, request: Request) -> None:
        self._model = model
        self._lane = lane
        self._request = request

    def run(self) -> Found | None:
        """Return what was found, None when it cannot be."""
        bundles = list(self._request.bundles)
        while True:
            chosen = self._smallest(bundles)
            if chosen is None:
                return None
            refused = set(self._request.allows(chosen))
            if not refused:
                break
            bundles = [one for one in bundles if not refused.intersection((one, *one.first))]
        places = self._lands(chosen)
        if places is None or sum(len(one.rows) for one in chosen) > self._request.most:
            return None
        return Found([(shape, list(on), list(on.values())) for shape, on in places.items()], chosen)

    # ------------------------------------------------------------------ which have to go

    def _smallest(self, bundles: list[Bundle]) -> list[Bundle] | None:
        """Return some after which the gang lands, each of which is needed."""
        if self._lands(bundles) is None:
            return None
        low, high = 0, len(bundles)
        while low < high:
            middle = (low + high) // 2
            if self._lands(bundles[:middle]) is None:
                low = middle + 1
            else:
                high = middle
        return self._without_needless(self._near_by(bundles[:high]))

    def _near_by(self, bundles: list[Bundle]) -> list[Bundle]:
        """Return those that lie where the gang lands, with what goes before them, if these are enough."""
        places = self._lands(bundles) or {}
        slots = {slot for on in places.values() for slot in on}
        slot_of = self._model.victims.slot
        there = [one for one in bundles if any(slot_of.item(row) in slots for row in one.rows)]
        needed = {part for one in there for part in (*one.first, one)}
        some = [one for one in bundles if one in needed]
        return some if self._lands(some) is not None else bundles

    def _without_needless(self, bundles: list[Bundle]) -> list[Bundle]:
        """Let stay whom the gang can do without, until it needs all that are left."""
        while True:
            left = dict.fromkeys(bundles)
            whole = [one for one in reversed(bundles) if one.whole]
            self._spare(left, whole)
            followed = {part for one in left if one.whole for part in one.first}
            self._spare(left, [one for one in reversed(bundles) if not one.whole and one not in followed])
            if len(left) == len(bundles):
                return bundles
            bundles = list(left)

    def _spare(self, left: dict[Bundle, None], some: list[Bundle]) -> None:
        """Let as many of some stay as can, the first before the others."""
        if not some:
            return
        rest = [one for one in left if one not in set(some)]
        if self._lands(rest) is not None:
            for one in some:
                del left[one]
        elif len(some) > 1:
            middle = len(some) // 2
            self._spare(left, some[:middle])
            self._spare(left, some[middle:])

    # ------------------------------------------------------------------ where it lands

    def _lands(self, bundles: Sequence[Bundle]) -> Places | None:
        """Return where the gang goes once these have gone, None when it has no room, or no quota."""
        if any(sum(map(give, bundles)) < least for give, least in self._request.deficits):
            return None
        model = self._model
        with model.nodes.relieved(freed(model, bundles)), Plan(model).attempt() as trial:
            placed, stop = place(model, trial, self._lane)
            if stop is not None:
                return None
            return places_of(one for part in placed for one in part)


def freed(model: Model, bundles: Iterable[Bundle]) -> IntArray:
    """Return what is free once bundles and all that is leaving have gone, and is not now: [column, slot]."""
    more = leaving(model.nodes)
    rows = np.array([row for one in bundles for row in one.rows], np.intp)
    held_by(model.victims, model.shapes, rows).add_to(more)
    return more
