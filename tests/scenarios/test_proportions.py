"""What pods leave free beside scarce resources that they do not need (``proportional``), as scenarios."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.scheduler.core.policy import Policy, Proportion
from tests.scenarios.scenario import (
    GI,
    GPU,
    RUNNING,
    Scenario,
    finishes,
    job,
    node,
    other,
    placed,
    queue,
    submits,
    task,
    uses,
    waits,
)
from tests.scenarios.world import World

FOUR = Policy(proportions=(Proportion(GPU, 4000.0, 8.0 * GI),))
"""Four cores and 8 GiB beside each idle GPU."""


SCENARIOS = [
    Scenario(
        "pods without a GPU leave what the idle ones will need",
        nodes=[node("n1", gpu=4, cpu=20, memory=256)],
        jobs=[job("web", replicas=8, gang=1, cpu=1)],
        policy=FOUR,
        expect={"web": placed(4)},
    ),
    Scenario(
        "memory is left as CPU is",
        nodes=[node("n1", gpu=4, cpu=64, memory=40)],
        jobs=[job("web", replicas=8, gang=1, cpu=1, memory=2)],
        policy=FOUR,
        expect={"web": placed(4)},
    ),
    Scenario(
        "where too little is left already, none comes, though it asks for nothing of it",
        nodes=[node("n1", gpu=4, cpu=15)],
        jobs=[job("web", gang=1, cpu=0, memory=1)],
        policy=FOUR,
        expect={"web": waits("no-room")},
    ),
    Scenario(
        "a GPU in use keeps nothing",
        nodes=[node("n1", gpu=4, cpu=20)],
        pods=[other("o", "n1", gpu=4, cpu=4)],
        jobs=[job("web", replicas=16, gang=1, cpu=1)],
        policy=FOUR,
        expect={"web": placed(16)},
    ),
    Scenario(
        "a gang that takes the GPUs makes room for one that waits",
        nodes=[node("n1", gpu=4, cpu=20)],
        jobs=[job("web", gang=8, cpu=1)],
        then=[submits(job("train", gang=4, gpu=1, cpu=2, at=1))],
        policy=FOUR,
        expect={"web": RUNNING, "train": RUNNING},
    ),
    Scenario(
        "and one that gives them back leaves those that run",
        nodes=[node("n1", gpu=4, cpu=20)],
        jobs=[job("train", gang=4, gpu=1, cpu=2), job("web", gang=8, cpu=1, at=1)],
        then=[finishes("train"), submits(job("more", gang=1, cpu=1, at=2))],
        policy=FOUR,
        expect={
            "web": RUNNING,
            "more": waits(
                "no-room", "0 of 1 nodes have 1 cpu free", "beside what is kept for idle nvidia.com/gpu"
            ),
        },
    ),
    Scenario(
        "pods that ask for a GPU take what is left for them",
        nodes=[node("n1", gpu=4, cpu=16)],
        jobs=[job("train", gang=4, gpu=1, cpu=4)],
        policy=FOUR,
        expect={"train": RUNNING},
    ),
    Scenario(
        "a gang of both kinds is placed whole",
        nodes=[node("n1", gpu=2, cpu=10)],
        jobs=[job("train", task("driver", 2, cpu=3), task("worker", 2, gpu=1, cpu=2))],
        policy=FOUR,
        expect={"train": waits("no-room")},
    ),
    Scenario(
        "nodes without GPUs are for everybody",
        nodes=[node("n1", gpu=4, cpu=16), node("n2", cpu=16)],
        jobs=[job("web", gang=16, cpu=1)],
        policy=FOUR,
        expect={"web": placed(n2=16)},
    ),
    Scenario(
        "a policy that keeps nothing any more starts what waits",
        nodes=[node("n1", gpu=4, cpu=16)],
        jobs=[job("web", gang=1, cpu=1)],
        then=[uses(Policy())],
        policy=FOUR,
        expect={"web": RUNNING},
    ),
    Scenario(
        "a policy that keeps something holds for what waits",
        nodes=[node("n1", gpu=4, cpu=20)],
        jobs=[job("web", gang=5, cpu=5)],
        then=[uses(FOUR), submits(job("small", gang=1, cpu=5, at=1))],
        expect={"web": waits("gang-too-large"), "small": waits("no-room")},
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
def test_proportions(scenario: Scenario) -> None:
    scenario.run()


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 24), st.integers(0, 4)), min_size=1, max_size=4),
    st.integers(0, 4),
    st.integers(0, 3),
)
def test_as_many_pods_run_as_leave_enough(nodes: list[tuple[int, int, int]], each: int, asked: int) -> None:
    """One pod after the other, as long as a node has what it asks for beside what is kept there."""
    world = World(Policy(proportions=(Proportion(GPU, each * 1000.0, 0.0),)))
    world.queue(queue("default"))
    fits = 0
    for number, (gpus, cores, used) in enumerate(nodes):
        world.node(node(f"n{number}", gpu=gpus, cpu=cores, pods=6))
        taken = used if used <= min(gpus, cores) else 0
        if taken:
            world.pod(other(f"o{number}", f"n{number}", gpu=taken, cpu=taken))
        left, room = cores - taken, 6 - min(taken, 1)
        while room and left - asked >= (gpus - taken) * each:
            left, room, fits = left - asked, room - 1, fits + 1
    world.submit(job("web", replicas=30, gang=0, cpu=asked))
    world.settle()
    assert sum(pod.node is not None and pod.gang == "web" for pod in world.books.pods.values()) == fits
