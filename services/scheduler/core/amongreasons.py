"""Why a gang finds no room although nodes have it: what its pods ask of others, or share with them."""

from __future__ import annotations

from services.scheduler.core.kin import Allowance
from services.scheduler.core.lanes import NoRoom
from services.scheduler.core.model import Model
from shared.events.contracts import Reason


def among_pods(model: Model, stop: NoRoom) -> Reason:
    """Say that there is room, but not where pods may be for what they ask of others, or others of them."""
    kin = stop.shape.kin
    taken = () if kin is None else tuple(filter(model.nodes.volumes.is_mounted, kin.alone))
    if kin is not None and kin.alone and (taken or stop.need > 1):
        claim = (taken or kin.alone)[0]
        return Reason(
            code="claim-in-use",
            message=f"claim {claim} is ReadWriteOncePod: one pod at a time mounts it, and "
            + ("one does" if taken else f"{stop.need} are to start together"),
            numbers={"claim": claim, "needed": stop.need},
            next_step="wait for the pod that mounts it to end" if taken else "give each pod its own claim",
        )
    limit = _allowance(model, stop)
    if limit is not None:
        return limit
    return Reason(
        code="no-room-among-pods",
        message=f"affinity, anti-affinity or spread leaves places for {stop.fits} of {stop.need} pods with "
        f"{stop.shape.describe(model.resources)}",
        numbers={"fits": stop.fits, "needed": stop.need},
        next_step="wait for other pods to start or end, or ask less of them",
    )


def _allowance(model: Model, stop: NoRoom) -> Reason | None:
    """Say what a queue may have of groups of nodes, if that is too little for all the pods together."""
    shape = stop.shape
    limits = None if shape.lot is None else shape.lot.limits
    if limits is None or shape.kin is None or shape.between is None:
        return None
    for allowance in shape.kin.allowances:
        asked = allowance.amount * stop.need
        left, _ = shape.between.left(allowance)
        for code, group in enumerate(model.nodes.label(allowance.key).values):
            if group is None or group not in allowance.most or left[code] >= asked:
                continue
            return _beyond(model, limits.queue, group, allowance, asked, int(left[code]))
    return None


def _beyond(model: Model, queue: str, group: str, allowance: Allowance, asked: int, left: int) -> Reason:
    def say(amount: int) -> str:
        return model.resources.describe(allowance.resource, amount)

    most = allowance.most[group]
    never = asked > most
    return Reason(
        code="node-group-limit",
        message=f"queue {queue} may use {say(most)} of the nodes of group {group}: {say(most - left)} are "
        f"used, this needs {say(asked)}" + (", more than it may ever use" if never else ""),
        numbers={
            "resource": model.resources.names[allowance.resource],
            "group": group,
            "limit": most,
            "used": most - left,
            "needed": asked,
        },
        next_step=f"ask for less, or raise the queue's limit for group {group}"
        if never
        else f"wait for other jobs of the queue to end, or raise its limit for group {group}",
    )
