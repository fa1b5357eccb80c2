"""Commands and policies: suspend, resume, restart, terminate, complete, scale, delete."""

from __future__ import annotations

import asyncio

import pytest

from shared.api import resources as r
from shared.events import topics
from shared.events.contracts import DecisionOutcome, JobAction
from tests.unit.controller.conftest import job

pytestmark = pytest.mark.looptime
GPU = {"requests": {"nvidia.com/gpu": 8}}


def with_policies(*policies, task=None, **spec):
    body = job(**spec)
    if task is None:
        body["spec"]["policies"] = list(policies)
    else:
        next(t for t in body["spec"]["tasks"] if t["name"] == task)["policies"] = list(policies)
    return body


async def running(w, body=None):
    await w.admit(body or job())
    await w.run_gang()


async def drained(w):
    """Play the kubelets ending what is being deleted, until nothing is."""

    def gone():
        w.cluster.stop_pods()
        return not any(p["metadata"].get("deletionTimestamp") for p in w.pods().values())

    await asyncio.sleep(1)
    await w.until(gone)


async def test_suspend_takes_the_pods_and_the_podgroup_away_and_resume_begins_anew(world):
    async with world() as w:
        await running(w)
        await w.command(JobAction.SUSPEND)
        await w.until(lambda: w.phase() == "Aborting")
        await drained(w)
        await w.until(lambda: w.phase() == "Aborted" and w.group() is None)
        assert w.job()["status"]["version"] == 1
        assert not any(key.startswith(("pod/", "podgroup/")) for key in await w.state())

        await w.command(JobAction.RESUME)
        gang = (await w.ready(2))[-1].gang
        assert gang.generation == 2
        await w.decide(gang)
        await w.results(2)
        w.cluster.run_pods()
        await w.until(lambda: w.phase() == "Running")
        assert w.job()["status"].get("retryCount", 0) == 0
        assert {p["metadata"]["annotations"]["volcano.sh/job-version"] for p in w.pods().values()} == {"2"}


async def test_a_suspended_job_keeps_the_pods_that_have_ended_and_still_counts_them(world):
    async with world() as w:
        await running(w)
        w.cluster.end_pods("train-worker-0")
        await asyncio.sleep(1)
        await w.command(JobAction.SUSPEND)
        await drained(w)
        await w.until(lambda: w.phase() == "Aborted")
        await asyncio.sleep(2)
        assert set(w.pods()) == {"train-worker-0"}
        assert w.job()["status"]["succeeded"] == 1


async def test_a_command_delivered_twice_is_obeyed_once(world):
    async with world() as w:
        await running(w)
        await w.command(JobAction.RESTART, event_id="c-1")
        await w.until(lambda: w.phase() == "Restarting")
        await drained(w)
        await w.until(lambda: w.phase() == "Pending")
        await w.command(JobAction.RESTART, event_id="c-1")
        await asyncio.sleep(2)
        assert (w.phase(), w.job()["status"]["retryCount"]) == ("Pending", 1)


async def test_a_command_that_means_nothing_changes_nothing_and_says_so(world):
    async with world() as w:
        await running(w)
        before = w.job()["status"]["state"]
        await w.command(JobAction.RESUME)

        def warned():
            return [event["message"] for event in w.cluster.all(r.EVENTS) if event["type"] == "Warning"]

        [message] = await w.until(warned)
        assert "means nothing to a job that is Running" in message
        assert w.job()["status"]["state"] == before


@pytest.mark.parametrize(
    ("action", "on_the_way", "end"),
    [(JobAction.TERMINATE, "Terminating", "Terminated"), (JobAction.COMPLETE, "Completing", "Completed")],
)
async def test_a_job_is_ended_by_order(world, action, on_the_way, end):
    async with world() as w:
        await running(w)
        await w.command(action)
        await w.until(lambda: w.phase() == on_the_way)
        await drained(w)
        await w.until(lambda: w.phase() == end)
        phases = [e.data.phase for e in await w.events(topics.JOB_LIFECYCLE)]
        assert phases == ["Pending", "Running", on_the_way, end]


