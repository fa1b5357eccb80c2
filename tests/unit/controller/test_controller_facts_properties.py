"""However short pods live and whoever takes their names: the scheduler hears of each that held room."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from services.controller.adapters.device_views import DeviceViews
from services.controller.adapters.observer import Observer
from services.controller.adapters.plain import PlainGangs
from services.controller.adapters.recorder import Recorder
from services.controller.adapters.storage import StorageViews
from services.controller.adapters.views import Views
from services.scheduler.adapters.feed import Feed
from services.scheduler.core.model import Model
from services.scheduler.core.results import adopt, apply_result
from shared.api import names
from shared.api import resources as r
from shared.clock import SystemClock
from shared.errors import Unavailable
from shared.events import contracts as c
from shared.kube.port import JSON
from shared.log.port import Delivery, Record
from shared.telemetry.telemetry import Telemetry
from tests.fakes.cluster import FakeCluster
from tests.scenarios.scenario import GPU, job, node, queue
from tests.scenarios.world import START

SCHEDULERS = frozenset({"volcano"})
PODS = ("train-worker-0", "train-worker-1")
STAMP = "2026-03-01T12:00:00Z"


class Log:
    """Keeps what is sent to it, unless it is away."""

    def __init__(self) -> None:
        self.producer: Any = self
        self.records: list[Record] = []
        self.is_away = False

    async def send_many(self, records: list[Record]) -> None:
        if self.is_away:
            raise Unavailable("the log is away")
        self.records += records


class World:
    """Pods in an informer's store, their observer, and the model of a scheduler that reads what is told.

    Each pod is of a gang of its own, whose decision has its result at once.
    """

    def __init__(self) -> None:
        clock, telemetry = SystemClock(), Telemetry("controller")
        self.log = Log()
        cluster = FakeCluster(clock)
        self.views = Views(
            cluster,
            clock=clock,
            on_change=self._changed,
            schedulers=SCHEDULERS,
            policy=("volcano-system", "policy"),
            storage=StorageViews(cluster, clock=clock),
            devices=DeviceViews(cluster, clock=clock),
        )
        self.observer = Observer(
            self.views,
            self.log,
            gangs=PlainGangs(self.views, SCHEDULERS),
            clock=clock,
            schedulers=SCHEDULERS,
            policy_key="policy",
            debounce=0.0,
            telemetry=telemetry,
            recorder=Recorder(partial(FakeCluster(clock).create, r.EVENTS), clock, "test"),
        )
        self.model = Model()
        self.model.apply_queue(queue("default"))
        self.model.apply_node(node("n1", gpu=100))
        self.feed = Feed(self.model, telemetry, on_pool=lambda _pool: None, on_policy=lambda _policy: None)
        self.pods: dict[str, JSON] = {}
        self.lost: set[str] = set()
        self._count = 0
        self._read = 0

    def _changed(self, resource: Any, old: JSON | None, new: JSON | None) -> None:
        meta = (new or old or {})["metadata"]
        self.observer.touch(resource, meta["namespace"], meta["name"])

    # ------------------------------------------------------------------ what happens to a pod

    def made(self, name: str) -> None:
        """It is made, and waits for a node."""
        if name not in self.pods:
            self._put(self._pod(name))

    def made_bound(self, name: str) -> None:
        """It is decided, and made with its node set."""
        if name not in self.pods:
            pod = self._pod(name)
            self._decide(pod)
            self._put(pod, spec={**pod["spec"], "nodeName": "n1"})

    def bound(self, name: str) -> None:
        """It is decided and bound, if it waits for a node."""
        pod = self.pods.get(name)
        if pod is not None and "nodeName" not in pod["spec"]:
            self._decide(pod)
            self._put(pod, spec={**pod["spec"], "nodeName": "n1"})

    def runs(self, name: str) -> None:
        if self._holds_room(name):
            self._put(self.pods[name], status={"phase": "Running"})

    def ends(self, name: str) -> None:
        if self._holds_room(name):
            self._put(self.pods[name], status={"phase": "Succeeded"})

    def leaves(self, name: str) -> None:
        """Somebody asks for its end."""
        if name in self.pods:
            pod = self.pods[name]
            self._put(pod, metadata={**pod["metadata"], "deletionTimestamp": STAMP})

    def goes(self, name: str) -> None:
        """It is gone."""
        if name in self.pods:
            self.views.forget(r.PODS, self.pods.pop(name))

    def is_lost(self, name: str) -> None:
        """It is gone, and its end may not be told until what follows from it is written."""
        if name in self.pods:
            self.lost.add(name)
            self.observer.hold("ns", name)
            self.goes(name)

    def is_made_good(self, name: str) -> None:
        """What followed from its loss is written."""
        if name in self.lost:
            self.lost.discard(name)
            self.observer.release("ns", name)

    # ------------------------------------------------------------------ what happens to the log

    async def told(self, _: str) -> None:
        await self.observer.flush()

    async def not_told(self, _: str) -> None:
        self.log.is_away = True
        with suppress(Unavailable):
            await self.observer.flush()
        self.log.is_away = False

    async def read(self, _: str) -> None:
        for number, one in enumerate(self.log.records[self._read :], self._read):
            self.feed.state(Delivery(one.topic, 0, number, 0, one.key, one.value, one.headers))
        self._read = len(self.log.records)

    # ------------------------------------------------------------------ how it comes out

    async def settle(self) -> None:
        for name in PODS:
            self.is_made_good(name)
        await self.told("")
        await self.read("")

    @property
    def counted(self) -> int:
        """GPUs that the scheduler counts on the node."""
        return int(self.model.nodes.used[self.model.resources.column(GPU), self.model.nodes.slots["n1"]])

    @property
    def holding(self) -> int:
        """GPUs that pods hold."""
        return sum(map(self._holds_room, PODS))

    def _holds_room(self, name: str) -> bool:
        pod = self.pods.get(name)
        return pod is not None and "nodeName" in pod["spec"] and pod["status"]["phase"] != "Succeeded"

    def _pod(self, name: str) -> JSON:
        """Return a new pod, the only one of a new job."""
        self._count += 1
        owner = {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "name": "train",
            "uid": f"job-{self._count}",
            "controller": True,
        }
        return {
            "metadata": {
                "namespace": "ns",
                "name": name,
                "uid": f"pod-{self._count}",
                "creationTimestamp": STAMP,
                "ownerReferences": [owner],
                "annotations": {names.GROUP_NAME: f"gang-{self._count}", names.QUEUE_NAME: "default"},
            },
            "spec": {
                "schedulerName": "volcano",
                "containers": [{"name": "main", "resources": {"requests": {GPU: "1"}}}],
            },
            "status": {"phase": "Pending"},
        }

    def _put(self, pod: JSON, **parts: JSON) -> None:
        self._count += 1
        pod = {**pod, **parts}
        pod["metadata"] = {**pod["metadata"], "resourceVersion": str(self._count)}
        self.pods[pod["metadata"]["name"]] = pod
        self.views.fold(r.PODS, pod)

    def _decide(self, pod: JSON) -> None:
        meta = pod["metadata"]
        task = job("train", gang=1, gpu=1).tasks[0]
        task = task.model_copy(update={"members": (c.Member(pod=meta["name"]),)})
        gang = job(meta["annotations"][names.GROUP_NAME], gang=1, gpu=1).model_copy(update={"tasks": (task,)})
        group = c.PodGroupState(namespace="ns", name=gang.name, uid=gang.uid, phase="Pending", gang=gang)
        self.model.apply_podgroup(group)
        binding = c.Binding(pod=meta["name"], task=task.name, node="n1")
        decided = c.GangDecided(
            decision=gang.uid, pool="default", gang=gang.ref, bindings=(binding,), decided_at=START
        )
        adopt(self.model, decided, START)
        bound = (c.BoundPod(pod=meta["name"], uid=meta["uid"], node="n1"),)
        outcome = c.DecisionOutcome.APPLIED
        result = c.DecisionApplied(
            decision=gang.uid, pool="default", gang=gang.ref, outcome=outcome, bound=bound, at=START
        )
        apply_result(self.model, result)


HAPPENINGS = (
    World.made,
    World.made_bound,
    World.bound,
    World.runs,
    World.ends,
    World.leaves,
    World.goes,
    World.is_lost,
    World.is_made_good,
    World.told,
    World.not_told,
    World.read,
)


async def play(story: list[tuple[Any, str]]) -> World:
    world = World()
    for happens, name in story:
        done = happens(world, name)
        if done is not None:
            await done
    await world.settle()
    return world


@given(st.lists(st.tuples(st.sampled_from(HAPPENINGS), st.sampled_from(PODS)), max_size=40))
def test_once_all_is_told_the_scheduler_counts_what_pods_hold_and_no_pod_is_in_flight(
    story: list[tuple[Any, str]],
) -> None:
    world = asyncio.run(play(story))
    assert len(world.model.flights) == 0
    assert world.counted == world.holding
