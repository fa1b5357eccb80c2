"""The promises of the scheduler under random histories.

A state machine plays the cluster: nodes come, change and go, gangs are submitted, restarted and deleted,
pods die, decisions are carried out late, in part, or refused, results get lost. ``World`` checks each
decision against its own books (gang, no over-commit, capability); at any moment a model rebuilt from
what exists must decide exactly what the one decides that lived through it all.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from services.scheduler.core.configuration import configure
from services.scheduler.core.cycle import decide
from services.scheduler.core.decisions import Decision
from services.scheduler.core.load import Levelling, LoadLimit, LoadScore
from services.scheduler.core.model import Model
from services.scheduler.core.numa import numa_cpus
from services.scheduler.core.policy import Backfill, Defragmentation, Grouping, Policy, Scores
from services.scheduler.core.results import adopt, recall
from shared.api.names import NODEGROUP_NAME
from shared.events import contracts as c
from shared.plugins import Plugin
from tests.scenarios.mounting import volumes_on
from tests.scenarios.scenario import job, node, queue, reports, task
from tests.scenarios.test_kin import HOST, ZONE, apart, likes, spread, term
from tests.scenarios.test_kin import near as near_pods
from tests.scenarios.test_topology import grouped, hypernode, near
from tests.scenarios.test_volumes import mount, mounting, reaching
from tests.scenarios.world import Books, Key, World

POLICY = Policy(retry_first=timedelta(0), hold=timedelta(seconds=30), patience=timedelta(days=9))
SHORT = Backfill(margin=timedelta(seconds=5), lasts=timedelta(seconds=100), per_queue=2)
"""Reservations that are worked out anew while a history lasts."""
SPREAD = Scores(binpack_weight=0.0, node_affinity_weight=5.0, taint_weight=0.0)


class Picky(Plugin):
    """A plugin of somebody's: no pods on n3, GPUs spread, jobs by their names from behind."""

    def feasible(self, shape, nodes):
        return np.array([name != "n3" for name in nodes.names], np.bool_)

    def scores(self, shape, nodes):
        return -nodes.used("nvidia.com/gpu").astype(float)

    def order(self, gangs):
        return np.array([-ord(gang.name[-1]) for gang in gangs], float)


PICKY = configure(
    "actions: allocate\ntiers: [{plugins: [{name: picky}, {name: nodeorder}]}]",
    POLICY,
    {"picky": lambda _: Picky()},
).policy
POLICIES = [
    POLICY,
    PICKY,
    replace(POLICY, hold=timedelta(0)),
    replace(POLICY, hold=timedelta(hours=1), scores=SPREAD),
    replace(POLICY, scores=Scores(extended_weight=0.0)),
    replace(POLICY, backfill=SHORT),
    replace(POLICY, hold=timedelta(0), backfill=replace(SHORT, in_all=1)),
]
MOVING = Defragmentation(
    enabled=True, after=timedelta(0), period=timedelta(seconds=1), rest=timedelta(0), most_pods=4
)
MOVES = [replace(policy, defragmentation=MOVING) for policy in POLICIES]
LOADED = [
    replace(POLICY, scores=Scores(load=LoadScore()), load_limit=LoadLimit()),
    replace(POLICY, hold=timedelta(0), load_limit=LoadLimit(cpu=40)),
    replace(
        POLICY, scores=replace(SPREAD, image_weight=1.0, load=LoadScore(unseen_for=timedelta(minutes=2)))
    ),
    POLICY,
]
LEVELS = [
    replace(
        one, levelling=Levelling((60, 60, 100), (70, 70, 80), period=timedelta(seconds=1), rest=timedelta(0))
    )
    for one in LOADED[2:]
]
"""No node is closed for what it uses: room on one that was closed meanwhile is kept again after a restart."""
GROUPED = [
    replace(POLICY, grouping=Grouping(hierarchy=True)),
    replace(POLICY, hold=timedelta(0), grouping=Grouping()),
    replace(POLICY, hold=timedelta(0)),
    replace(POLICY, backfill=SHORT, grouping=Grouping()),
]
AFFINITY = c.NodeGroups(required=("a",), preferred=("b",))
"""A node is of the group that is called as its zone."""
NAMES = [f"n{i}" for i in range(5)]
JOBS = [f"j{i}" for i in range(6)]
QUEUES = ["default", "team-a", "team-b"]
ABOVE = "dept"

