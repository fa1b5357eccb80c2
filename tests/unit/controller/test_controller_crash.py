"""Killed at any write and started again: every job ends, none twice, no gang is left in part."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter

import pytest

from shared.api import resources as r
from shared.errors import Refused
from shared.events import topics
from shared.events.contracts import DecisionOutcome, PodState
from shared.log.memory import MemoryLog
from tests.unit.controller.conftest import Life, Mortal, Robot, job

pytestmark = pytest.mark.looptime


async def die(w, life) -> None:
    """Take the dead process' tasks away; what they still try has no effect."""
    for one in life.opened:
        await one.close()
    w.task.cancel()
    with contextlib.suppress(BaseException):
        await w.task
    w.task = None


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("number", "born_bound"), [*((n, True) for n in range(1, 15)), *((n, False) for n in range(7, 17))]
)
async def test_killed_at_any_write_the_job_still_runs_once_and_whole(world, number, when, born_bound):
    settings = {"partial_grace_seconds": 3.0, "settle_seconds": 1.0, "born_bound": born_bound}
    async with world(started=False, **settings) as w:
        life = Life(number, when)
        await w.start(cluster=Mortal(w.cluster, life), log=Mortal(w.log, life))
        robot = asyncio.create_task(Robot(w).run())
        await w.admit(job())
        await asyncio.wait_for(life.dead.wait(), 30)
        await die(w, life)
        await asyncio.sleep(1)
        await w.start()
        await w.until(lambda: w.phase() == "Completed", 60)
        robot.cancel()
        created = Counter(line for line in w.cluster.log if line.startswith(("create jobs", "create pods")))
        assert set(created.values()) == {1}
        assert w.job()["status"]["succeeded"] == 4
        phases = {}
        for envelope in await w.events(topics.JOB_LIFECYCLE):
            phases.setdefault(envelope.id, envelope.data.phase)
        assert list(phases.values()) == ["Pending", "Running", "Completed"]


async def test_a_gang_bound_in_part_whose_decision_is_lost_is_taken_back_and_decided_anew(world):
    async with world(started=False, partial_grace_seconds=5.0, settle_seconds=1.0) as w:
        life = Life(8, "after")  # two queues (4 writes), job, podgroup, two of four pods
        await w.start(cluster=Mortal(w.cluster, life), log=Mortal(w.log, life))
        await w.admit(job())
        await w.decide()
        await asyncio.wait_for(life.dead.wait(), 30)
        await die(w, life)
        placed = [node for node in w.places().values() if node]
        assert 0 < len(placed) < 4
        # The log is lost, and the decision with it.
        w.log = MemoryLog(w.clock)
        await w.log.start()
        await w.log.create_topics(topics.SPECS)
        await w.start()
        await w.until(lambda: w.group_phase() == "Pending" and "delete" in " ".join(w.cluster.log))
        w.cluster.stop_pods()
        await w.until(lambda: not any(w.places().values()))
        await w.decide((await w.ready())[-1].gang)
        assert (await w.results())[-1].outcome is DecisionOutcome.APPLIED
        await w.until(lambda: len([n for n in w.places().values() if n]) == 4)


async def test_a_bound_pod_that_ended_while_nobody_looked_is_told_before_its_decisions_result(world):
    async with world(started=False) as w:
        life = Life(11, "after")  # two queues (4 writes), job, podgroup and its phase, four pods
        await w.start(cluster=Mortal(w.cluster, life), log=Mortal(w.log, life))
        await w.admit(job())
        await w.decide()
        await asyncio.wait_for(life.dead.wait(), 30)
        await die(w, life)
        assert not any(key.startswith("pod/") for key in await w.state())
        w.cluster.run_pods()
        w.cluster.end_pods("train-worker-0")
        await w.start()
        [result] = await w.results()
        assert len(result.bound) == 4
        told = [one.data for one in await w.events(topics.CLUSTER_STATE) if one is not None]
        phases = {pod.name: pod.phase for pod in told if isinstance(pod, PodState)}
        assert phases.pop("train-worker-0") == "Succeeded"
        assert set(phases.values()) == {"Running"}


async def test_losing_the_whole_log_loses_no_job(world):
    async with world() as w:
        await w.admit(job())
        await w.run_gang()
        before = await w.state()
        await w.stop()
        w.log = MemoryLog(w.clock)
        await w.log.start()
        await w.log.create_topics(topics.SPECS)
        await w.start()

        async def same():
            return await w.state() == before

        await w.until(same)
        w.cluster.end_pods()
        await w.until(lambda: w.phase() == "Completed")


async def test_what_went_while_nobody_looked_gets_its_tombstone(world):
    async with world() as w:
        await w.admit(job())
        await w.run_gang()
        await w.stop()
        w.cluster.remove(r.JOBS, "default", "train")
        w.cluster.stop_pods()
        w.cluster.put(r.QUEUES, {"metadata": {"name": "new"}, "spec": {"weight": 2}})
        await w.start()

        async def told():
            keys = {key for key in await w.state() if not key.startswith("node/")}
            return keys == {"queue//root", "queue//default", "queue//new"}

        await w.until(told)


async def test_an_eviction_while_the_controller_was_away_sets_its_policy_off(world):
    async with world() as w:
        body = job(policies=[{"event": "PodEvicted", "action": "RestartJob"}])
        await w.admit(body)
        await w.run_gang()
        await w.stop()
        w.cluster.remove(r.PODS, "default", "train-worker-0", graceful=False)
        await w.start()
        await w.until(lambda: w.job()["status"].get("retryCount") == 1)


async def test_a_decision_taken_back_before_a_crash_is_no_eviction(world):
    async with world() as w:

        async def refuse(verb, resource, name):
            if (verb, name) == ("create", "train-worker-2"):
                raise Refused("no")

        w.cluster.before = refuse
        await w.admit(job(policies=[{"event": "*", "action": "RestartJob"}]))
        await w.decide()
        assert (await w.results())[0].outcome is DecisionOutcome.ROLLED_BACK
        await w.stop()
        w.cluster.stop_pods()
        await w.start()
        await asyncio.sleep(2)
        assert (w.phase(), w.job()["status"].get("retryCount", 0)) == ("Pending", 0)


async def test_a_restart_says_nothing_new_when_nothing_has_changed(world):
    async with world() as w:
        await w.admit(job())
        await w.run_gang()
        await asyncio.sleep(3)
        before = {name: len(await w.events(name)) for name in topics.TOPICS}
        writes = sum(w.cluster.writes.values())
        await w.stop()
        await w.start()
        await asyncio.sleep(10)
        assert {name: len(await w.events(name)) for name in topics.TOPICS} == before
        assert sum(w.cluster.writes.values()) == writes


async def test_a_waiting_gang_is_announced_again_after_a_restart(world):
    async with world() as w:
        await w.admit(job())
        first = (await w.ready())[0].gang
        await w.stop()
        await w.start()
        assert (await w.ready(2))[1].gang == first


async def test_a_decision_that_has_a_result_is_not_carried_out_again(world):
    async with world() as w:
        await w.admit(job())
        decided = await w.decide()
        await w.results()
        for name in list(w.pods()):
            w.cluster.remove(r.PODS, "default", name, graceful=False)
        await w.stop()
        await w.start()
        await w.send(topics.BIND_DECISIONS, b"default", decided, event_id=decided.decision)
        await asyncio.sleep(3)
        assert len(await w.events(topics.BIND_RESULTS)) == 1
        assert not any(w.places().values())
