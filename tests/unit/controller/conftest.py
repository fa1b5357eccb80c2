"""A controller on a fake cluster and a log in memory, with virtual time; the test plays the scheduler."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from services.controller.app import build
from services.controller.core.dependents import KeyPair
from services.controller.settings import ControllerSettings
from shared.api import resources as r
from shared.clock import LoopClock
from shared.errors import Unavailable
from shared.events import topics
from shared.events.codec import decode, encode
from shared.events.contracts import (
    Binding,
    CommandJob,
    Gang,
    GangDecided,
    GangReady,
    JobAction,
    JobAdmitted,
)
from shared.events.envelope import Envelope
from shared.log.memory import MemoryLog
from shared.telemetry.telemetry import Telemetry
from tests.fakes.cluster import FakeCluster

EPOCH = datetime(2026, 3, 1, 12, tzinfo=UTC)


def job(name: str = "train", **spec) -> dict:
    """1 master and 3 workers with 8 GPUs each, unless ``tasks`` says otherwise."""
    container = {
        "name": "main",
        "image": "trainer",
        "resources": {"requests": {"cpu": "2", "nvidia.com/gpu": 8}, "limits": {"nvidia.com/gpu": 8}},
    }
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    tasks = [
        {"name": "master", "replicas": 1, "template": template},
        {"name": "worker", "replicas": 3, "template": template},
    ]
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "minAvailable": 4,
            "queue": "default",
            "schedulerName": "volcano",
            "maxRetry": 3,
            "tasks": tasks,
        }
        | spec,
    }


class World:
    def __init__(self, **settings) -> None:
        self.clock = LoopClock(EPOCH)
        self.cluster = FakeCluster(self.clock)
        self.log = MemoryLog(self.clock)
        self.settings = ControllerSettings(**settings)
        self.spans = InMemorySpanExporter()
        self.decisions = 0
        for number in range(20):
            self.add_node(f"node-{number}")
        self.keys_made = 0
        self.service = None
        self.task = None

    async def start(self, *, cluster=None, log=None) -> None:
        self.telemetry = Telemetry("controller", exporter=self.spans)
        self.service = build(
            self.settings,
            clock=self.clock,
            log=log or self.log,
            cluster=cluster or self.cluster,
            ids=lambda: "id",
            telemetry=self.telemetry,
            keys=self.keys,
        )
        self.task = asyncio.create_task(self.service.run())

    def add_node(self, name: str) -> None:
        ready = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"nvidia.com/gpu": "8"}}
        self.cluster.put(r.NODES, {"metadata": {"name": name}, "spec": {}, "status": ready})

    async def keys(self) -> KeyPair:
        self.keys_made += 1
        return KeyPair(f"private {self.keys_made}", f"public {self.keys_made}")

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.task
            self.task = None

    async def until(self, condition, seconds: float = 20.0):
        """Wait, in virtual time, until the condition gives something; fail with what there is."""
        deadline = self.clock.monotonic() + seconds
        while True:
            if self.task is not None and self.task.done():
                self.task.result()
                raise AssertionError("the controller ended")
            found = condition()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return found
            assert self.clock.monotonic() < deadline, f"in vain; writes: {self.cluster.log}"
            await asyncio.sleep(0.01)

    # ----------------------------------------------------------------- what others do
    async def send(self, topic: str, key: bytes, event, *, event_id: str, traceparent=None) -> None:
        envelope = Envelope(
            id=event_id, source="/test", time=self.clock.now(), data=event, traceparent=traceparent
        )
        await self.log.producer.send(encode(topic, key, envelope))

    async def admit(self, body: dict, submission: str = "sub-1") -> None:
        event = JobAdmitted(
            submission=submission, job=body, submitted_by="alice", submitted_at=self.clock.now()
        )
        await self.send(topics.JOB_ADMITTED, b"default/train", event, event_id=f"admitted-{submission}")

    async def command(self, action: JobAction, name: str = "train", event_id: str = "", **more) -> None:
        event = CommandJob(namespace="default", name=name, action=action, **more)
        await self.send(
            topics.JOB_COMMANDS, f"default/{name}".encode(), event, event_id=event_id or f"command-{action}"
        )

    async def events(self, topic: str) -> list:
        """Return everything on a topic: envelopes, and None for tombstones."""
        reader = await self.log.read([topic])
        found = []
        while not await reader.caught_up():
            found += await reader.poll(timeout=0.01)
        await reader.close()
        return [None if d.value is None else decode(d) for d in found]

    async def state(self) -> dict[str, object]:
        """Return the facts on cluster-state by key, compacted."""
        reader = await self.log.read([topics.CLUSTER_STATE])
        found = {}
        while not await reader.caught_up():
            for d in await reader.poll(timeout=0.01):
                found.pop(d.key.decode(), None)
                if d.value is not None:
                    found[d.key.decode()] = decode(d).data
        await reader.close()
        return found

    async def ready(self, count: int = 1) -> list[GangReady]:
        async def look():
            found = [e.data for e in await self.events(topics.PODGROUP_READY)]
            return found if len(found) >= count else None

        return await self.until(look)

    async def results(self, count: int = 1) -> list:
        async def look():
            found = [e.data for e in await self.events(topics.BIND_RESULTS)]
            return found if len(found) >= count else None

        return await self.until(look)

    def decision(self, gang, *, pods=None, enqueue=True, minimum=None, decision=None) -> GangDecided:
        """Place the gang's members, one node each."""
        self.decisions += 1
        members = [(t.name, m.pod) for t in gang.tasks for m in t.members]
        chosen = [pair for pair in members if pods is None or pair[1] in pods]
        return GangDecided(
            decision=decision or f"default/{gang.uid}/{gang.generation}/{self.decisions}",
            pool="default",
            gang=gang.ref,
            enqueue=enqueue,
            minimum=gang.min_member if minimum is None else minimum,
            bindings=tuple(
                Binding(pod=pod, task=task, node=f"node-{number}")
                for number, (task, pod) in enumerate(chosen)
            ),
            decided_at=self.clock.now(),
        )

    async def decide(self, gang=None, **options) -> GangDecided:
        gang = gang or (await self.ready())[-1].gang
        decided = self.decision(gang, **options)
        await self.send(topics.BIND_DECISIONS, b"default", decided, event_id=decided.decision)
        return decided

    # ----------------------------------------------------------------- what there is
    def job(self, name: str = "train") -> dict:
        return self.cluster.one(r.JOBS, name) or {}

    def phase(self, name: str = "train") -> str:
        return ((self.job(name).get("status") or {}).get("state") or {}).get("phase", "")

    def group(self) -> dict | None:
        groups = self.cluster.all(r.PODGROUPS)
        return groups[0] if groups else None

    def group_phase(self) -> str:
        group = self.group()
        return group["status"]["phase"] if group else ""

    def pods(self) -> dict[str, dict]:
        return {pod["metadata"]["name"]: pod for pod in self.cluster.all(r.PODS)}

    def places(self) -> dict[str, str | None]:
        return {name: pod["spec"].get("nodeName") for name, pod in self.pods().items()}

    async def run_gang(self) -> None:
        """Bring the job to Running."""
        await self.decide()
        await self.results()
        self.cluster.run_pods()
        await self.until(lambda: self.phase() == "Running")


