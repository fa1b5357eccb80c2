"""Volcano's plugins for who comes first, who gets how much, and who may be made to leave."""

from __future__ import annotations

from typing import Final

from services.scheduler.core.configuration.asking import EXTENDER
from services.scheduler.core.configuration.rescheduling import RESCHEDULING
from services.scheduler.core.configuration.terms import Argument, Plugin, Stand, Vote, flag
from services.scheduler.core.configuration.values import (
    DURATION,
    HOURS,
    INTERVAL,
    number,
    whole,
)

_ALWAYS: Final = Vote(Stand.ALWAYS)
_NO_ENTRY: Final = Vote(Stand.NEEDLESS, "a gang is let in by the decision that places it")
_LATER: Final = "not done yet"
_DESERVED: Final = Vote(
    Stand.NEEDLESS, "room that nobody asks for is nobody's: what a queue deserves says who comes first"
)
_NO_SHARES: Final = Vote(
    Stand.NEEDLESS, "shares say who comes first, and between queues what may be taken back"
)
_WHOLE: Final = Vote(Stand.NEEDLESS, "a gang is decided when all that it needs is there")
_MINIMUM: Final = Vote(Stand.NEEDLESS, "nobody is evicted for members beyond a minimum")
_NO_BOUND: Final = {"enabledOverused": _DESERVED, "enabledAllocatable": _DESERVED}

PLUGINS: Final = (
    Plugin(
        "priority",
        "in a queue, gangs of higher priority come first",
        votes={
            "enableJobOrder": Vote(),
            "enableTaskOrder": _ALWAYS,
            "enabledSubJobOrder": _ALWAYS,
            "enablePreemptable": _ALWAYS,
            "enableJobStarving": _ALWAYS,
        },
    ),
    Plugin(
        "gang",
        "the minimum of a gang, or none of it; gangs that lost members come first; with enablePreemptable or "
        "enableReclaimable, only members beyond a gang's minimum are evicted",
        Stand.ALWAYS,
        votes={
            "enableJobOrder": _ALWAYS,
            "enableJobReady": _ALWAYS,
            "enableJobPipelined": _ALWAYS,
            "enableJobStarving": _ALWAYS,
            "enabledSubJobReady": _ALWAYS,
            "enabledSubJobPipelined": _ALWAYS,
            "enabledSubJobOrder": _ALWAYS,
            "enablePreemptable": Vote(),
            "enableReclaimable": Vote(),
        },
    ),
    Plugin(
        "conformance",
        "pods of kube-system and system-critical pods are never evicted",
        Stand.ALWAYS,
        votes={"enablePreemptable": _ALWAYS, "enableReclaimable": _ALWAYS},
    ),
    Plugin(
        "overcommit",
        "how much more than the cluster has is let into the queues",
        Stand.NEEDLESS,
        "a gang is let in by the decision that places it, so nothing is let in beyond what there is",
        votes={"enableJobEnqueued": _NO_ENTRY},
        arguments=(Argument("overcommit-factor", number(0), 1.2, "times the cluster", Stand.NEEDLESS),),
    ),
    Plugin(
        "drf",
        "in a queue, gangs that hold less of the cluster come first; with enableHierarchy, queues too",
        votes={
            "enableJobOrder": Vote(),
            "enableHierarchy": Vote(),
            "enableQueueOrder": Vote(),
            "enablePreemptable": _NO_SHARES,
            "enableReclaimable": _NO_SHARES,
        },
    ),
    Plugin(
        "proportion",
        "queues share by weight, none getting more than it asks for; parents do not count",
        votes={"enableQueueOrder": Vote(), "enableJobEnqueued": _NO_ENTRY, **_NO_BOUND},
    ),
    Plugin(
        "capacity",
        "queues share by what they deserve, up to their capability; with enableHierarchy, at every level",
        votes={
            "enableQueueOrder": Vote(),
            "enableHierarchy": Vote(),
            "enableJobEnqueued": _NO_ENTRY,
            **_NO_BOUND,
        },
        arguments=(
            Argument(
                "ancestorReclaimLevel",
                whole(0),
                0,
                "how many levels up a queue counts as its parents' child when it takes back",
                Stand.NEEDLESS,
                why="every level is looked at",
            ),
            flag(
                "capacity.DynamicResourceAllocationEnable",
                "quotas count devices of resource claims, as `deviceclass/NAME`",
                default=True,
                stand=Stand.ALWAYS,
                harmless=(True,),
            ),
            flag(
                "capacity.DRAConsumableCapacityEnable",
                "count shared capacity of devices",
                default=False,
                stand=Stand.REFUSED,
                harmless=(False,),
                why=_LATER,
            ),
        ),
    ),
    Plugin(
        "sla",
        "in a queue, gangs that should have started the soonest come first",
        votes={
            "enableJobOrder": Vote(),
            "enableJobEnqueued": _NO_ENTRY,
            "enableJobPipelined": Vote(Stand.NEEDLESS, "nobody is kept from being placed"),
        },
        arguments=(
            Argument(
                "sla-waiting-time", DURATION, None, "for how long gangs wait at most that do not say it"
            ),
        ),
    ),
    Plugin(
        "resourcequota",
        "a gang that its namespace's ResourceQuota forbids is not let in",
        Stand.REFUSED,
        "quotas are the API server's to enforce: it refuses the pods, and the gang's reason says so",
    ),
    Plugin("pdb", "PodDisruptionBudgets are kept"),
    Plugin("cdp", "no eviction within a pod's cooldown time"),
    Plugin(
        "tdm",
        "preemptable pods on nodes of a zone during some hours; with shuffle they are evicted when these end",
        votes={
            "enablePredicate": Vote(),
            "enableNodeOrder": Vote(),
            "enablePreemptable": Vote(),
            "enabledVictim": Vote(),
            "enableJobOrder": Vote(),
            "enableJobPipelined": _WHOLE,
            "enableJobStarving": _MINIMUM,
        },
        arguments=(
            Argument("tdm.revocable-zone.", HOURS, None, "hours of a zone, HH:MM-HH:MM in UTC"),
            Argument("tdm.evict.period", INTERVAL, "1m", "how often pods are evicted outside of them"),
        ),
    ),
    RESCHEDULING,
    EXTENDER,
)
"""In the order in which they are told."""
