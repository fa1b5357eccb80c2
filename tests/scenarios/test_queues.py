"""Queues, as scenarios: trees, shares, guarantees, the order of queues and of gangs in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from services.scheduler.core.policy import Eviction, Policy, Sharing
from shared.events import contracts as c
from tests.scenarios.scenario import (
    GPU,
    PENDING,
    RUNNING,
    Scenario,
    Step,
    adds,
    finishes,
    job,
    loses,
    node,
    other,
    placed,
    queue,
    reports,
    sets,
    submits,
    waits,
)
from tests.scenarios.world import World

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


NOBODY_LEAVES = Policy(eviction=Eviction(preempt=False, reclaim=False))
"""Only the order counts: what is held stays held."""


def by(**sharing: object) -> Policy:
    return replace(NOBODY_LEAVES, sharing=Sharing(**sharing))  # type: ignore[arg-type]


def at_once(*steps: Step) -> Step:
    def step(world: World) -> None:
        for one in steps:
            one(world)

    return step


@dataclass(frozen=True)
class Split:
    """Queues that ask for so many GPUs each, one by one, all at once; and how many each gets."""

    name: str
    queues: Sequence[c.QueueState]
    asks: dict[str, int]
    gets: dict[str, int]
    gpus: int = 8
    policy: Policy = NOBODY_LEAVES
    before: dict[str, int] = field(default_factory=dict)
    """What they hold already, when the others begin to ask."""
    wants: dict[str, dict[str, float]] = field(default_factory=dict)
    """By queue, what one of its pods asks for, if not one GPU and one CPU."""


SPLITS = [
    Split(
        "equal queues take turns",
        [queue("a"), queue("b")],
        {"a": 9, "b": 9},
        {"a": 4, "b": 4},
    ),
    Split(
        "weights divide what all ask for",
        [queue("a", weight=3), queue("b")],
        {"a": 9, "b": 9},
        {"a": 6, "b": 2},
    ),
    Split(
        "what one queue does not ask for flows on to the others by weight",
        [queue("a", weight=6), queue("b", weight=2), queue("c", weight=1)],
        {"a": 2, "b": 9, "c": 9},
        {"a": 2, "b": 4, "c": 2},
    ),
    Split(
        "what one queue may not hold flows on to the others",
        [queue("a", weight=9, gpu=2), queue("b"), queue("c")],
        {"a": 9, "b": 9, "c": 9},
        {"a": 2, "b": 3, "c": 3},
    ),
    Split(
        "a queue that was there first waits until the other has its share",
        [queue("a"), queue("b")],
        {"a": 9, "b": 9},
        {"a": 4, "b": 4},
        before={"a": 3},
    ),
    Split(
        "a queue that holds more than its share gets nothing while another asks",
        [queue("a"), queue("b")],
        {"a": 9, "b": 9},
        {"a": 6, "b": 2},
        before={"a": 6},
    ),
    Split(
        "departments share first, then the queues in them",
        [
            queue("d"),
            queue("e"),
            queue("d-1", parent="d"),
            queue("d-2", parent="d"),
            queue("e-1", parent="e"),
        ],
        {"d-1": 9, "d-2": 9, "e-1": 9},
        {"d-1": 2, "d-2": 2, "e-1": 4},
    ),
    Split(
        "what a queue does not ask for flows on in its department first",
        [
            queue("d"),
            queue("e"),
            queue("d-1", parent="d"),
            queue("d-2", parent="d"),
            queue("e-1", parent="e"),
        ],
        {"d-1": 1, "d-2": 9, "e-1": 9},
        {"d-1": 1, "d-2": 3, "e-1": 4},
    ),
    Split(
        "what a department does not ask for flows on to the others",
        [
            queue("d"),
            queue("e"),
            queue("d-1", parent="d"),
            queue("d-2", parent="d"),
            queue("e-1", parent="e"),
        ],
        {"d-1": 1, "d-2": 1, "e-1": 9},
        {"d-1": 1, "d-2": 1, "e-1": 6},
    ),
    Split(
        "four levels are four divisions",
        [
            queue("d", weight=3),
            queue("e"),
            queue("d-g", parent="d", weight=2),
            queue("d-h", parent="d"),
            queue("d-g-1", parent="d-g", weight=3),
            queue("d-g-2", parent="d-g"),
        ],
        {"d-g-1": 30, "d-g-2": 30, "d-h": 30, "e": 30},
        {"d-g-1": 12, "d-g-2": 4, "d-h": 8, "e": 8},
        gpus=32,
    ),
    Split(
        "a department's capability binds the queues in it together",
        [queue("d", gpu=3), queue("d-1", parent="d", weight=2), queue("d-2", parent="d"), queue("e")],
        {"d-1": 9, "d-2": 9, "e": 9},
        {"d-1": 2, "d-2": 1, "e": 5},
    ),
    Split(
        "a queue gets what it names as deserved, the others the rest by weight",
        [queue("a", deserved={"gpu": 5}), queue("b", weight=2), queue("c")],
        {"a": 9, "b": 9, "c": 9},
        {"a": 5, "b": 2, "c": 1},
    ),
    Split(
        "what is deserved and not asked for flows on",
        [queue("a", deserved={"gpu": 5}), queue("b")],
        {"a": 2, "b": 9},
        {"a": 2, "b": 6},
    ),
    Split(
        "beyond what it deserves a queue borrows what nobody asks for",
        [queue("a", deserved={"gpu": 5}), queue("b")],
        {"a": 9, "b": 1},
        {"a": 7, "b": 1},
    ),
    Split(
        "what is deserved is not lent beyond the borrower's capability",
        [queue("a", deserved={"gpu": 2}, gpu=4), queue("b", deserved={"gpu": 6})],
        {"a": 9, "b": 1},
        {"a": 4, "b": 1},
    ),
    Split(
        "what is guaranteed is lent to nobody",
        [queue("a", deserved={"gpu": 2}), queue("b", deserved={"gpu": 6}, guarantee={"gpu": 4})],
        {"a": 9, "b": 1},
        {"a": 4, "b": 1},
    ),
    Split(
        "queues that all name what they deserve borrow in proportion to it",
        [queue("a", deserved={"gpu": 2}), queue("b", deserved={"gpu": 1}), queue("c", deserved={"gpu": 9})],
        {"a": 20, "b": 20, "c": 0},
        {"a": 8, "b": 4, "c": 0},
        gpus=12,
    ),
    Split(
        "more deserved than there is, is cut in proportion",
        [queue("a", deserved={"gpu": 12}), queue("b", deserved={"gpu": 4})],
        {"a": 20, "b": 20},
        {"a": 6, "b": 2},
    ),
    Split(
        "a department deserves what the queues in it name",
        [queue("d"), queue("d-1", parent="d", deserved={"gpu": 6}), queue("e", weight=9)],
        {"d-1": 9, "e": 9},
        {"d-1": 6, "e": 2},
    ),
    Split(
        "inside a department that names what it deserves, weights divide it",
        [
            queue("d", deserved={"gpu": 6}),
            queue("d-1", parent="d", weight=2),
            queue("d-2", parent="d"),
            queue("e", weight=9),
        ],
        {"d-1": 9, "d-2": 9, "e": 9},
        {"d-1": 4, "d-2": 2, "e": 2},
    ),
    Split(
        "a guarantee is more than its weight would give",
        [queue("a", guarantee={"gpu": 5}), queue("b", weight=9)],
        {"a": 9, "b": 9},
        {"a": 5, "b": 3},
    ),
    Split(
        "the largest of the shares of all resources counts",
        [queue("a"), queue("b")],
        {"a": 20, "b": 20},
        {"a": 4, "b": 4},
        wants={"a": {"gpu": 1, "cpu": 2}, "b": {"gpu": 1, "cpu": 1}},
    ),
    Split(
        "in proportion mode nobody deserves by name",
        [queue("a", deserved={"gpu": 7}), queue("b")],
        {"a": 9, "b": 9},
        {"a": 4, "b": 4},
        policy=by(mode="proportion"),
    ),
    Split(
        "in capacity mode who names nothing comes last",
        [queue("a", deserved={"gpu": 5, "cpu": 32}), queue("b", weight=9)],
        {"a": 7, "b": 9},
        {"a": 7, "b": 1},
        policy=by(mode="capacity"),
    ),
    Split(
        "in drf mode weights divide dominant shares of the cluster, at every level",
        [
            queue("d", weight=3),
            queue("e"),
            queue("d-1", parent="d"),
            queue("d-2", parent="d", weight=2),
        ],
        {"d-1": 9, "d-2": 9, "e": 9},
        {"d-1": 2, "d-2": 4, "e": 2},
        policy=by(mode="drf"),
    ),
    Split(
        "without hierarchy all queues are equals",
        [
            queue("d"),
            queue("e"),
            queue("d-1", parent="d"),
            queue("d-2", parent="d"),
            queue("e-1", parent="e"),
        ],
        {"d-1": 9, "d-2": 9, "e-1": 9},
        {"d-1": 3, "d-2": 3, "e-1": 3},
        gpus=9,
        policy=by(hierarchy=False),
    ),
    Split(
        "a queue of higher priority is served before shares count",
        [queue("a", priority=5), queue("b", weight=9)],
        {"a": 6, "b": 9},
        {"a": 6, "b": 2},
    ),
    Split(
        "a priority counts among the queues below the same one",
        [
            queue("d"),
            queue("e", priority=5),
            queue("d-1", parent="d", priority=100),
            queue("d-2", parent="d"),
            queue("e-1", parent="e"),
        ],
        {"d-1": 2, "d-2": 9, "e-1": 5},
        {"d-1": 2, "d-2": 1, "e-1": 5},
    ),
    Split(
        "priorities of queues count only when the policy compares them",
        [queue("a", priority=5), queue("b")],
        {"a": 9, "b": 9},
        {"a": 4, "b": 4},
        policy=by(queue_order=("share",)),
    ),
    Split(
        "a hundred queues that ask for one each do not take more from a large one",
        [*(queue(f"tiny-{number}") for number in range(100)), queue("large")],
        {**{f"tiny-{number}": 1 for number in range(100)}, "large": 99},
        {**{f"tiny-{number}": 1 for number in range(100)}, "large": 20},
        gpus=120,
    ),
    Split(
        "a loop in the tree stops its own queues and nobody else",
        [queue("a", parent="b"), queue("b", parent="a"), queue("c", parent="b"), queue("d")],
        {"a": 2, "c": 2, "d": 4},
        {"a": 0, "c": 0, "d": 4},
    ),
    Split(
        "a deserved amount beyond the capability counts up to that",
        [queue("a", deserved={"gpu": 7}, gpu=3), queue("b")],
        {"a": 9, "b": 9},
        {"a": 3, "b": 5},
    ),
    Split(
        "guarantees beyond the parent's capability leave the others nothing there",
        [
            queue("d", gpu=4),
            queue("d-1", parent="d", guarantee={"gpu": 6}),
            queue("d-2", parent="d"),
            queue("e"),
        ],
        {"d-1": 9, "d-2": 9, "e": 9},
        {"d-1": 4, "d-2": 0, "e": 2},
    ),
]


@pytest.mark.parametrize("split", SPLITS, ids=lambda split: split.name)
def test_split(split: Split) -> None:
    world = World(split.policy)
    for one in split.queues:
        world.queue(one)
    world.node(node("n1", gpu=split.gpus, cpu=8 * split.gpus, pods=1000))
    for name, count in split.before.items():
        _submit(world, name, "before", count, {"gpu": 1})
    world.settle()
    for name, count in split.asks.items():
        _submit(world, name, "job", count, split.wants.get(name, {"gpu": 1}))
    world.settle()
    held = dict.fromkeys(split.gets, 0)
    for pod in world.books.pods.values():
        held[pod.queue] += pod.shape.requests[GPU]
    assert held == split.gets
    for _ in range(5):
        world.pass_time(0.01)
        assert world.decide() == []


def _submit(world: World, name: str, kind: str, count: int, wants: dict[str, float]) -> None:
    for number in range(count):
        world.submit(job(f"{name}-{kind}-{number}", gang=1, queue=name, **wants))


ORDER = [
    Scenario(
        "who should have started the soonest comes first, whoever is older",
        nodes=[node("n1", gpu=1)],
        jobs=[
            job("old", gang=1, gpu=1, limit=600),
            job("urgent", gang=1, gpu=1, at=5, limit=60),
            job("patient", gang=1, gpu=1, at=-5),
        ],
        expect={
            "urgent": RUNNING,
            "old": waits("no-room", position=1),
            "patient": waits("no-room", position=2),
        },
    ),
    Scenario(
        "a higher priority comes before a sooner deadline",
        nodes=[node("n1", gpu=1)],
        jobs=[job("urgent", gang=1, gpu=1, limit=1), job("high", gang=1, gpu=1, at=5, priority=1)],
        expect={"high": RUNNING, "urgent": PENDING},
    ),
    Scenario(
        "a deadline comes before a priority where the policy says so",
        nodes=[node("n1", gpu=1)],
        jobs=[job("urgent", gang=1, gpu=1, limit=1), job("high", gang=1, gpu=1, at=5, priority=1)],
        policy=by(gang_order=("deadline", "priority")),
        expect={"urgent": RUNNING, "high": PENDING},
    ),
    Scenario(
        "a gang that runs below its minimum comes before a higher priority where the policy says so",
        nodes=[node("n1", gpu=2)],
        jobs=[job("first", gang=2, gpu=1)],
        policy=by(gang_order=("broken", "priority")),
        then=[at_once(loses("first-worker-0"), submits(job("high", gang=1, gpu=1, at=5, priority=1)))],
        expect={"first": RUNNING, "high": PENDING},
    ),
    Scenario(
        "of gangs that could grow, the one that holds the least of the cluster grows first",
        nodes=[node("n1", gpu=9)],
        pods=[other("x", "n1", gpu=3)],
        jobs=[job("large", gang=4, replicas=6, gpu=1), job("small", gang=2, replicas=4, gpu=1, at=5)],
        then=[lambda world: world.delete_pod(("other", "x"))],
        expect={"small": placed(4), "large": placed(5)},
    ),
    Scenario(
        "of gangs that could grow, the older grows first where the policy compares no shares",
        nodes=[node("n1", gpu=9)],
        pods=[other("x", "n1", gpu=3)],
        jobs=[job("large", gang=4, replicas=6, gpu=1), job("small", gang=2, replicas=4, gpu=1, at=5)],
        policy=by(gang_order=("priority",)),
        then=[lambda world: world.delete_pod(("other", "x"))],
        expect={"large": placed(6), "small": placed(3)},
    ),
]

TREES = [
    Scenario(
        "a queue below one that does not exist waits until it does",
        nodes=[node("n1", gpu=8)],
        queues=[queue("team", parent="dept"), queue("else")],
        jobs=[job("first", gang=1, gpu=1, queue="team"), job("other", gang=1, gpu=1, queue="else")],
        expect={
            "first": waits("queue-tree", "queue team is below queue dept, which does not exist"),
            "other": RUNNING,
        },
    ),
    Scenario(
        "a gang starts when the queue above its own appears",
        nodes=[node("n1", gpu=8)],
        queues=[queue("team", parent="dept")],
        jobs=[job("first", gang=1, gpu=1, queue="team")],
        then=[sets(queue("dept"))],
        expect={"first": RUNNING},
    ),
    Scenario(
        "a loop of parents is told in words",
        nodes=[node("n1", gpu=8)],
        queues=[
            queue("a", parent="b"),
            queue("b", parent="c"),
            queue("c", parent="a"),
            queue("d", parent="c"),
        ],
        jobs=[job("first", gang=1, gpu=1, queue="a"), job("below", gang=1, gpu=1, queue="d")],
        expect={
            "first": waits("queue-tree", "form a loop: a below b below c below a"),
            "below": waits("queue-tree", "the queues above c form a loop"),
        },
    ),
    Scenario(
        "gangs start when a loop is broken",
        nodes=[node("n1", gpu=8)],
        queues=[queue("a", parent="b"), queue("b", parent="a")],
        jobs=[job("first", gang=1, gpu=1, queue="a")],
        then=[sets(queue("b"))],
        expect={"first": RUNNING},
    ),
    Scenario(
        "a queue below a closed one takes no new gangs",
        nodes=[node("n1", gpu=8)],
        queues=[queue("dept", state="Closed"), queue("group", parent="dept"), queue("team", parent="group")],
        jobs=[job("first", gang=1, gpu=1, queue="team")],
        expect={"first": waits("queue-not-open", "queue dept is Closed")},
    ),
    Scenario(
        "quotas that contradict each other are told to who waits for quota",
        nodes=[node("n1", gpu=8)],
        queues=[queue("team", gpu=2, guarantee={"gpu": 3}, deserved={"gpu": 5})],
        jobs=[job("first", gang=3, gpu=1, queue="team")],
        expect={
            "first": waits("queue-capability", "queue team is guaranteed 3 nvidia.com/gpu, more than the 2")
        },
    ),
    Scenario(
        "a queue that moves takes what it holds with it",
        nodes=[node("n1", gpu=8)],
        queues=[queue("d", gpu=3), queue("e", gpu=3), queue("team", parent="d"), queue("beside", parent="d")],
        jobs=[job("first", gang=3, gpu=1, queue="team"), job("second", gang=3, gpu=1, queue="beside", at=1)],
        then=[sets(queue("team", parent="e"))],
        expect={"first": RUNNING, "second": RUNNING},
    ),
    Scenario(
        "share and capability follow nodes that come",
        nodes=[node("n1", gpu=4)],
        queues=[queue("team", guarantee={"gpu": 4}), queue("lab")],
        jobs=[job("first", gang=4, gpu=1, queue="lab")],
        then=[adds(node("n2", gpu=4))],
        expect={"first": RUNNING},
    ),
]


@pytest.mark.parametrize("scenario", [*GUARANTEES, *ORDER, *TREES], ids=lambda scenario: scenario.name)
def test_scenario(scenario: Scenario) -> None:
    scenario.run()


def test_what_would_help_a_gang_without_quota_is_told_with_level_and_resource() -> None:
    world = World()
    for one in (queue("dept", gpu=5), queue("team", parent="dept"), queue("beside", parent="dept")):
        world.queue(one)
    world.node(node("n1", gpu=8))
    world.submit(job("first", gang=4, gpu=1, queue="beside"))
    world.submit(job("second", gang=4, gpu=1, queue="team", at=1))
    world.settle()
    reason = reports(world)["second"].reason
    assert reason.next_step.startswith("3 nvidia.com/gpu more in queue dept: ")
    assert reason.numbers == {
        "resource": GPU,
        "used": 4,
        "capability": 5,
        "needed": 4,
        "over": 3,
    }


def test_all_that_is_wrong_with_a_tree_is_listed_by_queue() -> None:
    world = World()
    for one in (
        queue("a", parent="b"),
        queue("b", parent="a"),
        queue("c", parent="gone"),
        queue("d", gpu=4, guarantee={"gpu": 1}),
        queue("d-1", parent="d", guarantee={"gpu": 2}, deserved={"gpu": 1}),
        queue("fine", gpu=4, guarantee={"gpu": 1}, deserved={"gpu": 2}),
    ):
        world.queue(one)
    world.settle()
    assert [(fault.queue, fault.code) for fault in world.model.queues.faults()] == [
        ("a", "parents-loop"),
        ("b", "parents-loop"),
        ("c", "parent-missing"),
        ("d", "guarantees-above-parent"),
        ("d-1", "deserved-below-guarantee"),
    ]