SHAPES = st.sampled_from(
    [
        {"gpu": 1, "cpu": 1},
        {"gpu": 2, "cpu": 1},
        {"gpu": 0, "cpu": 2},
        {"gpu": 0, "cpu": 0},
        {"gpu": 1, "cpu": 1, "selector": {"zone": "a"}},
        {"gpu": 1, "cpu": 1, "tolerates": ["team=a"]},
        {"gpu": 1, "cpu": 1, "prefers": [(5, ("zone", "In", ["b"]))]},
    ]
)

AMONG = [
    {"gpu": 1, "cpu": 1, "pod_labels": {"app": "x"}, "extras": apart(term("x"))},
    {"gpu": 1, "cpu": 1, "pod_labels": {"app": "x"}, "extras": near_pods(term("x", ZONE))},
    {"gpu": 0, "cpu": 1, "pod_labels": {"app": "y"}},
    {"gpu": 1, "cpu": 1, "extras": apart(term("y", ZONE))},
    {"gpu": 1, "cpu": 1, "extras": near_pods(term("y"))},
    {"gpu": 1, "cpu": 1, "pod_labels": {"app": "y"}, "extras": spread("y")},
    {"gpu": 0, "cpu": 1, "extras": {"hostPorts": [["TCP", "0.0.0.0", 80]]}},
    {"gpu": 0, "cpu": 1, "extras": likes("podAntiAffinity", term("x"))},
]

MOUNTS = [
    {"gpu": 1, "cpu": 1, "volumes": mounting(mount("a"))},
    {"gpu": 0, "cpu": 1, "volumes": mounting(mount("a"), mount("b"))},
    {"gpu": 0, "cpu": 1, "volumes": mounting(mount())},
    {"gpu": 1, "cpu": 1, "volumes": mounting(mount("c", driver="", free="k"))},
    {"gpu": 0, "cpu": 1, "volumes": mounting(mount("d", driver="", exclusive=True))},
    {"gpu": 0, "cpu": 1, "volumes": reaching(("zone", "a"))},
]

PARTS = [
    {"gpu": 0, "cpu": 1, "part": 500},
    {"gpu": 0, "cpu": 1, "part": 300},
    {"gpu": 0, "cpu": 1, "part": 1000},
    {"gpu": 0, "cpu": 1, "part": 400, "parts": 2},
    {"gpu": 1, "cpu": 1, "part": 500},
]
"""Thousandths of shared GPUs."""

FLOORS = st.sampled_from([None, None, None, {"nvidia.com/gpu": 4}, {"cpu": 9000, "nvidia.com/gpu": 2}])

RUNS = [None, None, 20, 60, 200]
"""Declared run times in seconds."""

RACKS = ["rack-a", "rack-b", "rack-c"]
ROW = "row"
LAYOUTS = [
    (near,),
    (partial(near, mode="soft"),),
    (partial(near, tier=2),),
    (partial(grouped, size=2),),
    (partial(grouped, size=2, minimum=1, tier=1),),
    (partial(grouped, size=2), partial(near, tier=2)),
]

OWED = st.sampled_from(
    [
        {},
        {"guarantee": {"gpu": 2}},
        {"guarantee": {"gpu": 1, "cpu": 2}, "deserved": {"gpu": 2}},
        {"deserved": {"gpu": 3, "cpu": 4}},
    ]
)


def summary(decisions: list[Decision]) -> list[tuple[object, ...]]:
    """What a decision says, without its number."""
    return [
        (d.namespace, d.name, d.generation, d.enqueue, d.minimum, tuple(d.rows), d.evictions, d.reservations)
        for d in decisions
    ]


def pick(data, options):
    """Draw one of some options, from hypothesis' data or from a generator."""
    return data.choice(options) if isinstance(data, random.Random) else data.draw(st.sampled_from(options))


def decide_all(model: Model, now: datetime) -> list[Decision]:
    """Decide until nothing is left to be decided at once."""
    found: list[Decision] = []
    unfinished = True
    while unfinished:
        outcome = decide(model, now)
        found += outcome.decisions
        unfinished = outcome.unfinished
    return found


