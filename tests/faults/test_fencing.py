"""Two schedulers for one node pool: the older one stands by, nothing is decided twice."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter

import pytest

from shared.clock import SystemClock
from shared.events.codec import decode
from shared.events.contracts import GangDecided
from shared.log.kafka import KafkaLog
from tests.fixtures.logs import read_all
from tests.fixtures.platform import gang
from tests.fixtures.processes import Process
from tests.fixtures.services import PodWatch, Services, ended
from tests.fixtures.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(120)]


async def decisions(log: KafkaLog, prefix: str) -> Counter[str]:
    """Count the decisions that bind pods, by gang."""
    found = [decode(one).data for one in await read_all(log, "bind-decisions") if one.key == b"default"]
    decided = [one for one in found if isinstance(one, GangDecided) and one.bindings]
    return Counter(one.gang.name for one in decided if one.gang.name.startswith(prefix))


async def test_a_scheduler_that_was_fenced_joins_anew_and_decides_once(services: Services):
    scheduler = services.processes["scheduler"]
    async with services.client() as client, KafkaLog(services.bootstrap, clock=SystemClock()) as log:
        await log.transactional("pumice-scheduler-default")
        await client.submit(gang("fenced", workers=1), wait=None)
        assert (await ended(client, "fenced")).phase == "Completed"
        assert list((await decisions(log, "fenced-")).values()) == [1]
        assert scheduler.running
        assert scheduler.unclean == []


async def test_a_scheduler_that_hung_while_another_took_over_decides_nothing_a_second_time(
    services: Services,
):
    schedulers = services.processes["scheduler"], services.another("scheduler", "scheduler-2")
    names = [f"hung-{number}" for number in range(12)]
    async with (
        services.client() as client,
        services.cluster() as cluster,
        PodWatch(cluster) as watch,
        KafkaLog(services.bootstrap, clock=SystemClock()) as log,
    ):
        said = len(schedulers[0].lines)
        await schedulers[1].start()

        def taken(scheduler: Process, since: int) -> bool:
            lines = scheduler.lines[since:]
            return any('"scheduling"' in line and '"pool":"default"' in line for line in lines)

        # One of the two has the pool once both are members.
        await eventually(
            lambda: taken(schedulers[0], said) or taken(schedulers[1], 0), what="a scheduler of the pool"
        )
        older, newer = schedulers if taken(schedulers[0], said) else schedulers[::-1]
        try:
            older.send(signal.SIGSTOP)
            for name in names[:6]:
                await client.submit(gang(name, workers=1, command="sleep 0.2"), wait=None)
            first = await ended(client, names[0])  # only the other one can have decided it
            older.send(signal.SIGCONT)
            for name in names[6:]:
                await client.submit(gang(name, workers=1, command="sleep 0.2"), wait=None)
                await asyncio.sleep(0.05)
            jobs = [first, *await asyncio.gather(*(ended(client, name) for name in names[1:]))]
            assert Counter(job.phase for job in jobs) == {"Completed": len(names)}
            assert watch.twice("hung-") == {}
            counted = await decisions(log, "hung-")
            assert len(counted) == len(names)
            assert set(counted.values()) == {1}
            assert older.running
            assert newer.running
            assert older.unclean == newer.unclean == []
        finally:
            older.send(signal.SIGCONT)
            if schedulers[1].running:
                assert await schedulers[1].stop() == 0
