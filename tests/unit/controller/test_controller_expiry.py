"""Finished jobs with a time to live are deleted when it is over, by the job itself and not by its name."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from services.controller.core.expiry import expires_at
from shared.api import resources as r
from shared.api.meta import format_time
from shared.events.contracts import JobAction
from tests.unit.controller.conftest import EPOCH, job

looptime = pytest.mark.looptime


def finished(phase="Completed", ttl: int | None = 60, **meta) -> dict:
    spec = {} if ttl is None else {"ttlSecondsAfterFinished": ttl}
    state = {"phase": phase, "lastTransitionTime": format_time(EPOCH)}
    return {"metadata": {"name": "j", **meta}, "spec": spec, "status": {"state": state}}


@pytest.mark.parametrize("phase", ["Completed", "Failed", "Terminated", "Aborted"])
def test_a_job_that_ended_expires_after_its_time_to_live(phase):
    assert expires_at(finished(phase)) == EPOCH + timedelta(seconds=60)


@pytest.mark.parametrize(
    "phase", ["Pending", "Running", "Restarting", "Aborting", "Completing", "Terminating"]
)
def test_a_job_that_has_not_ended_does_not_expire(phase):
    assert expires_at(finished(phase)) is None


def test_a_job_without_a_time_to_live_or_already_going_does_not_expire():
    assert expires_at(finished(ttl=None)) is None
    assert expires_at(finished(deletionTimestamp=format_time(EPOCH))) is None


@looptime
async def test_a_job_goes_when_its_time_is_over_and_not_before(world):
    async with world() as w:
        await w.admit(job(ttlSecondsAfterFinished=100))
        await w.run_gang()
        w.cluster.end_pods()
        await w.until(lambda: w.phase() == "Completed")
        await asyncio.sleep(97)
        assert w.job()
        await w.until(lambda: not w.job(), seconds=5)
        await w.until(lambda: not w.pods() and w.group() is None)


@looptime
async def test_a_suspended_job_goes_too_unless_it_is_resumed_before(world):
    async with world() as w:
        await w.admit(job(ttlSecondsAfterFinished=100))
        await w.ready()
        await w.command(JobAction.SUSPEND, event_id="1")
        await w.until(lambda: w.phase() == "Aborted")
        await asyncio.sleep(50)
        await w.command(JobAction.RESUME, event_id="2")
        await w.until(lambda: w.phase() == "Pending")
        await asyncio.sleep(100)
        assert w.job()
        await w.command(JobAction.SUSPEND, event_id="3")
        await w.until(lambda: w.phase() == "Aborted")
        await w.until(lambda: not w.job(), seconds=105)


@looptime
async def test_a_restart_forgets_no_time(world):
    async with world() as w:
        await w.admit(job(ttlSecondsAfterFinished=100))
        await w.run_gang()
        w.cluster.end_pods()
        await w.until(lambda: w.phase() == "Completed")
        await asyncio.sleep(50)
        await w.stop()
        await asyncio.sleep(45)
        await w.start()
        await asyncio.sleep(2)
        assert w.job()
        await w.until(lambda: not w.job(), seconds=5)


@looptime
async def test_a_time_to_live_that_was_made_longer_meanwhile_counts(world):
    async with world() as w:
        await w.admit(job(ttlSecondsAfterFinished=10))
        await w.run_gang()
        w.cluster.end_pods()
        await w.until(lambda: w.phase() == "Completed")
        w.cluster.change(r.JOBS, "default", "train", {"spec": {"ttlSecondsAfterFinished": 1000}})
        await asyncio.sleep(500)
        assert w.job()


@looptime
async def test_a_new_job_of_the_same_name_is_not_taken_for_the_old_one(world):
    async with world() as w:
        await w.admit(job(ttlSecondsAfterFinished=5))
        await w.run_gang()
        w.cluster.end_pods()
        await w.until(lambda: w.phase() == "Completed")

        async def before(verb, resource, name):
            if verb == "delete" and resource is r.JOBS:
                w.cluster.before = nothing
                w.cluster.remove(r.JOBS, "default", "train")
                w.cluster.put(r.JOBS, job())

        async def nothing(verb, resource, name):
            return None

        w.cluster.before = before
        await asyncio.sleep(20)
        assert w.phase() == "Pending"
