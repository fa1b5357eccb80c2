"""Who leaves for whom, by example. Victims are made again by their controller, and wait."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from services.scheduler.core.policy import Eviction, Policy, Sharing
from shared.api.names import REVOCABLE_ZONE
from shared.events import contracts as c
from tests.scenarios.scenario import (
    GPU,
    PENDING,
    RUNNING,
    Scenario,
    adds,
    finishes,
    job,
    node,
    other,
    passes,
    placed,
    queue,
    reports,
    sets,
    shape,
    submits,
    task,
    waits,
)
from tests.scenarios.world import World

HIGH, LOW = 100, 1


def evicting(**choices: object) -> Policy:
    """The default policy, but for these choices about eviction."""
    return Policy(eviction=replace(Eviction(), **choices))  # type: ignore[arg-type]


def low(name: str, pods: int = 1, **wants: object) -> c.Gang:
    return job(name, **{"gang": pods, "gpu": 1, "priority": LOW, **wants})  # type: ignore[arg-type]


def high(name: str = "high", pods: int = 1, **wants: object) -> c.Gang:
    return job(name, **{"gang": pods, "gpu": 1, "priority": HIGH, "at": 60, **wants})  # type: ignore[arg-type]


PREEMPTION = [
    Scenario(
        "a gang of higher priority takes the room of a lower one in its queue",
        nodes=[node("n1", gpu=1)],
        jobs=[low("first")],
        then=[submits(high())],
        evicted=["first-worker-0"],
        expect={"high": RUNNING, "first": PENDING},
    ),
    Scenario(
        "a gang of the same priority takes nobody's room",
        nodes=[node("n1", gpu=1)],
        jobs=[low("first")],
        then=[submits(low("second", at=60))],
        expect={"first": RUNNING, "second": waits("no-room")},
    ),
    Scenario(
        "nobody is evicted where there is room",
        nodes=[node("n1", gpu=1), node("n2", gpu=1)],
        jobs=[low("first")],
        then=[submits(high())],
        expect={"first": RUNNING, "high": RUNNING},
    ),
    Scenario(
        "nobody is evicted for a gang that would not fit even then",
        nodes=[node("n1", gpu=2)],
        jobs=[low("first"), job("same", gang=1, gpu=1, priority=HIGH)],
        then=[submits(high(pods=2))],
        expect={"first": RUNNING, "same": RUNNING, "high": waits("no-room")},
    ),
    Scenario(
        "the youngest of equals leaves",
        nodes=[node("n1", gpu=3)],
        jobs=[low("a", at=2), low("b", at=3), low("c", at=1)],
        then=[submits(high())],
        evicted=["b-worker-0"],
        expect={"high": RUNNING, "a": RUNNING, "c": RUNNING},
    ),
    Scenario(
        "the lowest priority leaves first, however old",
        nodes=[node("n1", gpu=3)],
        jobs=[low("a", priority=3), low("b", priority=2), low("c", priority=5, at=9)],
        then=[submits(high())],
        evicted=["b-worker-0"],
        expect={"high": RUNNING, "a": RUNNING, "c": RUNNING},
    ),
    Scenario(
        "members beyond the minimum leave before a whole gang does, whatever its priority",
        nodes=[node("n1", gpu=4)],
        jobs=[low("elastic", pods=1, replicas=3, priority=9), low("small", priority=2, at=5)],
        then=[submits(high())],
        evicted=["elastic-worker-2"],
        expect={"high": RUNNING, "elastic": placed(2), "small": RUNNING},
    ),
    Scenario(
        "an elastic gang shrinks to its minimum under pressure and no further",
        nodes=[node("n1", gpu=4)],
        jobs=[low("elastic", pods=2, replicas=4)],
        then=[submits(high("one", at=60)), submits(high("two", at=61))],
        evicted=["elastic-worker-3", "elastic-worker-2"],
        expect={"one": RUNNING, "two": RUNNING, "elastic": placed(2)},
    ),
    Scenario(
        "a gang at its minimum leaves as a whole, also from nodes where it is not in the way",
        nodes=[node("n1", gpu=2), node("n2", gpu=1)],
        jobs=[low("pair", pods=2)],
        then=[submits(high(pods=1, gpu=2))],
        evicted=["pair-worker-0", "pair-worker-1"],
        expect={"high": placed(n1=1), "pair": PENDING},
    ),
    Scenario(
        "the minimums of tasks are kept when surplus leaves",
        nodes=[node("n1", gpu=4)],
        jobs=[job("mixed", task("a", 2, 2, gpu=1), task("b", 2, 1, gpu=1), priority=LOW)],
        then=[submits(high())],
        evicted=["mixed-b-1"],
        expect={"high": RUNNING, "mixed": placed(3)},
    ),
    Scenario(
        "one small gang leaves rather than two when one is enough",
        nodes=[node("n1", gpu=4)],
        jobs=[low("one", gpu=1, at=9), low("two", gpu=1, at=8), low("both", gpu=2, at=1)],
        then=[submits(high(gpu=2))],
        evicted=["both-worker-0"],
        expect={"high": RUNNING, "one": RUNNING, "two": RUNNING},
    ),
    Scenario(
        "victims are taken from one node when only that makes room for a large pod",
        nodes=[node("n1", gpu=2), node("n2", gpu=2)],
        jobs=[low("a", gpu=1, at=1), low("b", gpu=1, at=2), low("c", gpu=1, at=3), low("d", gpu=1, at=4)],
        then=[submits(high(gpu=2))],
        evicted=["c-worker-0", "d-worker-0"],
        expect={"high": placed(n2=1), "a": RUNNING, "b": RUNNING},
    ),
    Scenario(
        "nobody leaves a node where the gang may not run",
        nodes=[node("n1", gpu=1, labels={"zone": "a"}), node("n2", gpu=1, labels={"zone": "b"})],
        jobs=[low("a", on=["n1"], at=5), low("b", on=["n2"])],
        then=[submits(high(selector={"zone": "b"}))],
        evicted=["b-worker-0"],
        expect={"high": placed(n2=1), "a": RUNNING},
    ),
    Scenario(
        "nobody leaves a tainted node for a gang that does not tolerate it",
        nodes=[node("n1", gpu=1, taints=["team=a:NoSchedule"])],
        jobs=[low("a", tolerates=["team=a"])],
        then=[submits(high())],
        expect={"high": waits("no-node-tolerated"), "a": RUNNING},
    ),
    Scenario(
        "a node that is full by its number of pods is emptied too",
        nodes=[node("n1", gpu=0, pods=1)],
        jobs=[low("a", gpu=0, cpu=0)],
        then=[submits(high(gpu=0, cpu=1))],
        evicted=["a-worker-0"],
        expect={"high": RUNNING, "a": PENDING},
    ),
    Scenario(
        "the quota of a queue is given back by its own gangs of lower priority",
        nodes=[node("n1", gpu=4)],
        queues=[queue("default", gpu=2)],
        jobs=[low("a", pods=2)],
        then=[submits(high())],
        evicted=["a-worker-0", "a-worker-1"],
        expect={"high": RUNNING, "a": PENDING},
    ),
    Scenario(
        "the quota of a level above is not got from another queue by priority",
        nodes=[node("n1", gpu=4)],
        queues=[queue("dept", gpu=2), queue("a", parent="dept"), queue("b", parent="dept")],
        jobs=[low("first", pods=2, queue="a")],
        then=[submits(high(pods=2, queue="b"))],
        policy=evicting(reclaim=False),
        expect={"high": waits("queue-capability"), "first": RUNNING},
    ),
    Scenario(
        "room that pods leave anyway is not made again",
        nodes=[node("n1", gpu=2)],
        jobs=[low("a"), low("b", at=1)],
        then=[lambda world: leave(world, "a-worker-0"), submits(high())],
        expect={"b": RUNNING, "high": waits("waits-for-room")},
    ),
    Scenario(
        "several shapes of a gang get their room together",
        nodes=[node("n1", gpu=2, cpu=4), node("n2", gpu=0, cpu=8)],
        jobs=[low("g", gpu=2, cpu=1, on=["n1"]), low("m", gpu=0, cpu=8, on=["n2"])],
        then=[
            submits(job("high", task("a", 1, gpu=2, cpu=1), task("b", 1, cpu=6), priority=HIGH, at=60)),
        ],
        evicted=["g-worker-0", "m-worker-0"],
        expect={"high": placed(n1=1, n2=1)},
    ),
    Scenario(
        "nothing is evicted when only one of two shapes could get room",
        nodes=[node("n1", gpu=2, cpu=4), node("n2", gpu=0, cpu=8)],
        jobs=[low("g", gpu=2, cpu=1, on=["n1"])],
        pods=[other("x", "n2", cpu=8)],
        then=[submits(job("high", task("a", 1, gpu=2, cpu=1), task("b", 1, cpu=6), priority=HIGH, at=60))],
        expect={"high": PENDING, "g": RUNNING},
    ),
]

PROTECTED = [
    Scenario(
        "a pod whose annotation forbids it stays",
        nodes=[node("n1", gpu=1)],
        jobs=[low("a", preemptable=False)],
        then=[submits(high())],
        expect={"a": RUNNING, "high": waits("no-room")},
    ),
    Scenario(
        "a gang with one pod that may not go does not go",
        nodes=[node("n1", gpu=3)],
        jobs=[
            job("a", task("x", 1, gpu=1, preemptable=False), task("y", 1, gpu=1), priority=LOW),
            low("b", at=-5),
        ],
        then=[submits(high())],
        evicted=["b-worker-0"],
        expect={"a": RUNNING, "high": RUNNING},
    ),
    Scenario(
        "pods that the system needs stay",
        nodes=[node("n1", gpu=1)],
        jobs=[low("a", pod_priority=2_000_001_000)],
        then=[submits(high(priority=2_100_000_000))],
        expect={"a": RUNNING, "high": PENDING},
    ),
    Scenario(
        "pods of somebody else stay",
        nodes=[node("n1", gpu=1)],
        pods=[other("x", "n1", gpu=1)],
        jobs=[high()],
        expect={"high": waits("no-room")},
    ),
    Scenario(
        "a gang whose priority class says Never waits",
        nodes=[node("n1", gpu=1)],
        jobs=[low("a")],
        then=[
            lambda world: world.model.apply_priority_class(
                c.PriorityClassState(name="calm", value=HIGH, preemption_policy="Never")
            ),
            submits(high(priority_class="calm")),
        ],
        expect={"a": RUNNING, "high": waits("no-room")},
    ),
    Scenario(
        "with preemption switched off nobody is evicted by priority",
        nodes=[node("n1", gpu=1)],
        jobs=[low("a")],
        then=[submits(high())],
        policy=evicting(preempt=False),
        expect={"a": RUNNING, "high": waits("no-room")},
    ),
    Scenario(
        "a pod that began just now stays until it ran for the time that it is granted",
        nodes=[node("n1", gpu=1)],
        jobs=[low("a")],
        then=[passes(20), submits(high())],
        policy=evicting(min_run_time=timedelta(seconds=30)),
        expect={"a": RUNNING, "high": waits("no-room")},
    ),
    Scenario(
        "and leaves when that time is over",
        nodes=[node("n1", gpu=1)],
        jobs=[low("a")],
        then=[passes(20), submits(high()), passes(11)],
        policy=evicting(min_run_time=timedelta(seconds=30)),
        evicted=["a-worker-0"],
        expect={"high": RUNNING},
    ),
    Scenario(
        "a pod stays within its cool-down, and leaves after it",
        nodes=[node("n1", gpu=1)],
        jobs=[low("a")],
        then=[submits(high()), passes(61)],
        policy=evicting(cooldown=timedelta(seconds=60)),
        evicted=["a-worker-0"],
        expect={"high": RUNNING},
    ),
    Scenario(
        "where only surplus may go, a gang at its minimum stays",
        nodes=[node("n1", gpu=1)],
        jobs=[low("a")],
        then=[submits(high())],
        policy=evicting(preempt_filters=(("gang", "conformance"),)),
        expect={"a": RUNNING, "high": waits("no-room")},
    ),
    Scenario(
        "more pods than one decision may evict are not evicted",
        nodes=[node("n1", gpu=3)],
        jobs=[low("a", pods=3)],
        then=[submits(high(gpu=3))],
        policy=evicting(most_victims=2),
        expect={"a": RUNNING, "high": waits("no-room")},
    ),
]

RECLAIM = [
    Scenario(
        "a queue takes back what it deserves from one that has more",
        nodes=[node("n1", gpu=4)],
        queues=[queue("a"), queue("b")],
        jobs=[low(f"a{i}", queue="a", at=i) for i in range(4)],
        then=[submits(*[low(f"b{i}", queue="b", at=60 + i) for i in range(4)])],
        evicted=["a3-worker-0", "a2-worker-0"],
        expect={"a0": RUNNING, "a1": RUNNING, "b0": RUNNING, "b1": RUNNING, "b2": PENDING, "a2": PENDING},
    ),
    Scenario(
        "a queue that has what it deserves takes nothing more",
        nodes=[node("n1", gpu=4)],
        queues=[queue("a"), queue("b")],
        jobs=[low("a0", queue="a"), low("a1", queue="a"), low("b0", queue="b"), low("b1", queue="b")],
        then=[submits(high("b2", queue="b", priority=LOW))],
        expect={"a0": RUNNING, "a1": RUNNING, "b2": waits("no-room")},
    ),
    Scenario(
        "a queue that may not be reclaimed from is skipped, and the search goes on",
        nodes=[node("n1", gpu=6)],
        queues=[queue("a", reclaimable=False), queue("b"), queue("c")],
        jobs=[
            *[low(f"a{i}", queue="a", at=i) for i in range(3)],
            *[low(f"b{i}", queue="b", at=i) for i in range(3)],
        ],
        then=[submits(low("c0", queue="c", at=60), low("c1", queue="c", at=61))],
        evicted=["b2-worker-0"],
        expect={"c0": RUNNING, "a0": RUNNING, "a1": RUNNING, "a2": RUNNING, "c1": PENDING},
    ),
    Scenario(
        "the deserved that queues name counts",
        nodes=[node("n1", gpu=4)],
        queues=[queue("a", deserved={"gpu": 1}), queue("b", deserved={"gpu": 3})],
        jobs=[low(f"a{i}", queue="a", at=i) for i in range(4)],
        then=[submits(low("b0", pods=3, queue="b", at=60))],
        evicted=["a3-worker-0", "a2-worker-0", "a1-worker-0"],
        expect={"a0": RUNNING, "b0": RUNNING},
    ),
    Scenario(
        "a gang that would take its queue beyond what it deserves waits",
        nodes=[node("n1", gpu=4)],
        queues=[queue("a", deserved={"gpu": 2}), queue("b", deserved={"gpu": 2})],
        jobs=[low(f"a{i}", queue="a", at=i) for i in range(4)],
        then=[submits(low("b0", pods=3, queue="b", at=60))],
        expect={"a3": RUNNING, "b0": waits("no-room")},
    ),
    Scenario(
        "a queue is not pushed below what it deserves by a gang that leaves whole",
        nodes=[node("n1", gpu=4)],
        queues=[queue("a", deserved={"gpu": 3}), queue("b", deserved={"gpu": 1})],
        jobs=[low("a0", pods=4, queue="a")],
        then=[submits(low("b0", queue="b", at=60))],
        expect={"a0": RUNNING, "b0": waits("no-room")},
    ),
    Scenario(
        "it may be where the policy allows that, if queues are nearer to what they deserve then",
        nodes=[node("n1", gpu=4)],
        queues=[queue("a", deserved={"gpu": 3}), queue("b", deserved={"gpu": 1})],
        jobs=[low("a0", pods=4, queue="a")],
        then=[submits(low("b0", queue="b", at=60))],
        policy=evicting(undershoot=True),
        evicted=[f"a0-worker-{i}" for i in range(4)],
        expect={"b0": RUNNING},
    ),
    Scenario(
        "a guarantee is kept",
        nodes=[node("n1", gpu=4)],
        queues=[queue("a", guarantee={"gpu": 3}, weight=1), queue("b", weight=3)],
        jobs=[low(f"a{i}", queue="a", at=i) for i in range(4)],
        then=[submits(*[low(f"b{i}", queue="b", at=60 + i) for i in range(3)])],
        evicted=["a3-worker-0"],
        expect={"b0": RUNNING, "a0": RUNNING, "a1": RUNNING, "a2": RUNNING, "b1": PENDING},
    ),
    Scenario(
        "priority does not save from another queue's claim",
        nodes=[node("n1", gpu=2)],
        queues=[queue("a"), queue("b")],
        jobs=[high("a0", queue="a", at=0), high("a1", queue="a", at=1)],
        then=[submits(low("b0", queue="b", at=60))],
        evicted=["a1-worker-0"],
        expect={"b0": RUNNING, "a0": RUNNING},
    ),
    Scenario(
        "with three levels each level has its say: a cousin gives, a brother does not",
        nodes=[node("n1", gpu=8)],
        queues=[
            queue("left"),
            queue("right"),
            queue("l1", parent="left"),
            queue("l2", parent="left"),
            queue("r1", parent="right"),
        ],
        jobs=[
            *[low(f"r{i}", queue="r1", at=i) for i in range(6)],
            *[low(f"l{i}", queue="l1", at=i) for i in range(2)],
        ],
        then=[submits(*[low(f"m{i}", queue="l2", at=60 + i) for i in range(2)])],
        evicted=["r5-worker-0", "r4-worker-0"],
        expect={"m0": RUNNING, "m1": RUNNING, "l0": RUNNING, "l1": RUNNING, "r0": RUNNING},
    ),
    Scenario(
        "a department that has its share gives nothing to another's queue, though one of its queues has more",
        nodes=[node("n1", gpu=4)],
        queues=[
            queue("left", deserved={"gpu": 2}),
            queue("right", deserved={"gpu": 2}),
            queue("l1", parent="left", deserved={"gpu": 1}),
            queue("l2", parent="left", deserved={"gpu": 1}),
            queue("r1", parent="right", deserved={"gpu": 2}),
        ],
        jobs=[
            low("l0", queue="l1"),
            low("l1", queue="l1", at=1),
            low("r0", queue="r1"),
            low("r1", queue="r1"),
        ],
        then=[submits(low("r2", queue="r1", at=60))],
        expect={"l0": RUNNING, "l1": RUNNING, "r2": waits("no-room")},
    ),
    Scenario(
        "but its own other queue takes its part of it",
        nodes=[node("n1", gpu=2)],
        queues=[
            queue("left", deserved={"gpu": 2}),
            queue("l1", parent="left", deserved={"gpu": 1}),
            queue("l2", parent="left", deserved={"gpu": 1}),
        ],
        jobs=[low("a", queue="l1"), low("b", queue="l1", at=1)],
        then=[submits(low("c", queue="l2", at=60))],
        evicted=["b-worker-0"],
        expect={"a": RUNNING, "c": RUNNING},
    ),
    Scenario(
        "with reclaim switched off queues keep what they have",
        nodes=[node("n1", gpu=2)],
        queues=[queue("a"), queue("b")],
        jobs=[low("a0", queue="a"), low("a1", queue="a")],
        then=[submits(low("b0", queue="b", at=60))],
        policy=evicting(reclaim=False),
        expect={"a0": RUNNING, "a1": RUNNING, "b0": waits("no-room")},
    ),
    Scenario(
        "of two queues with more than their share the one that has most gives",
        nodes=[node("n1", gpu=6)],
        queues=[queue("a"), queue("b"), queue("c")],
        jobs=[
            *[low(f"a{i}", queue="a", at=i) for i in range(4)],
            *[low(f"b{i}", queue="b", at=9 + i) for i in range(2)],
        ],
        then=[submits(low("c0", queue="c", at=60))],
        evicted=["a3-worker-0"],
        expect={"c0": RUNNING, "b0": RUNNING, "b1": RUNNING},
    ),
    Scenario(
        "reclaim comes before preemption: what a queue deserves costs it no pods of its own",
        nodes=[node("n1", gpu=4)],
        queues=[queue("a"), queue("b")],
        jobs=[*[low(f"a{i}", queue="a", at=i) for i in range(3)], low("b0", queue="b")],
        then=[submits(high("b1", queue="b"))],
        evicted=["a2-worker-0"],
        expect={"b0": RUNNING, "b1": RUNNING},
    ),
    Scenario(
        "resources that nobody lacks make no claim",
        nodes=[node("n1", gpu=2, cpu=64)],
        queues=[queue("a", deserved={"gpu": 1}), queue("b", deserved={"cpu": 8})],
        jobs=[low("a0", queue="a"), low("a1", queue="a", at=1)],
        then=[submits(low("b0", queue="b", at=60))],
        policy=Policy(sharing=Sharing(mode="capacity")),
        expect={"a0": RUNNING, "a1": RUNNING, "b0": waits("no-room")},
    ),
]

NO_PING_PONG = [
    Scenario(
        "a victim that comes back waits for room and displaces nobody",
        nodes=[node("n1", gpu=2)],
        jobs=[low("a", pods=2)],
        then=[submits(high(pods=2)), passes(600), passes(600)],
        evicted=["a-worker-0", "a-worker-1"],
        expect={"high": RUNNING, "a": PENDING},
    ),
    Scenario(
        "a victim starts again when its displacer has ended",
        nodes=[node("n1", gpu=2)],
        jobs=[low("a", pods=2)],
        then=[submits(high(pods=2)), finishes("high")],
        evicted=["a-worker-0", "a-worker-1"],
        expect={"a": RUNNING},
    ),
    Scenario(
        "queues that have what they deserve stay as they are",
        nodes=[node("n1", gpu=4)],
        queues=[queue("a"), queue("b")],
        jobs=[low(f"a{i}", queue="a", at=i) for i in range(4)],
        then=[
            submits(*[low(f"b{i}", queue="b", at=60 + i) for i in range(4)]),
            passes(600),
            passes(600),
        ],
        evicted=["a3-worker-0", "a2-worker-0"],
        expect={"a0": RUNNING, "a1": RUNNING, "b0": RUNNING, "b1": RUNNING},
    ),
    Scenario(
        "a share that grows with a new weight is taken once",
        nodes=[node("n1", gpu=4)],
        queues=[queue("a"), queue("b")],
        jobs=[
            *[low(f"a{i}", queue="a", at=i) for i in range(4)],
            *[low(f"b{i}", queue="b", at=i) for i in range(4)],
        ],
        then=[sets(queue("b", weight=3)), passes(60)],
        evicted=["a1-worker-0"],
        expect={"a0": RUNNING, "b0": RUNNING, "b1": RUNNING, "b2": RUNNING},
    ),
    Scenario(
        "a new node ends the need, and nobody is evicted",
        nodes=[node("n1", gpu=1)],
        jobs=[low("a", preemptable=False)],
        then=[submits(high()), adds(node("n2", gpu=1))],
        expect={"a": RUNNING, "high": placed(n2=1)},
    ),
]


def leave(world: World, name: str) -> None:
    """A pod is being deleted, and takes its time."""
    pod = world.books.pods["ns", name]
    world.pod(pod.model_copy(update={"releasing": True}))


@pytest.mark.parametrize(
    "scenario",
    [*PREEMPTION, *PROTECTED, *RECLAIM, *NO_PING_PONG],
    ids=lambda scenario: scenario.name,
)
def test_scenario(scenario: Scenario) -> None:
    scenario.run()


# ---------------------------------------------------------------------- between the two decisions


def full(*victims: c.Gang, gpu: int = 2) -> World:
    """A node whose GPUs are taken."""
    world = World()
    world.queue(queue("default"))
    world.node(node("n1", gpu=gpu))
    for one in victims:
        world.submit(one)
    world.settle()
    return world


def test_a_gang_says_for_whom_it_waits() -> None:
    world = full(low("a", pods=2))
    world.submit(high(pods=2))
    (decision,) = world.decide()
    told = reports(world)["high"]
    assert told.reason.code == "waits-for-victims"
    assert told.reason.message == "waits for 2 pods to leave: ns/a-worker-0, ns/a-worker-1"
    assert {one.reason for one in decision.evictions} == {
        "preempted by ns/high: its priority is 100, this gang's 1"
    }
    assert [(one.node, one.pods, one.resources[GPU]) for one in decision.reservations] == [("n1", 2, 2)]


def test_room_is_kept_for_the_gang_that_others_left_for() -> None:
    world = full(low("a", pods=2))
    world.submit(high(pods=2))
    (decision,) = world.decide()
    world.carry_out(decision)
    world.submit(high("urgent", pods=1, priority=HIGH + 1))
    world.delete_pod(("ns", "a-worker-0"))
    assert world.decide() == []
    world.victims_go()
    (bound,) = world.decide()
    assert (bound.name, len(bound.rows)) == ("high", 2)


def test_room_is_kept_for_a_bounded_time() -> None:
    world = full(low("a", pods=1), gpu=1)
    world.submit(high())
    (decision,) = world.decide()
    world.carry_out(decision)
    world.pass_time(599)
    assert world.decide() == []
    assert len(world.model.earmarks) == 1
    world.pass_time(2)
    (decision,) = world.decide()
    assert (decision.name, decision.evictions) == ("high", ())  # it has waited for long: see test_backfill
    assert len(world.model.earmarks) == 0
    world.settle()
    assert [pod.node for pod in world.members(("ns", "high"))] == ["n1"]


def test_a_gang_whose_victims_refuse_to_go_is_decided_anew() -> None:
    world = full(low("a"), low("b", at=1))
    world.submit(high())
    (decision,) = world.decide()
    assert [one.pod for one in decision.evictions] == ["b-worker-0"]
    world.carry_out(decision, frozenset({"b-worker-0"}))
    assert len(world.model.earmarks) == 0
    assert not world.model.nodes.releasing.any()
    world.pass_time(60)
    (again,) = world.decide()
    assert again.name == "high"


def test_a_gang_that_goes_leaves_its_room_to_others() -> None:
    world = full(low("a", pods=2))
    world.submit(high(pods=2))
    (decision,) = world.decide()
    world.carry_out(decision)
    world.remove_gang(("ns", "high"))
    world.settle()
    assert [pod.node for pod in world.members(("ns", "a"))] == ["n1", "n1"]


def test_a_gang_that_moves_to_another_pool_leaves_its_room_to_others() -> None:
    world = full(low("a", pods=2))
    world.submit(high(pods=2))
    (decision,) = world.decide()
    world.carry_out(decision)
    moved = world.books.gangs["ns", "high"].model_copy(update={"pool": "other", "generation": 1})
    world.submit(moved)
    world.settle()
    assert world.members(("ns", "high")) == []
    assert [pod.node for pod in world.members(("ns", "a"))] == ["n1", "n1"]


def test_room_is_kept_for_pods_as_they_are_when_they_differ_from_their_template() -> None:
    world = World()
    world.queue(queue("default"))
    world.node(node("n1", gpu=1, taints=["team=a:NoSchedule"]))
    world.submit(low("first", tolerates=["team"]))
    world.settle()
    gang = high()
    world.submit(gang, phase="Inqueue")
    world.create_rest(gang)
    pod = world.books.pods["ns", "high-worker-0"]
    world.pod(pod.model_copy(update={"shape": shape(gpu=1, tolerates=["team"])}))
    (decision,) = world.decide()
    world.carry_out(decision)
    assert world.decide() == []
    world.victims_go()
    assert [made.name for made in world.decide()] == ["high"]


def test_an_eviction_without_a_result_is_said_again() -> None:
    world = full(low("a", pods=2))
    world.submit(high(pods=2))
    (decision,) = world.decide()
    world.pass_time(121)
    (again,) = world.decide()
    assert again is decision
    assert again.again


def test_a_disruption_budget_protects_whom_it_selects() -> None:
    assert protected(high(pods=2)).decide() == []
    world = protected(high("small"))
    (decision,) = world.decide()
    assert [one.pod for one in decision.evictions] == ["b-worker-0"]
    world.submit(high("second", at=62))
    assert world.decide() == []


def test_whom_one_gang_may_evict_is_nothing_to_another_of_its_priority() -> None:
    world = World(evicting(preempt_filters=(("tdm", "pdb", "conformance"), ("conformance",))))
    world.queue(queue("default"))
    world.node(node("n1", gpu=2))
    world.node(node("n2", gpu=1, labels={REVOCABLE_ZONE: "z"}))
    for at, (name, on) in enumerate((("safe", "n1"), ("old", "n1"), ("young", "n2"))):
        world.submit(low(name, at=at, on=[on]))
    world.settle()
    world.pod(world.books.pods["ns", "safe-worker-0"].model_copy(update={"budgets": ("pdb",)}))
    world.model.apply_budget(c.PodDisruptionBudgetState(namespace="ns", name="pdb", disruptions_allowed=0))
    world.submit(high("lasting", gpu=2, preemptable=False))
    world.submit(high("another", at=61))
    (decision,) = world.decide()
    assert [one.pod for one in decision.evictions] == ["young-worker-0"]


def protected(gang: c.Gang) -> World:
    """Two pods of which one may go, and a gang that asks for room."""
    world = full(low("a"), low("b", at=1))
    for name in ("a-worker-0", "b-worker-0"):
        pod = world.books.pods["ns", name]
        world.pod(pod.model_copy(update={"budgets": ("pdb",)}))
    world.model.apply_budget(c.PodDisruptionBudgetState(namespace="ns", name="pdb", disruptions_allowed=1))
    world.submit(gang)
    return world
