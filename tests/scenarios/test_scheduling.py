"""What the scheduler does, by example. Every scenario stays as it is when decided again."""

from __future__ import annotations

from datetime import timedelta

import pytest

from services.scheduler.core.policy import Eviction, Policy
from shared.events import contracts as c
from tests.scenarios.scenario import (
    PENDING,
    RUNNING,
    Scenario,
    Step,
    adds,
    ends,
    finishes,
    job,
    joins,
    leaves,
    loses,
    node,
    other,
    passes,
    placed,
    queue,
    removes,
    restarts,
    sets,
    submits,
    task,
    waits,
)
from tests.scenarios.world import World

NO_HOLD = Policy(hold=timedelta(0))

GANGS = [
    Scenario(
        "a gang that fits is placed whole",
        nodes=[node("n1", gpu=4)],
        jobs=[job("train", gang=4, gpu=1)],
        expect={"train": placed(n1=4)},
    ),
    Scenario(
        "a gang that does not fit leaves no pod behind",
        nodes=[node("n1", gpu=2)],
        jobs=[job("train", gang=3, gpu=1)],
        expect={"train": waits("gang-too-large", "hold 2 of them")},
    ),
    Scenario(
        "one master and three workers of eight GPUs",
        nodes=[node(f"n{i}", gpu=8) for i in range(4)],
        jobs=[job("train", task("master", 1, gpu=8), task("worker", 3, gpu=8))],
        expect={"train": placed(n0=1, n1=1, n2=1, n3=1)},
    ),
    Scenario(
        "a master that asks for little does not take the room that a worker needs",
        nodes=[node("n1", gpu=8, cpu=64), node("n2", gpu=0, cpu=8)],
        jobs=[job("train", task("master", 1, cpu=4), task("worker", 1, gpu=8, cpu=64))],
        expect={"train": placed(n1=1, n2=1)},
    ),
    Scenario(
        "a gang whose last task does not fit leaves nothing of the first",
        nodes=[node("n1", gpu=4)],
        jobs=[
            job("train", task("a", 2, gpu=1), task("b", 1, gpu=4)),
            job("small", gang=4, gpu=1, at=1),
        ],
        expect={"train": waits("no-room", "0 fit now"), "small": RUNNING},
    ),
    Scenario(
        "a gang each of whose tasks fits, but not all at once, says so",
        nodes=[node("n1", gpu=4)],
        jobs=[job("train", task("a", 2, gpu=1), task("b", 1, gpu=4))],
        expect={"train": waits("no-room-together")},
    ),
    Scenario(
        "a gang that fits only once its first task lands elsewhere is placed when a node fills up",
        nodes=[node("n1", gpu=4, cpu=4.5), node("n2", cpu=5)],
        jobs=[job("train", task("a", 1, cpu=4), task("b", 2, gpu=1, cpu=1))],
        then=[joins(other("x", "n2", cpu=1))],
        expect={"train": placed(n1=2, n2=1)},
    ),
    Scenario(
        "a gang that fits only once its first task lands elsewhere is placed when a later gang does that",
        nodes=[node("n1", gpu=4, cpu=4.5), node("n2", cpu=5)],
        jobs=[
            job("train", task("a", 1, cpu=4), task("b", 2, gpu=1, cpu=1)),
            job("small", gang=1, cpu=1, on=["n2"], at=1),
        ],
        expect={"train": placed(n1=2, n2=1), "small": placed(n2=1)},
    ),
    Scenario(
        "elastic members are placed though another gang's of the same shapes lack room for one of them",
        nodes=[node("n1", gpu=2, cpu=2)],
        jobs=[
            job(name, task("a", 2, 1, gpu=1, cpu=0), task("b", 2, 1, cpu=1), at=at)
            for name, at in (("first", 0), ("second", 1))
        ],
        then=[adds(node("n2", cpu=8))],
        expect={"first": placed(3), "second": placed(3)},
    ),
    Scenario(
        "of two large gangs one starts and the other waits whole",
        nodes=[node("n1", gpu=8), node("n2", gpu=8)],
        jobs=[job("first", gang=12, gpu=1), job("second", gang=12, gpu=1, at=1)],
        expect={"first": RUNNING, "second": waits("no-room", "4 fit now")},
    ),
    Scenario(
        "beyond the minimum as many as fit are placed",
        nodes=[node("n1", gpu=3)],
        jobs=[job("train", gang=2, replicas=5, gpu=1)],
        expect={"train": placed(3)},
    ),
    Scenario(
        "a gang's surplus does not take what another gang's minimum needs",
        nodes=[node("n1", gpu=4)],
        jobs=[job("first", gang=2, replicas=4, gpu=1), job("second", gang=2, gpu=1, at=1)],
        expect={"first": placed(2), "second": RUNNING},
    ),
    Scenario(
        "elastic members are placed when room appears",
        nodes=[node("n1", gpu=2)],
        jobs=[job("train", gang=2, replicas=5, gpu=1)],
        then=[adds(node("n2", gpu=2)), adds(node("n3", gpu=1))],
        expect={"train": placed(n1=2, n2=2, n3=1)},
    ),
    Scenario(
        "elastic members of several shapes wake for the one that grows",
        nodes=[node("n1", gpu=1, cpu=1)],
        jobs=[job("train", task("a", 2, 1, gpu=1, cpu=0), task("b", 2, 1, cpu=1))],
        then=[adds(node("n2", gpu=1, cpu=0.1))],
        expect={"train": placed(n1=2, n2=1)},
    ),
    Scenario(
        "the minimum is made of whichever members fit, where no task has one",
        nodes=[node("n1", cpu=1)],
        jobs=[
            job("train", task("a", 1, 0, gpu=1), task("b", 2, 0, cpu=1), gang=1),
            job("later", task("c", 1, cpu=1), at=1),
        ],
        expect={"train": placed(1), "later": PENDING},
    ),
    Scenario(
        "members that could take the minimum's place wake their gang",
        nodes=[node("n1", cpu=0.5)],
        jobs=[job("train", task("a", 1, 0, gpu=1), task("b", 2, 0, cpu=1), gang=2)],
        then=[adds(node("n2", cpu=1)), adds(node("n3", cpu=1.5))],
        expect={"train": placed(n2=1, n3=1)},
    ),
    Scenario(
        "whichever members fit, the task minimums are among them, or nothing",
        nodes=[node("n1", cpu=9)],
        jobs=[job("train", task("a", 2, 1, gpu=1), task("b", 3, 1, cpu=1), gang=3)],
        expect={"train": waits("pod-too-large")},
    ),
    Scenario(
        "whichever members fit, a task's minimum is not given to another task of the same shape",
        nodes=[node("n1", gpu=4, cpu=20)],
        jobs=[job("train", task("a", 4, 3, gpu=1), task("b", 4, 1, cpu=1), task("c", 1, 1, gpu=1), gang=8)],
        expect={"train": placed(n1=8)},
    ),
    Scenario(
        "whichever members fit, they have to have quota",
        queues=[queue("default", cpu=1)],
        nodes=[node("n1", cpu=9)],
        jobs=[job("train", task("a", 1, 0, gpu=1, cpu=1), task("b", 2, 0, cpu=2), gang=1)],
        expect={"train": waits("queue-capability", "needs 2 cpu")},
    ),
    Scenario(
        "each task has its minimum",
        nodes=[node("n1", gpu=3)],
        jobs=[job("train", task("a", 3, 1, gpu=1), task("b", 3, 2, gpu=1), gang=3)],
        expect={"train": placed(3)},
    ),
    Scenario(
        "task minimums do not bind when the gang's own minimum is below their sum",
        nodes=[node("n1", gpu=3)],
        jobs=[job("train", task("a", 2, gpu=1), task("b", 2, gpu=1), gang=3)],
        expect={"train": placed(3)},
    ),
    Scenario(
        "a gang without a minimum starts with what fits",
        nodes=[node("n1", gpu=1)],
        jobs=[job("train", gang=0, replicas=3, gpu=1)],
        expect={"train": placed(1)},
    ),
    Scenario(
        "a gang that lost a member is mended before a new gang starts",
        nodes=[node("n1", gpu=4)],
        jobs=[job("first", gang=4, gpu=1)],
        then=[submits(job("second", gang=1, gpu=1, at=-100)), loses("first-worker-2")],
        expect={"first": RUNNING, "second": PENDING},
    ),
    Scenario(
        "a gang that lost a member is mended before another one starts, though that has waited for longer",
        nodes=[node("n1", gpu=4)],
        jobs=[job("first", gang=4, gpu=1, at=5)],
        then=[submits(job("second", gang=1, gpu=1)), loses("first-worker-2")],
        expect={"first": RUNNING, "second": PENDING},
        policy=Policy(eviction=Eviction(preempt=False)),
    ),
    Scenario(
        "but not before one of higher priority",
        nodes=[node("n1", gpu=4)],
        jobs=[job("first", gang=4, gpu=1)],
        then=[submits(job("second", gang=1, gpu=1, priority=9)), loses("first-worker-2")],
        expect={"first": placed(3), "second": RUNNING},
        policy=Policy(eviction=Eviction(preempt=False)),
    ),
    Scenario(
        "a member that is being deleted does not count: its gang is mended before a new one starts",
        nodes=[node("n1", gpu=2)],
        jobs=[job("first", gang=2, replicas=3, gpu=1)],
        then=[
            leaves("first-worker-0"),
            submits(job("second", gang=1, gpu=1)),
            adds(node("n2", gpu=1)),
        ],
        expect={"first": placed(n1=2, n2=1), "second": PENDING},
    ),
    Scenario(
        "a member that is being deleted holds its room until it is gone",
        nodes=[node("n1", gpu=2)],
        jobs=[job("first", gang=2, gpu=1)],
        then=[leaves("first-worker-0"), submits(job("second", gang=1, gpu=1, at=1))],
        expect={"first": placed(n1=2), "second": waits("no-room", "0 fit now")},
    ),
    Scenario(
        "members that succeeded count for the minimum and are not placed again",
        nodes=[node("n1", gpu=4)],
        jobs=[job("train", gang=3, gpu=1)],
        then=[ends("train-worker-0")],
        expect={"train": placed(2)},
    ),
    Scenario(
        "members of an older generation do not count, and hold their room",
        nodes=[node("n1", gpu=4)],
        jobs=[job("train", gang=3, gpu=1)],
        then=[restarts(job("train", gang=3, gpu=1, generation=1))],
        expect={"train": waits("no-room", "1 fit now")},
    ),
    Scenario(
        "the next generation starts when the pods of the former are gone",
        nodes=[node("n1", gpu=4)],
        jobs=[job("train", gang=3, gpu=1)],
        then=[
            restarts(job("train", gang=3, gpu=1, generation=1)),
            lambda world: [world.delete_pod(key) for key in list(world.books.pods)] and None,
        ],
        expect={"train": RUNNING},
    ),
    Scenario(
        "gated pods are not placed",
        nodes=[node("n1", gpu=4)],
        jobs=[job("train", gang=2, gpu=1, gated=True)],
        expect={"train": waits("scheduling-gated", "2 of its members")},
    ),
    Scenario(
        "a gang whose members are not all there waits and says so",
        nodes=[node("n1", gpu=4)],
        jobs=[job("train", task("worker", 2, gpu=1), gang=4)],
        expect={"train": waits("waiting-for-members", "waits for 2 more members")},
    ),
    Scenario(
        "a node that goes takes the members, and the gang waits to be mended",
        nodes=[node("n1", gpu=2), node("n2", gpu=2)],
        jobs=[job("train", gang=4, gpu=1)],
        then=[removes("n2"), adds(node("n3", gpu=2))],
        expect={"train": placed(n1=2)},
    ),
]