async def test_a_command_object_is_deleted_before_it_is_obeyed(world):
    async with world() as w:
        await running(w)
        one = w.job()
        target = {
            "apiVersion": one["apiVersion"],
            "kind": "Job",
            "name": "train",
            "uid": one["metadata"]["uid"],
        }
        body = {
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": {"name": "train-abort", "namespace": "default"},
            "action": "AbortJob",
            "target": target,
        }
        w.cluster.put(r.COMMANDS, body, "default")
        await w.until(lambda: w.phase() == "Aborting")
        assert w.cluster.all(r.COMMANDS) == []
        log = w.cluster.log
        assert log.index("delete commands/train-abort") < log.index("delete pods/train-master-0")


async def test_deleting_a_job_takes_everything_along_and_the_scheduler_is_told(world):
    async with world() as w:
        await running(w)
        await w.command(JobAction.DELETE)
        await drained(w)

        async def nothing_left():
            return not [key for key in await w.state() if not key.startswith(("queue/", "node/"))]

        await w.until(nothing_left)
        assert w.pods() == {}


async def test_scaling_up_adds_members_and_scaling_down_takes_them_away(world):
    async with world() as w:
        body = job(minAvailable=2)
        await running(w, body)
        await w.command(JobAction.SCALE, replicas={"worker": 5}, event_id="up")
        await w.until(lambda: len(w.pods()) == 6)
        gang = (await w.ready(2))[-1].gang
        assert sum(len(t.members) for t in gang.tasks) == 6
        await w.command(JobAction.SCALE, replicas={"worker": 1}, event_id="down")
        await drained(w)
        await w.until(lambda: set(w.pods()) == {"train-master-0", "train-worker-0"})
        assert w.phase() == "Running"


# ------------------------------------------------------------------------------------------ policies
async def test_without_policies_a_job_goes_on_until_all_pods_have_ended_and_then_fails(world):
    async with world() as w:
        await running(w)
        w.cluster.end_pods("train-worker-0", code=1)
        await asyncio.sleep(3)
        assert (w.phase(), len(w.pods())) == ("Running", 4)
        w.cluster.end_pods()
        await w.until(lambda: w.phase() == "Failed")
        assert "3 pods succeeded and 1 failed of 4" in w.job()["status"]["state"]["message"]


async def test_a_failed_pod_restarts_the_job_until_no_retries_are_left(world):
    async with world() as w:
        await running(w, with_policies({"event": "PodFailed", "action": "RestartJob"}, maxRetry=2))
        w.cluster.end_pods("train-worker-0", code=1)
        await w.until(lambda: w.phase() == "Restarting")
        await drained(w)
        gang = (await w.ready(2))[-1].gang
        assert (gang.generation, w.job()["status"]["retryCount"]) == (1, 1)
        await w.decide(gang)
        await w.results(2)
        w.cluster.run_pods()
        await w.until(lambda: w.phase() == "Running")
        w.cluster.end_pods("train-worker-1", code=1)
        await w.until(lambda: w.phase() == "Failed")
        await drained(w)
        assert set(w.pods()) == {"train-worker-1"}  # on the last retry what has ended stays, for its logs
        assert w.job()["status"]["state"]["reason"] == "MaxRetryExceeded"


async def test_the_tasks_policies_come_before_the_jobs(world):
    async with world() as w:
        body = with_policies({"event": "PodFailed", "action": "RestartJob"})
        body["spec"]["tasks"][1]["policies"] = [{"event": "PodFailed", "action": "TerminateJob"}]
        await running(w, body)
        w.cluster.end_pods("train-worker-0", code=1)
        await w.until(lambda: w.phase() == "Terminating")


