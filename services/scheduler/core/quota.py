"""Why queues stop gangs: the level, the resource, and what would help, in numbers."""

from __future__ import annotations

from services.scheduler.core import queuetree
from services.scheduler.core.lanes import NoEntry, NoQuota
from services.scheduler.core.model import Model
from services.scheduler.core.queues import Queue
from shared.events.contracts import Reason


def not_open(queue: Queue) -> Reason:
    """Say why a queue takes no new gangs."""
    if not queue.known:
        return Reason(
            code="queue-missing",
            message=f"queue {queue.name} does not exist",
            next_step=f"create the queue {queue.name}, or submit to another",
        )
    closed = queue.closed
    if closed is None:
        return Reason(
            code="queue-not-leaf",
            message=f"queue {queue.name} is there for queues below it and takes no gangs itself",
            next_step="submit to a queue that has none below it",
        )
    if closed.broken is not None:
        return Reason(
            code="queue-tree",
            message=closed.broken.message,
            next_step=f"give queue {closed.name} a parent that exists, or none",
        )
    return Reason(
        code="queue-not-open",
        message=f"queue {closed.name} is {closed.state or 'not open'} and takes no new gangs",
        next_step=f"open the queue {closed.name}",
    )


def over(model: Model, queue: Queue, stop: NoQuota) -> tuple[Reason, ...]:
    """Say which level would pass its capability, or leave too little of it for guarantees below."""
    level, column, asked = stop.level, stop.column, stop.asked
    limit = dict(level.capability or ()).get(column, 0)
    used = level.uses(column)
    name, say = model.resources.names[column], model.resources.describe
    kept = max(0, level.kept.get(column, 0) - queue.kept.get(column, 0))
    much = used + asked - limit
    never = asked > limit
    numbers = {"resource": name, "used": used, "capability": limit, "needed": asked}
    if much > 0:
        reason = Reason(
            code="queue-capability",
            message=f"queue {level.name} would be {say(column, much)} over its capability: "
            f"{say(column, used)} of {say(column, limit)} used, this needs {say(column, asked)}"
            + (", more than the queue may ever hold" if never else ""),
            numbers={**numbers, "over": much},
            next_step=_more(model, level, column, much, wait=not never),
        )
    else:
        reason = Reason(
            code="queue-guarantees",
            message=f"needs {say(column, asked)}: queue {level.name} may hold {say(column, limit)}: "
            f"{say(column, used)} used, {say(column, kept)} kept for {_keepers(model, queue, level, column)}",
            numbers={**numbers, "kept": kept, "over": much + kept},
            next_step=_more(model, level, column, much + kept, wait=True),
        )
    return (reason, *_contradictions(model, queue))


def entry(model: Model, queue: Queue, stop: NoEntry) -> tuple[Reason, ...]:
    """Say what a gang that has room would take from others: promised, or kept for guarantees."""
    if stop.kept:
        return (_kept(model, queue, stop.column, stop.asked), *_contradictions(model, queue))
    return (_promised(model, stop.level, stop.column, stop.asked),)


def _more(model: Model, level: Queue, column: int, amount: int, *, wait: bool) -> str:
    need = f"{model.resources.describe(column, amount)} more in queue {level.name}"
    return f"{need}: wait for its other jobs, or raise its capability" if wait else f"{need}, or ask for less"


def _keepers(model: Model, queue: Queue, level: Queue, column: int) -> str:
    """Name the queues whose guarantees are not used up."""
    names = [
        one.name
        for one in model.queues.tree
        if one is not queue and level in one.chain and one.guarantee.get(column, 0) > one.held.get(column, 0)
    ]
    return ", ".join(sorted(names)[:3]) + (" and others" if len(names) > 3 else "")  # noqa: PLR2004


def _kept(model: Model, queue: Queue, column: int, asked: int) -> Reason:
    name, say = model.resources.names[column], model.resources.describe
    root = model.queues.root
    free, kept = model.promises.free([column])[column], root.kept.get(column, 0) - queue.kept.get(column, 0)
    whose = _keepers(model, queue, root, column)
    short = asked + kept - free
    return Reason(
        code="kept-for-guarantees",
        message=f"needs {say(column, asked)}: {say(column, free)} are free, {say(column, kept)} of them "
        f"kept for the guarantees of {whose}",
        numbers={"resource": name, "needed": asked, "free": free, "kept": kept, "short": short},
        next_step=f"{say(column, short)} more in the cluster, or less guaranteed to {whose}",
    )


def _promised(model: Model, level: Queue | None, column: int, asked: int) -> Reason:
    name, say = model.resources.names[column], model.resources.describe
    promised = model.promises.at(level, column)
    if level is None:
        free, most = model.promises.free([column])[column], model.nodes.totals().get(column, 0)
        where, short = "the nodes have", "more than all nodes have"
    else:
        most = dict(level.capability or ()).get(column, 0)
        free = max(0, most - level.held.get(column, 0))
        where, short = f"queue {level.name} has", "more than the queue may ever hold"
    never = asked > most
    return Reason(
        code="min-resources",
        message=f"it will need {say(column, asked)} in all, and {where} {say(column, free)} free"
        + (f", {say(column, promised)} of that promised to gangs that run" if promised else "")
        + (f"; {short}" if never else ""),
        numbers={"resource": name, "free": free, "promised": promised, "needed": asked},
        next_step="lower the PodGroup's minResources"
        if never
        else "wait for running jobs to end, or lower the PodGroup's minResources",
    )


def _contradictions(model: Model, queue: Queue) -> tuple[Reason, ...]:
    """Tell of quotas at the gang's levels that cannot all hold."""
    faults = queuetree.faults(queue.chain, model.resources)
    correct = "correct the quotas of queue "
    return tuple(
        Reason(code="queue-quotas", message=one.message, next_step=correct + one.queue) for one in faults
    )
