"""The workflows service on a fake cluster, with virtual time; the test plays the job controller and pods."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from services.workflows.app import build
from services.workflows.core.probing import Check
from services.workflows.settings import WorkflowsSettings
from shared.api import resources as r
from shared.api.meta import format_time
from shared.clock import LoopClock
from shared.telemetry.telemetry import Telemetry
from tests.fakes.cluster import FakeCluster

EPOCH = datetime(2026, 3, 1, 12, tzinfo=UTC)
JSON = dict[str, Any]


class World:
    """What a test sees and does."""

    def __init__(self, epoch: datetime, **settings: Any) -> None:
        begun = timedelta(seconds=asyncio.get_running_loop().time())
        self.clock = LoopClock(epoch - begun)
        self.cluster = FakeCluster(self.clock)
        self.settings = WorkflowsSettings(**({"ping_pause": 1e6} | settings))
        self.passing: dict[Check, int] = {}
        self.asked: list[Check] = []
        self.task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self.telemetry = Telemetry("workflows")
        service = build(
            self.settings,
            clock=self.clock,
            cluster=self.cluster,
            ids=lambda: "id",
            telemetry=self.telemetry,
            prober=self._probe,
        )
        self.task = asyncio.create_task(service.run())

    async def _probe(self, checks):
        self.asked += checks
        return {check: self.passing.get(check, 0) for check in checks}

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.task
            self.task = None

    async def until(self, condition: Callable[[], Any], seconds: float = 20.0) -> Any:
        """Wait, in virtual time, until the condition gives something."""
        deadline = self.clock.monotonic() + seconds
        while not (found := condition()):
            if self.task is not None and self.task.done():
                self.task.result()
                raise AssertionError("the service ended")
            assert self.clock.monotonic() < deadline, f"in vain; writes: {self.cluster.log}"
            await asyncio.sleep(0.01)
        return found

    async def pass_time(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        assert self.task is None or not self.task.done(), self.task.result()

    # ------------------------------------------------------------ what others do
    def put(self, resource, name: str, *, spec: JSON, namespace: str = "default", **metadata: Any) -> JSON:
        body = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name, **metadata},
            "spec": spec,
        }
        return self.cluster.put(resource, body, namespace)

    def template(self, name: str, **spec: Any) -> None:
        task = {
            "name": "main",
            "replicas": 1,
            "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
        }
        self.put(r.JOBTEMPLATES, name, spec={"tasks": [task], **spec})

    def flow(self, name: str, *steps: str | JSON, **spec: Any) -> None:
        """A flow of steps, each a name, ``name<target,target`` or an object."""
        self.put(r.JOBFLOWS, name, spec={"flows": [self._step(step) for step in steps], **spec})

    @staticmethod
    def _step(step: str | JSON) -> JSON:
        if not isinstance(step, str):
            return step
        own, _, targets = step.partition("<")
        return {"name": own, **({"dependsOn": {"targets": targets.split(",")}} if targets else {})}

    def phase(self, job: str, phase: str, **status: Any) -> None:
        """The job controller moves a job."""
        state = {"phase": phase, "lastTransitionTime": format_time(self.clock.now())}
        self.cluster.change(
            r.JOBS, "default", job, {"status": {"state": state, **status}}, subresource="status"
        )

    # ------------------------------------------------------------ what there is
    def jobs(self) -> list[str]:
        return [job["metadata"]["name"] for job in self.cluster.all(r.JOBS)]

    def status(self, resource, name: str) -> JSON:
        return (self.cluster.one(resource, name) or {}).get("status") or {}

    def flow_phase(self, name: str) -> str:
        return (self.status(r.JOBFLOWS, name).get("state") or {}).get("phase", "")

    def events(self, reason: str = "") -> list[str]:
        return [
            f"{event['reason']}: {event['message']}"
            for event in sorted(self.cluster.all(r.EVENTS), key=lambda one: int(one["metadata"]["uid"][4:]))
            if reason in ("", event["reason"])
        ]


@pytest.fixture
async def world():
    made: list[World] = []

    def make(epoch: datetime = EPOCH, **settings: Any) -> World:
        made.append(World(epoch, **settings))
        return made[-1]

    yield make
    for one in made:
        await one.stop()
