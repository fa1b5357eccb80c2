"""Ctrl-C in the middle of work: exit code 0, in order, and nothing is lost."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.fixtures.platform import gang
from tests.fixtures.services import SERVICES, Services, ended
from tools.kafka import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(120)]

PATIENCE = 15.0
"""Seconds; a container runtime kills after 30."""


async def test_a_service_stops_in_order_on_ctrl_c_in_the_middle_of_work_and_goes_on_when_started(
    services: Services,
):
    names = [f"stop-{number}" for number in range(8)]
    async with services.client() as client:

        async def submit() -> None:
            for name in names:
                await client.submit(gang(name, workers=1, command="sleep 0.3"), wait=None)
                await asyncio.sleep(0.1)

        submitting = asyncio.create_task(submit())
        await asyncio.sleep(0.3)
        stopping = [services.processes[name] for name in SERVICES]
        codes = await asyncio.gather(*(process.stop() for process in stopping))
        assert dict(zip(SERVICES, codes, strict=True)) == dict.fromkeys(SERVICES, 0)
        assert {process.name: process.unclean for process in stopping} == {name: [] for name in SERVICES}
        await services.start()
        await submitting
        jobs = await asyncio.gather(*(ended(client, name) for name in names))
        assert {job.phase for job in jobs} == {"Completed"}


async def test_a_service_stops_in_order_while_the_broker_and_the_api_server_are_away(
    services: Services, kafka_broker: Broker
):
    await asyncio.to_thread(kafka_broker.kill)
    await services.simulator.kill()
    try:
        await services.until_not_ready("gateway", part="log")
        started = time.monotonic()
        stopping = [services.processes[name] for name in SERVICES]
        codes = await asyncio.gather(*(process.stop() for process in stopping))
        assert time.monotonic() - started < PATIENCE
        assert dict(zip(SERVICES, codes, strict=True)) == dict.fromkeys(SERVICES, 0)
        assert {process.name: process.unclean for process in stopping} == {name: [] for name in SERVICES}
    finally:
        await asyncio.to_thread(kafka_broker.start)


async def test_the_simulator_stops_in_order_on_ctrl_c(services: Services):
    assert await services.simulator.stop() == 0
    assert services.simulator.unclean == []
