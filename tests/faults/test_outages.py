"""What the services need goes away in the middle of work: they wait, say so once, are not ready, go on."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Iterable

import pytest

from pumice import AsyncClient, JobView
from shared.api.resources import JOBS
from tests.fixtures.platform import gang
from tests.fixtures.services import SERVICES, PodWatch, Services, ended
from tools.kafka import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(180)]

GANGS = 8
WORKERS = 2
PAUSE = 0.15


def names(prefix: str) -> list[str]:
    return [f"{prefix}-{number}" for number in range(GANGS)]


async def submit_all(client: AsyncClient, prefix: str) -> None:
    """Submit gangs one after another, as one who does not know of the outage."""
    for name in names(prefix):
        await client.submit(gang(name, workers=WORKERS, command="sleep 0.4"), wait=None)
        await asyncio.sleep(PAUSE)


async def all_ended(client: AsyncClient, prefix: str) -> list[JobView]:
    return await asyncio.gather(*(ended(client, name, 120) for name in names(prefix)))


def said(services: Services, since: dict[str, int], text: str, who: Iterable[str]) -> dict[str, int]:
    """Count the lines with ``text`` that each service said since then."""
    return {
        name: len([line for line in services.processes[name].lines[since[name] :] if text in line])
        for name in who
    }


def marks(services: Services) -> dict[str, int]:
    return {name: len(services.processes[name].lines) for name in SERVICES}


async def whole(services: Services, watch: PodWatch, prefix: str, jobs: list[JobView]) -> None:
    """Require that every gang ended, none was made twice, none in part, and no service died for it."""
    assert Counter(job.phase for job in jobs) == {"Completed": GANGS}
    pods = watch.pods(f"{prefix}-")
    assert Counter(pod["status"]["phase"] for pod in pods) == {"Succeeded": GANGS * (1 + WORKERS)}
    assert watch.twice(f"{prefix}-") == {}
    for name in SERVICES:
        assert services.processes[name].running, services.processes[name].output[-2000:]
        assert services.processes[name].unclean == []


@pytest.mark.parametrize("way", ["stopped", "killed"])
async def test_a_broker_that_goes_and_comes_back_is_waited_for_and_nothing_is_lost(
    services: Services, kafka_broker: Broker, way: str
):
    before, prefix = marks(services), f"broker-{way}"
    async with services.client() as client, services.cluster() as cluster, PodWatch(cluster) as watch:
        submitting = asyncio.create_task(submit_all(client, prefix))
        await asyncio.sleep(3 * PAUSE)
        await asyncio.to_thread(kafka_broker.stop if way == "stopped" else kafka_broker.kill)
        waiting = await asyncio.gather(*(services.until_not_ready(name, part="log") for name in SERVICES))
        for name, reasons in zip(SERVICES, waiting, strict=True):
            assert services.bootstrap in reasons[f"{name}.log"]
        await asyncio.to_thread(kafka_broker.start)
        await asyncio.gather(*(services.until_ready(name) for name in SERVICES))
        await submitting
        jobs = await all_ended(client, prefix)
        await whole(services, watch, prefix, jobs)
    assert said(services, before, "is away", SERVICES) == dict.fromkeys(SERVICES, 1)
    assert said(services, before, "is back", SERVICES) == dict.fromkeys(SERVICES, 1)


async def test_an_api_server_that_hangs_is_waited_for_and_nothing_is_lost(services: Services):
    before = marks(services)
    async with services.client() as client, services.cluster() as cluster, PodWatch(cluster) as watch:
        submitting = asyncio.create_task(submit_all(client, "hangs"))
        await asyncio.sleep(3 * PAUSE)
        services.simulator.send(signal.SIGSTOP)
        try:
            reasons = await services.until_not_ready("controller", part="api-server")
            assert "no answer" in reasons["controller.api-server"]
            await submitting  # what is submitted meanwhile is taken
            waiting = await services.ready("gateway")
        finally:
            services.simulator.send(signal.SIGCONT)
        assert waiting[0]
        await services.until_ready("controller")
        jobs = await all_ended(client, "hangs")
        await whole(services, watch, "hangs", jobs)
    assert said(services, before, "is away", ["controller"]) == {"controller": 1}
    assert said(services, before, "is back", ["controller"]) == {"controller": 1}


async def test_a_cluster_that_comes_back_without_memory_is_taken_as_it_is(services: Services):
    """The simulator is killed: connections are refused, then nothing that was is there any more."""
    before = marks(services)
    async with services.client() as client:
        await client.submit(gang("forgotten", workers=1, command="sleep 600"), wait="running", timeout=30)
        await services.simulator.kill()
        reasons = await services.until_not_ready("controller", part="api-server")
        assert "connect" in reasons["controller.api-server"].lower()
        await client.submit(gang("meanwhile", workers=1), wait=None)
        await services.start()
        assert (await ended(client, "meanwhile")).phase == "Completed"
        # Its nodes are free again: a gang that needs all of them runs.
        await client.submit(gang("whole", workers=15, gpus=8), wait=None)
        assert (await ended(client, "whole")).phase == "Completed"
    async with services.cluster() as cluster:
        there = {one["metadata"]["name"] for one in (await cluster.list(JOBS)).items}
    assert there == {"meanwhile", "whole"}
    assert said(services, before, "is away", ["controller"]) == {"controller": 1}
    for name in SERVICES:
        assert services.processes[name].unclean == []
