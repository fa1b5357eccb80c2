"""Nodes that have a pod's images (kube-scheduler's ``ImageLocality``), as scenarios."""

from __future__ import annotations

import pytest

from services.scheduler.core.policy import Policy, Scores
from tests.scenarios.scenario import Scenario, adds, job, node, placed, removes, submits, uses
from tests.scenarios.world import World

NEAR = Policy(scores=Scores(binpack_weight=0.0, image_weight=1.0))
FAR = Policy(scores=Scores(binpack_weight=0.0))


SCENARIOS = [
    Scenario(
        "a pod runs where its image is",
        nodes=[node("n1"), node("n2", images={"train:1": 800})],
        jobs=[job("a", gang=2, images=["train:1"])],
        policy=NEAR,
        expect={"a": placed(n2=2)},
    ),
    Scenario(
        "where more of its images are",
        nodes=[node("n1", images={"train:1": 300, "init:1": 300}), node("n2", images={"train:1": 500})],
        jobs=[job("a", gang=1, images=["init:1", "train:1"])],
        policy=NEAR,
        expect={"a": placed(n2=1)},
    ),
    Scenario(
        "an image that one of many nodes has counts little",
        nodes=[
            node("n1", images={"wide:1": 300}),
            node("n2", images={"rare:1": 500}),
            node("n3", images={"wide:1": 300}),
        ],
        jobs=[job("a", gang=1, images=["rare:1", "wide:1"])],
        policy=NEAR,
        expect={"a": placed(n1=1)},
    ),
    Scenario(
        "other images mean nothing to it",
        nodes=[node("n1"), node("n2", images={"train:2": 800})],
        jobs=[job("a", gang=1, images=["train:1"])],
        policy=NEAR,
        expect={"a": placed(n1=1)},
    ),
    Scenario(
        "jobs that differ in their images alone go to different nodes",
        nodes=[node("n1", images={"x:1": 500}), node("n2", images={"y:1": 500})],
        jobs=[job("a", gang=1, images=["x:1"]), job("b", gang=1, at=1, images=["y:1"])],
        policy=NEAR,
        expect={"a": placed(n1=1), "b": placed(n2=1)},
    ),
    Scenario(
        "an image that a node has got since counts",
        nodes=[node("n1"), node("n2")],
        jobs=[job("a", gang=1, images=["x:1"])],
        then=[adds(node("n2", images={"x:1": 500})), submits(job("b", gang=1, at=1, images=["x:1"]))],
        policy=NEAR,
        expect={"a": placed(n1=1), "b": placed(n2=1)},
    ),
    Scenario(
        "what a node had that is gone does not count",
        nodes=[node("n1"), node("n2", images={"x:1": 500})],
        then=[removes("n2"), adds(node("n2")), submits(job("a", gang=1, images=["x:1"]))],
        policy=NEAR,
        expect={"a": placed(n1=1)},
    ),
    Scenario(
        "without a weight images mean nothing",
        nodes=[node("n1"), node("n2", images={"x:1": 500})],
        jobs=[job("a", gang=1, images=["x:1"])],
        policy=FAR,
        expect={"a": placed(n1=1)},
    ),
    Scenario(
        "jobs that wait are told apart by their images when a policy asks for it",
        nodes=[node("n1", gpu=8), node("n2", gpu=8)],
        jobs=[
            job("full", gang=2, gpu=8),
            job("a", gang=1, gpu=2, at=1, images=["x:1"]),
            job("b", gang=1, gpu=2, at=2, images=["y:1"]),
        ],
        then=[
            uses(NEAR),
            adds(node("n1", gpu=8, images={"y:1": 500}), node("n2", gpu=8, images={"x:1": 500})),
            lambda world: world.remove_gang(("ns", "full")),
        ],
        policy=FAR,
        expect={"a": placed(n2=1), "b": placed(n1=1)},
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_images(scenario: Scenario) -> None:
    scenario.run()


def test_shapes_that_differ_in_their_images_alone_are_one_where_these_mean_nothing() -> None:
    for policy, count in ((FAR, 1), (NEAR, 2)):
        world = World(policy)
        for image in ("x:1", "y:1"):
            world.submit(job(image[0], gang=1, images=[image]))
        assert len(world.model.shapes.by_number) == count
