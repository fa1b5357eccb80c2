"""What the API server's passing answers do to the controller: nothing that lasts."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from shared.api import resources as r
from shared.clock import LoopClock
from shared.errors import Conflict, Unavailable
from shared.events.contracts import DecisionOutcome, JobAction
from tests.unit.controller.conftest import EPOCH, job

pytestmark = pytest.mark.looptime


def first_time(error, *verbs):
    """Raise at the first write of each kind to each object."""
    seen = set()

    async def hook(verb, resource, name):
        key = (verb, resource.plural, name)
        if verb in verbs and key not in seen:
            seen.add(key)
            raise error(f"{verb} {resource.plural} {name}")

    return hook


def abort_object(w, name: str = "train-abort") -> dict:
    meta = w.job()["metadata"]
    return {
        "apiVersion": r.COMMANDS.api_version,
        "kind": "Command",
        "metadata": {"name": name, "namespace": "default"},
        "action": "AbortJob",
        "target": {"apiVersion": r.JOBS.api_version, "kind": "Job", "name": "train", "uid": meta["uid"]},
    }


@pytest.mark.parametrize("when", ["before", "after"])
async def test_conflicts_and_lost_answers_at_every_first_write_make_nothing_twice(world, when):
    async with world(started=False) as w:
        error = Conflict if when == "before" else Unavailable
        setattr(w.cluster, when, first_time(error, "create", "patch", "delete", "bind"))
        await w.start()
        await w.admit(job())
        await w.run_gang()
        assert [one.outcome for one in await w.results()] == [DecisionOutcome.APPLIED]
        w.cluster.end_pods()
        await w.until(lambda: w.phase() == "Completed")
        created = Counter(line for line in w.cluster.log if line.startswith("create pods"))
        assert set(created.values()) == {1}
        assert not [line for line in w.cluster.log if line.startswith("delete")]


async def test_a_binding_refused_for_a_moment_takes_no_gang_back(world):
    async with world() as w:
        await w.admit(job())
        gang = (await w.ready())[-1].gang
        # Made without a node, as members are that were lost while a decision was on its way.
        await w.decide(gang)
        await w.results()
        w.cluster.remove(r.PODS, "default", "train-worker-2", graceful=False)
        await w.until(lambda: w.places().get("train-worker-2", "gone") is None)
        w.cluster.before = first_time(Conflict, "bind")
        decided = await w.decide(gang, pods={"train-worker-2"}, enqueue=False, minimum=0)
        result = (await w.results(2))[-1]
        assert (result.decision, result.outcome) == (decided.decision, DecisionOutcome.APPLIED)
        assert w.places()["train-worker-2"] is not None


@pytest.mark.parametrize("lost", ["delete", "patch"])
async def test_a_command_object_is_obeyed_once_although_an_answer_is_lost(world, lost):
    async with world() as w:
        await w.admit(job())
        await w.run_gang()
        w.cluster.after = first_time(Unavailable, lost)
        w.cluster.put(r.COMMANDS, abort_object(w), "default")
        await w.until(lambda: w.phase() == "Aborting")
        assert w.cluster.all(r.COMMANDS) == []
        assert len([line for line in w.cluster.log if line.startswith("delete commands")]) == 1


async def test_a_command_object_is_obeyed_although_the_job_cannot_be_written_at_first(world):
    async with world() as w:
        await w.admit(job())
        await w.run_gang()
        w.cluster.before = first_time(Unavailable, "patch")
        w.cluster.put(r.COMMANDS, abort_object(w), "default")
        await w.until(lambda: w.phase() == "Aborting")


async def test_a_job_is_deleted_although_its_deletion_conflicts_once_and_another_of_its_name_is_not(world):
    async with world() as w:
        await w.admit(job())
        await w.run_gang()
        w.cluster.before = first_time(Conflict, "delete")
        await w.command(JobAction.DELETE, event_id="other", uid="uid-of-another")
        await asyncio.sleep(5)
        assert w.phase() == "Running"
        w.cluster.before = first_time(Conflict, "delete")
        await w.command(JobAction.DELETE, event_id="this", uid=w.job()["metadata"]["uid"])
        await w.until(lambda: not w.job())


async def test_a_job_whose_time_is_over_goes_although_its_deletion_conflicts_once(world):
    async with world() as w:
        await w.admit(job(ttlSecondsAfterFinished=3))
        await w.run_gang()
        w.cluster.before = first_time(Conflict, "delete")
        w.cluster.end_pods()
        await w.until(lambda: not w.job() or w.job()["metadata"].get("deletionTimestamp"))


@pytest.mark.parametrize("ahead", [-300, 300])
async def test_a_timeout_counts_by_the_clock_that_stamps_the_pods(world, ahead):
    async with world() as w:
        w.cluster.ahead = ahead
        w.cluster.clock = LoopClock(EPOCH + timedelta(seconds=ahead))
        policies = [{"event": "PodPending", "action": "AbortJob", "timeout": "1m"}]
        await w.admit(job(policies=policies))
        await w.decide()
        await w.results()
        decided = w.clock.monotonic()
        await asyncio.sleep(55)
        assert w.phase() == "Pending"
        await w.until(lambda: w.phase() == "Aborting")
        assert w.clock.monotonic() - decided == pytest.approx(60, abs=2)