NODES = [
    Scenario(
        "pods are packed on the node that is fullest",
        nodes=[node("n1", gpu=8), node("n2", gpu=8)],
        pods=[other("x", "n2", gpu=2)],
        jobs=[job("train", gang=2, gpu=1)],
        expect={"train": placed(n2=2)},
    ),
    Scenario(
        "ties go to the node whose name comes first",
        nodes=[node("b", gpu=8), node("a", gpu=8)],
        jobs=[job("train", gang=2, gpu=1)],
        expect={"train": placed(a=2)},
    ),
    Scenario(
        "pods of somebody else take room",
        nodes=[node("n1", gpu=4)],
        pods=[other("x", "n1", gpu=3)],
        jobs=[job("train", gang=2, gpu=1)],
        expect={"train": waits("no-room", "1 fit now")},
    ),
    Scenario(
        "a node is full by the number of pods",
        nodes=[node("n1", gpu=8, pods=3)],
        jobs=[job("train", gang=4, gpu=1)],
        expect={"train": waits("gang-too-large")},
    ),
    Scenario(
        "best-effort pods take a place in the number of pods",
        nodes=[node("n1", pods=2)],
        jobs=[job("first", gang=2, cpu=0), job("second", gang=1, cpu=0, at=1)],
        expect={"first": RUNNING, "second": waits("no-room", "pods")},
    ),
    Scenario(
        "a node that does not say how many pods it takes has no limit",
        nodes=[node("n1", pods=None)],
        jobs=[job("train", gang=40, cpu=1)],
        expect={"train": RUNNING},
    ),
    Scenario(
        "a node selector",
        nodes=[node("n1", gpu=4), node("n2", gpu=4, labels={"disktype": "ssd"})],
        jobs=[job("train", gang=2, gpu=1, selector={"disktype": "ssd"})],
        expect={"train": placed(n2=2)},
    ),
    Scenario(
        "a node selector that nothing matches is named with its numbers",
        nodes=[node("n1", gpu=4), node("n2", gpu=4)],
        jobs=[job("train", gang=2, gpu=1, selector={"disktype": "ssd"})],
        expect={"train": waits("no-node-matches", "disktype=ssd", "2 nodes")},
    ),
    Scenario(
        "required affinity: terms are alternatives",
        nodes=[
            node("n1", gpu=1, labels={"zone": "a"}),
            node("n2", gpu=1, labels={"zone": "b"}),
            node("n3", gpu=1),
        ],
        jobs=[job("train", gang=2, gpu=1, affinity=[[("zone", "In", ["a"])], [("zone", "In", ["b"])]])],
        expect={"train": placed(n1=1, n2=1)},
    ),
    Scenario(
        "required affinity: Gt compares numbers, NotIn takes what is absent",
        nodes=[
            node("n1", gpu=1, labels={"gen": "9"}),
            node("n2", gpu=1, labels={"gen": "10"}),
            node("n3", gpu=1, labels={"gen": "x"}),
            node("n4", gpu=1, labels={"gen": "11", "bad": "yes"}),
        ],
        jobs=[
            job(
                "train",
                gang=1,
                replicas=4,
                gpu=1,
                affinity=[[("gen", "Gt", ["9"]), ("bad", "NotIn", ["yes"])]],
            )
        ],
        expect={"train": placed(n2=1)},
    ),
    Scenario(
        "required affinity: Exists, DoesNotExist and Lt",
        nodes=[
            node("n1", gpu=1, labels={"a": "1"}),
            node("n2", gpu=1, labels={"a": "1", "b": "1"}),
            node("n3", gpu=1),
        ],
        jobs=[
            job(
                "train",
                gang=1,
                replicas=3,
                gpu=1,
                affinity=[[("a", "Exists", []), ("b", "DoesNotExist", []), ("a", "Lt", ["2"])]],
            )
        ],
        expect={"train": placed(n1=1)},
    ),
    Scenario(
        "an empty term of required affinity matches nothing",
        nodes=[node("n1", gpu=1)],
        jobs=[job("train", gang=1, gpu=1, affinity=[[]])],
        expect={"train": waits("no-node-matches", "affinity")},
    ),
    Scenario(
        "required affinity by the node's name",
        nodes=[node("n1", gpu=4), node("n2", gpu=4)],
        jobs=[job("train", gang=2, gpu=1, on=["n2"])],
        expect={"train": placed(n2=2)},
    ),
    Scenario(
        "preferred affinity wins over packing",
        nodes=[node("n1", gpu=4), node("n2", gpu=4, labels={"fast": "yes"})],
        pods=[other("x", "n1", gpu=1)],
        jobs=[job("train", gang=2, gpu=1, prefers=[(10, ("fast", "In", ["yes"]))])],
        expect={"train": placed(n2=2)},
    ),
    Scenario(
        "a PreferNoSchedule taint is avoided while there is room elsewhere",
        nodes=[node("n1", gpu=2, taints=["old:PreferNoSchedule"]), node("n2", gpu=2)],
        jobs=[job("train", gang=3, gpu=1)],
        expect={"train": placed(n1=1, n2=2)},
    ),
    Scenario(
        "a tainted node is not used",
        nodes=[node("n1", gpu=4, taints=["team=a:NoSchedule"]), node("n2", gpu=1)],
        jobs=[job("train", gang=2, gpu=1)],
        expect={"train": waits("gang-too-large", "1 node is tainted (team=a:NoSchedule)")},
    ),
    Scenario(
        "a toleration opens a tainted node",
        nodes=[node("n1", gpu=4, taints=["team=a:NoSchedule", "gpu:NoExecute"])],
        jobs=[
            job("equal", gang=1, gpu=1, tolerates=["team=a", "gpu:NoExecute"]),
            job("all", gang=1, gpu=1, tolerates=["*"]),
            job("other", gang=1, gpu=1, tolerates=["team=b", "gpu"]),
        ],
        expect={"equal": RUNNING, "all": RUNNING, "other": waits("no-node-tolerated", "team=a:NoSchedule")},
    ),
    Scenario(
        "a cordoned node is not used, unless that is tolerated",
        nodes=[node("n1", gpu=4, cordoned=True)],
        jobs=[
            job("train", gang=1, gpu=1),
            job("agent", gang=1, gpu=1, tolerates=["node.kubernetes.io/unschedulable:NoSchedule"]),
        ],
        expect={"train": waits("no-node-tolerated", "cordoned"), "agent": RUNNING},
    ),
    Scenario(
        "a node that is not ready is not used until it is",
        nodes=[node("n1", gpu=4, ready=False)],
        jobs=[job("train", gang=2, gpu=1)],
        expect={"train": waits("no-node-ready", "not ready")},
    ),
    Scenario(
        "a node that becomes ready starts what waited for it",
        nodes=[node("n1", gpu=4, ready=False)],
        jobs=[job("train", gang=2, gpu=1)],
        then=[adds(node("n1", gpu=4))],
        expect={"train": RUNNING},
    ),
    Scenario(
        "a node of another pool is not ours",
        nodes=[node("n1", gpu=4, pool="a100")],
        jobs=[job("train", gang=1, gpu=1)],
        expect={"train": waits("no-nodes")},
    ),
    Scenario(
        "nothing is placed on a node that has less than is used",
        nodes=[node("n1", gpu=8, cpu=8)],
        pods=[other("x", "n1", cpu=6)],
        then=[adds(node("n1", gpu=8, cpu=4)), submits(job("train", gang=1, gpu=1, cpu=0))],
        expect={"train": waits("no-room", "1 node has more used than it has")},
    ),
    Scenario(
        "nothing more is placed on a node that shrinks below what is used",
        nodes=[node("n1", gpu=8, cpu=8)],
        pods=[other("x", "n1", cpu=6)],
        jobs=[job("first", gang=1, gpu=1, cpu=0)],
        then=[adds(node("n1", gpu=8, cpu=4)), submits(job("second", gang=1, gpu=1, cpu=0))],
        expect={"first": RUNNING, "second": PENDING},
    ),
    Scenario(
        "a node is used again when the pods that it has no room for are gone",
        nodes=[node("n1", gpu=8, cpu=8)],
        pods=[other("x", "n1", cpu=6)],
        jobs=[job("first", gang=1, gpu=1, cpu=0)],
        then=[
            adds(node("n1", gpu=8, cpu=4)),
            submits(job("second", gang=1, gpu=1, cpu=0)),
            lambda world: world.delete_pod(("other", "x")),
        ],
        expect={"first": RUNNING, "second": RUNNING},
    ),
    Scenario(
        "nothing is placed on a node that a pod of somebody else fills beyond what it has",
        nodes=[node("n1", gpu=8, cpu=8)],
        jobs=[job("first", gang=1, gpu=1, cpu=0)],
        then=[joins(other("x", "n1", cpu=9)), submits(job("second", gang=1, gpu=1, cpu=0))],
        expect={"first": RUNNING, "second": PENDING},
    ),
    Scenario(
        "a pod that is larger than any node is told so",
        nodes=[node("n1", gpu=8), node("n2", gpu=4)],
        jobs=[job("train", gang=1, gpu=16)],
        expect={"train": waits("pod-too-large", "needs 16 nvidia.com/gpu on one node; the largest has 8")},
    ),
    Scenario(
        "a pod that asks for what no node has is told so",
        nodes=[node("n1", cpu=8), node("n2", cpu=4)],
        jobs=[job("train", gang=1, gpu=1)],
        expect={"train": waits("pod-too-large", "needs 1 nvidia.com/gpu on one node; no node has any")},
    ),
    Scenario(
        "free CPU in sum suffices but no node fits: it waits and stops nobody else",
        nodes=[node("n1", cpu=4), node("n2", cpu=4)],
        pods=[other("x", "n1", cpu=2), other("y", "n2", cpu=2)],
        jobs=[job("big", gang=1, cpu=3), job("small", gang=2, cpu=2, at=1)],
        expect={"big": waits("no-room", "0 fit now"), "small": RUNNING},
    ),
    Scenario(
        "a resource that no node has",
        nodes=[node("n1", gpu=8)],
        jobs=[job("train", gang=1, extra={"example.com/fpga": 1})],
        expect={"train": waits("pod-too-large", "example.com/fpga")},
    ),
]

