"""Who waits for how long, by example: a gang that waited for long gets room, others run in its shadow.

Nodes have 4 GPUs. A gang is late after five minutes, and reservations have a margin of half a minute.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from services.scheduler.core.policy import Backfill, Policy
from shared.events import contracts as c
from tests.scenarios.scenario import (
    PENDING,
    RUNNING,
    Scenario,
    finishes,
    job,
    node,
    passes,
    placed,
    queue,
    removes,
    submits,
)

LATE = 301
"""Seconds after which a gang that waits from the beginning is late."""


def small(name: str, gpu: int = 1, **wants: object) -> c.Gang:
    return job(name, **{"gang": 1, "gpu": gpu, **wants})  # type: ignore[arg-type]


def large(name: str = "large", nodes: int = 1, **wants: object) -> c.Gang:
    return job(name, **{"gang": nodes, "gpu": 4, **wants})  # type: ignore[arg-type]


def choosing(**choices: object) -> Policy:
    """The default policy, but for these choices about backfill."""
    return Policy(backfill=replace(Backfill(), **choices))  # type: ignore[arg-type]


ONE = [node("n1", gpu=4)]
TWO = [node("n1", gpu=4), node("n2", gpu=4)]
HALF = [small("first", 2, runs=3600), small("second", 2, runs=1800)]
"""They fill a node; the first of them ends after an hour."""

CASES = [
    Scenario(
        "what becomes free is kept for a gang that has waited for too long",
        nodes=ONE,
        jobs=[*HALF, large()],
        then=[passes(LATE), finishes("second"), submits(small("late", at=LATE))],
        expect={"large": PENDING, "late": PENDING},
    ),
    Scenario(
        "nothing is kept for a gang that has not waited for long, once its hold is over",
        nodes=ONE,
        jobs=[*HALF, large()],
        then=[passes(LATE), finishes("second"), submits(small("late", at=LATE))],
        policy=replace(choosing(threshold=timedelta(hours=1))),
        expect={"large": PENDING, "late": RUNNING},
    ),
    Scenario(
        "without backfill nothing is reserved",
        nodes=ONE,
        jobs=[*HALF, large()],
        then=[passes(LATE), finishes("second"), submits(small("late", at=LATE))],
        policy=choosing(enabled=False),
        expect={"large": PENDING, "late": RUNNING},
    ),
    Scenario(
        "the reserved gang starts when all its room is free",
        nodes=ONE,
        jobs=[*HALF, large()],
        then=[passes(LATE), finishes("second"), submits(small("late", at=LATE)), finishes("first")],
        expect={"large": RUNNING, "late": PENDING},
    ),
    Scenario(
        "a gang that ends before the reserved one starts runs in its shadow",
        nodes=ONE,
        jobs=[*HALF, large()],
        then=[passes(LATE), finishes("second"), submits(small("short", at=LATE, runs=3600 - LATE - 30))],
        expect={"large": PENDING, "short": RUNNING},
    ),
    Scenario(
        "a gang that would end after the reserved one starts does not",
        nodes=ONE,
        jobs=[*HALF, large()],
        then=[passes(LATE), finishes("second"), submits(small("long", at=LATE, runs=3600 - LATE - 29))],
        expect={"large": PENDING, "long": PENDING},
    ),
    Scenario(
        "nobody runs in the shadow of a start that nobody knows",
        nodes=ONE,
        jobs=[small("first", 2), small("second", 2), large()],
        then=[passes(LATE), finishes("second"), submits(small("short", at=LATE, runs=1))],
        expect={"large": PENDING, "short": PENDING},
    ),
    Scenario(
        "of the same lane the short gang passes the long one",
        nodes=ONE,
        jobs=[*HALF, large(), small("long", 2, at=1, runs=9999), small("short", 2, at=2, runs=60)],
        then=[passes(LATE + 1), finishes("second")],
        expect={"large": PENDING, "long": PENDING, "short": RUNNING},
    ),
    Scenario(
        "room that the reserved gang will not need is anybody's",
        nodes=[node("n1", gpu=6)],
        jobs=[small("first", 4, runs=3600), small("second", 2, runs=7200), large("large", gpu=4)],
        then=[passes(LATE), finishes("second"), submits(small("other", 2, at=LATE))],
        expect={"large": PENDING, "other": RUNNING},
    ),
    Scenario(
        "nodes that are not reserved are anybody's",
        nodes=TWO,
        jobs=[*HALF, small("third", 2, runs=99999), small("fourth", 2, runs=99999), large()],
        then=[passes(LATE), finishes("third"), submits(small("other", 1, at=LATE))],
        expect={"large": PENDING, "other": placed(n2=1)},
    ),
    Scenario(
        "the nodes where it can start the soonest are reserved",
        nodes=TWO,
        jobs=[small("long", 4, runs=7200), small("soon", 4, runs=3600, at=1), large()],
        then=[passes(LATE), finishes("long"), submits(small("other", 4, at=LATE))],
        expect={"large": placed(n1=1), "other": PENDING},
    ),
    Scenario(
        "a gang of a higher priority in the same queue uses reserved room",
        nodes=ONE,
        jobs=[small("first", 2, runs=3600), small("second", 2, runs=1800), large()],
        then=[passes(LATE), finishes("second"), submits(small("urgent", 2, at=LATE, priority=9))],
        expect={"large": PENDING, "urgent": RUNNING},
    ),
    Scenario(
        "a gang of another queue does not use reserved room",
        nodes=ONE,
        queues=[queue("default"), queue("other")],
        jobs=[*HALF, large()],
        then=[passes(LATE), finishes("second"), submits(small("late", at=LATE, queue="other"))],
        expect={"large": PENDING, "late": PENDING},
    ),
    Scenario(
        "a gang that could never fit gets no reservation",
        nodes=ONE,
        jobs=[*HALF, large(nodes=2)],
        then=[passes(LATE), finishes("second"), submits(small("late", at=LATE))],
        expect={"large": PENDING, "late": RUNNING},
    ),
    Scenario(
        "a reservation is made anew when its nodes go",
        nodes=TWO,
        jobs=[small("a", 4, runs=3600), small("b", 4, runs=7200, at=1), large()],
        then=[passes(LATE), removes("n1"), finishes("b"), submits(small("late", at=LATE))],
        expect={"large": placed(n2=1), "late": PENDING},
    ),
    Scenario(
        "nobody waits for a gang that is gone",
        nodes=ONE,
        jobs=[*HALF, large()],
        then=[passes(LATE), finishes("second"), submits(small("late", at=LATE)), finishes("large")],
        expect={"late": RUNNING},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_scenario(case: Scenario) -> None:
    case.run()
