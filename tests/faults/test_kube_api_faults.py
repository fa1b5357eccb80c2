"""A real API server behind a proxy with faults: gangs that run through them all end, none twice, none in part."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from pumice import AsyncClient, JobView
from services.standalone.options import Options
from shared.api import names
from shared.api import resources as r
from shared.clock import Clock, SystemClock
from shared.errors import NotFound
from shared.kube.client import connect
from shared.kube.port import JSON, Cluster
from simulator.kubelet import KubeletOptions
from tests.fixtures.faulty import LOG as FAULTY_LOG
from tests.fixtures.faulty import (
    Answer,
    Fault,
    FaultyApiServer,
    Lost,
    alternately,
    always,
    first_writes,
    watches,
)
from tests.fixtures.kube import install_crds, kubelets_of, until
from tests.fixtures.platform import Platform, a_platform, gang
from tests.fixtures.services import PodWatch, free_port
from tests.fixtures.waiting import eventually
from tools.kube import ControlPlane

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

GANGS = 4
MEMBERS = 3
PATIENCE = 120
ALONE = f"-{GANGS - 1}"
"""How the name of a gang ends that is one pod: it is let in by that pod, not by a write before it."""
SOON = 10.0
"""Seconds: how long the rest of a gang may be on its way once the API server is well."""
KUBERNETES = ("pumice.controller", "pumice.workflows")
"""Who needs the API server."""
BUSY = Answer(429, "TooManyRequests", retry_after=1)
BROKEN = Answer(500, "InternalError")
CONFLICT = Answer(409, "Conflict")
GONE = Answer(410, "Expired")


def members(job: str) -> int:
    return 1 if job.endswith(ALONE) else MEMBERS


class GangWatch(PodWatch):
    """Also remembers since when a gang has run with less than all its members."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        super().__init__(cluster)
        self._namespace = namespace
        self._states: dict[str, dict[str, tuple[str, bool]]] = {}
        self._partial: dict[str, float] = {}
        self._spans: list[tuple[str, float, float]] = []

    def _note(self, old: JSON | None, new: JSON | None) -> None:
        super()._note(old, new)
        pod = new or old or {}
        meta = pod["metadata"]
        job = (meta.get("labels") or {}).get(names.JOB_NAME)
        if meta["namespace"] != self._namespace or job is None:
            return
        states = self._states.setdefault(job, {})
        if new is None or meta.get("deletionTimestamp"):
            states.pop(meta["name"], None)
        else:
            states[meta["name"]] = (
                pod["status"].get("phase") or "Pending",
                bool(pod["spec"].get("nodeName")),
            )
        self._look(job, states)

    def _look(self, job: str, states: dict[str, tuple[str, bool]]) -> None:
        runs = any(phase == "Running" for phase, _ in states.values())
        if runs and sum(bound for _, bound in states.values()) < members(job):
            self._partial.setdefault(job, time.monotonic())
        elif (since := self._partial.pop(job, None)) is not None:
            self._spans.append((job, since, time.monotonic()))

    def longest_partial(self, since: float) -> float:
        """Return for how many seconds a part of a gang ran without the rest, after ``since``."""
        assert not self._partial, f"in part until the end: {self._partial}"
        return max((end - max(begin, since) for _, begin, end in self._spans), default=0.0)


class World:
    """All services behind the proxy, and a way past it."""

    def __init__(
        self, proxy: FaultyApiServer, kube: Cluster, platform: Platform, namespace: str, url: str
    ) -> None:
        self.proxy = proxy
        self.kube = kube
        self.platform = platform
        self.namespace = namespace
        self._url = url

    @property
    def client(self) -> AsyncClient:
        return self.platform.client

    async def submit(self, prefix: str, count: int = GANGS, pause: float = 0.0, **options: Any) -> list[str]:
        """Submit gangs, half of them over HTTP and half as ``kubectl apply`` does."""
        made = []
        for number in range(count):
            name = f"{prefix}-{number}"
            body = gang(name, workers=members(name) - 1, gpus=2, command="sleep 0.4", **options)
            body["metadata"]["namespace"] = self.namespace
            if number % 2:
                await self.kube.create(r.JOBS, self.namespace, body)
            else:
                await self.client.submit(body, wait=None)
            made.append(name)
            await asyncio.sleep(pause)
        return made

    async def completed(self, made: list[str]) -> list[JobView]:
        """Require that jobs come to their ends, with nobody's retries spent."""
        for name in made:
            job = await until(self.kube, r.JOBS, self.namespace, name, _is_over, PATIENCE)
            assert job["status"]["state"]["phase"] == "Completed", job["status"]
            assert job["status"].get("retryCount", 0) == 0
            assert job["status"]["succeeded"] == members(name)
        return [await self._view(name) for name in made]

    async def _view(self, name: str) -> JobView:
        """Return a job as the gateway shows it, once that shows its end."""
        async with asyncio.timeout(PATIENCE):
            while True:
                view = await self.client.get(name, namespace=self.namespace)
                if view.phase == "Completed":
                    return view
                await asyncio.sleep(0.05)

    async def waiting(self) -> dict[str, str]:
        """Return what the services are not ready for."""
        async with httpx.AsyncClient() as http:
            return dict((await http.get(f"{self._url}/readyz")).json()["waiting"])

    async def until_ready(self) -> None:
        await eventually(self._is_ready)

    async def _is_ready(self) -> bool:
        return not await self.waiting()