ORDER = [
    Scenario(
        "the higher priority starts first",
        nodes=[node("n1", gpu=2)],
        jobs=[job("low", gang=2, gpu=1), job("high", gang=2, gpu=1, priority=10, at=5)],
        expect={"high": RUNNING, "low": waits("no-room", position=1)},
    ),
    Scenario(
        "of equal priority the older starts first",
        nodes=[node("n1", gpu=2)],
        jobs=[job("young", gang=2, gpu=1, at=5), job("old", gang=2, gpu=1)],
        expect={"old": RUNNING, "young": PENDING},
    ),
    Scenario(
        "of equal age the name decides",
        nodes=[node("n1", gpu=2)],
        jobs=[job("b", gang=2, gpu=1), job("a", gang=2, gpu=1)],
        expect={"a": RUNNING, "b": PENDING},
    ),
    Scenario(
        "a gang that cannot be placed does not stop one that needs something else",
        nodes=[node("n1", gpu=2), node("n2", cpu=8)],
        jobs=[job("first", gang=3, gpu=1, replicas=3), job("second", gang=1, cpu=8, at=1)],
        expect={"first": PENDING, "second": RUNNING},
    ),
    Scenario(
        "a gang that waits for room keeps a later one of the same shape from taking it piece by piece",
        nodes=[node("n1", gpu=4)],
        pods=[other("x", "n1", gpu=2)],
        jobs=[job("first", gang=4, gpu=1), job("second", gang=1, gpu=1, at=1)],
        expect={
            "first": waits("no-room", "2 fit now", position=1),
            "second": waits("behind", "ns/first", position=2),
        },
    ),
    Scenario(
        "what is held is held for a bounded time",
        nodes=[node("n1", gpu=4)],
        pods=[other("x", "n1", gpu=2)],
        jobs=[job("first", gang=4, gpu=1), job("second", gang=1, gpu=1, at=1)],
        then=[passes(301)],
        expect={"first": PENDING, "second": RUNNING},
    ),
    Scenario(
        "what is held is what stops a gang now: room that suffices is held no more",
        nodes=[node("n1", gpu=3, cpu=4)],
        pods=[other("x", "n1", gpu=1, cpu=0), other("y", "n1", gpu=1, cpu=0)],
        jobs=[
            job("first", task("a", 2, cpu=1), task("b", 2, gpu=1, cpu=0)),
            job("second", gang=3, cpu=1, at=1, on=["n1"]),
            job("third", gang=1, gpu=1, cpu=0, at=2),
            job("fourth", gang=1, cpu=1, at=3),
        ],
        expect={
            "first": waits("no-room", "1 fit now"),
            "second": RUNNING,
            "third": RUNNING,
            "fourth": waits("behind", "ns/first"),
        },
    ),
    Scenario(
        "a gang that holds room lets go of it when one before it comes to wait for the same",
        nodes=[node("n1", gpu=3), node("n2", gpu=3, labels={"zone": "a"})],
        pods=[other("x", "n1", gpu=3), other("y", "n2", gpu=2)],
        jobs=[
            job("first", task("a", 2, gpu=1, selector={"zone": "a"}), task("b", 3, gpu=1)),
        ],
        then=[
            submits(job("before", gang=4, gpu=1, priority=5)),
            submits(job("later", gang=1, gpu=1, selector={"zone": "a"}, at=9)),
        ],
        expect={"before": waits("no-room"), "first": waits("behind", "ns/before"), "later": RUNNING},
    ),
    Scenario(
        "a gang that takes the head of its lane over holds room for as long as it may itself",
        nodes=[node("n1", gpu=4)],
        pods=[other("x", "n1", gpu=2)],
        jobs=[job("old", gang=4, gpu=1, at=-1000)],
        then=[submits(job("new", gang=4, gpu=1, priority=5)), submits(job("small", gang=1, gpu=1, at=1))],
        expect={"old": PENDING, "new": waits("no-room"), "small": waits("behind", "ns/new")},
    ),
    Scenario(
        "without holding, whatever fits starts",
        nodes=[node("n1", gpu=4)],
        pods=[other("x", "n1", gpu=2)],
        jobs=[job("first", gang=4, gpu=1), job("second", gang=1, gpu=1, at=1)],
        policy=NO_HOLD,
        expect={"first": PENDING, "second": RUNNING},
    ),
    Scenario(
        "a gang that could never fit holds nothing",
        nodes=[node("n1", gpu=4)],
        jobs=[job("first", gang=9, gpu=1), job("second", gang=1, gpu=1, at=1)],
        expect={"first": waits("gang-too-large"), "second": RUNNING},
    ),
    Scenario(
        "when the gang that held starts, those behind it are tried at once",
        nodes=[node("n1", gpu=4)],
        jobs=[
            job("first", gang=3, gpu=1),
            job("second", gang=3, gpu=1, at=1),
            job("third", gang=1, gpu=1, at=2),
        ],
        then=[finishes("first")],
        expect={"second": RUNNING, "third": RUNNING},
    ),
    Scenario(
        "when the gang that held is deleted, those behind it are tried at once",
        nodes=[node("n1", gpu=4)],
        jobs=[
            job("first", gang=3, gpu=1),
            job("second", gang=3, gpu=1, at=1),
            job("third", gang=1, gpu=1, at=2),
        ],
        then=[finishes("second")],
        expect={"first": RUNNING, "third": RUNNING},
    ),
    Scenario(
        "when the gang that held is deleted, an equal one that comes later holds only what is behind itself",
        nodes=[node("n1", gpu=4)],
        pods=[other("x", "n1", gpu=2)],
        jobs=[
            job("first", gang=4, gpu=1),
            job("second", gang=1, gpu=1, at=1),
            job("third", gang=4, gpu=1, at=2),
            job("fourth", gang=1, gpu=1, at=3),
        ],
        then=[finishes("first")],
        expect={"second": RUNNING, "third": waits("no-room"), "fourth": waits("behind", "ns/third")},
    ),
    Scenario(
        "the job that fits starts, though many before it do not",
        nodes=[node("n1", gpu=4, cpu=4)],
        jobs=[
            *(job(f"big-{i:03d}", gang=1, gpu=8, at=i) for i in range(200)),
            job("fits", gang=1, cpu=2, at=999),
        ],
        expect={
            "fits": RUNNING,
            "big-000": waits("pod-too-large"),
            "big-199": waits("pod-too-large", position=200),
        },
    ),
]


