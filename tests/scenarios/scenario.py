"""Scenarios: a small world, what is submitted, what happens, and what is expected, as data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from services.scheduler.core.policy import Policy
from services.scheduler.core.reports import Reporter
from shared.events import contracts as c
from tests.scenarios.world import START, World

GPU = "nvidia.com/gpu"
GI = 1 << 30


@dataclass(frozen=True)
class Placed:
    """Expect pods on nodes; ``count`` None: all members."""

    count: int | None = None
    on: dict[str, int] | None = None


@dataclass(frozen=True)
class Waits:
    """Expect no pod placed, and a reason (code, and words of its message)."""

    code: str | None = None
    says: tuple[str, ...] = ()
    position: int | None = None


RUNNING = Placed()
PENDING = Waits()


def placed(count: int | None = None, **on: int) -> Placed:
    """So many members are placed, on these nodes."""
    return Placed(count if count is not None or not on else sum(on.values()), on or None)


def waits(code: str, *says: str, position: int | None = None) -> Waits:
    """It waits for this reason."""
    return Waits(code, says, position)


Step = Callable[[World], None]


@dataclass(frozen=True)
class Scenario:
    """``then`` are steps; the world settles after each. Queue ``default`` is open unless given."""

    name: str
    nodes: Sequence[c.NodeState] = ()
    jobs: Sequence[c.Gang] = ()
    expect: dict[str, Placed | Waits] = field(default_factory=dict)
    queues: Sequence[c.QueueState] = ()
    pods: Sequence[c.PodState] = ()
    hypernodes: Sequence[c.HyperNodeState] = ()
    then: Sequence[Step] = ()
    policy: Policy = field(default_factory=Policy)
    evicted: Sequence[str] = ()
    """Names of the pods that are evicted, in any order."""

    def run(self) -> None:
        world = World(self.policy)
        if not any(one.name == "default" for one in self.queues):
            world.queue(queue("default"))
        for one in self.queues:
            world.queue(one)
        for state in self.nodes:
            world.node(state)
        for hypernode in self.hypernodes:
            world.hypernode(hypernode)
        for pod in self.pods:
            world.pod(pod)
        for gang in self.jobs:
            world.submit(gang)
        world.settle()
        for step in self.then:
            step(world)
            world.settle()
        assert sorted(world.books.evicted) == sorted(f"ns/{name}" for name in self.evicted)
        for name, expected in self.expect.items():
            check(world, name, expected)
        self._steady(world)

    @staticmethod
    def _steady(world: World) -> None:
        """Five rounds more decide nothing."""
        for _ in range(5):
            world.pass_time(0.01)
            assert world.decide() == []


def check(world: World, name: str, expected: Placed | Waits) -> None:
    gang = world.books.gangs["ns", name]
    on: dict[str, int] = {}
    for pod in world.members(("ns", name)):
        if pod.node is not None:
            on[pod.node] = on.get(pod.node, 0) + 1
    if isinstance(expected, Placed):
        count = sum(len(task.members) for task in gang.tasks) if expected.count is None else expected.count
        assert sum(on.values()) == count, (name, on)
        assert expected.on is None or on == expected.on, (name, on)
        return
    assert on == {}, (name, on)
    report = reports(world).get(name)
    assert report is not None, f"no report about {name}"
    assert expected.code in (None, report.reason.code), report
    for words in expected.says:
        assert any(words in reason.message for reason in (report.reason, *report.details)), report
    assert expected.position in (None, report.position), report


def reports(world: World) -> dict[str, c.GangReport]:
    """Return what a new reporter says of every waiting gang."""
    reporter = Reporter(world.model)
    reporter.begin(world.now)
    while reporter.foresee():
        pass
    found: list[c.GangReport] = []
    while (some := reporter.some(world.now, 3)) is not None:
        found += some
    return {report.gang.name: report for report in found}


# ---------------------------------------------------------------------- words of scenarios


def node(
    name: str,
    *,
    gpu: int = 0,
    cpu: float = 64,
    memory: int = 256,
    pods: int | None = 110,
    labels: dict[str, str] | None = None,
    taints: Sequence[str] = (),
    ready: bool = True,
    cordoned: bool = False,
    pool: str = "default",
    shared: int = 0,
    drivers: dict[str, int] | None = None,
    free: dict[str, int] | None = None,
    numa: c.NumaTopology | None = None,
    images: dict[str, int] | None = None,
) -> c.NodeState:
    """A node; cpu in cores, memory in GiB, taints as ``key=value:Effect``; ``shared``: GPUs to be shared.

    It takes so many volumes of ``drivers``, has so many that are ``free``, and ``images`` of so many MiB. ``numa``:
    its NUMA nodes.
    """
    amounts = {"cpu": int(cpu * 1000), "memory": memory * GI, GPU: gpu}
    if pods is not None:
        amounts["pods"] = pods
    return c.NodeState(
        name=name,
        pool=pool,
        labels=labels or {},
        taints=tuple(_taint(text) for text in taints),
        unschedulable=cordoned,
        ready=ready,
        allocatable=amounts,
        devices=(c.Device(),) * shared,
        volume_limits=drivers or {},
        free_volumes=free or {},
        numa=numa,
        images={name: megabytes << 20 for name, megabytes in (images or {}).items()},
    )


def _taint(text: str) -> c.Taint:
    body, _, effect = text.partition(":")
    key, _, value = body.partition("=")
    return c.Taint.model_validate({"key": key, "value": value, "effect": effect})


def shape(
    *,
    gpu: int = 0,
    cpu: float = 1,
    memory: int = 0,
    selector: dict[str, str] | None = None,
    affinity: Sequence[Sequence[tuple[str, str, Sequence[str]]]] | None = None,
    prefers: Sequence[tuple[int, tuple[str, str, Sequence[str]]]] = (),
    on: Sequence[str] | None = None,
    tolerates: Sequence[str] = (),
    gated: bool = False,
    preemptable: bool = True,
    revocable: bool = False,
    pod_priority: int = 0,
    extra: dict[str, int] | None = None,
    pod_labels: dict[str, str] | None = None,
    extras: dict[str, Any] | None = None,
    part: int = 0,
    parts: int = 1,
    volumes: c.Volumes | None = None,
    numa: str | None = None,
    own: Sequence[int] | None = None,
    images: Sequence[str] = (),
) -> c.Shape:
    """What a pod asks for. ``tolerates``: ``key``, ``key=value`` or ``*``, each with ``:Effect`` or not.

    ``part``: thousandths of each of ``parts`` shared GPUs. ``numa``: its NUMA policy (empty: none), with all
    of its CPUs, or ``own`` of its containers, for itself.
    """
    requests = {"cpu": int(cpu * 1000), "memory": memory * GI, GPU: gpu, **(extra or {})}
    terms = None
    if affinity is not None:
        terms = tuple(c.NodeTerm(expressions=tuple(map(_requirement, term))) for term in affinity)
    if on is not None:
        field_ = c.Requirement(key="metadata.name", operator="In", values=tuple(on))
        terms = (c.NodeTerm(fields=(field_,)),)
    return c.Shape(
        requests={name: amount for name, amount in requests.items() if amount},
        node_selector=selector or {},
        required_terms=terms,
        preferred_terms=tuple(
            c.PreferredTerm(weight=weight, term=c.NodeTerm(expressions=(_requirement(one),)))
            for weight, one in prefers
        ),
        tolerations=tuple(map(_toleration, tolerates)),
        scheduling_gated=gated,
        preemptable=preemptable,
        revocable=revocable,
        priority=pod_priority,
        labels=pod_labels or {},
        extras=extras or {},
        devices=c.DeviceRequest(count=parts, cores=part) if part else None,
        volumes=volumes,
        numa=None if numa is None else c.NumaRequest(policy=numa, cpus=tuple(own or (int(cpu),))),
        images=tuple(images),
    )


def _requirement(parts: tuple[str, str, Sequence[str]]) -> c.Requirement:
    key, operator, values = parts
    return c.Requirement.model_validate({"key": key, "operator": operator, "values": tuple(values)})


def _toleration(text: str) -> c.Toleration:
    body, _, effect = text.partition(":")
    key, equals, value = body.partition("=")
    operator = "Equal" if equals else "Exists"
    return c.Toleration.model_validate(
        {"key": "" if key == "*" else key, "operator": operator, "value": value, "effect": effect}
    )


def task(name: str, replicas: int, minimum: int | None = None, **wants: Any) -> c.GangTask:
    """A task of a job."""
    return c.GangTask(
        name=name,
        shape=shape(**wants),
        members=tuple(c.Member(pod=f"{name}-{index}", index=index) for index in range(replicas)),
        minimum=replicas if minimum is None else minimum,
    )


def job(
    name: str,
    *tasks: c.GangTask,
    gang: int | None = None,
    replicas: int | None = None,
    queue: str = "default",
    priority: int = 0,
    at: float = 0,
    generation: int = 0,
    in_all: dict[str, int] | None = None,
    limit: float | None = None,
    priority_class: str = "",
    runs: float | None = None,
    budget: c.JobBudget | None = None,
    near: str = "",
    apart: str = "",
    order: str = "",
    **wants: Any,
) -> c.Gang:
    """A job: of tasks, or of ``replicas`` equal pods of which ``gang`` must run; ready ``at`` seconds.

    ``in_all`` is its minResources, in base units; it should wait for ``limit`` seconds at most, and
    declares to run for ``runs`` seconds at most. ``near``, ``apart`` and ``order``: its tasks' topology, as
    in annotations.
    """
    if not tasks:
        count = replicas if replicas is not None else gang if gang is not None else 1
        least = count if gang is None else gang
        tasks = (task("worker", count, least, **wants),)
    tasks = tuple(
        one.model_copy(
            update={"members": tuple(c.Member(pod=f"{name}-{m.pod}", index=m.index) for m in one.members)}
        )
        for one in tasks
    )
    minimum = gang if gang is not None else sum(one.minimum for one in tasks)
    since = START + timedelta(seconds=at)
    return c.Gang(
        namespace="ns",
        name=name,
        uid=f"uid-{name}",
        generation=generation,
        job=name,
        queue=queue,
        priority=priority,
        priority_class=priority_class,
        min_member=minimum,
        min_resources=in_all or {},
        waiting_limit_seconds=limit,
        run_seconds=runs,
        tasks=tasks,
        task_topology=_tied(near, apart, order),
        preemptable=any(one.shape.revocable for one in tasks),
        budget=budget,
        created_at=since,
        ready_since=since,
    )


def _tied(near: str, apart: str, order: str) -> c.TaskTopology | None:
    def sets(text: str) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(part.split(",")) for part in text.split(";") if part)

    if not near and not apart:
        return None
    first = tuple(order.split(",")) if order else ()
    return c.TaskTopology(affinity=sets(near), anti_affinity=sets(apart), order=first)


def queue(
    name: str,
    *,
    weight: int = 1,
    priority: int = 0,
    state: str = "Open",
    parent: str = "",
    gpu: int | None = None,
    cpu: int | None = None,
    pods: int | None = None,
    deserved: dict[str, int] | None = None,
    guarantee: dict[str, int] | None = None,
    reclaimable: bool = True,
    groups: c.NodeGroups | None = None,
    within: dict[str, dict[str, int]] | None = None,
    fault: str = "",
) -> c.QueueState:
    """A queue; gpu, cpu (cores) and pods are its capability. The others are of gpu and cpu (cores) also.

    ``within`` are its limits by group of nodes.
    """
    limits = {"gpu": gpu, "cpu": cpu, "pods": pods}
    return c.QueueState(
        name=name,
        weight=weight,
        priority=priority,
        state=state,
        parent=parent,
        reclaimable=reclaimable,
        capability=_amounts({key: limit for key, limit in limits.items() if limit is not None}),
        deserved=_amounts(deserved),
        guarantee=_amounts(guarantee),
        node_groups=groups,
        node_group_limits=within and {group: _amounts(amounts) or {} for group, amounts in within.items()},
        node_group_fault=fault,
    )


def _amounts(amounts: dict[str, int] | None) -> dict[str, int] | None:
    factors = {"gpu": (GPU, 1), "cpu": ("cpu", 1000)}
    base = {key: factors.get(key, (key, 1)) for key in amounts or {}}
    return {base[key][0]: amount * base[key][1] for key, amount in (amounts or {}).items()} or None


def other(name: str, node: str, **wants: Any) -> c.PodState:
    """A pod of somebody else."""
    return c.PodState(
        namespace="other",
        name=name,
        uid=f"uid-{name}",
        node=node,
        phase="Running",
        ours=False,
        shape=shape(**wants),
        created_at=START,
    )


# ---------------------------------------------------------------------- steps


def submits(*gangs: c.Gang) -> Step:
    def step(world: World) -> None:
        for gang in gangs:
            world.submit(gang)

    return step


def adds(*nodes: c.NodeState) -> Step:
    def step(world: World) -> None:
        for one in nodes:
            world.node(one)

    return step


def joins(*pods: c.PodState) -> Step:
    """Pods of somebody else appear."""

    def step(world: World) -> None:
        for pod in pods:
            world.pod(pod)

    return step


def removes(name: str) -> Step:
    """A node goes, and its pods with it."""

    def step(world: World) -> None:
        world.remove_node(name)
        for key in [key for key, pod in world.books.pods.items() if pod.node == name]:
            world.delete_pod(key)

    return step


def sets(*queues: c.QueueState) -> Step:
    def step(world: World) -> None:
        for one in queues:
            world.queue(one)

    return step


def ends(*pods: str) -> Step:
    """Pods succeed."""

    def step(world: World) -> None:
        for name in pods:
            world.end_pod(("ns", name))

    return step


def finishes(name: str) -> Step:
    """A job ends and is cleaned up."""
    return lambda world: world.remove_gang(("ns", name))


def loses(name: str, *, remade: bool = True) -> Step:
    """A pod dies; the controller makes it again, Pending."""

    def step(world: World) -> None:
        key = ("ns", name)
        pod = world.books.pods[key]
        world.end_pod(key, "Failed")
        if remade:
            update = {"node": None, "phase": "Pending", "uid": pod.uid + "x"}
            world.pod(pod.model_copy(update=update))

    return step


def leaves(name: str) -> Step:
    """A pod is being deleted; it still holds its room."""

    def step(world: World) -> None:
        pod = world.books.pods["ns", name]
        world.pod(pod.model_copy(update={"releasing": True}))

    return step


def uses(policy: Policy) -> Step:
    """The policy is another from now on."""
    return lambda world: world.set_policy(policy)


def passes(seconds: float) -> Step:
    return lambda world: world.pass_time(seconds)


def restarts(gang: c.Gang) -> Step:
    """A job begins its next generation; pods of the former one are still there."""

    def step(world: World) -> None:
        world.books.phases["ns", gang.name] = "Pending"
        world.submit(gang)

    return step
