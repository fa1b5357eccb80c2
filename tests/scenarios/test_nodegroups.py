"""Queues on groups of nodes (Volcano's ``nodegroup``), as scenarios."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.core.nodegroups import lot_of
from services.scheduler.core.policy import Grouping, Policy
from shared.api.names import NODEGROUP_NAME
from shared.events import contracts as c
from tests.scenarios.scenario import (
    RUNNING,
    Scenario,
    adds,
    finishes,
    job,
    node,
    placed,
    queue,
    sets,
    submits,
    task,
    uses,
    waits,
)
from tests.scenarios.world import World

STRICT = Policy(grouping=Grouping())
LOOSE = Policy(grouping=Grouping(strict=False))
TREE = Policy(grouping=Grouping(hierarchy=True))


def of(group: str, name: str, **what: Any) -> c.NodeState:
    """A node of a group."""
    return node(name, gpu=what.pop("gpu", 8), labels={NODEGROUP_NAME: group}, **what)


def groups(
    *required: str, likes: Sequence[str] = (), never: Sequence[str] = (), rather_not: Sequence[str] = ()
) -> c.NodeGroups:
    return c.NodeGroups(
        required=required, preferred=tuple(likes), not_required=tuple(never), not_preferred=tuple(rather_not)
    )


WHERE = [
    Scenario(
        "a gang runs on nodes of its queue's group only",
        nodes=[of("a", "n1"), of("b", "n2"), node("n3", gpu=8)],
        queues=[queue("q", groups=groups("b"))],
        jobs=[job("train", gang=8, gpu=1, queue="q"), job("more", gang=1, gpu=1, queue="q", at=1)],
        policy=STRICT,
        expect={
            "train": placed(n2=8),
            "more": waits("no-room", "2 nodes are of no group that the queue may use (b)"),
        },
    ),
    Scenario(
        "a group that is preferred may be used, and one that is required comes before it",
        nodes=[of("a", "n1", gpu=2), of("b", "n2", gpu=2)],
        queues=[queue("q", groups=groups("b", likes=["a"]))],
        jobs=[job("train", gang=3, gpu=1, queue="q")],
        policy=STRICT,
        expect={"train": placed(n2=2, n1=1)},
    ),
    Scenario(
        "a group that must be avoided is not used though it is required",
        nodes=[of("a", "n1")],
        queues=[queue("q", groups=groups("a", never=["a"]))],
        jobs=[job("train", gang=1, gpu=1, queue="q")],
        policy=STRICT,
        expect={"train": waits("no-node-in-group", "the queue may use (none)")},
    ),
    Scenario(
        "a group that should be avoided is used last",
        nodes=[of("a", "n1", gpu=1), of("b", "n2", gpu=1), of("c", "n3", gpu=1)],
        queues=[queue("q", groups=groups("c", likes=["b"], rather_not=["a"]))],
        jobs=[job("first", gang=2, gpu=1, queue="q"), job("last", gang=1, gpu=1, queue="q", at=1)],
        policy=STRICT,
        expect={"first": placed(n3=1, n2=1), "last": placed(n1=1)},
    ),
    Scenario(
        "of preferred groups the first is taken where their order counts",
        nodes=[of("a", "n1"), of("b", "n2"), of("c", "n3")],
        queues=[queue("q", groups=groups(likes=["c", "b", "a"]))],
        jobs=[job("train", gang=2, gpu=4, queue="q"), job("next", gang=2, gpu=4, queue="q", at=1)],
        policy=Policy(grouping=Grouping(ordered=True)),
        expect={"train": placed(n3=2), "next": placed(n2=2)},
    ),
    Scenario(
        "of preferred groups each is as good as another where their order does not count",
        nodes=[of("a", "n1"), of("b", "n2")],
        queues=[queue("q", groups=groups(likes=["b", "a"]))],
        jobs=[job("train", gang=1, gpu=1, queue="q")],
        policy=STRICT,
        expect={"train": placed(n1=1)},
    ),
    Scenario(
        "strictly, a queue without affinity gets no node",
        nodes=[of("a", "n1"), node("n2", gpu=8)],
        jobs=[job("train", gang=1, gpu=1)],
        policy=STRICT,
        expect={"train": waits("no-node-in-group", "the queue may use (none)")},
    ),
    Scenario(
        "otherwise a queue without affinity gets nodes of no group",
        nodes=[of("a", "n1"), node("n2", gpu=8)],
        jobs=[job("train", gang=8, gpu=1), job("more", gang=1, gpu=1, at=1)],
        policy=LOOSE,
        expect={"train": placed(n2=8), "more": waits("no-room", "(nodes of no group)")},
    ),
    Scenario(
        "a queue with affinity gets no node of no group",
        nodes=[node("n1", gpu=8)],
        queues=[queue("q", groups=groups(likes=["a"]))],
        jobs=[job("train", gang=1, gpu=1, queue="q")],
        policy=LOOSE,
        expect={"train": waits("no-node-in-group", "(a)")},
    ),
    Scenario(
        "where only scores count, groups are liked and forbidden to nobody",
        nodes=[of("a", "n1", gpu=1), of("b", "n2", gpu=1)],
        queues=[queue("q", groups=groups("b")), queue("r")],
        jobs=[job("train", gang=1, gpu=1, queue="q"), job("other", gang=1, gpu=1, queue="r", at=1)],
        policy=Policy(grouping=Grouping(filters=False)),
        expect={"train": placed(n2=1), "other": placed(n1=1)},
    ),
    Scenario(
        "without the plugin groups mean nothing",
        nodes=[of("a", "n1")],
        queues=[queue("q", groups=groups("b"))],
        jobs=[job("train", gang=1, gpu=1, queue="q")],
        expect={"train": RUNNING},
    ),
]
TREES = [
    Scenario(
        "a queue without affinity has that of the nearest queue above it",
        nodes=[of("a", "n1"), of("b", "n2"), of("c", "n3")],
        queues=[
            queue("top", groups=groups("a")),
            queue("mid", parent="top", groups=groups("b")),
            queue("low", parent="mid"),
            queue("own", parent="mid", groups=groups("c")),
        ],
        jobs=[job("low", gang=8, gpu=1, queue="low"), job("own", gang=8, gpu=1, queue="own")],
        policy=TREE,
        expect={"low": placed(n2=8), "own": placed(n3=8)},
    ),
    Scenario(
        "an affinity that names nothing is one: nothing is inherited",
        nodes=[of("a", "n1")],
        queues=[queue("top", groups=groups("a")), queue("low", parent="top", groups=groups())],
        jobs=[job("train", gang=1, gpu=1, queue="low")],
        policy=TREE,
        expect={"train": waits("no-node-in-group")},
    ),
    Scenario(
        "without hierarchy nothing is inherited",
        nodes=[of("a", "n1")],
        queues=[queue("top", groups=groups("a")), queue("low", parent="top")],
        jobs=[job("train", gang=1, gpu=1, queue="low")],
        policy=STRICT,
        expect={"train": waits("no-node-in-group")},
    ),
]
CHANGES = [
    Scenario(
        "another affinity of the queue starts what waits",
        nodes=[of("a", "n1")],
        queues=[queue("q", groups=groups("b"))],
        jobs=[job("train", gang=1, gpu=1, queue="q")],
        then=[sets(queue("q", groups=groups("a")))],
        policy=STRICT,
        expect={"train": placed(n1=1)},
    ),
    Scenario(
        "another affinity holds for what comes later, and what runs stays",
        nodes=[of("a", "n1", gpu=1), of("b", "n2", gpu=1)],
        queues=[queue("q", groups=groups("a"))],
        jobs=[job("first", gang=1, gpu=1, queue="q")],
        then=[
            sets(queue("q", groups=groups("b"))),
            submits(job("second", gang=1, gpu=1, queue="q"), job("third", gang=1, gpu=1, queue="q", at=1)),
        ],
        policy=STRICT,
        expect={"first": placed(n1=1), "second": placed(n2=1), "third": waits("no-room", "(b)")},
    ),
    Scenario(
        "another affinity of the queue above starts what waits below it",
        nodes=[of("a", "n1")],
        queues=[queue("top", groups=groups("b")), queue("low", parent="top")],
        jobs=[job("train", gang=1, gpu=1, queue="low")],
        then=[sets(queue("top", groups=groups("a")))],
        policy=TREE,
        expect={"train": placed(n1=1)},
    ),
    Scenario(
        "another label of a node starts what waits",
        nodes=[of("a", "n1")],
        queues=[queue("q", groups=groups("b"))],
        jobs=[job("train", gang=1, gpu=1, queue="q")],
        then=[adds(of("b", "n1"))],
        policy=STRICT,
        expect={"train": placed(n1=1)},
    ),
    Scenario(
        "a node whose label was taken away takes no more",
        nodes=[of("a", "n1")],
        queues=[queue("q", groups=groups("a"))],
        jobs=[job("first", gang=1, gpu=1, queue="q")],
        then=[adds(node("n1", gpu=8)), submits(job("second", gang=1, gpu=1, queue="q", at=1))],
        policy=STRICT,
        expect={"first": placed(n1=1), "second": waits("no-node-in-group")},
    ),
    Scenario(
        "a policy that names the plugin holds for gangs that wait already",
        nodes=[of("a", "n1", gpu=2), of("b", "n2", gpu=1)],
        queues=[queue("q", groups=groups("b"))],
        jobs=[job("train", gang=2, gpu=2, queue="q")],
        then=[uses(STRICT), adds(of("a", "n3", gpu=2))],
        policy=Policy(),
        expect={"train": waits("pod-too-large", "the largest has 1")},
    ),
    Scenario(
        "a policy that does not name the plugin any more lets all nodes be used",
        nodes=[of("a", "n1")],
        queues=[queue("q", groups=groups("b"))],
        jobs=[job("train", gang=1, gpu=1, queue="q")],
        then=[uses(Policy())],
        policy=STRICT,
        expect={"train": placed(n1=1)},
    ),
]
EVICTIONS = [
    Scenario(
        "who is evicted is on a node that the gang may use",
        nodes=[of("a", "n1", gpu=1), of("b", "n2", gpu=1)],
        queues=[queue("q", groups=groups("a", "b"))],
        jobs=[job("one", gang=1, gpu=1, queue="q"), job("two", gang=1, gpu=1, queue="q", at=1)],
        then=[
            sets(queue("q", groups=groups("b"))),
            submits(job("high", gang=1, gpu=1, queue="q", priority=10, at=2)),
        ],
        policy=STRICT,
        expect={"one": RUNNING, "high": placed(n2=1)},
        evicted=["two-worker-0"],
    ),
    Scenario(
        "nobody is evicted where the gang may not run",
        nodes=[of("a", "n1", gpu=1)],
        queues=[queue("q", groups=groups("a"))],
        jobs=[job("one", gang=1, gpu=1, queue="q")],
        then=[
            sets(queue("q", groups=groups("b"))),
            submits(job("high", gang=1, gpu=1, queue="q", priority=10, at=2)),
        ],
        policy=STRICT,
        expect={"one": RUNNING, "high": waits("no-node-in-group")},
    ),
]


FULL = "queue q may use 4 nvidia.com/gpu of the nodes of group a: 4 nvidia.com/gpu are used, this needs 1"
LIMITS = [
    Scenario(
        "a queue uses no more of a group's nodes than its limit, whatever is free there",
        nodes=[of("a", "n1", gpu=3), of("a", "n2", gpu=3)],
        queues=[queue("q", groups=groups("a"), within={"a": {"gpu": 4}})],
        jobs=[job("train", gang=4, gpu=1, queue="q"), job("more", gang=1, gpu=1, queue="q", at=1)],
        policy=STRICT,
        expect={"train": placed(4), "more": waits("node-group-limit", FULL)},
    ),
    Scenario(
        "what the limit of one group does not let be goes to another that the queue may use",
        nodes=[of("a", "n1"), of("b", "n2")],
        queues=[queue("q", groups=groups("a", likes=["b"]), within={"a": {"gpu": 2}})],
        jobs=[job("train", gang=5, gpu=1, queue="q")],
        policy=STRICT,
        expect={"train": placed(n1=2, n2=3)},
    ),
    Scenario(
        "a gang that a limit does not let be whole gets nothing",
        nodes=[of("a", "n1"), of("b", "n2", gpu=2)],
        queues=[queue("q", groups=groups("a", "b"), within={"a": {"gpu": 2}})],
        jobs=[job("train", gang=5, gpu=1, queue="q")],
        policy=STRICT,
        expect={"train": waits("node-group-limit", "may use 2 nvidia.com/gpu", "more than it may ever use")},
    ),
    Scenario(
        "only what the limit names is limited, and there it is what all pods ask for together",
        nodes=[of("a", "n1", cpu=64)],
        queues=[queue("q", groups=groups("a"), within={"a": {"cpu": 3}})],
        jobs=[
            job("gpus", gang=6, gpu=1, cpu=0, queue="q"),
            job("cpus", gang=3, gpu=0, cpu=1, queue="q", at=1),
            job("more", gang=1, gpu=0, cpu=1, queue="q", at=2),
        ],
        policy=STRICT,
        expect={"gpus": placed(6), "cpus": placed(3), "more": waits("node-group-limit", "3 cpu are used")},
    ),
    Scenario(
        "a group that no limit names is not limited",
        nodes=[of("b", "n1")],
        queues=[queue("q", groups=groups("a", "b"), within={"a": {"gpu": 1}})],
        jobs=[job("train", gang=8, gpu=1, queue="q")],
        policy=STRICT,
        expect={"train": placed(n1=8)},
    ),
    Scenario(
        "each queue has limits of its own",
        nodes=[of("a", "n1", gpu=16)],
        queues=[
            queue("q", groups=groups("a"), within={"a": {"gpu": 4}}),
            queue("r", groups=groups("a"), within={"a": {"gpu": 3}}),
            queue("s", groups=groups("a")),
        ],
        jobs=[
            job("q", gang=4, gpu=1, queue="q"),
            job("r", gang=3, gpu=1, queue="r"),
            job("r-more", gang=1, gpu=1, queue="r", at=1),
            job("s", gang=1, gpu=1, queue="s"),
        ],
        policy=STRICT,
        expect={"q": placed(4), "r": placed(3), "r-more": waits("node-group-limit"), "s": placed(1)},
    ),
    Scenario(
        "a queue has the affinity of the one above it, and not its limits",
        nodes=[of("a", "n1")],
        queues=[queue("top", groups=groups("a"), within={"a": {"gpu": 1}}), queue("low", parent="top")],
        jobs=[job("train", gang=8, gpu=1, queue="low")],
        policy=TREE,
        expect={"train": placed(n1=8)},
    ),
    Scenario(
        "pods beyond a gang's minimum are added up to the limit",
        nodes=[of("a", "n1")],
        queues=[queue("q", groups=groups("a"), within={"a": {"gpu": 5}})],
        jobs=[job("train", task("worker", 8, 2, gpu=1), gang=2, queue="q")],
        policy=STRICT,
        expect={"train": placed(5)},
    ),
    Scenario(
        "a gang starts when enough of its queue has ended there, and not for what others leave",
        nodes=[of("a", "n1", gpu=4)],
        queues=[queue("q", groups=groups("a"), within={"a": {"gpu": 2}}), queue("r", groups=groups("a"))],
        jobs=[
            job("one", gang=2, gpu=1, queue="q"),
            job("other", gang=1, gpu=1, queue="r"),
            job("two", gang=2, gpu=1, queue="q", at=1),
            job("three", gang=2, gpu=1, queue="q", at=2),
        ],
        then=[finishes("other"), finishes("one")],
        policy=STRICT,
        expect={"two": placed(n1=2), "three": waits("node-group-limit")},
    ),
    Scenario(
        "a limit that is set while pods run counts them",
        nodes=[of("a", "n1")],
        queues=[queue("q", groups=groups("a"))],
        jobs=[job("train", gang=3, gpu=1, queue="q")],
        then=[
            sets(queue("q", groups=groups("a"), within={"a": {"gpu": 4}})),
            submits(job("next", gang=1, gpu=1, queue="q"), job("more", gang=1, gpu=1, queue="q", at=1)),
        ],
        policy=STRICT,
        expect={"train": RUNNING, "next": placed(1), "more": waits("node-group-limit", FULL)},
    ),
    Scenario(
        "a lower limit lets run what runs, and a higher one starts what waits",
        nodes=[of("a", "n1")],
        queues=[queue("q", groups=groups("a"), within={"a": {"gpu": 4}})],
        jobs=[job("train", gang=4, gpu=1, queue="q"), job("next", gang=2, gpu=1, queue="q", at=1)],
        then=[
            sets(queue("q", groups=groups("a"), within={"a": {"gpu": 1}})),
            sets(queue("q", groups=groups("a"), within={"a": {"gpu": 6}})),
        ],
        policy=STRICT,
        expect={"train": placed(4), "next": placed(2)},
    ),
    Scenario(
        "no limit any more: what waits starts",
        nodes=[of("a", "n1")],
        queues=[queue("q", groups=groups("a"), within={"a": {"gpu": 1}})],
        jobs=[job("train", gang=4, gpu=1, queue="q")],
        then=[sets(queue("q", groups=groups("a")))],
        policy=STRICT,
        expect={"train": placed(4)},
    ),
    Scenario(
        "pods on a node that is of another group now count there",
        nodes=[of("a", "n1", gpu=2), of("a", "n2", gpu=2)],
        queues=[queue("q", groups=groups("a", "b"), within={"a": {"gpu": 2}, "b": {"gpu": 2}})],
        jobs=[job("one", gang=2, gpu=1, queue="q"), job("two", gang=2, gpu=1, queue="q", at=1)],
        then=[adds(of("b", "n1", gpu=2))],
        policy=STRICT,
        expect={"one": placed(n1=2), "two": placed(n2=2)},
    ),
    Scenario(
        "limits that cannot be read leave the queue no node, and the reason says what is wrong",
        nodes=[of("a", "n1")],
        queues=[queue("q", groups=groups("a"), fault="limits: a.cpu: 'x' is no quantity")],
        jobs=[job("train", gang=1, gpu=1, queue="q")],
        policy=STRICT,
        expect={"train": waits("no-node-in-group", "the queue may use (none: limits: a.cpu: 'x'")},
    ),
    Scenario(
        "limits mean nothing where groups are only liked",
        nodes=[of("a", "n1")],
        queues=[queue("q", groups=groups("a"), within={"a": {"gpu": 1}})],
        jobs=[job("train", gang=8, gpu=1, queue="q")],
        policy=Policy(grouping=Grouping(filters=False)),
        expect={"train": placed(n1=8)},
    ),
    Scenario(
        "a gang of higher priority evicts some of its own queue to come within a limit, although room is free",
        nodes=[of("a", "n1")],
        queues=[queue("q", groups=groups("a"), within={"a": {"gpu": 2}}), queue("r", groups=groups("a"))],
        jobs=[
            job("low", gang=1, gpu=1, queue="q"),
            job("lower", gang=1, gpu=1, queue="q", at=1),
            job("other", gang=1, gpu=1, queue="r"),
        ],
        then=[submits(job("high", gang=1, gpu=1, queue="q", priority=10, at=2))],
        policy=STRICT,
        expect={"low": RUNNING, "other": RUNNING, "high": placed(n1=1)},
        evicted=["lower-worker-0"],
    ),
]


@pytest.mark.parametrize(
    "scenario", [*WHERE, *TREES, *CHANGES, *EVICTIONS, *LIMITS], ids=lambda one: one.name
)
def test_node_groups(scenario: Scenario) -> None:
    scenario.run()


def test_queues_share_shapes_where_groups_mean_nothing_and_where_they_have_the_same() -> None:
    def shapes(policy: Policy) -> int:
        world = World(policy)
        for name in ("p", "q", "r"):
            world.queue(queue(name, groups=groups("b" if name == "r" else "a")))
            world.submit(job(f"train-{name}", gang=1, gpu=1, queue=name))
        world.settle()
        return len(world.model.shapes.by_number)

    assert shapes(Policy()) == 1
    assert shapes(STRICT) == 2


def test_room_is_kept_no_longer_on_nodes_that_a_gang_may_not_use_any_more() -> None:
    world = World(STRICT)
    world.node(of("a", "n1", gpu=1))
    world.queue(queue("q", groups=groups("a")))
    world.submit(job("low", gang=1, gpu=1, queue="q"))
    world.settle()
    world.submit(job("high", gang=1, gpu=1, queue="q", priority=9, at=1))
    world.decide()
    assert world.model.earmarks.of(("ns", "high")) is not None
    world.queue(queue("q", groups=groups("b")))
    world.decide()
    assert world.model.earmarks.of(("ns", "high")) is None


_NAMES = st.lists(st.sampled_from("abc"), max_size=3, unique=True).map(tuple)


@given(
    st.builds(c.NodeGroups, required=_NAMES, preferred=_NAMES, not_required=_NAMES, not_preferred=_NAMES),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["a", "b", "c", "d", None]),
)
def test_a_lot_takes_and_likes_groups_as_volcano_does(
    affinity: c.NodeGroups, strict: bool, ordered: bool, group: str | None
) -> None:
    lot = lot_of(affinity, Grouping(strict=strict, ordered=ordered))
    unset = affinity == c.NodeGroups()
    if group is None:
        assert lot.takes(None) == (unset and not strict)
        return
    takes = group in affinity.required or group in affinity.preferred
    takes = takes and group not in affinity.not_required
    takes = takes or group in affinity.not_preferred
    assert lot.takes(group) == (takes and not unset)
    liked = 100.0 if group in affinity.required else 0.0
    if group in affinity.preferred:
        many = len(affinity.preferred)
        liked += 50.0 * (many - affinity.preferred.index(group)) / many if ordered else 50.0
    if group in affinity.not_preferred:
        liked = -1.0
    assert dict(lot.likes).get(group, 0.0) == pytest.approx(liked)
    assert lot_of(affinity, replace(Grouping(), filters=False)).takes(group)