def app(name: str, cpu: int, *, at: float = 0, queue: str = "default") -> c.Gang:
    """A driver of one core that will ask for executors when it runs; ``cpu`` cores in all."""
    return job(name, gang=1, cpu=1, at=at, queue=queue, in_all={"cpu": cpu * 1000})


def executors(gang: c.Gang, count: int, cores: int) -> Step:
    """The driver asks for executors."""
    more = task(f"{gang.name}-exec", count, 0, cpu=cores)
    grown = gang.model_copy(update={"tasks": (*gang.tasks, more)})

    def step(world: World) -> None:
        world.submit(grown)
        world.create_rest(grown)

    return step


ENTRY = [
    Scenario(
        "a driver waits until its whole application has room",
        nodes=[node("n1", cpu=4), node("n2", cpu=4)],
        jobs=[app("spark", 9)],
        expect={
            "spark": waits("min-resources", "will need 9 cpu in all, and the nodes have 8 cpu free; more")
        },
    ),
    Scenario(
        "a driver starts where its whole application has room in sum, in pieces as well",
        nodes=[node("n1", cpu=4), node("n2", cpu=4)],
        jobs=[app("spark", 8)],
        expect={"spark": RUNNING},
    ),
    Scenario(
        "a driver that waited starts when others end",
        nodes=[node("n1", cpu=4)],
        jobs=[job("first", gang=1, cpu=2), app("spark", 4, at=1)],
        then=[finishes("first")],
        expect={"spark": RUNNING},
    ),
    Scenario(
        "a driver that waited starts when a node comes",
        nodes=[node("n1", cpu=4)],
        jobs=[app("spark", 6)],
        then=[adds(node("n2", cpu=2))],
        expect={"spark": RUNNING},
    ),
    Scenario(
        "a node that takes no pods promises nothing",
        nodes=[node("n1", cpu=4), node("n2", cpu=4, cordoned=True)],
        jobs=[app("spark", 6)],
        expect={"spark": waits("min-resources", "have 4 cpu free")},
    ),
    Scenario(
        "two applications that do not fit beside each other do not both start",
        nodes=[node("n1", cpu=8)],
        jobs=[app("first", 5), app("second", 5, at=1)],
        expect={
            "first": RUNNING,
            "second": waits("min-resources", "7 cpu free, 4 cpu of that promised to gangs that run"),
        },
    ),
    Scenario(
        "what is promised to an application is not given to a job that begins later",
        nodes=[node("n1", cpu=8)],
        jobs=[app("spark", 6), job("large", gang=3, cpu=1, at=1), job("small", gang=2, cpu=1, at=2)],
        expect={"spark": RUNNING, "large": waits("min-resources"), "small": RUNNING},
    ),
    Scenario(
        "executors take what was promised",
        nodes=[node("n1", cpu=8)],
        jobs=[app("spark", 7), job("next", gang=2, cpu=1, at=1)],
        then=[executors(app("spark", 7), 3, 2)],
        expect={"spark": placed(4), "next": waits("no-room", "1 fit now")},
    ),
    Scenario(
        "nothing is promised to an application that has ended",
        nodes=[node("n1", cpu=8)],
        jobs=[app("spark", 8), job("next", gang=2, cpu=1, at=1)],
        then=[finishes("spark")],
        expect={"next": RUNNING},
    ),
    Scenario(
        "an application that needs more than its queue may hold does not start",
        nodes=[node("n1", cpu=64)],
        queues=[queue("team", cpu=4, parent="dept"), queue("dept", cpu=16)],
        jobs=[app("spark", 8, queue="team")],
        expect={
            "spark": waits("min-resources", "queue team has 4 cpu free; more than the queue may ever hold")
        },
    ),
    Scenario(
        "what is promised in one queue counts at the levels above it",
        nodes=[node("n1", cpu=64)],
        queues=[queue("dept", cpu=8), queue("a", parent="dept"), queue("b", parent="dept")],
        jobs=[app("first", 6, queue="a"), app("second", 6, at=1, queue="b")],
        expect={
            "first": RUNNING,
            "second": waits("min-resources", "queue dept has 7 cpu free, 5 cpu of that"),
        },
    ),
    Scenario(
        "a driver that cannot be placed says so, whatever its application needs",
        nodes=[node("n1", cpu=4)],
        jobs=[job("spark", gang=1, cpu=8, in_all={"cpu": 16000})],
        expect={"spark": waits("pod-too-large")},
    ),
]