def _is_over(job: JSON) -> bool:
    phase = (job.get("status") or {}).get("state", {}).get("phase")
    return phase in ("Completed", "Failed", "Aborted", "Terminated")


@asynccontextmanager
async def a_world(
    plane: ControlPlane,
    kube: Cluster,
    namespace: str,
    folder: Path,
    *,
    clock: Clock | None = None,
    kubelets: KubeletOptions | None = None,
) -> AsyncIterator[World]:
    """Start all services behind a proxy, and nodes that reach the API server directly."""
    await install_crds(kube)
    config, kubeconfig, port = folder / "config.yaml", folder / "faulty", free_port()
    quick = {"ping_pause": 0.3, "ping_patience": 5.0}
    config.write_text(yaml.safe_dump({"controller": quick, "workflows": quick}))
    async with FaultyApiServer(str(plane.kubeconfig)) as proxy:
        kubeconfig.write_text(yaml.safe_dump(proxy.kubeconfig))
        options = Options(port=0, kubeconfig=kubeconfig, config=config, operations_port=port)
        async with (
            kubelets_of(kube, f"{namespace}=4x8", options=kubelets),
            a_platform(options, clock) as platform,
        ):
            yield World(proxy, kube, platform, namespace, f"http://127.0.0.1:{port}")


@pytest.fixture
async def world(control_plane, kube, namespace, tmp_path) -> AsyncIterator[World]:
    async with a_world(control_plane, kube, namespace, tmp_path) as world:
        yield world


@asynccontextmanager
async def whole(world: World, prefix: str) -> AsyncIterator[list[float]]:
    """Require of all that happens meanwhile that no pod is made twice and no gang stays in part.

    Put in the list when the fault was over.
    """
    healed: list[float] = []
    async with GangWatch(world.kube, world.namespace) as seen:
        yield healed
        assert seen.twice(f"{prefix}-") == {}
        assert len([name for name in seen.uids if name.startswith(f"{prefix}-")]) >= MEMBERS
        assert seen.longest_partial(healed[0]) < SOON


def said(caplog: pytest.LogCaptureFixture, text: str) -> Counter[str]:
    return Counter(one.name for one in caplog.records if text in one.getMessage())


