"""Why each waiting gang waits: one dominant reason with numbers, and the other obstacles.

Not on the path of decisions: the shell asks for it now and then, in slices. Gangs of one lane share a
reason, worked out once a round; a report is given out again only when its reason changed, or its
place in the queue or the estimate of its start did enough to matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from math import inf

from services.scheduler.core import near, quota, room
from services.scheduler.core.amongreasons import among_pods
from services.scheduler.core.earmarks import Earmark
from services.scheduler.core.extending import unvoted
from services.scheduler.core.foresight import Foresight, Outlook
from services.scheduler.core.gangs import Gang, Key, OrderKey
from services.scheduler.core.lanes import Behind, Lane, NoDomain, NoEntry, NoQuota, NoRoom, NotOpen
from services.scheduler.core.model import Model
from shared.events.contracts import GangReport, Reason

_NEAR = 20
"""Up to this place in the queue every change is told; behind it, changes by a tenth."""
_MOST_REASONS = 20
_MOST_NAMED = 5
_MOST_WORDS = 2000
"""Characters of a reason: it may quote a node selector of any length, and a report must fit into a record."""

Reasons = tuple[Reason, ...]
"""The dominant reason first."""


@dataclass(frozen=True, slots=True)
class _Told:
    uid: str
    generation: int
    reasons: Reasons
    position: int
    outlook: Outlook


class Reporter:
    """Remembers what was told, and tells what changed. ``pause``: between two looks at who may start when."""

    def __init__(self, model: Model, pause: timedelta = timedelta(0)) -> None:
        self._model = model
        self._pause = pause
        self._foresight: Foresight | None = None
        self._foreseen: datetime | None = None
        self._due: datetime | None = None
        """When starts are to be worked out anew."""
        self._told: dict[Key, _Told | None] = {}
        self._round: Iterator[tuple[Gang, int, int]] = iter(())
        self._by_lane: dict[Lane, Reasons] = {}

    def remember(self, namespace: str, name: str) -> None:
        """Note a report of an earlier scheduler: it is repeated or taken back."""
        self._told.setdefault((namespace, name), None)

    def reason_of(self, key: Key) -> str | None:
        """Return what was last told about a gang."""
        told = self._told.get(key)
        return None if told is None else told.reasons[0].message

    def is_due(self, now: datetime) -> bool:
        """Whether a round is due although nothing changed: for estimates that were put off, or passed."""
        return self._due is not None and self._due <= now

    def begin(self, now: datetime) -> None:
        """Start a round: fix the places in the queues."""
        places = places_in_queues(self._model)
        self._round = iter(places)
        self._by_lane.clear()
        if self._foreseen is not None and now < self._foreseen + self._pause:
            self._due = self._foreseen + self._pause
            return
        self._foreseen, self._due = now, None
        self._foresight = Foresight(self._model, now, in_order(self._model, places))

    def foresee(self) -> bool:
        """Work out when one more gang may start, before the round's reports; False: there is none left."""
        return self._foresight is not None and self._foresight.next()

    def some(self, now: datetime, count: int) -> list[GangReport] | None:
        """Look at the next ``count`` gangs; return the reports that changed, None at the round's end."""
        part = list(islice(self._round, count))
        if not part:
            return None
        reports = [self._report(gang, position, length, now) for gang, position, length in part]
        return [report for report in reports if report is not None]

    def ended(self) -> list[Key]:
        """Return and forget the gangs that were told of and do not wait any more.

        A gang of another pool is forgotten alone: what is told of it is that pool's.
        """
        gangs, unplaced, pool = self._model.gangs, self._model.unplaced, self._model.pool
        over = [key for key in self._told if (gang := gangs.get(key)) is None or gang not in unplaced]
        for key in over:
            del self._told[key]
        return [key for key in over if (gang := gangs.get(key)) is None or gang.contract.pool == pool]

    def _report(self, gang: Gang, position: int, length: int, now: datetime) -> GangReport | None:
        if gang not in self._model.unplaced:
            return None
        reasons = self._reasons(gang)
        contract = gang.contract
        told = self._told.get(gang.key)
        outlook = Outlook() if self._foresight is None else self._foresight.of(gang.key)
        self._look_again(outlook, now)
        if (
            told is not None
            and (told.uid, told.generation) == (contract.uid, contract.generation)
            and told.reasons == reasons
            and (told.position == position or abs(told.position - position) * 10 < position > _NEAR)
            and not outlook.moved(told.outlook, now)
        ):
            return None
        self._told[gang.key] = _Told(contract.uid, contract.generation, reasons, position, outlook)
        return report_of(gang, position, length, reasons, outlook, now)

    def _look_again(self, outlook: Outlook, now: datetime) -> None:
        """Have starts worked out anew when one has passed."""
        if outlook.half is not None and outlook.half > now:
            self._due = min(outlook.half, self._due or outlook.half)

    def _reasons(self, gang: Gang) -> Reasons:
        lane = gang.lane
        if lane is None:
            mark = self._model.earmarks.of(gang.key)
            return (outside(gang) if mark is None else _leaving(self._model, mark),)
        reasons = self._by_lane.get(lane)
        if reasons is None:
            reasons = self._by_lane[lane] = reasons_of(self._model, lane)
        return reasons