@pytest.fixture
def world():
    """Return a factory of worlds: ``async with world() as w``."""

    @asynccontextmanager
    async def make(*, started=True, **settings):
        one = World(**settings)
        await one.log.start()
        await one.log.create_topics(topics.SPECS)
        if started:
            await one.start()
        try:
            yield one
        finally:
            await one.stop()
            await one.log.close()

    return make


class Killed(Unavailable):
    """What everything answers to a process that is dead."""


class Mortal:
    """Stands between a controller and its cluster or log, and cuts it off when it dies.

    Nothing that a dead controller tries has an effect any more, as after kill -9.
    """

    def __init__(self, inner, life) -> None:
        self._inner = inner
        self._life = life

    def __getattr__(self, name):
        found = getattr(self._inner, name)
        if name == "producer":
            return Mortal(found, self._life)
        if not callable(found):
            return found
        if name in ("pause", "resume", "seek", "watch"):
            return found

        async def call(*args, **options):
            self._life.check()
            what = "dry run" if options.get("dry_run") else name
            await self._life.reached(what, "before")
            result = await found(*args, **options)
            opens = name in ("consume", "read", "transactional")
            if opens:
                self._life.opened.append(result)
            await self._life.reached(what, "after")
            self._life.check()
            return Mortal(result, self._life) if opens else result

        return call

    @property
    def assignment(self):
        return self._inner.assignment


WRITES = ("create", "patch", "delete", "bind")


class Life:
    """Ends at the ``number``-th API write, before or after it takes effect."""

    def __init__(self, number: int = 0, when: str = "before") -> None:
        self.number = number
        self.when = when
        self.dead = asyncio.Event()
        self.count = 0
        self.opened: list = []
        """Consumers and readers: the broker notices by itself that their process is gone."""

    def check(self) -> None:
        if self.dead.is_set():
            raise Killed("killed")

    async def reached(self, name: str, when: str) -> None:
        if name in WRITES and when == self.when:
            self.count += 1
            if self.count == self.number:
                self.dead.set()
        if self.dead.is_set():
            await asyncio.Event().wait()  # until its task is cancelled


class Robot:
    """The scheduler and the kubelets, simple and always right: decides from ``cluster-state`` alone."""

    def __init__(self, world: World, *, run_seconds: float = 2.0) -> None:
        self.world = world
        self.run_seconds = run_seconds
        self.in_flight: dict[str, str] = {}
        self.results: dict[str, object] = {}
        self.broken: list[str] = []

    async def run(self) -> None:
        while True:
            self.world.cluster.stop_pods()
            self.world.cluster.run_pods()
            for pod in self.world.cluster.bound():
                started = pod["status"].get("startTime")
                now = self.world.clock.now()
                if started and (now - datetime.fromisoformat(started)).total_seconds() > self.run_seconds:
                    self.world.cluster.end_pods(pod["metadata"]["name"])
            await self._decide()
            await asyncio.sleep(0.1)

    async def _decide(self) -> None:
        for envelope in await self.world.events(topics.BIND_RESULTS):
            self.results[envelope.data.decision] = envelope.data
            self.in_flight.pop(envelope.data.decision, None)
        state = await self.world.state()
        for fact in state.values():
            gang = getattr(fact, "gang", None)
            if not isinstance(gang, Gang) or gang.name in self.in_flight.values():
                continue
            pods = {k.split("/")[2]: v for k, v in state.items() if k.startswith("pod/")}
            members = {m.pod for task in gang.tasks for m in task.members}
            free = {n for n in members if n not in pods or (pods[n].node is None and not pods[n].releasing)}
            if free and len(members) >= gang.min_member and fact.phase != "Completed":
                sent = await self.world.decide(
                    gang,
                    pods=free,
                    enqueue=fact.phase == "Pending",
                    minimum=0 if len(free) < len(members) else None,
                )
                self.in_flight[sent.decision] = gang.name