@pytest.mark.parametrize(("code", "phase"), [(3, "Aborting"), (4, "Running")])
async def test_a_policy_may_ask_for_an_exit_code(world, code, phase):
    async with world() as w:
        await running(w, with_policies({"exitCode": 3, "action": "AbortJob"}))
        w.cluster.end_pods("train-worker-0", code=code)
        await asyncio.sleep(2)
        assert w.phase() == phase


async def test_when_the_master_is_done_the_job_is(world):
    async with world() as w:
        await running(w, with_policies({"event": "TaskCompleted", "action": "CompleteJob"}, task="master"))
        w.cluster.end_pods("train-master-0")
        await w.until(lambda: w.phase() == "Completing")
        await drained(w)
        await w.until(lambda: w.phase() == "Completed")
        assert set(w.pods()) == {"train-master-0"}


async def test_an_evicted_pod_sets_its_policy_off(world):
    async with world() as w:
        await running(w, with_policies({"event": "PodEvicted", "action": "RestartJob"}))
        w.cluster.remove(r.PODS, "default", "train-worker-0")
        await drained(w)
        await w.until(lambda: w.job()["status"].get("retryCount") == 1)
        await drained(w)
        await w.until(lambda: w.phase() == "Pending")


async def test_pods_that_the_controller_itself_takes_away_are_no_evictions(world):
    async with world() as w:
        body = with_policies({"event": "*", "action": "RestartJob"}, minAvailable=2)
        await running(w, body)
        await w.command(JobAction.SCALE, replicas={"worker": 2})
        await drained(w)
        await w.until(lambda: len(w.pods()) == 3)
        await asyncio.sleep(2)
        assert (w.phase(), w.job()["status"].get("retryCount", 0)) == ("Running", 0)


async def test_restarting_one_pod_keeps_the_others_and_the_generation(world):
    async with world() as w:
        await running(w, with_policies({"event": "PodFailed", "action": "RestartPod"}))
        w.cluster.end_pods("train-worker-0", code=1)
        await w.until(lambda: w.job()["status"].get("retryCount") == 1)
        await w.until(lambda: w.phase() == "Pending")
        gang = (await w.ready(2))[-1].gang
        await w.until(lambda: w.places().get("train-worker-0", "") is None)
        assert (gang.generation, w.job()["status"].get("version", 0)) == (0, 0)
        await w.decide(gang, pods={"train-worker-0"}, enqueue=False)
        assert (await w.results(2))[-1].outcome is DecisionOutcome.APPLIED
        w.cluster.run_pods()
        await w.until(lambda: w.phase() == "Running")
        assert len(w.places()) == 4


async def test_enough_successes_complete_the_job_and_end_the_rest(world):
    async with world() as w:
        await running(w, job(minSuccess=1))
        w.cluster.end_pods("train-worker-2")
        await w.until(lambda: w.phase() == "Completed")
        await drained(w)
        assert set(w.pods()) == {"train-worker-2"}


async def test_a_pod_that_went_without_a_policy_is_made_again_and_the_gang_made_whole(world):
    async with world() as w:
        await running(w)
        w.cluster.remove(r.PODS, "default", "train-worker-0", graceful=False)
        await w.until(lambda: w.phase() == "Pending" and w.places().get("train-worker-0", "") is None)
        gang = (await w.ready(2))[-1].gang
        await w.decide(gang, pods={"train-worker-0"}, enqueue=False)
        await w.results(2)
        w.cluster.run_pods()
        await w.until(lambda: w.phase() == "Running" and w.group_phase() == "Running")


async def test_a_podgroup_that_somebody_deleted_is_made_again(world):
    async with world() as w:
        await w.admit(job())
        first = (await w.ready())[0].gang
        w.cluster.remove(r.PODGROUPS, "default", first.name)
        again = (await w.ready(2))[-1].gang
        assert again.uid != first.uid
        await w.decide(first)
        assert (await w.results())[0].outcome is DecisionOutcome.REFUSED
