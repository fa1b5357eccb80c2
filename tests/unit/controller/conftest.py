"""A controller on a fake cluster and a log in memory, with virtual time; the test plays the scheduler."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from services.controller.app import build
from services.controller.settings import ControllerSettings
from shared.api import resources as r
from shared.clock import LoopClock
from shared.events import topics
from shared.events.codec import decode, encode
from shared.events.contracts import (
    Binding,
    CommandJob,
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
        )
        self.task = asyncio.create_task(self.service.run())

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