def alarms(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the warnings that are not about the outage as such."""
    told = [
        one.getMessage()
        for one in caplog.records
        if one.levelno >= logging.WARNING and one.name != FAULTY_LOG.name
    ]
    return [text for text in told if "the API server is" not in text]


# ---------------------------------------------------------------------------------- faults that let some through
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(lambda: alternately(BUSY, every=3), id="each third request is one too many"),
        pytest.param(lambda: alternately(BROKEN), id="every other request breaks the server"),
        pytest.param(lambda: first_writes(Lost()), id="the answer to each first write is lost"),
        pytest.param(lambda: first_writes(CONFLICT), id="each first write conflicts"),
        pytest.param(lambda: watches(GONE, 3), id="watches are too old"),
    ],
)
async def test_gangs_run_through(world: World, caplog, fault: Callable[[], Fault]):
    async with whole(world, "through") as healed:
        with world.proxy.fault(fault()):
            world.proxy.cut_watches()
            jobs = await world.completed(await world.submit("through"))
        healed.append(time.monotonic())
    assert world.proxy.faults.total() > GANGS
    assert {job.name: job.pods.succeeded for job in jobs if job.pods} == {
        job.name: members(job.name) for job in jobs
    }
    await world.until_ready()
    # Three conflicts in a row about one job are worth a line.
    assert [text for text in alarms(caplog) if CONFLICT.reason not in text] == []


async def test_watches_cut_in_the_middle_of_a_line_lose_nothing(world: World, caplog):
    async with whole(world, "cut") as healed:
        world.proxy.lines_until_cut = 3
        await world.completed(await world.submit("cut"))
        assert world.proxy.faults["Cut"] > GANGS
        world.proxy.lines_until_cut = None
        healed.append(time.monotonic())
    await world.until_ready()
    assert said(caplog, "is away") == Counter()
    assert alarms(caplog) == []


async def test_watches_that_are_told_of_a_compaction_list_anew(world: World, caplog):
    proxy = world.proxy
    all_watches = proxy.watched
    assert all_watches > 10

    async def watched_anew() -> bool:
        return proxy.faults["Expired"] == expired and proxy.watched == all_watches

    async with whole(world, "expired") as healed:
        made, expired = [], 0
        for turn in range(3):
            made += await world.submit(f"expired-{turn}", 2)
            expired += proxy.expire_watches()
            await eventually(watched_anew)
        await world.completed(made)
        healed.append(time.monotonic())
    assert expired == 3 * all_watches
    assert said(caplog, "is away") == Counter()
    assert alarms(caplog) == []


async def test_an_api_server_that_takes_two_seconds_for_each_call_is_worked_with(world: World, caplog):
    async with whole(world, "slow") as healed:
        world.proxy.delay = 2.0
        await world.completed(await world.submit("slow", 3))
        assert await world.waiting() == {}
        world.proxy.delay = 0.0
        healed.append(time.monotonic())
    assert said(caplog, "is away") == Counter()
    assert alarms(caplog) == []


# ---------------------------------------------------------------------------------- outages
@pytest.mark.parametrize("answer", [BUSY, BROKEN, None], ids=["busy", "broken", "refused"])
async def test_an_outage_is_said_once_and_waited_for_with_patience(
    world: World, caplog, answer: Answer | None
):
    """Nothing gets through for some seconds, in the middle of the gangs' creation."""
    proxy = world.proxy
    async with whole(world, "outage") as healed:
        made = await world.submit("outage")
        await until_some_pods(world, "outage")
        if answer is None:
            await proxy.down()
            await eventually(lambda: away(world))
            await asyncio.sleep(2)
            await proxy.up()
        else:
            with proxy.fault(always(answer)):
                proxy.cut_watches()
                await eventually(lambda: away(world))
                before = len(proxy.asked)
                await asyncio.sleep(3)
                asked = Counter((one.method, one.subject) for one in proxy.asked[before:])
                assert max(asked.values()) <= 30, asked.most_common(5)
        healed.append(time.monotonic())
        await world.until_ready()
        await world.completed(made)
    assert said(caplog, "the API server is away") == dict.fromkeys(KUBERNETES, 1)
    assert said(caplog, "the API server is back") == dict.fromkeys(KUBERNETES, 1)
    assert alarms(caplog) == []


async def away(world: World) -> bool:
    return {"controller.api-server", "workflows.api-server"} <= set(await world.waiting())


async def until_some_pods(world: World, prefix: str) -> None:
    async def some() -> bool:
        pods = (await world.kube.list(r.PODS, world.namespace)).items
        return any(pod["metadata"]["name"].startswith(prefix) for pod in pods)

    await eventually(some)


async def test_an_api_server_killed_and_started_again_in_the_middle_of_creation(
    own_control_plane: ControlPlane, tmp_path, caplog
):
    kube = connect(str(own_control_plane.kubeconfig), clock=SystemClock())
    try:
        async with (
            a_world(own_control_plane, kube, "default", tmp_path) as world,
            whole(world, "restart") as healed,
        ):
            made = await world.submit("restart")
            await until_some_pods(world, "restart")
            own_control_plane.api_server.kill()
            await eventually(lambda: away(world))
            await asyncio.to_thread(own_control_plane.start_api_server)
            healed.append(time.monotonic())
            await world.until_ready()
            made += await world.submit("restart-after", 2)
            await world.completed(made)
        assert said(caplog, "the API server is away") == dict.fromkeys(KUBERNETES, 1)
        assert said(caplog, "the API server is back") == dict.fromkeys(KUBERNETES, 1)
        assert alarms(caplog) == []
    finally:
        await kube.close()


# ---------------------------------------------------------------------------------- clocks
class Skewed(SystemClock):
    """The machine's clock, wrong."""

    def __init__(self, minutes: float) -> None:
        self._by = timedelta(minutes=minutes)

    def now(self) -> datetime:
        return super().now() + self._by


@pytest.mark.parametrize("minutes", [5, -5], ids=["ahead", "behind"])
async def test_a_clock_that_is_wrong_by_minutes_ends_nothing_too_early(
    control_plane, kube, namespace, tmp_path, caplog, minutes: int
):
    slow_start = KubeletOptions(lease_seconds=10, start_seconds=2)
    async with a_world(
        control_plane, kube, namespace, tmp_path, clock=Skewed(minutes), kubelets=slow_start
    ) as world:
        policies = [
            {"event": "PodPending", "action": "AbortJob", "timeout": "2m"},
            {"event": "PodFailed", "action": "AbortJob", "timeout": "2m"},
        ]
        body = gang("short", workers=MEMBERS - 1, gpus=2, command="exit 0")
        body["metadata"]["namespace"] = namespace
        body["spec"] |= {"policies": policies, "ttlSecondsAfterFinished": 2}
        await world.client.submit(body, wait=None)
        late = gang("kept", workers=MEMBERS - 1, gpus=2, command="exit 0")
        late["spec"] |= {"policies": policies, "ttlSecondsAfterFinished": 120}
        late["metadata"]["namespace"] = namespace
        await kube.create(r.JOBS, namespace, late)
        [view] = await world.completed(["kept"])
        assert view.phase == "Completed"

        async def gone() -> bool:
            with suppress(NotFound):
                await kube.get(r.JOBS, namespace, "short")
                return False
            return True

        await eventually(gone)
        job = await kube.get(r.JOBS, namespace, "kept")
        assert not job["status"].get("runningDuration", "").startswith("-")
        assert all(one.seconds is None or one.seconds >= 0 for one in view.timeline)
        assert all(span.end_time >= span.start_time for span in world.platform.finished_spans)
    assert alarms(caplog) == []
