"""A job's policies against what has happened: which orders are due, and when to look again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from services.controller.core import happenings
from services.controller.core.happenings import Happening
from services.controller.core.lifecycle import OBEYING, TARGETED, Trigger
from services.controller.core.marks import Mark, mark, read_marks
from services.controller.core.moving import Moving
from services.controller.core.plans import World
from services.controller.core.podview import PodView
from services.controller.core.policies import Answer, Order, answer
from shared.api.batch import JobEvent
from shared.api.scheduling import PodGroupPhase


@dataclass(slots=True)
class Heard:
    """What is due now; what is not due yet and must be remembered; when something will be due."""

    orders: list[Order]
    marks: list[tuple[Mark, Order]]
    again: datetime | None = None

    def wait_until(self, due: datetime) -> None:
        """Look again at ``due``, if not before."""
        self.again = due if self.again is None else min(self.again, due)


def follow_policies(world: World, moving: Moving, now: datetime) -> datetime | None:
    """Carry out what the policies order; return when to look again.

    Orders about some pods that are due together are one restart; one about the whole job ends the matter.
    An order that is carried out voids those that wait about the same.
    """
    heard = _listen(world, moving, now)
    done: list[Order] = []
    for order in heard.orders:
        if moving.obey(order):
            done.append(order)
            if order.trigger not in TARGETED:
                moving.keep_marks(())
                return None
    kept = tuple(one for one, order in heard.marks if not any(_same(order, other) for other in done))
    moving.keep_marks(kept)
    return heard.again


def _listen(world: World, moving: Moving, now: datetime) -> Heard:
    heard, wanted, status = Heard([], []), world.wanted, moving.status
    if status.phase not in OBEYING or world.problem or not wanted.has_policies:
        return heard
    for happening, fresh in _news(world, moving):
        found = answer(wanted, happening, now)
        if found is not None and found.timed:
            _remember(heard, fresh or mark(happening.event, now, happening.pod), found, now)
        elif found is not None:
            heard.orders.append(found.order)
    own = [p for p in world.pods if p.generation == status.generation and not p.deleting]
    now_there = now + world.ahead
    for happening in happenings.of_pods(wanted, [pod for pod in own if not moving.is_chosen(pod)]):
        found = answer(wanted, happening, now_there)
        if found is None:
            continue
        if found.due <= now_there:
            heard.orders.append(found.order)
        else:
            heard.wait_until(found.due - (now_there - now))
    return heard


def _remember(heard: Heard, one: Mark, found: Answer, now: datetime) -> None:
    if found.due <= now:
        heard.orders.append(found.order)
    else:
        heard.marks.append((one, found.order))
        heard.wait_until(found.due)


def _news(world: World, moving: Moving) -> Iterator[tuple[Happening, Mark | None]]:
    """Yield what leaves no object behind: with its mark what is known already, then what is new."""
    wanted, generation = world.wanted, moving.status.generation
    unknown = _is_unknown(world, generation)
    known = [
        one
        for one in read_marks(moving.status.controlled)
        if not _is_void(one, world.pods, generation, unknown=unknown)
    ]
    for one in known:
        for happening in happenings.of_marks(wanted, (one,)):
            yield happening, one
    group = world.group
    # Before the gang is let in nothing can be evicted: what goes then is a decision taken back.
    if group is not None and group.admitted:
        lost = [pod for pod in world.lost if not moving.is_chosen(pod)]
        for happening in happenings.of_lost(wanted, lost, generation):
            if not any((one.event, one.pod) == (happening.event, happening.pod) for one in known):
                yield happening, None
    events = {one.event for one in known}
    if unknown and JobEvent.UNKNOWN not in events:
        yield Happening(JobEvent.UNKNOWN), None
    if _is_updated(world, generation) and JobEvent.JOB_UPDATED not in events:
        yield Happening(JobEvent.JOB_UPDATED), None


def _is_void(one: Mark, pods: Iterable[PodView], generation: int, *, unknown: bool) -> bool:
    """Whether what a mark is about is over: the pod runs again, or the gang is whole."""
    if one.event is JobEvent.POD_EVICTED:
        return any(
            pod.name == one.pod and pod.generation == generation and pod.phase not in ("Pending", "Unknown")
            for pod in pods
        )
    return one.event is JobEvent.UNKNOWN and not unknown


def _is_unknown(world: World, generation: int) -> bool:
    """Whether a part of the gang is lost and the scheduler has said that it cannot be made whole now."""
    group, report = world.group, world.report
    return (
        group is not None
        and group.phase is PodGroupPhase.UNKNOWN
        and group.generation == generation
        and report is not None
        and report.gang.generation == generation
    )


def _is_updated(world: World, generation: int) -> bool:
    """Whether the job's scale is another than that for which its PodGroup was made."""
    group = world.group
    known = group is not None and group.generation == generation and group.scale
    return bool(known) and known != world.wanted.scale


def _same(order: Order, done: Order) -> bool:
    """Whether both restart the same pods: a task, a partition or a pod."""
    if order.trigger is not done.trigger or order.task != done.task:
        return False
    if order.trigger is Trigger.RESTART_POD:
        return order.pod == done.pod
    return order.trigger is not Trigger.RESTART_PARTITION or order.partition == done.partition