def report_of(
    gang: Gang, position: int, length: int, reasons: Reasons, outlook: Outlook, now: datetime
) -> GangReport:
    """Return the report of a gang at a place in its queue, from 1, of that queue's length."""
    contract = gang.contract
    return GangReport(
        gang=contract.ref,
        job=contract.job,
        queue=contract.queue,
        waiting_since=contract.ready_since,
        position=position,
        queue_length=length,
        reason=reasons[0],
        details=reasons[1:],
        estimated_start=outlook.half,
        estimated_start_p90=outlook.most,
        outlook=outlook.words,
        at=now,
    )


def places_in_queues(model: Model) -> list[tuple[Gang, int, int]]:
    """Return all that wait, each with its place in its queue (from 1) and that queue's length."""
    queues: dict[str, list[Gang]] = {}
    for gang in model.unplaced:
        queues.setdefault(gang.contract.queue, []).append(gang)
    places: list[tuple[Gang, int, int]] = []
    for gangs in queues.values():
        gangs.sort(key=lambda gang: gang.order)
        places += [(gang, position, len(gangs)) for position, gang in enumerate(gangs, 1)]
    return places


def in_order(model: Model, places: Iterable[tuple[Gang, int, int]]) -> list[Gang]:
    """Return gangs as they come: reserved ones, then by queue and place; queues take turns."""

    def turn(item: tuple[Gang, int, int]) -> tuple[float, int, int, OrderKey]:
        gang, position, _ = item
        mark = model.reservations.of(gang.key)
        rank = model.queues.get(gang.contract.queue).rank
        return inf if mark is None else mark.start, -rank, position, gang.order

    return [gang for gang, _, _ in sorted(places, key=turn)]


def _short(reason: Reason) -> Reason:
    if len(reason.message) <= _MOST_WORDS:
        return reason
    return reason.model_copy(update={"message": f"{reason.message[:_MOST_WORDS]} …"})


def reasons_of(model: Model, lane: Lane) -> Reasons:
    """Say why the gangs of a lane wait, in as many words as a report has room for.

    What is reserved for the first of them is free to it.
    """
    head = lane.head()
    with model.reservations.lifted(() if head is None else (head[1].key,)):
        return _reasons_of(model, lane)


def _reasons_of(model: Model, lane: Lane) -> Reasons:
    return tuple(map(_short, (*explain(model, lane), *_votes(model, lane))[:_MOST_REASONS]))


def _votes(model: Model, lane: Lane) -> Reasons:
    """Say that the extender has yet to say who may be evicted for the first gang of a lane."""
    head = lane.head()
    if model.policy.extender is None or head is None:
        return ()
    count, why = unvoted(model, head[1].contract)
    if not count:
        return ()
    error = f" ({why})" if why else ""
    return (
        Reason(
            code="victims-unanswered",
            message=f"the extender has not said yet whether {count} pods may be evicted for it{error}",
            numbers={"pods": count},
            next_step="wait for the extender, or look why it does not answer",
        ),
    )


def explain(model: Model, lane: Lane) -> Reasons:  # noqa: PLR0911 - one for each case
    """Say why the gangs of a lane wait, the dominant reason first."""
    match lane.stop:
        case None:
            return (Reason(code="deciding", message="its turn comes in the next cycle"),)
        case NotOpen():
            return (quota.not_open(lane.queue),)
        case NoQuota() as stop:
            return quota.over(model, lane.queue, stop)
        case NoEntry() as stop:
            return quota.entry(model, lane.queue, stop)
        case NoRoom(together=together):
            return _no_room(model, lane, together=together)
        case NoDomain() as stop:
            return (_no_domain(model, stop, lane), *_parts(model, lane))
        case Behind(holder=holder):
            return _behind(model, holder)


def _leaving(model: Model, mark: Earmark) -> Reason:
    """Say for whom a gang waits whose room is kept."""
    if mark.moves:
        return _moving(model, mark)
    there = [
        f"{namespace}/{name}"
        for namespace, name, uid in mark.victims
        if model.is_there((namespace, name, uid))
    ]
    if not there:
        return Reason(
            code="waits-for-room",
            message="room is kept for it, and is soon free: what was there is ending",
            numbers={"pods": 0},
            next_step="wait for the pods that are being deleted on these nodes",
        )
    names = ", ".join(there[:_MOST_NAMED]) + (", …" if len(there) > _MOST_NAMED else "")
    pods = "pod" if len(there) == 1 else "pods"
    return Reason(
        code="waits-for-victims",
        message=f"waits for {len(there)} {pods} to leave: {names}",
        numbers={"pods": len(there)},
        next_step="its room is kept; it starts when they have ended",
    )


