"""Queues, as scenarios: trees, shares, guarantees, the order of queues and of gangs in them."""

from __future__ import annotations

import pytest

from tests.scenarios.scenario import (
    PENDING,
    RUNNING,
    Scenario,
    finishes,
    job,
    node,
    placed,
    queue,
    sets,
    submits,
    waits,
)

GUARANTEES = [
    Scenario(
        "nobody takes what another queue is guaranteed",
        nodes=[node("n1", gpu=8)],
        queues=[queue("prod", guarantee={"gpu": 3}), queue("lab")],
        jobs=[job("first", gang=5, gpu=1, queue="lab"), job("second", gang=1, gpu=1, queue="lab", at=1)],
        expect={
            "first": RUNNING,
            "second": waits(
                "kept-for-guarantees",
                "needs 1 nvidia.com/gpu: 3 nvidia.com/gpu are free, 3 nvidia.com/gpu of them kept for the "
                "guarantees of prod",
            ),
        },
    ),
    Scenario(
        "a queue takes its own guarantee at any time",
        nodes=[node("n1", gpu=8)],
        queues=[queue("prod", guarantee={"gpu": 3}), queue("lab")],
        jobs=[job("first", gang=5, gpu=1, queue="lab")],
        then=[submits(job("second", gang=3, gpu=1, queue="prod", at=1))],
        expect={"first": RUNNING, "second": RUNNING},
    ),
    Scenario(
        "beyond its own guarantee a queue keeps off that of others",
        nodes=[node("n1", gpu=8)],
        queues=[queue("prod", guarantee={"gpu": 3}), queue("lab", guarantee={"gpu": 2})],
        jobs=[job("first", gang=5, gpu=1, queue="lab"), job("second", gang=1, gpu=1, queue="lab", at=1)],
        expect={"first": RUNNING, "second": waits("kept-for-guarantees")},
    ),
    Scenario(
        "surplus stops where another's guarantee begins",
        nodes=[node("n1", gpu=8)],
        queues=[queue("prod", guarantee={"gpu": 3}), queue("lab")],
        jobs=[job("train", gang=2, replicas=8, gpu=1, queue="lab")],
        expect={"train": placed(5)},
    ),
    Scenario(
        "surplus that a guarantee stopped goes on when the guarantee is taken back",
        nodes=[node("n1", gpu=8)],
        queues=[queue("prod", guarantee={"gpu": 3}), queue("lab")],
        jobs=[job("train", gang=2, replicas=8, gpu=1, queue="lab")],
        then=[sets(queue("prod"))],
        expect={"train": placed(8)},
    ),
    Scenario(
        "what a guarantee kept is free for others when its queue closes",
        nodes=[node("n1", gpu=8)],
        queues=[queue("prod", guarantee={"gpu": 3}), queue("lab")],
        jobs=[job("train", gang=8, gpu=1, queue="lab")],
        then=[sets(queue("prod", guarantee={"gpu": 3}, state="Closed"))],
        expect={"train": RUNNING},
    ),
    Scenario(
        "a guarantee that its queue uses is kept from nobody",
        nodes=[node("n1", gpu=8)],
        queues=[queue("prod", guarantee={"gpu": 3}), queue("lab")],
        jobs=[job("own", gang=3, gpu=1, queue="prod"), job("train", gang=5, gpu=1, queue="lab", at=1)],
        expect={"own": RUNNING, "train": RUNNING},
    ),
    Scenario(
        "a guarantee that was used is kept again when its jobs end",
        nodes=[node("n1", gpu=8)],
        queues=[queue("prod", guarantee={"gpu": 3}), queue("lab")],
        jobs=[
            job("own", gang=3, gpu=1, queue="prod"),
            job("train", gang=5, gpu=1, queue="lab", at=1),
            job("more", gang=1, gpu=1, queue="lab", at=2),
        ],
        then=[finishes("own")],
        expect={"train": RUNNING, "more": waits("kept-for-guarantees")},
    ),
    Scenario(
        "a guarantee of one resource keeps nobody from another",
        nodes=[node("n1", gpu=8, cpu=16)],
        queues=[queue("prod", guarantee={"cpu": 8}), queue("lab")],
        jobs=[job("gpus", gang=8, gpu=1, cpu=1, queue="lab"), job("cpus", gang=1, cpu=1, queue="lab", at=1)],
        expect={"gpus": RUNNING, "cpus": waits("kept-for-guarantees", "1 cpu")},
    ),
    Scenario(
        "inside a queue with a capability, its children's guarantees are kept",
        nodes=[node("n1", gpu=16)],
        queues=[
            queue("dept", gpu=8),
            queue("prod", parent="dept", guarantee={"gpu": 3}),
            queue("lab", parent="dept"),
            queue("other"),
        ],
        jobs=[
            job("first", gang=5, gpu=1, queue="lab"),
            job("second", gang=1, gpu=1, queue="lab", at=1),
            job("third", gang=5, gpu=1, queue="other", at=2),
        ],
        expect={
            "first": RUNNING,
            "second": waits("queue-guarantees", "queue dept may hold 8 nvidia.com/gpu"),
            "third": RUNNING,
        },
    ),
    Scenario(
        "three levels down a guarantee holds against a queue on the first level",
        nodes=[node("n1", gpu=8)],
        queues=[
            queue("dept"),
            queue("group", parent="dept"),
            queue("prod", parent="group", guarantee={"gpu": 3}),
            queue("lab"),
        ],
        jobs=[job("first", gang=6, gpu=1, queue="lab"), job("second", gang=5, gpu=1, queue="lab", at=1)],
        expect={"first": PENDING, "second": RUNNING},
    ),
    Scenario(
        "a parent's guarantee is for any of its children",
        nodes=[node("n1", gpu=8)],
        queues=[
            queue("dept", guarantee={"gpu": 4}),
            queue("a", parent="dept"),
            queue("b", parent="dept"),
            queue("lab"),
        ],
        jobs=[job("train", gang=4, gpu=1, queue="lab"), job("more", gang=1, gpu=1, queue="lab", at=1)],
        then=[
            submits(job("one", gang=1, gpu=1, queue="a", at=2), job("two", gang=3, gpu=1, queue="b", at=2))
        ],
        expect={"train": RUNNING, "more": PENDING, "one": RUNNING, "two": RUNNING},
    ),
    Scenario(
        "a guarantee that is more than there is keeps all of it, and says so",
        nodes=[node("n1", gpu=4)],
        queues=[queue("prod", guarantee={"gpu": 100}), queue("lab")],
        jobs=[
            job("gpus", gang=1, gpu=1, queue="lab"),
            job("cpus", gang=1, cpu=1, queue="lab"),
            job("own", gang=3, gpu=1, queue="prod", at=1),
        ],
        expect={
            "gpus": waits("kept-for-guarantees", "guarantees of prod"),
            "cpus": RUNNING,
            "own": RUNNING,
        },
    ),
]


@pytest.mark.parametrize("scenario", GUARANTEES, ids=lambda scenario: scenario.name)
def test_scenario(scenario: Scenario) -> None:
    scenario.run()
