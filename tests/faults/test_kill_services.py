"""Each service is killed with kill -9 in the middle of 50 gangs: all end, none twice, none in part."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from pumice import AsyncClient, Retry
from shared.api.resources import JOBS, PODGROUPS
from tests.fixtures.platform import gang
from tests.fixtures.services import SERVICES, PodWatch, Services, cluster_of, running_services
from tools.kafka import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]
GANGS = 50
WORKERS = 3


async def kill_each_once(services: Services) -> None:
    for name in SERVICES:
        await asyncio.sleep(1.5)
        process = services.processes[name]
        await process.kill()
        await asyncio.sleep(0.3)
        await process.start()
        await services.until_ready(name)


async def test_every_gang_ends_once_and_whole_whoever_is_killed(own_kafka_broker: Broker, tmp_path: Path):
    async with (
        running_services(tmp_path, own_kafka_broker.bootstrap, "16x8") as services,
        cluster_of(services) as cluster,
        PodWatch(cluster) as watch,
        AsyncClient(services.url, retry=Retry(attempts=60, patience=120)) as client,
    ):
        killing = asyncio.create_task(kill_each_once(services))

        async def submit(number: int) -> None:
            await asyncio.sleep(number * 0.15)
            await client.submit(gang(f"gang-{number}", workers=WORKERS, command="sleep 0.5"), wait=None)

        await asyncio.gather(*(submit(number) for number in range(GANGS)))
        await killing
        ended = await asyncio.gather(
            *(client.wait_until(f"gang-{number}", "finished", timeout=150) for number in range(GANGS))
        )
        assert Counter(job.phase for job in ended) == {"Completed": GANGS}

        pods = watch.pods
        assert Counter(pod["status"]["phase"] for pod in pods) == {"Succeeded": GANGS * (1 + WORKERS)}
        twice = {name: uids for name, uids in watch.uids.items() if len(uids) > 1}
        assert twice == {}
        assert len((await cluster.list(JOBS)).items) == GANGS
        assert len((await cluster.list(PODGROUPS)).items) == GANGS
        assert not any("Traceback" in process.output for process in services.processes.values())