def held(model: Model, now: datetime) -> dict[Key, tuple[str, str, str]]:
    """What waiting gangs keep from those behind them, and which of them do."""
    found: dict[Key, tuple[str, str, str]] = {}
    for lane in model.waiting.lanes.values():
        head = lane.head()
        if lane.holding is None or head is None:
            continue
        if lane.held_until(model.policy.hold.total_seconds()) <= now.timestamp():
            continue
        what, number, level = lane.holding
        names = model.resources
        thing = model.shapes.by_number[number].describe(names) if what == "room" else names.names[number]
        found[head[1].key] = (what, thing, level)
    return found


def of_groups(model: Model) -> dict[tuple[str, str], int]:
    """What queues with limits have on nodes, by what is counted and node."""
    counted = [(column, name) for column, name in enumerate(model.resources.names) if "group/" in name]
    model.nodes.fit_columns()
    found = {
        (name, node): model.nodes.used.item(column, slot)
        for column, name in counted
        for node, slot in model.nodes.slots.items()
    }
    return {at: amount for at, amount in found.items() if amount}


def event(decision: Decision) -> c.GangDecided:
    return c.GangDecided(
        decision=decision.number,
        pool="default",
        gang=c.GangRef(
            namespace=decision.namespace, name=decision.name, uid=decision.uid, generation=decision.generation
        ),
        enqueue=decision.enqueue,
        bindings=tuple(
            c.Binding(
                pod=p,
                task=t,
                node=n,
                uid=u,
                devices=decision.devices.get(p, ()),
                numa=numa_cpus(decision.cells.get(p, ())),
            )
            for p, t, n, u in decision.rows
        ),
        minimum=decision.minimum,
        evictions=decision.evictions,
        reservations=decision.reservations,
        decided_at=decision.decided_at,
    )


def facts(model: Model, books: Books) -> list[tuple[object, object]]:
    """What exists, and whom it is told."""
    tell: list[tuple[object, object]] = [(model.apply_node, state) for state in books.nodes.values()]
    tell += [(model.apply_queue, state) for state in books.queues.values()]
    tell += [(model.apply_hypernode, state) for state in books.hypernodes.values()]
    tell += [(model.apply_pod, state) for state in books.pods.values()]
    for key, gang in books.gangs.items():
        phase = books.phases[key]
        group = c.PodGroupState(
            namespace=gang.namespace, name=gang.name, uid=gang.uid, phase=phase, gang=gang
        )
        tell.append((model.apply_podgroup, group))
    if books.measured is not None:
        tell.append((model.apply_measured, books.measured))
    return tell


def rebuilt(world: World, seed: int) -> Model:
    """A new model told of what exists, in any order."""
    model, books = Model("default", world.policy), world.books
    tell = facts(model, books)
    random.Random(seed).shuffle(tell)
    for apply, state in tell:
        apply(state)  # type: ignore[operator]
    earlier: list[tuple[Decision, Callable[[Model, c.GangDecided, datetime], None]]] = []
    for key, decision in books.earmarks.items():
        mark = world.model.earmarks.of(key) or world.model.reservations.of(key)
        if mark is not None and mark.number == decision.number and decision.number not in books.flying:
            earlier.append((decision, recall))
    for decision in books.flying.values():
        reserved = world.model.reservations.of((decision.namespace, decision.name))
        over = reserved is None or reserved.number != decision.number
        if not (over and any(one.as_freed for one in decision.reservations)):
            earlier.append((decision, adopt))
    for decision, take in sorted(earlier, key=lambda item: item[0].number):
        take(model, event(decision), world.now)  # in the order of the log
    for mark in model.earmarks:
        if mark.moves and world.model.earmarks.of(mark.key) is None:
            model.earmarks.drop(mark.key)  # later records of the log say that it has landed
    model.pauses, model.asked = dict(world.model.pauses), world.model.asked
    return model


