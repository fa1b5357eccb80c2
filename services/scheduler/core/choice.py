"""Which members a gang's minimum is made of, where that is not said: whichever fit.

Minimums of tasks name their members. What a gang's minimum asks for beyond them may be any that wait: in
the order of tasks, and where one shape finds no room, of the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from services.scheduler.core.gangs import Gang, Pick, by_shape
from services.scheduler.core.layout import is_laid_out
from services.scheduler.core.shapes import Shape


@dataclass(frozen=True, slots=True)
class Offer:
    """Waiting pods of one shape: ``least`` must be placed, ``most`` may be."""

    shape: Shape
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Choice:
    """``need`` pods are to be placed, of what is offered, in this order: who asks for others comes last."""

    need: int
    offers: tuple[Offer, ...]

    def has_room(self, fits: Callable[[Shape], int]) -> bool:
        """Whether such a minimum has room where so many pods of each shape fit, each by itself."""
        room = [(offer, fits(offer.shape)) for offer in self.offers]
        return all(most >= offer.least for offer, most in room) and self.need <= sum(
            min(most, offer.most) for offer, most in room
        )

    def allows(self, counts: Mapping[int, int]) -> bool:
        """Whether so many pods of shapes, by their numbers, are such a minimum."""
        offered = {offer.shape.number for offer in self.offers}
        return (
            sum(counts.values()) == self.need
            and offered.issuperset(counts)
            and all(offer.least <= counts.get(offer.shape.number, 0) <= offer.most for offer in self.offers)
        )


def choice_of(gang: Gang) -> Choice | None:
    """Return what a gang's minimum may be made of; None where its needs say it all."""
    needs = gang.needs
    if not needs.must or not needs.more or is_laid_out(gang):
        return None
    if len({pick.shape for pick in (*needs.must, *needs.more)}) == 1:
        return None
    fixed, free = _divide(gang)
    need, least, most = _count(needs.must), _counts(fixed), _counts(free)
    left = need - _count(fixed)
    if not left:
        return None
    offers = (
        Offer(shape, least.get(shape, 0), least.get(shape, 0) + min(left, most.get(shape, 0)))
        for shape in sorted(dict.fromkeys((*least, *most)), key=lambda shape: shape.follows)
    )
    return Choice(need, tuple(offers))


def choose(gang: Gang, counts: dict[Shape, int]) -> None:
    """Let a gang's minimum be made of so many of each shape: first of those that it names."""
    must: list[Pick] = []
    more: list[Pick] = []
    left: dict[Shape, int] = {}
    for shape, count in counts.items():
        left[shape.bare] = left.get(shape.bare, 0) + count
    fixed, free = _divide(gang)
    for pick in (*fixed, *free):
        count = left.get(pick.shape, 0)
        must += _some(pick, pick.members[:count])
        more += _some(pick, pick.members[count:])
        left[pick.shape] = count - min(count, len(pick.members))
    gang.needs = gang.needs._replace(must=must, more=more)


def _divide(gang: Gang) -> tuple[list[Pick], list[Pick]]:
    """Return the members that the minimums of tasks name, and the others that may be placed."""
    fixed: list[Pick] = []
    free: list[Pick] = []
    for number, members in enumerate(gang.candidates()):
        lacks = gang.lacks_of(gang.tasks[number])
        fixed += gang.picks_of(number, members[:lacks])
        free += gang.picks_of(number, members[lacks:])
    return fixed, free


def _some(pick: Pick, members: list[int]) -> list[Pick]:
    return [pick._replace(members=members)] if members else []


def _count(picks: Iterable[Pick]) -> int:
    return sum(len(pick.members) for pick in picks)


def _counts(picks: Iterable[Pick]) -> dict[Shape, int]:
    return {shape: _count(some) for shape, some in by_shape(picks).items()}
