"""Tasks of a job near to each other, or apart (Volcano's ``task-topology``), as scenarios."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.scheduler.core.buckets import Buckets, Ties
from services.scheduler.core.gangs import Gang, Pick, make_gang
from services.scheduler.core.model import Model
from services.scheduler.core.policy import Policy, Scores
from shared.events import contracts as c
from tests.scenarios.scenario import (
    RUNNING,
    Scenario,
    Step,
    finishes,
    job,
    loses,
    node,
    other,
    placed,
    submits,
    task,
)
from tests.scenarios.world import World

ALONE = Scores(
    binpack_weight=0.0,
    node_affinity_weight=0.0,
    taint_weight=0.0,
    fragmentation=None,
    task_topology_weight=1.0,
)
TIED = Policy(scores=ALONE)
PACKED = Policy(scores=replace(Scores(), task_topology_weight=10.0))
SPREAD = Policy(scores=replace(ALONE, least_requested_weight=1.0, task_topology_weight=10.0))


def where(world: World, *pods: str) -> list[str | None]:
    return [world.books.pods["ns", pod].node for pod in pods]


def together(*pods: str) -> Step:
    """The pods are on one node."""

    def step(world: World) -> None:
        assert len(set(where(world, *pods))) == 1, where(world, *pods)

    return step


def separate(*pods: str) -> Step:
    """No two of the pods are on one node."""

    def step(world: World) -> None:
        assert len(set(where(world, *pods))) == len(pods), where(world, *pods)

    return step


PS = task("ps", 2, cpu=2)
WORKERS = task("worker", 4, cpu=2)

SCENARIOS = [
    Scenario(
        "each server of a job shares its node with as many workers",
        nodes=[node("n1", cpu=7), node("n2", cpu=7), node("n3", cpu=7)],
        jobs=[job("t", PS, WORKERS, near="ps,worker", apart="ps")],
        then=[
            separate("t-ps-0", "t-ps-1"),
            together("t-ps-0", "t-worker-0", "t-worker-2"),
            together("t-ps-1", "t-worker-1", "t-worker-3"),
        ],
        policy=TIED,
        expect={"t": placed(n1=3, n2=3)},
    ),
    Scenario(
        "a bucket goes where all of it has the room, past nodes that hold a part of it",
        nodes=[node("n1", cpu=4), node("n2", cpu=4), node("n3", cpu=7)],
        jobs=[job("t", task("ps", 1, cpu=2), task("worker", 2, cpu=2), near="ps,worker")],
        policy=TIED,
        expect={"t": placed(n3=3)},
    ),
    Scenario(
        "a bucket that no node holds goes where the most of it has the room, and the rest where it can",
        nodes=[node("n1", cpu=3), node("n2", cpu=5)],
        jobs=[job("t", task("ps", 1, cpu=2), task("worker", 2, cpu=2), near="ps,worker")],
        policy=TIED,
        expect={"t": placed(n2=2, n1=1)},
    ),
    Scenario(
        "members of a task that keeps apart are on nodes of their own, though packing would put them on one",
        nodes=[node("n1"), node("n2"), node("n3")],
        jobs=[job("t", task("ps", 3, cpu=1), apart="ps")],
        policy=PACKED,
        expect={"t": placed(n1=1, n2=1, n3=1)},
    ),
    Scenario(
        "tasks that keep apart are on different nodes",
        nodes=[node("n1"), node("n2")],
        jobs=[job("t", task("a", 2, cpu=1), task("b", 2, cpu=1), apart="a,b")],
        then=[together("t-a-0", "t-a-1"), together("t-b-0", "t-b-1"), separate("t-a-0", "t-b-0")],
        policy=PACKED,
        expect={"t": placed(n1=2, n2=2)},
    ),
    Scenario(
        "members of a task that keeps together share a node, though spreading would not",
        nodes=[node("n1"), node("n2"), node("n3")],
        jobs=[job("t", task("worker", 3, cpu=1), near="worker")],
        policy=SPREAD,
        expect={"t": placed(n1=3)},
    ),
    Scenario(
        "it is a wish: what should be apart shares a node if there is no other",
        nodes=[node("n1")],
        jobs=[job("t", task("ps", 3, cpu=1), apart="ps")],
        policy=TIED,
        expect={"t": RUNNING},
    ),
    Scenario(
        "tasks that are not named go by the other scores",
        nodes=[node("n1", cpu=8), node("n2", cpu=8)],
        pods=[other("o", "n2", cpu=1)],
        jobs=[job("t", task("a", 2, cpu=1), task("loose", 2, cpu=1), apart="a")],
        then=[separate("t-a-0", "t-a-1"), together("t-loose-0", "t-loose-1")],
        policy=PACKED,
        expect={"t": RUNNING},
    ),
    Scenario(
        "who chooses first is who the order names first",
        nodes=[node("n1", cpu=2), node("n2", cpu=4)],
        jobs=[job("t", task("a", 1, cpu=1), task("b", 1, cpu=2), apart="a;b;a,b", order="b,a")],
        then=[lambda world: _is(world, "t-b-0", "n1")],
        policy=TIED,
        expect={"t": placed(n1=1, n2=1)},
    ),
    Scenario(
        "a member that is lost comes back to those that it belongs to",
        nodes=[node("n1", cpu=7), node("n2", cpu=7)],
        pods=[other("o", "n1", cpu=1)],
        jobs=[job("t", PS, WORKERS, near="ps,worker", apart="ps")],
        then=[loses("t-ps-1"), separate("t-ps-0", "t-ps-1"), together("t-ps-1", "t-worker-1", "t-worker-3")],
        policy=TIED,
        expect={"t": placed(n1=3, n2=3)},
    ),
    Scenario(
        "members beyond the minimum keep apart from those that run",
        nodes=[node("n1"), node("n2"), node("n3")],
        jobs=[job("t", task("ps", 3, 1, cpu=1), apart="ps")],
        policy=PACKED,
        expect={"t": placed(n1=1, n2=1, n3=1)},
    ),
    Scenario(
        "a minimum that may be made of any members is made of those that fit, as near as they can be",
        nodes=[node("n1", cpu=3), node("n2", cpu=3), node("n3", cpu=8)],
        jobs=[job("t", task("a", 2, 0, cpu=64), task("b", 3, 0, cpu=2), gang=3, near="b")],
        policy=TIED,
        expect={"t": placed(n3=3)},
    ),
    Scenario(
        "pods that take parts of GPUs keep together, too",
        nodes=[node("n1", shared=1), node("n2", shared=2)],
        pods=[other("o", "n1", cpu=1)],
        jobs=[job("t", task("worker", 3, part=600), near="worker"), job("u", gang=1, part=300, at=1)],
        policy=PACKED,
        expect={"t": placed(n1=1, n2=2), "u": RUNNING},
    ),
    Scenario(
        "what is required between pods holds before what is wished",
        nodes=[node(f"n{one}", labels={"kubernetes.io/hostname": f"n{one}"}) for one in (1, 2, 3)],
        jobs=[
            job(
                "t",
                task(
                    "worker",
                    3,
                    cpu=1,
                    pod_labels={"app": "w"},
                    extras={
                        "podAntiAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": [
                                {
                                    "labelSelector": {"matchLabels": {"app": "w"}},
                                    "topologyKey": "kubernetes.io/hostname",
                                }
                            ]
                        }
                    },
                ),
                near="worker",
            )
        ],
        policy=TIED,
        expect={"t": placed(n1=1, n2=1, n3=1)},
    ),
    Scenario(
        "without the plugin the topology means nothing",
        nodes=[node("n1"), node("n2")],
        jobs=[job("t", task("ps", 2, cpu=1), apart="ps")],
        expect={"t": placed(n1=2)},
    ),
    Scenario(
        "another gang of the same needs has its own topology",
        nodes=[node("n1"), node("n2")],
        jobs=[job("t", task("ps", 2, cpu=1), apart="ps"), job("u", task("ps", 2, cpu=1), near="ps", at=1)],
        then=[separate("t-ps-0", "t-ps-1"), together("u-ps-0", "u-ps-1")],
        policy=PACKED,
        expect={"t": RUNNING, "u": RUNNING},
    ),
    Scenario(
        "a gang with a topology preempts as any other",
        nodes=[node("n1", cpu=2), node("n2", cpu=2)],
        jobs=[job("low", gang=2, cpu=2)],
        then=[submits(job("t", task("ps", 2, cpu=2), apart="ps", priority=9, at=1)), finishes("low")],
        policy=TIED,
        expect={"t": placed(n1=1, n2=1)},
        evicted=["low-worker-0", "low-worker-1"],
    ),
]


def _is(world: World, pod: str, name: str) -> None:
    assert where(world, pod) == [name]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
def test_task_topology(scenario: Scenario) -> None:
    scenario.run()


# ---------------------------------------------------------------------- buckets, beside a slow reference

TASKS = ("a", "b", "c", "d")
SETS = st.lists(
    st.lists(st.sampled_from(TASKS), min_size=1, max_size=3, unique=True).map(tuple), max_size=3
).map(tuple)


@st.composite
def gangs(draw: st.DrawFn) -> tuple[c.Gang, dict[str, str]]:
    """A gang with a topology, and the nodes of some of its members."""
    tasks = [task(name, draw(st.integers(0, 4)), cpu=draw(st.integers(1, 3))) for name in TASKS]
    order = draw(st.lists(st.sampled_from(TASKS), unique=True).map(tuple))
    topology = c.TaskTopology(affinity=draw(SETS), anti_affinity=draw(SETS), order=order)
    gang = job("t", *tasks).model_copy(update={"task_topology": topology})
    members = [member.pod for one in gang.tasks for member in one.members]
    there = draw(st.lists(st.sampled_from(members), unique=True)) if members else []
    return gang, {name: draw(st.sampled_from(("n1", "n2", "n3"))) for name in there}


def reference(gang: c.Gang, places: dict[str, str]) -> list[set[str]]:
    """Gather members in buckets as Volcano does, one comparison at a time."""
    topology = gang.task_topology
    assert topology is not None
    near, far = topology.affinity, topology.anti_affinity

    def tied(sets: tuple[tuple[str, ...], ...], one: str, two: str) -> bool:
        return any(
            some == (one,) if one == two else len(some) > 1 and {one, two} <= set(some) for some in sets
        )

    def urgency(name: str) -> int:
        found = [4 for some in far if some == (name,)] + [2 for some in near if some == (name,)]
        found += [3 for some in near if len(some) > 1 and name in some]
        return max([*found, *(1 for some in far if len(some) > 1 and name in some)], default=0)

    order = topology.order
    place = {name: len(order) - order.index(name) if name in order else 0 for name in TASKS}
    cpu = {one.name: one.shape.requests["cpu"] for one in gang.tasks}
    named = [(m.pod, one.name) for one in gang.tasks for m in one.members if urgency(one.name)]
    bound = sorted((places[pod], pod, name) for pod, name in named if pod in places)
    free = [item for item in named if item[0] not in places]
    free.sort(key=lambda item: (-place[item[1]], -urgency(item[1])))
    found: list[list[tuple[str, str]]] = []
    nodes: list[str] = []
    for there, pod, name in bound:
        if there not in nodes:
            nodes.append(there)
            found.append([])
        found[nodes.index(there)].append((pod, name))
    for pod, name in free:
        chosen: list[tuple[str, str]] | None = None
        best = -(1 << 30)
        for bucket in found:
            drawn = sum(int(tied(near, name, one)) - int(tied(far, name, one)) for _, one in bucket)
            asked = sum(cpu[one] for member, one in bucket if member not in places)
            least = sum(cpu[one] for member, one in chosen or [] if member not in places)
            if drawn > best or (drawn == best and asked < least):
                chosen, best = bucket, drawn
        if chosen is None or best < 0:
            chosen = []
            found.append(chosen)
        chosen.append((pod, name))
    return [{pod for pod, _ in bucket} for bucket in found]


@settings(max_examples=300, deadline=None)
@given(gangs())
def test_members_are_gathered_as_by_volcano(drawn: tuple[c.Gang, dict[str, str]]) -> None:
    contract, places = drawn
    assert contract.task_topology is not None
    gang: Gang = make_gang(contract, Model().shapes)
    picks = [
        Pick(one.shape, number, [at for at, name in enumerate(one.names) if name not in places])
        for number, one in enumerate(gang.tasks)
    ]
    buckets = Buckets(gang, Ties(contract.task_topology), picks, places)
    waiting = [{gang.tasks[seat.task].names[seat.member] for seat in one.seats} for one in buckets.all]
    expected = reference(contract, places)
    assert waiting == [bucket - set(places) for bucket in expected]
    assert [one.size for one in buckets.all] == [len(bucket) for bucket in expected]


@settings(max_examples=60, deadline=None)
@given(gangs(), st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_a_topology_never_says_whether_a_gang_is_placed(
    drawn: tuple[c.Gang, dict[str, str]], sizes: list[int]
) -> None:
    contract, _ = drawn
    found: list[int] = []
    for policy in (TIED, Policy(scores=replace(ALONE, task_topology_weight=0.0))):
        world = World(policy)
        world.queue(c.QueueState(name="default"))
        for number, cpu in enumerate(sizes):
            world.node(node(f"n{number}", cpu=cpu))
        world.submit(contract)
        world.settle()
        found.append(sum(pod.node is not None for pod in world.books.pods.values()))
    assert found[0] == found[1]