class Cluster(RuleBasedStateMachine):
    """Random histories."""

    def __init__(self, policy: Policy = POLICY) -> None:
        super().__init__()
        self.world = World(policy)

    @initialize(count=st.integers(1, 5), gpu=st.sampled_from([2, 4]))
    def some_nodes(self, count, gpu, shared=0, groups=None) -> None:
        for name in [*QUEUES, ABOVE]:
            self.world.queue(queue(name, groups=groups))
        for name in NAMES[:count]:
            zone = "ab"[int(name[1]) % 2]
            labels = {"zone": zone, HOST: name, NODEGROUP_NAME: zone}
            self.world.node(node(name, gpu=gpu, cpu=8, labels=labels, shared=shared))

    # ------------------------------------------------------------------ nodes and queues

    @rule(
        name=st.sampled_from(NAMES),
        gpu=st.sampled_from([0, 4, 4]),
        cpu=st.sampled_from([4, 8]),
        zone=st.sampled_from("ab"),
        taint=st.sampled_from([(), (), ("team=a:NoSchedule",), ("old:PreferNoSchedule",)]),
        ready=st.sampled_from([True, True, False]),
        pods=st.sampled_from([6, 110, None]),
        drivers=st.sampled_from([{}, {}, {"csi": 1}, {"csi": 2}]),
        free=st.sampled_from([{}, {"k": 1}]),
        shared=st.integers(0, 2),
    )
    def node(self, name, gpu, cpu, zone, taint, ready, pods, drivers, free, shared=0) -> None:
        self.world.node(
            node(
                name,
                gpu=gpu,
                cpu=cpu,
                labels={"zone": zone, HOST: name, NODEGROUP_NAME: zone},
                taints=taint,
                ready=ready,
                pods=pods,
                drivers=drivers,
                free=free,
                shared=shared,
            )
        )

    @rule(name=st.sampled_from(NAMES), with_pods=st.booleans())
    def node_goes(self, name, with_pods) -> None:
        self.world.remove_node(name)
        if with_pods:
            for key in [key for key, pod in self.world.books.pods.items() if pod.node == name]:
                self.world.delete_pod(key)

    @rule(
        name=st.sampled_from([*QUEUES, ABOVE]),
        gpu=st.sampled_from([None, 3, 6]),
        state=st.sampled_from(["Open", "Open", "Open", "Closed"]),
        weight=st.integers(1, 3),
        priority=st.sampled_from([0, 0, 5]),
        parent=st.sampled_from(["", ABOVE, ABOVE, "default"]),
        owed=OWED,
    )
    def queue(self, name, gpu, state, weight, priority, parent, owed) -> None:
        parent = "" if name in (parent, ABOVE) else parent
        self.world.queue(
            queue(name, gpu=gpu, state=state, weight=weight, priority=priority, parent=parent, **owed)
        )

    @rule(
        name=st.sampled_from(RACKS),
        tier=st.sampled_from([0, 1, 1]),
        members=st.lists(st.sampled_from(NAMES), min_size=1, max_size=3),
    )
    def hypernode(self, name, tier, members) -> None:
        self.world.hypernode(hypernode(name, tier, *members))

    @rule(members=st.lists(st.sampled_from([*RACKS, ROW]), min_size=1, max_size=2))
    def hypernode_of_hypernodes(self, members) -> None:
        self.world.hypernode(hypernode(ROW, 2, *members, of="HyperNode"))

    @rule(name=st.sampled_from([*RACKS, ROW]))
    def hypernode_goes(self, name) -> None:
        self.world.remove_hypernode(name)

    # ------------------------------------------------------------------ gangs and pods

    @rule(
        name=st.sampled_from(JOBS),
        shapes=st.lists(
            st.tuples(
                SHAPES | st.sampled_from([*AMONG, *MOUNTS, *PARTS]), st.integers(1, 3), st.integers(0, 3)
            ),
            min_size=1,
            max_size=2,
        ),
        queue_name=st.sampled_from(QUEUES),
        priority=st.sampled_from([0, 0, 3]),
        slack=st.integers(0, 2),
        then=st.sampled_from(["", "decide", "run", "run"]),
        in_all=FLOORS,
        layout=st.sampled_from([(), (), (), *LAYOUTS]),
        runs=st.sampled_from(RUNS),
    )
    def submit(self, name, shapes, queue_name, priority, slack, then, in_all, layout, runs=None) -> None:
        if ("ns", name) in self.world.books.gangs:
            if not then:
                return
            self.world.remove_gang(("ns", name))
        tasks = [
            task(f"t{number}", replicas, min(minimum, replicas), **wants)
            for number, (wants, replicas, minimum) in enumerate(shapes)
        ]
        total = sum(len(one.members) for one in tasks)
        least = max(0, total - slack)
        at = (self.world.now.timestamp() - 1767225600) if priority else 0
        gang = job(
            name, *tasks, gang=least, queue=queue_name, priority=priority, at=at, in_all=in_all, runs=runs
        )
        for change in layout:
            gang = change(gang)
        self.world.submit(gang.model_copy(update={"uid": f"{name}-{self.world.decisions}"}))
        if then:
            self.world.decide()
        if then == "run":
            self.world.settle()

    @rule(name=st.sampled_from(JOBS))
    def delete(self, name) -> None:
        if ("ns", name) in self.world.books.gangs:
            self.world.remove_gang(("ns", name))

    @rule(name=st.sampled_from(JOBS), at_once=st.booleans())
    def restart(self, name, at_once) -> None:
        key = ("ns", name)
        gang = self.world.books.gangs.get(key)
        if gang is None:
            return
        old = [(pod.namespace, pod.name) for pod in self.world.members(key)]
        if at_once:
            for pod in old:
                self.world.delete_pod(pod)
        self.world.books.phases[key] = "Pending"
        taken = {pod for _, pod in old if ("ns", pod) in self.world.books.pods}
        tasks = tuple(
            one.model_copy(update={"members": tuple(m for m in one.members if m.pod not in taken)})
            for one in gang.tasks
        )
        self.world.submit(gang.model_copy(update={"generation": gang.generation + 1, "tasks": tasks}))

    @precondition(lambda self: self.world.books.pods)
    @rule(data=st.data(), remade=st.booleans())
    def pod_dies(self, data, remade) -> None:
        key = pick(data, sorted(self.world.books.pods))
        pod = self.world.books.pods[key]
        self.world.end_pod(key, "Failed")
        gang = self.world.books.gangs.get((pod.namespace, pod.gang or ""))
        if remade and gang is not None and gang.generation == pod.generation:
            update = {"node": None, "phase": "Pending", "uid": pod.uid + "x", "releasing": False}
            self.world.pod(pod.model_copy(update=update))

    @precondition(lambda self: self.world.books.pods)
    @rule(data=st.data())
    def pod_is_being_deleted(self, data) -> None:
        key = pick(data, sorted(self.world.books.pods))
        self.world.pod(self.world.books.pods[key].model_copy(update={"releasing": True}))

    @precondition(lambda self: self.world.books.pods)
    @rule(data=st.data())
    def an_event_comes_again(self, data) -> None:
        key = pick(data, sorted(self.world.books.pods))
        self.world.model.apply_pod(self.world.books.pods[key])
        for state in self.world.books.nodes.values():
            self.world.model.apply_node(state)
        for gang in self.world.books.gangs:
            self.world.tell_gang(gang)

    @rule(name=st.sampled_from(["x0", "x1"]), on=st.sampled_from(NAMES), wants=SHAPES)
    def foreign_pod(self, name, on, wants) -> None:
        from tests.scenarios.scenario import other

        self.world.pod(other(name, on, gpu=wants["gpu"], cpu=wants["cpu"]))

    # ------------------------------------------------------------------ decisions

    @rule(limit=st.sampled_from([None, None, 1, 2]))
    def decide(self, limit) -> None:
        self.world.decide(limit)

    @precondition(lambda self: self.world.books.flying)
    @rule(data=st.data(), fails=st.booleans())
    def carry_out(self, data, fails) -> None:
        number = pick(data, sorted(self.world.books.flying))
        decision = self.world.books.flying[number]
        names = [row[0] for row in decision.rows] or [one.pod for one in decision.evictions] or [""]
        fail = frozenset({pick(data, names), pick(data, names)}) if fails else frozenset()
        self.world.carry_out(decision, fail)

    @rule(remade=st.booleans())
    def victims_go(self, remade) -> None:
        self.world.victims_go(remade=remade)

    @rule(seconds=st.sampled_from([1, 31]))
    def time_passes(self, seconds) -> None:
        self.world.pass_time(seconds)

    @rule()
    def somebody_asks_that_gangs_move(self) -> None:
        self.world.model.ask_to_move(self.world.now)

    @rule(policy=st.sampled_from([*POLICIES, *MOVES[:2], LOADED[0]]))
    def policy_changes(self, policy) -> None:
        self.world.set_policy(policy)

    @rule(data=st.data(), ago=st.sampled_from([0, 100, 290]))
    def nodes_are_measured(self, data, ago) -> None:
        cpu = {name: float(pick(data, [10, 40, 79, 81])) for name in NAMES if pick(data, [True, True, False])}
        self.world.measure(cpu, {name: float(pick(data, [20, 60, 90])) for name in cpu}, ago=ago)

    @rule(data=st.data(), images=st.sampled_from([{}, {"x:1": 1 << 30}, {"x:1": 1 << 28, "y:1": 1 << 29}]))
    def a_node_gets_images(self, data, images) -> None:
        there = sorted(self.world.books.nodes)
        if there:
            state = self.world.books.nodes[pick(data, there)]
            self.world.node(state.model_copy(update={"images": images}))

    # ------------------------------------------------------------------ promises

    @rule(seed=st.integers(0, 9))
    def a_rebuilt_model_decides_the_same(self, seed) -> None:
        for decision in list(self.world.books.flying.values()):
            gang = self.world.books.gangs.get((decision.namespace, decision.name))
            if gang is None or (gang.uid, gang.generation) != (decision.uid, decision.generation):
                self.world.carry_out(decision)
        new = rebuilt(self.world, seed)
        expected = summary(decide_all(new, self.world.now))
        found = summary(self.world.decide())
        assert found == expected, (found, expected, self.world.now)
        assert held(self.world.model, self.world.now) == held(new, self.world.now)
        assert of_groups(self.world.model) == of_groups(new)

    @rule()
    def what_is_decided_stays_decided(self) -> None:
        self.world.decide()
        for _ in range(3):
            assert self.world.decide() == []

    @invariant()
    def room_is_never_lost_or_invented(self) -> None:
        """What the model counts on each node and queue is what the books say."""
        model, books = self.world.model, self.world.books
        used, releasing, kept = self.world.used(), self.world.releasing(), self.world.kept()
        for sums, cells in zip((used, releasing), self.world.cells(), strict=True):
            for name, some in cells.items():
                sums.setdefault(name, {}).update(some)
        for name in {*books.nodes, *used}:
            slot = model.nodes.slots[name]
            for resource, column in ((r, i) for i, r in enumerate(model.resources.names)):
                if column < model.nodes.used.shape[0] and column not in model.resources.capacities:
                    leaving = int(model.nodes.releasing[column, slot])
                    assert leaving == releasing.get(name, {}).get(resource, 0), (name, resource)
                    counted = int(model.nodes.used[column, slot] - model.nodes.kept[column, slot])
                    more = max(0, kept.get(name, {}).get(resource, 0) - leaving)
                    assert counted == used.get(name, {}).get(resource, 0) + more, (name, resource)
            there = {kind: len(some) for kind, some in volumes_on(name, self.world.there(twice=True)).items()}
            assert model.nodes.volumes.used_on(slot) == there, name

    def a_gang_that_nothing_stops_is_placed(self) -> None:
        """The queue's priority must count: the gang comes before all others."""
        self.world.set_policy(POLICY)
        for key in [key for key, gang in self.world.books.gangs.items() if gang.min_resources]:
            self.world.remove_gang(key)  # what it is promised would stop others
        for state in list(self.world.books.queues.values()):
            self.world.queue(state.model_copy(update={"guarantee": None}))  # so would what is kept
        self.world.queue(queue("last", priority=9))
        self.world.node(node("last", gpu=1))
        self.world.submit(job("last", gang=1, gpu=1, queue="last", on=["last"]))
        self.world.settle()
        assert [pod.node for pod in self.world.members(("ns", "last"))] == ["last"]

    def teardown(self) -> None:
        for decision in list(self.world.books.flying.values()):
            self.world.carry_out(decision)
        self.world.settle(60)
        waiting = {gang.key for gang in self.world.model.unplaced}
        assert {("ns", name) for name in reports(self.world)} == waiting