def _moving(model: Model, mark: Earmark) -> Reason:
    """Say where a gang goes whose pods left for another gang, or for what their nodes really use."""
    nodes = sorted({model.nodes.names[slot] for _, slots, _ in mark.places for slot in slots})
    pods = sum(sum(counts) for _, _, counts in mark.places)
    alone = f"/{mark.uid}/" in mark.number  # its own decision says it, for nobody
    why = "moves off nodes that really use too much" if alone else "moves so that another gang can start"
    return Reason(
        code="moving",
        message=f"{why}: room for {pods} of its pods is kept on "
        + ", ".join(nodes[:_MOST_NAMED])
        + (", …" if len(nodes) > _MOST_NAMED else ""),
        numbers={"pods": pods, "nodes": len(nodes)},
        next_step="it goes on when those that leave have ended, and are made anew",
    )


def outside(gang: Gang) -> Reason:
    """Say why a gang is not even tried."""
    if gang.held is not None:
        return gang.held
    needs = gang.needs
    claims = _claims(gang)
    if claims and needs.gated and needs.gated >= needs.short > 0:
        return claims
    if needs.gated and needs.gated >= needs.short > 0:
        return Reason(
            code="scheduling-gated",
            message=f"{needs.gated} of its members have scheduling gates",
            numbers={"gated": needs.gated},
            next_step="whoever set the gates has to take them off",
        )
    if needs.short:
        there = gang.minimum - needs.short
        members = "member" if needs.short == 1 else "members"
        return Reason(
            code="waiting-for-members",
            message=f"waits for {needs.short} more {members}: {there} of at least {gang.minimum} are there",
            numbers={"missing": needs.short, "minimum": gang.minimum},
            next_step="its pods have to be created; look at the job's events",
        )
    why = f": {gang.trouble}" if gang.trouble else ""
    return _short(
        Reason(
            code="retrying",
            message=f"its last decision could not be carried out ({gang.failures} in a row){why}",
            numbers={"failures": gang.failures},
            next_step="it is soon decided again; the job's events say more",
        )
    )


def _claims(gang: Gang) -> Reason | None:
    """Say which claim of a gang is in no state to be placed by."""
    told = [one.shape.volumes for one in gang.contract.tasks if one.shape.volumes is not None]
    waits = list(dict.fromkeys(one.waits_for for one in told if one.waits_for))
    if not waits:
        return None
    more = f" (and {len(waits) - 1} more)" if len(waits) > 1 else ""
    return Reason(
        code="waits-for-claim",
        message=f"{waits[0]}{more}",
        numbers={"claims": len(waits)},
        next_step="make the claim, or look at its events: it is looked at anew when it changes",
    )


def _no_room(model: Model, lane: Lane, *, together: bool) -> Reasons:
    parts = _parts(model, lane)
    if lane.choice is not None and parts:
        return tuple(parts)
    if together and isinstance(lane.stop, NoRoom) and lane.stop.shape.between is not None:
        return (among_pods(model, lane.stop), *parts)
    if together:
        return (
            Reason(
                code="no-room-together",
                message="each of its tasks fits, but not all of them at once",
                next_step="wait for running jobs to end, or ask for less",
            ),
            *parts,
        )
    return tuple(parts) or (Reason(code="deciding", message="its turn comes in the next cycle"),)


def _parts(model: Model, lane: Lane) -> list[Reason]:
    """Say of each shape why it finds no room, the most important first."""
    parts: list[Reason] = []
    for shape, count in lane.shapes:
        parts += room.reasons(model, shape, max(count, 1), surplus=lane.surplus)
    return sorted(parts, key=lambda reason: room.RANK.get(reason.code, len(room.RANK)))


def _no_domain(model: Model, stop: NoDomain, lane: Lane) -> Reason:
    """Say what no hypernode has room for; first what none would have even if all were empty."""
    never = None if lane.layout is None else near.shortage(model, lane.layout, near.ever)
    stop = never or stop
    asked = stop.near
    upto = f"tier {asked.tier_name}" if asked.tier_name else f"tier {asked.tier}"
    kind = "hypernode" if asked.tier is None and not asked.tier_name else f"hypernode of at most {upto}"
    has, even = ("would hold", "even empty, ") if never else ("has room for", "")
    best = f"{stop.best} {has} {stop.fits}" if stop.best else f"none {has} one"
    return Reason(
        code="domain-too-small" if never else "no-domain",
        message=f"needs {stop.need} pods with {stop.shape.describe(model.resources)} in one {kind}: "
        + (f"{even}of {stop.domains}, {best}" if stop.domains else "there is none"),
        numbers={"needed": stop.need, "fits": stop.fits, "best": stop.best, "hypernodes": stop.domains},
        next_step="ask for fewer or smaller pods, or allow a higher tier"
        if never
        else "wait for running jobs to end, or allow a higher tier",
    )


def _behind(model: Model, holder: Lane) -> Reasons:
    head = holder.head()
    reasons = explain(model, holder)
    if head is None:
        return reasons
    first = head[1].contract
    name = f"{first.namespace}/{first.job or first.name}"
    ahead = Reason(
        code="behind",
        message=f"waits behind {name}, which needs the same: {reasons[0].message}",
        numbers={"ahead": f"{first.namespace}/{first.name}"},
        next_step="wait for it to start, or raise this job's priority",
    )
    return (ahead, *reasons)
