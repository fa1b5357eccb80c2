"""Volcano's actions. Their order in the file means nothing to us: a cycle has one order."""

from __future__ import annotations

from typing import Final

from services.scheduler.core.configuration.terms import Action, Argument, Stand, flag
from services.scheduler.core.configuration.values import DURATION, INTERVAL, number, whole

_EFFORT: Final = "every node and victim is looked at"


def _effort(name: str, default: int) -> Argument:
    return Argument(name, whole(0), default, "how far is searched", Stand.NEEDLESS, why=_EFFORT)


_CACHE: Final = flag(
    "predicateErrorCacheEnable", "keep refusals", default=True, stand=Stand.NEEDLESS, why="always kept"
)

ACTIONS: Final = (
    Action("enqueue", "gangs are let into their queue", Stand.ALWAYS, "by the decision that places them"),
    Action("allocate", "gangs are placed where there is room", Stand.ALWAYS, arguments=(_CACHE,)),
    Action("backfill", "pods that ask for nothing are placed", Stand.ALWAYS),
    Action(
        "preempt",
        "gangs take the room of gangs of lower priority in their queue",
        arguments=(
            _CACHE,
            flag(
                "enableTopologyAwarePreemption",
                "simulate before evicting",
                default=False,
                stand=Stand.NEEDLESS,
                why="always simulated",
            ),
            _effort("topologyAwarePreemptWorkerNum", 16),
            _effort("minCandidateNodesPercentage", 10),
            _effort("minCandidateNodesAbsolute", 1),
            _effort("maxCandidateNodesAbsolute", 100),
        ),
    ),
    Action(
        "reclaim",
        "queues take back what they deserve from others that have more",
        arguments=(_CACHE,),
    ),
    Action(
        "gangpreempt",
        "as preempt, whole gangs for whole gangs",
        arguments=(
            _effort("maxDomains", 8),
            flag("allowWholeBundle", "evict gangs below their minimum", default=True),
        ),
    ),
    Action(
        "gangreclaim",
        "as reclaim, whole gangs for whole gangs",
        arguments=(
            _effort("maxDomains", 8),
            flag("allowWholeBundle", "evict gangs below their minimum", default=True),
        ),
    ),
    Action("shuffle", "pods are evicted as tdm and rescheduling say"),
    Action(
        "defragment",
        "gangs move if each has room elsewhere and one that waits then starts (Pumice's own, not Volcano's)",
        arguments=(
            Argument("after", DURATION, "5m", "how long a gang waits before others move for it"),
            Argument("period", INTERVAL, "1m", "between two looks"),
            Argument(
                "threshold",
                number(0, 1),
                0,
                "part of what is free of the scarcest thing, that has to be where no pod of the gang fits",
            ),
            Argument("mostPods", whole(1), 64, "pods that move for one gang"),
            Argument("rest", DURATION, "30m", "how long a pod stays where it came to"),
        ),
    ),
)
