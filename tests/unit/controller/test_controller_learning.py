"""For how long jobs run is learned from those that went through, once each, and a restart keeps it."""

from __future__ import annotations

import asyncio

import pytest

from services.controller.core.learning import KEPT, learn, template_of
from services.controller.core.model import read_job
from shared.api import names
from shared.events import topics
from shared.events.codec import decode
from tests.unit.controller.conftest import EPOCH, Robot, job


def wanted(name="train-17", **metadata):
    body = job(name)
    return read_job({**body, "metadata": {**body["metadata"], "name": name, "uid": "u", **metadata}})


@pytest.mark.parametrize(
    ("metadata", "template"),
    [
        ({"name": "train"}, "train"),
        ({"name": "train-17"}, "train-#"),
        ({"name": "eval-20260301-1200"}, "eval-#-#"),
        ({"name": "nightly-x7k2p", "generateName": "nightly-"}, "nightly-"),
        ({"name": "train-17", "annotations": {names.TEMPLATE: "resnet"}}, "resnet"),
    ],
)
def test_jobs_are_alike_by_what_their_names_have_in_common_or_as_they_say(metadata, template):
    assert template_of(wanted(**metadata)) == template


def test_only_the_latest_run_times_are_kept():
    known = None
    for number in range(KEPT + 8):
        known = learn(known, wanted(), number, float(number), EPOCH)
    assert known.seconds == tuple(float(number) for number in range(8, KEPT + 8))
    assert len(known.jobs) == KEPT


def test_a_job_counts_once_in_each_generation():
    first = learn(None, wanted(), 0, 5.0, EPOCH)
    assert learn(first, wanted(), 0, 5.0, EPOCH) is None
    assert learn(first, wanted(), 1, 7.0, EPOCH).seconds == (5.0, 7.0)


async def told(w):
    reader = await w.log.read([topics.RUN_TIMES])
    found = []
    while not await reader.caught_up():
        found += [decode(delivery).data for delivery in await reader.poll()]
    await reader.close()
    return found


@pytest.mark.looptime
async def test_a_job_that_went_through_tells_for_how_long_it_ran_also_after_a_restart(world):
    async with world() as w:
        robot = asyncio.create_task(Robot(w, run_seconds=20).run())
        for number in (1, 2):
            await w.admit(job(f"train-{number}"), f"sub-{number}")
            await w.until(lambda number=number: w.phase(f"train-{number}") == "Completed", 120)
            await w.stop()
            await w.start()
        robot.cancel()
        latest = (await told(w))[-1]
    assert (latest.queue, latest.template) == ("default", "train-#")
    assert len(latest.seconds) == len(latest.jobs) == 2
    assert all(19 <= seconds <= 25 for seconds in latest.seconds)
