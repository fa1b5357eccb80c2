"""One process with a real cluster and its log on disk: kill -9 loses nothing and leaves no gang in part."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from pumice import AsyncClient, Retry
from shared.api.resources import JOBS, PODGROUPS
from shared.clock import SystemClock
from shared.kube.client import connect
from shared.kube.port import Cluster
from tests.fixtures.gate import Gate
from tests.fixtures.platform import gang
from tests.fixtures.processes import Process
from tests.fixtures.services import PodWatch, ended, free_port
from tests.fixtures.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

GANGS = 20
WORKERS = 3


@dataclass
class Team:
    """``pumice up --data`` against a cluster of its own, with a gate in between."""

    up: Process
    gate: Gate
    client: AsyncClient
    cluster: Cluster
    watch: PodWatch

    async def die_and_rise(self) -> None:
        await self.up.kill()
        self.gate.open()
        await self.up.start()

    async def require_whole(self, names: list[str]) -> None:
        """Require that these gangs ended, each pod was made once, and there is nothing else of them."""
        jobs = await asyncio.gather(*(ended(self.client, name, 120) for name in names))
        assert Counter(job.phase for job in jobs) == {"Completed": len(names)}, self.up.output[-3000:]
        assert {job.retry_count for job in jobs} == {0}
        for name in names:
            pods = self.watch.pods(f"{name}-")
            assert Counter(pod["status"]["phase"] for pod in pods) == {"Succeeded": 1 + WORKERS}
            assert self.watch.twice(f"{name}-") == {}
        for kind in (JOBS, PODGROUPS):
            assert len((await self.cluster.list(kind)).items) == len(self.watch.pods("")) / (1 + WORKERS)
        assert self.up.unclean == []


@asynccontextmanager
async def a_team(directory: Path) -> AsyncIterator[Team]:
    kubeconfig, gated = directory / "kubeconfig", directory / "gated"
    simulator = Process(
        "simulator",
        *("-m", "simulator", "--port", "0", "--nodes", "8x8", "--kubeconfig", str(kubeconfig)),
        directory=directory,
    )
    port = free_port()
    up = Process(
        "up",
        *("-m", "pumice", "up", "--port", str(port), "--log-level", "info"),
        *("--data", str(directory / "data"), "--kubeconfig", str(gated)),
        directory=directory,
    )
    await simulator.start()
    try:
        await eventually(kubeconfig.exists, what="the simulator's kubeconfig")
        server = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        gate, cluster = Gate(server), connect(str(kubeconfig), clock=SystemClock())
        retry = Retry(attempts=100, patience=120)
        async with (
            gate.running(gated),
            PodWatch(cluster) as watch,
            AsyncClient(f"http://127.0.0.1:{port}", retry=retry) as client,
        ):
            await up.start()
            yield Team(up, gate, client, cluster, watch)
            assert await up.stop() == 0
        await cluster.close()
    finally:
        for process in (up, simulator):
            if process.running:
                await process.kill()


async def test_every_gang_ends_once_and_whole_though_the_process_is_killed_in_the_middle(tmp_path: Path):
    names = [f"gang-{number}" for number in range(GANGS)]
    async with a_team(tmp_path) as team:

        async def submit() -> None:
            for name in names:
                await team.client.submit(gang(name, workers=WORKERS, command="sleep 0.5"), wait=None)
                await asyncio.sleep(0.1)

        submitting = asyncio.create_task(submit())
        await eventually(lambda: team.watch.pods("gang-2-"), what="the third gang")
        await team.die_and_rise()
        await submitting
        await team.die_and_rise()
        await team.require_whole(names)


async def test_a_process_killed_between_two_pods_of_a_gang_leaves_no_part_of_it(tmp_path: Path):
    async with a_team(tmp_path) as team:
        for pods in range(1, 1 + WORKERS):
            name = f"cut-{pods}"
            team.gate.let_through(pods)
            await team.client.submit(gang(name, workers=WORKERS, command="sleep 0.2"), wait=None)
            await asyncio.wait_for(team.gate.shut.wait(), 60)
            await eventually(lambda: len(team.watch.pods(f"cut-{pods}-")) == pods, what="a part of it")  # noqa: B023
            await team.die_and_rise()
            await team.require_whole([name])


async def test_a_process_killed_at_any_moment_leaves_no_part_of_a_gang(tmp_path: Path):
    chance = random.Random(7)
    async with a_team(tmp_path) as team:
        await team.client.submit(gang("first", workers=WORKERS), wait="finished", timeout=60)
        for round_ in range(6):
            names = [f"round-{round_}-{number}" for number in range(2)]
            for name in names:
                await team.client.submit(gang(name, workers=WORKERS, command="sleep 0.2"), wait=None)
            await asyncio.sleep(chance.uniform(0, 0.25))
            await team.die_and_rise()
            await team.require_whole(names)