Cluster.TestCase.settings = settings(
    max_examples=30,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
TestCluster = Cluster.TestCase


def test_the_policy_of_these_tests_is_the_default_but_for_times() -> None:
    default = Policy()
    times = {"retry_first": default.retry_first, "hold": default.hold, "patience": default.patience}
    assert replace(POLICY, **times) == default


WANTS = [
    {"gpu": 1, "cpu": 1},
    {"gpu": 1, "cpu": 1},
    {"gpu": 2, "cpu": 1},
    {"gpu": 0, "cpu": 2},
    {"gpu": 0, "cpu": 3},
    {"gpu": 0, "cpu": 0},
    {"gpu": 1, "cpu": 1, "selector": {"zone": "a"}},
    {"gpu": 1, "cpu": 1, "prefers": [(5, ("zone", "In", ["b"]))]},
]


STEPS = {"submit": 10, "carry": 12, "dies": 6, "delete": 3, "restart": 2, "node": 3, "goes": 1, "queue": 2}
STEPS |= {"same": 6, "time": 2, "leaving": 2, "policy": 2, "hypernode": 3, "victims": 4}


@dataclass(frozen=True)
class Odds:
    """How often gangs have floors or a layout, and queues a guarantee."""

    floors: float = 0.0
    owed: float = 0.0
    laid_out: float = 0.0
    among: float = 0.0
    mounting: float = 0.0
    sharing: float = 0.0
    declared: bool = False
    """Gangs declare run times, and time passes faster."""
    moves: bool = False
    """Gangs move so that others can start."""
    loaded: bool = False
    """What nodes really use is measured, and their images count."""
    levels: bool = False
    """Pods leave nodes for what these really use."""
    grouped: bool = False
    """Queues may use groups of nodes, up to limits."""


def wanted(dice: random.Random, odds: Odds) -> list[dict[str, object]]:
    if odds.mounting and dice.random() < odds.mounting:
        return MOUNTS
    if odds.sharing and dice.random() < odds.sharing:
        return PARTS
    return AMONG if dice.random() < odds.among else WANTS


def step(cluster: Cluster, dice: random.Random, odds: Odds) -> None:  # noqa: C901, PLR0912 - a table
    """One step of a busy history."""
    what = dice.choices([*STEPS], [*STEPS.values()])[0]
    books = cluster.world.books
    name = dice.choice(JOBS)
    if odds.loaded and dice.random() < 0.3:
        cluster.nodes_are_measured(dice, dice.choice([0, 0, 100, 290]))
        cluster.a_node_gets_images(
            dice, dice.choice([{}, {"x:1": 1 << 30}, {"x:1": 1 << 28, "y:1": 1 << 29}])
        )
    if what == "submit":
        shapes = [
            (
                dice.choice(wanted(dice, odds)),
                dice.randint(1, 4),
                dice.randint(0, 4),
            )
            for _ in range(dice.randint(1, 3))
        ]
        if odds.loaded:
            image = {"images": ["x:1" if int(name[1]) % 2 else "y:1"]}
            shapes = [({**wants, **image}, *counts) for wants, *counts in shapes]
        where, priority, slack = dice.choice(QUEUES), dice.choice([0, 0, 3]), dice.randint(0, 2)
        floor = {"cpu": dice.randint(1, 30) * 1000, "nvidia.com/gpu": dice.randint(0, 9)}
        floor = floor if dice.random() < odds.floors else None
        layout = dice.choice(LAYOUTS) if dice.random() < odds.laid_out else ()
        runs = dice.choice(RUNS) if odds.declared else None
        cluster.submit(name, shapes, where, priority, slack, "", floor, layout, runs)
    elif what == "hypernode":
        if odds.laid_out:
            change_hypernodes(cluster, dice)
    elif what == "carry" and books.flying:
        cluster.carry_out(dice, dice.random() < 0.3)
    elif what == "dies" and books.pods:
        cluster.pod_dies(dice, dice.random() < 0.6)
    elif what == "leaving" and books.pods:
        cluster.pod_is_being_deleted(dice)
    elif what == "victims":
        cluster.victims_go(dice.random() < 0.7)
    elif what == "delete":
        cluster.delete(name)
    elif what == "restart":
        cluster.restart(name, dice.random() < 0.5)
    elif what == "node":
        taint = dice.choice([(), (), ("team=a:NoSchedule",), ("old:PreferNoSchedule",)])
        ready, pods = dice.random() < 0.8, dice.choice([6, 110, None])
        cluster.node(
            dice.choice(NAMES),
            dice.choice([2, 4]),
            dice.choice([4, 8]),
            dice.choice("ab"),
            taint,
            ready,
            pods,
            dice.choice([{}, {"csi": 1}, {"csi": 2}]) if odds.mounting else {},
            dice.choice([{}, {"k": 1}]) if odds.mounting else {},
            dice.randint(0, 3) if odds.sharing else 0,
        )
    elif what == "goes":
        cluster.node_goes(dice.choice(NAMES), dice.random() < 0.7)
    elif what == "queue":
        state = dice.choice(["Open", "Open", "Open", "Closed"])
        gpu, parent = dice.choice([None, 3, 6]), dice.choice(["", ABOVE, ABOVE, "default"])
        guarantee = {"guarantee": {"gpu": dice.randint(1, 3)}} if dice.random() < odds.owed else {}
        if odds.grouped:
            within = {"a": {"gpu": dice.randint(0, 4)}, "b": {"cpu": dice.randint(0, 6), "pods": 4}}
            within = {group: within[group] for group in dice.sample("ab", dice.randint(0, 2))}
            guarantee |= {"groups": dice.choice([AFFINITY, AFFINITY, None]), "within": within or None}
        cluster.queue(
            dice.choice([*QUEUES, ABOVE]),
            gpu,
            state,
            dice.randint(1, 3),
            dice.choice([0, 0, 5]),
            parent,
            guarantee,
        )
    elif what == "time":
        cluster.time_passes(dice.choice([1, 31, 700 if odds.levels else 31 if odds.declared else 1]))
    elif what == "policy":
        kinds = ((odds.grouped, GROUPED), (odds.levels, LEVELS), (odds.moves, MOVES), (odds.loaded, LOADED))
        some = next((policies for has, policies in kinds if has), POLICIES)
        cluster.policy_changes(dice.choice(some))
        cluster.a_rebuilt_model_decides_the_same(dice.randint(0, 9))
    elif what == "same":
        cluster.a_rebuilt_model_decides_the_same(dice.randint(0, 9))
    if what != "same" and dice.random() < 0.5:
        cluster.decide(dice.choice([None, None, 1]))


def change_hypernodes(cluster: Cluster, dice: random.Random) -> None:
    kind = dice.choice(["rack", "rack", "row", "goes"])
    if kind == "rack":
        cluster.hypernode(dice.choice(RACKS), dice.choice([0, 1, 1]), dice.sample(NAMES, dice.randint(1, 3)))
    elif kind == "row":
        cluster.hypernode_of_hypernodes(dice.sample([*RACKS, ROW], dice.randint(1, 3)))
    else:
        cluster.hypernode_goes(dice.choice([*RACKS, ROW]))


@pytest.mark.parametrize("seed", range(520))
def test_the_promises_hold_through_a_busy_history(seed) -> None:
    declared = 80 <= seed < 120 or (seed >= 150 and seed % 2 == 0) or 280 <= seed < 330
    odds = Odds(
        floors=0.4 if seed % 4 > 1 else 0.0,
        owed=0.5 if seed % 8 > 3 else 0.0,
        laid_out=0.6 if 40 <= seed < 60 or 240 <= seed < 260 or 280 <= seed < 295 else 0.0,
        among=0.7 if 60 <= seed < 80 or 220 <= seed < 240 or 295 <= seed < 310 else 0.0,
        mounting=0.6 if 120 <= seed < 150 else 0.0,
        sharing=0.7 if 260 <= seed < 280 or 310 <= seed < 330 else 0.0,
        declared=declared,
        moves=200 <= seed < 270,
        loaded=330 <= seed < 440,
        levels=370 <= seed < 440,
        grouped=seed >= 440,
    )
    if seed >= 480:  # of several kinds at once
        odds = replace(
            odds,
            laid_out=0.4 if seed % 11 == 0 else 0.0,
            among=0.4 if seed % 3 == 0 else 0.0,
            mounting=0.4 if seed % 7 == 0 else 0.0,
            sharing=0.5 if seed % 5 == 0 else 0.0,
            moves=seed % 13 == 0,
            grouped=seed % 2 == 0,
        )
    dice = random.Random(seed)
    hold = timedelta(seconds=30 if seed % 2 or declared else 3600)
    policy = replace(POLICY, hold=hold, backfill=SHORT if declared else POLICY.backfill)
    policy = LOADED[seed % len(LOADED)] if odds.loaded else policy
    policy = LEVELS[seed % len(LEVELS)] if odds.levels else policy
    policy = GROUPED[seed % len(GROUPED)] if odds.grouped else policy
    cluster = Cluster(replace(policy, defragmentation=MOVING) if odds.moves else policy)
    shared, groups = 2 if odds.sharing else 0, AFFINITY if odds.grouped else None
    cluster.some_nodes(dice.randint(2, 5), 4, shared=shared, groups=groups)
    for _ in range(80):
        step(cluster, dice, odds)
        cluster.room_is_never_lost_or_invented()
    cluster.teardown()
    cluster.a_gang_that_nothing_stops_is_placed()
