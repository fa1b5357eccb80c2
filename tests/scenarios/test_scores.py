"""Which of the nodes with room is the best, and which of its GPUs, as scenarios."""

from __future__ import annotations

from dataclasses import replace

import pytest

from services.scheduler.core.policy import (
    FitRule,
    Fragmentation,
    Policy,
    Scarce,
    Scores,
    StrategyFit,
    TypicalPod,
)
from tests.scenarios.scenario import (
    GPU,
    PENDING,
    RUNNING,
    Scenario,
    job,
    node,
    other,
    placed,
    shape,
    submits,
    waits,
)

NONE = Scores(binpack_weight=0.0, node_affinity_weight=0.0, taint_weight=0.0, fragmentation=None)
SPREAD = Policy(scores=Scores(binpack_weight=0.0, least_requested_weight=1.0))
BALANCED = Policy(scores=Scores(binpack_weight=0.0, balanced_weight=1.0))
FIT = Policy(
    scores=Scores(
        binpack_weight=0.0,
        strategy_fit=StrategyFit(10.0, (FitRule("cpu"), FitRule("nvidia.com/*", most=True, weight=2.0))),
    )
)
WHOLES = Policy(scores=Scores(fragmentation=Fragmentation(typical=(TypicalPod(shape(part=1000)),))))

TERMS = [
    Scenario(
        "binpack fills the node that is used the most",
        nodes=[node("n1", gpu=8), node("n2", gpu=8)],
        pods=[other("o", "n2", gpu=4)],
        jobs=[job("train", gang=4, gpu=1)],
        expect={"train": placed(n2=4)},
    ),
    Scenario(
        "least requested gives each node its turn",
        nodes=[node("n1"), node("n2"), node("n3")],
        jobs=[job("train", gang=6, cpu=4)],
        policy=SPREAD,
        expect={"train": placed(n1=2, n2=2, n3=2)},
    ),
    Scenario(
        "spread pods go first where most is free",
        nodes=[node("n1"), node("n2")],
        pods=[other("o", "n1", cpu=32, memory=128)],
        jobs=[job("train", gang=3, cpu=4)],
        policy=SPREAD,
        expect={"train": placed(n2=3)},
    ),
    Scenario(
        "balanced use sends a pod of much CPU where memory is used",
        nodes=[node("n1"), node("n2")],
        pods=[other("o", "n2", cpu=1, memory=128)],
        jobs=[job("train", gang=1, cpu=32)],
        policy=BALANCED,
        expect={"train": placed(n2=1)},
    ),
    Scenario(
        "one resource can be packed and another spread: GPUs packed",
        nodes=[node("n1", gpu=8), node("n2", gpu=8)],
        pods=[other("o", "n2", gpu=2)],
        jobs=[job("train", gang=2, gpu=2)],
        policy=FIT,
        expect={"train": placed(n2=2)},
    ),
    Scenario(
        "one resource can be packed and another spread: CPU spread",
        nodes=[node("n1", gpu=8), node("n2", gpu=8)],
        pods=[other("o", "n2", cpu=8)],
        jobs=[job("train", gang=1, cpu=4)],
        policy=FIT,
        expect={"train": placed(n1=1)},
    ),
    Scenario(
        "pods that need no scarce resource go first where there is none of it",
        nodes=[node("n1", gpu=8), node("n2")],
        jobs=[job("train", gang=2, cpu=32), job("more", gang=1, cpu=32, at=1)],
        policy=Policy(scores=replace(NONE, scarce=Scarce(1.0, ((GPU, 1.0),)))),
        expect={"train": placed(n2=2), "more": placed(n1=1)},
    ),
    Scenario(
        "without any score the first name is taken",
        nodes=[node("n2"), node("n1")],
        jobs=[job("train", gang=2)],
        policy=Policy(scores=NONE),
        expect={"train": placed(n1=2)},
    ),
]

DEVICES = [
    Scenario(
        "pods share a GPU as long as parts are left",
        nodes=[node("n1", shared=1)],
        jobs=[job("two", gang=2, part=500), job("third", gang=1, part=100, at=1)],
        expect={"two": RUNNING, "third": PENDING},
    ),
    Scenario(
        "a part of one GPU is not made of the rests of two",
        nodes=[node("n1", shared=2)],
        jobs=[job("two", gang=2, part=600), job("third", gang=1, part=500, at=1)],
        expect={
            "two": RUNNING,
            "third": waits(
                "no-room",
                "50% of a GPU",
                "0 fit now; 1 GPU with that much free is needed, 0 of 1 nodes have as many, "
                "and the most on one node is 0",
            ),
        },
    ),
    Scenario(
        "a pod of whole GPUs gets those that nobody uses, all on one node",
        nodes=[node("n1", shared=2), node("n2", shared=2)],
        jobs=[job("part", gang=1, part=100), job("wholes", gang=1, part=1000, parts=2, at=1)],
        expect={"part": placed(n1=1), "wholes": placed(n2=1)},
    ),
    Scenario(
        "a gang that shares GPUs is placed whole or not at all",
        nodes=[node("n1", shared=1)],
        jobs=[job("three", gang=3, part=400)],
        expect={"three": waits("gang-too-large", "1 of 1 nodes would hold 2 of them")},
    ),
    Scenario(
        "small parts share the GPU that is broken already where whole ones are wanted",
        nodes=[node("n1", shared=1), node("n2", shared=1)],
        jobs=[job("first", gang=1, part=300)],
        policy=WHOLES,
        then=[submits(job("second", gang=1, part=300, at=1)), submits(job("whole", gang=1, part=1000, at=2))],
        expect={"first": RUNNING, "second": RUNNING, "whole": RUNNING},
    ),
    Scenario(
        "parts that fill a GPU between them share it, and leave the GPU of the other node whole",
        nodes=[node("n1", cpu=32, shared=1), node("n2", cpu=32, shared=1)],
        jobs=[job("first", gang=1, part=500)],
        policy=WHOLES,
        then=[submits(job("second", gang=1, part=500, at=1)), submits(job("whole", gang=1, part=1000, at=2))],
        expect={"first": RUNNING, "second": RUNNING, "whole": RUNNING},
    ),
    Scenario(
        "pods without GPU keep off the CPU beside free GPUs",
        nodes=[node("a-gpu", cpu=32, shared=2), node("b-cpu", cpu=32)],
        jobs=[job("plain", gang=4, cpu=4)],
        expect={"plain": placed(**{"b-cpu": 4})},
    ),
    Scenario(
        "a pod goes where the CPU is too little for the pods that want a whole GPU",
        nodes=[node("a", cpu=32, shared=1), node("b", cpu=5, shared=1)],
        jobs=[job("small", gang=1, cpu=2, part=300)],
        policy=Policy(
            scores=Scores(
                fragmentation=Fragmentation(cpu_weight=0.0, typical=(TypicalPod(shape(cpu=16, part=1000)),))
            )
        ),
        expect={"small": placed(b=1)},
    ),
]


@pytest.mark.parametrize("scenario", [*TERMS, *DEVICES], ids=lambda scenario: scenario.name)
def test_nodes_and_devices(scenario: Scenario) -> None:
    scenario.run()