QUEUES = [
    Scenario(
        "a queue's capability is a hard bound",
        nodes=[node("n1", gpu=8), node("n2", gpu=8)],
        queues=[queue("team-a", gpu=6)],
        jobs=[
            job("first", gang=4, gpu=1, queue="team-a"),
            job("second", gang=4, gpu=1, queue="team-a", at=1),
        ],
        expect={
            "first": RUNNING,
            "second": waits(
                "queue-capability",
                "queue team-a would be 2 nvidia.com/gpu over its capability: "
                "4 nvidia.com/gpu of 6 nvidia.com/gpu used, this needs 4 nvidia.com/gpu",
            ),
        },
    ),
    Scenario(
        "a resource that the capability does not name is not limited",
        nodes=[node("n1", gpu=8, cpu=64)],
        queues=[queue("team-a", gpu=2)],
        jobs=[job("cpu", gang=10, cpu=4, queue="team-a")],
        expect={"cpu": RUNNING},
    ),
    Scenario(
        "capability holds at every level of the parents",
        nodes=[node("n1", gpu=8)],
        queues=[
            queue("root", gpu=8),
            queue("dept", gpu=4, parent="root"),
            queue("team", gpu=8, parent="dept"),
        ],
        jobs=[job("first", gang=3, gpu=1, queue="team"), job("second", gang=2, gpu=1, queue="team", at=1)],
        expect={"first": RUNNING, "second": waits("queue-capability", "queue dept")},
    ),
    Scenario(
        "quota that is freed starts the next",
        nodes=[node("n1", gpu=8)],
        queues=[queue("team-a", gpu=4)],
        jobs=[
            job("first", gang=4, gpu=1, queue="team-a"),
            job("second", gang=4, gpu=1, queue="team-a", at=1),
        ],
        then=[finishes("first")],
        expect={"second": RUNNING},
    ),
    Scenario(
        "a capability that is raised starts what waited",
        nodes=[node("n1", gpu=8)],
        queues=[queue("team-a", gpu=2)],
        jobs=[job("train", gang=4, gpu=1, queue="team-a")],
        then=[sets(queue("team-a", gpu=4))],
        expect={"train": RUNNING},
    ),
    Scenario(
        "a gang over its queue's quota holds back a later one of the queue, not another's",
        nodes=[node("n1", gpu=8)],
        queues=[queue("team-a", gpu=4), queue("team-b")],
        jobs=[
            job("zero", gang=2, gpu=1, queue="team-a"),
            job("first", gang=4, gpu=1, queue="team-a", at=1),
            job("second", gang=1, gpu=1, cpu=2, queue="team-a", at=2),
            job("third", gang=1, gpu=1, queue="team-b", at=3),
            job("fourth", gang=1, cpu=1, queue="team-a", at=4),
        ],
        expect={
            "zero": RUNNING,
            "first": waits("queue-capability"),
            "second": waits("behind"),
            "third": RUNNING,
            "fourth": RUNNING,
        },
    ),
    Scenario(
        "a gang that holds room lets go of it when its queue has no quota left for it",
        nodes=[node("n1", gpu=4)],
        queues=[queue("team-a", priority=5, pods=4)],
        pods=[other("x", "n1", gpu=2)],
        jobs=[job("first", gang=4, gpu=1, queue="team-a"), job("second", gang=1, gpu=1)],
        then=[submits(job("quick", gang=1, cpu=1, queue="team-a", at=1))],
        expect={
            "quick": RUNNING,
            "first": waits("queue-capability", "queue team-a would be 1 pods over"),
            "second": RUNNING,
        },
    ),
    Scenario(
        "a gang that waits for quota holds it, not room, and takes up holding room when it has quota",
        nodes=[node("n1", gpu=4)],
        queues=[queue("team-a", priority=5, pods=4)],
        pods=[other("x", "n1", gpu=1)],
        jobs=[
            job("quick", gang=1, cpu=1, queue="team-a"),
            job("first", gang=4, gpu=1, queue="team-a", at=1),
            job("second", gang=1, gpu=1, at=2),
        ],
        then=[finishes("quick"), submits(job("third", gang=1, gpu=1, at=3))],
        expect={"second": RUNNING, "first": waits("no-room"), "third": waits("behind", "ns/first")},
    ),
    Scenario(
        "a gang that asks for more than a queue above its own may ever hold holds no quota",
        nodes=[node("n1", gpu=8)],
        queues=[queue("dept", gpu=3), queue("team-a", gpu=6, parent="dept")],
        jobs=[
            job("first", gang=2, gpu=1, queue="team-a"),
            job("large", gang=5, gpu=1, queue="team-a", at=1),
            job("small", gang=1, gpu=1, queue="team-a", at=2),
        ],
        expect={"first": RUNNING, "large": waits("queue-capability"), "small": RUNNING},
    ),
    Scenario(
        "a gang that could never fit holds no quota",
        nodes=[node("n1", gpu=4)],
        queues=[queue("team-a", gpu=6)],
        jobs=[
            job("first", gang=2, gpu=1, queue="team-a"),
            job("large", gang=5, gpu=1, queue="team-a", at=1),
            job("small", gang=1, gpu=1, queue="team-a", at=2),
        ],
        expect={"first": RUNNING, "large": waits("queue-capability"), "small": RUNNING},
    ),
    Scenario(
        "a gang that could never fit holds quota once new nodes could hold it",
        nodes=[node("n1", gpu=4)],
        queues=[queue("team-a", gpu=6)],
        jobs=[
            job("first", gang=2, gpu=1, queue="team-a"),
            job("large", gang=5, gpu=1, queue="team-a", at=1),
        ],
        then=[adds(node("n2", gpu=4)), submits(job("small", gang=1, gpu=1, queue="team-a", at=2))],
        expect={"large": waits("queue-capability"), "small": waits("behind", "ns/large")},
    ),
    Scenario(
        "surplus stops at the capability",
        nodes=[node("n1", gpu=8)],
        queues=[queue("team-a", gpu=3)],
        jobs=[job("train", gang=2, replicas=6, gpu=1, queue="team-a")],
        expect={"train": placed(3)},
    ),
    Scenario(
        "a closed queue takes no new gangs",
        nodes=[node("n1", gpu=8)],
        queues=[queue("team-a", state="Closed")],
        jobs=[job("train", gang=1, gpu=1, queue="team-a")],
        expect={"train": waits("queue-not-open", "queue team-a is Closed")},
    ),
    Scenario(
        "a queue that opens takes what waited",
        nodes=[node("n1", gpu=8)],
        queues=[queue("team-a", state="Closed")],
        jobs=[job("train", gang=1, gpu=1, queue="team-a")],
        then=[sets(queue("team-a"))],
        expect={"train": RUNNING},
    ),
    Scenario(
        "the gangs of a queue that closes go on, and are mended",
        nodes=[node("n1", gpu=8)],
        queues=[queue("team-a")],
        jobs=[job("train", gang=2, gpu=1, queue="team-a")],
        then=[sets(queue("team-a", state="Closed")), loses("train-worker-1")],
        expect={"train": RUNNING},
    ),
    Scenario(
        "a queue that does not exist",
        nodes=[node("n1", gpu=8)],
        jobs=[job("train", gang=1, gpu=1, queue="nowhere")],
        expect={"train": waits("queue-missing", "queue nowhere does not exist")},
    ),
    Scenario(
        "the gangs of a queue that is deleted are not placed, those that were let in no more than new ones",
        nodes=[node("n1", gpu=2), node("n2", gpu=2, labels={"zone": "a"})],
        queues=[queue("team-a")],
        jobs=[job("first", gang=1, replicas=3, gpu=1, queue="team-a", selector={"zone": "a"})],
        then=[
            lambda world: world.remove_queue("team-a"),
            adds(node("n3", gpu=2, labels={"zone": "a"})),
            loses("first-worker-0"),
            submits(job("second", gang=1, gpu=1, queue="team-a")),
        ],
        expect={"first": placed(1), "second": waits("queue-missing")},
    ),
    Scenario(
        "a queue with queues below it takes no gangs",
        nodes=[node("n1", gpu=8)],
        queues=[queue("dept"), queue("team", parent="dept")],
        jobs=[job("above", gang=1, gpu=1, queue="dept"), job("below", gang=1, gpu=1, queue="team")],
        expect={"above": waits("queue-not-leaf", "queue dept"), "below": RUNNING},
    ),
    Scenario(
        "a queue takes gangs again when the last queue below it goes",
        nodes=[node("n1", gpu=8)],
        queues=[queue("dept"), queue("team", parent="dept")],
        jobs=[job("above", gang=1, gpu=1, queue="dept")],
        then=[lambda world: world.remove_queue("team")],
        expect={"above": RUNNING},
    ),
    Scenario(
        "the root of the queues takes no gangs",
        nodes=[node("n1", gpu=8)],
        queues=[queue("root")],
        jobs=[job("train", gang=1, gpu=1, queue="root")],
        expect={"train": waits("queue-not-leaf", "queue root")},
    ),
    Scenario(
        "the queue of higher priority is served first",
        nodes=[node("n1", gpu=2)],
        queues=[queue("a"), queue("z", priority=5)],
        jobs=[job("one", gang=2, gpu=1, queue="a"), job("two", gang=2, gpu=1, queue="z", at=9)],
        expect={"two": RUNNING, "one": PENDING},
    ),
    Scenario(
        "queues of equal weight get equal parts",
        nodes=[node("n1", gpu=4)],
        queues=[queue("a"), queue("b")],
        jobs=[
            *(job(f"a-{i}", gang=1, gpu=1, queue="a", at=i) for i in range(4)),
            *(job(f"b-{i}", gang=1, gpu=1, queue="b", at=100 + i) for i in range(4)),
        ],
        expect={
            "a-0": RUNNING,
            "a-1": RUNNING,
            "a-2": PENDING,
            "b-0": RUNNING,
            "b-1": RUNNING,
            "b-2": PENDING,
        },
    ),
    Scenario(
        "weights divide the cluster",
        nodes=[node("n1", gpu=8, cpu=64)],
        queues=[queue("a", weight=3), queue("b", weight=1)],
        jobs=[
            *(job(f"a-{i}", gang=1, gpu=1, queue="a", at=100 + i) for i in range(8)),
            *(job(f"b-{i}", gang=1, gpu=1, queue="b", at=i) for i in range(8)),
        ],
        expect={"a-5": RUNNING, "a-6": PENDING, "b-1": RUNNING, "b-2": PENDING},
    ),
    Scenario(
        "what one queue does not ask for flows to the others",
        nodes=[node("n1", gpu=8)],
        queues=[queue("a"), queue("b")],
        jobs=[
            job("a-0", gang=1, gpu=1, queue="a"),
            *(job(f"b-{i}", gang=1, gpu=1, queue="b", at=i) for i in range(8)),
        ],
        expect={"a-0": RUNNING, "b-6": RUNNING, "b-7": PENDING},
    ),
]

ALL = [*GANGS, *NODES, *ORDER, *ENTRY, *QUEUES]


@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.name)
def test_scenario(scenario: Scenario) -> None:
    scenario.run()


def test_names_of_scenarios_are_sentences_of_their_own() -> None:
    assert len({scenario.name for scenario in ALL}) == len(ALL) >= 40
