"""Each service is killed with kill -9 in the middle of 50 gangs: all end, none twice, none in part."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from shared.api.resources import JOBS, PODGROUPS
from tests.fixtures.platform import gang
from tests.fixtures.services import SERVICES, PodWatch, Services, ended

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]
GANGS = 50
WORKERS = 3


async def test_every_gang_ends_once_and_whole_whoever_is_killed(services: Services):
    names = [f"kill-{number}" for number in range(GANGS)]
    async with services.client() as client, services.cluster() as cluster, PodWatch(cluster) as watch:
        killed = asyncio.Event()

        async def submit() -> None:
            """Submit half of the gangs at a steady pace, and the rest so that there is work to the end."""
            for number, name in enumerate(names):
                await client.submit(gang(name, workers=WORKERS, command="sleep 0.5"), wait=None)
                if not killed.is_set():
                    await asyncio.sleep(0.15 if number < GANGS // 2 else 0.6)

        submitting = asyncio.create_task(submit())
        for service in SERVICES:
            await asyncio.sleep(1)
            process = services.processes[service]
            await process.kill()
            await process.start()
            await services.until_ready(service)
        killed.set()
        await submitting
        jobs = await asyncio.gather(*(ended(client, name, 120) for name in names))
        assert Counter(job.phase for job in jobs) == {"Completed": GANGS}

        assert Counter(pod["status"]["phase"] for pod in watch.pods("kill-")) == {
            "Succeeded": GANGS * (1 + WORKERS)
        }
        assert watch.twice("kill-") == {}
        for kind in (JOBS, PODGROUPS):
            made = [one["metadata"]["name"] for one in (await cluster.list(kind)).items]
            assert len([name for name in made if name.startswith("kill-")]) == GANGS
        assert {name: process.unclean for name, process in services.processes.items()} == {
            name: [] for name in SERVICES
        }
