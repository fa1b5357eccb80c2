"""Whole lives of jobs in virtual time: timed policies, targeted restarts, order of tasks, scale, refusals."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import datetime

import pytest

from shared.api import resources as r
from shared.errors import Refused
from shared.events import topics
from shared.events.contracts import DecisionOutcome, GangReport, JobAction, Reason
from tests.unit.controller.conftest import Life, Mortal, Robot, job
from tests.unit.controller.test_controller_crash import die
from tests.unit.controller.test_controller_orders import drained, running, with_policies

pytestmark = pytest.mark.looptime


def tasks_in_order(*, iteration=None, **minimums):
    """An init task, a server and workers that wait for both."""
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    before = {"name": ["init", "server"]} | ({"iteration": iteration} if iteration else {})
    return [
        {"name": "init", "replicas": 1, "template": template},
        {"name": "server", "replicas": 2, "template": template, "minAvailable": minimums.get("server", 2)},
        {"name": "worker", "replicas": 2, "template": template, "dependsOn": before},
    ]


async def report_no_room(w, gang):
    at = w.clock.now()
    event = GangReport(
        gang=gang.ref,
        job="train",
        queue="default",
        waiting_since=at,
        position=1,
        queue_length=1,
        reason=Reason(code="insufficient-resources", message="0/4 nodes have 8 nvidia.com/gpu free"),
        at=at,
    )
    await w.send(topics.SCHEDULING_REPORTS, b"default/train", event, event_id=f"report-{at}")


async def place_new(w, count):
    """Play the scheduler for members that have no node: of the ``count``-th announcement."""
    gang = (await w.ready(count))[-1].gang
    missing = {m.pod for t in gang.tasks for m in t.members} - {n for n, node in w.places().items() if node}
    await w.until(lambda: missing <= set(w.pods()))
    await w.decide(gang, pods=missing, enqueue=False, minimum=0)
    await w.until(lambda: all(w.places().get(name) for name in missing))
    w.cluster.run_pods()
    return gang


def seconds_between(first: str, then: str) -> float:
    return (datetime.fromisoformat(then) - datetime.fromisoformat(first)).total_seconds()


def entered(w, phase):
    times = {c["status"]: c["lastTransitionTime"] for c in w.job()["status"]["conditions"]}
    return times[phase]


# ---------------------------------------------------------------------------------- timed policies
async def test_a_pod_that_stays_pending_sets_its_policy_off_after_the_timeout(world):
    async with world() as w:
        policy = {"event": "PodPending", "action": "AbortJob", "timeout": "1m"}
        await w.admit(with_policies(policy))
        await w.decide()
        await w.results()
        w.cluster.run_pods("train-master-0", "train-worker-0", "train-worker-1")
        created = w.pods()["train-worker-2"]["metadata"]["creationTimestamp"]
        await asyncio.sleep(55)
        assert w.phase() == "Pending"
        await w.until(lambda: w.phase() == "Aborting")
        assert seconds_between(created, entered(w, "Aborting")) == 60
        assert "train-worker-2 has been pending too long" in w.job()["status"]["state"]["message"]


async def test_a_pod_that_leaves_pending_in_time_sets_nothing_off_and_without_timeout_nothing_does(world):
    async with world() as w:
        body = with_policies({"event": "PodPending", "action": "AbortJob", "timeout": "1m"})
        body["spec"]["tasks"][1]["policies"] = [{"event": "PodPending", "action": "TerminateJob"}]
        await running(w, body)
        await asyncio.sleep(120)
        assert w.phase() == "Running"


async def test_a_timeout_is_counted_from_the_pods_end_also_over_a_restart_of_the_controller(world):
    async with world() as w:
        await running(w, with_policies({"exitCode": 3, "action": "RestartJob", "timeout": "100s"}))
        end = {"exitCode": 3, "finishedAt": w.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")}
        w.cluster.end_pods("train-worker-0", code=3)
        pod = w.pods()["train-worker-0"]
        pod["status"]["containerStatuses"][0]["state"]["terminated"] = end
        w.cluster.set_status(r.PODS, pod, pod["status"])
        await asyncio.sleep(40)
        await w.stop()
        await asyncio.sleep(40)
        await w.start()
        await asyncio.sleep(15)
        assert w.phase() == "Running"
        await w.until(lambda: w.phase() == "Restarting")
        assert seconds_between(end["finishedAt"], entered(w, "Restarting")) == 100


@pytest.mark.parametrize(("by_itself", "retries"), [(False, 1), (True, 0)])
async def test_a_pod_that_ends_because_it_was_deleted_is_evicted_and_one_that_had_ended_before_is_not(
    world, by_itself, retries
):
    async with world() as w:
        await running(w, with_policies({"event": "PodEvicted", "action": "RestartTask"}))
        if by_itself:
            w.cluster.end_pods("train-worker-0", code=1)
            await asyncio.sleep(5)
        w.cluster.remove(r.PODS, "default", "train-worker-0")
        await asyncio.sleep(5)
        w.cluster.stop_pods()
        await asyncio.sleep(5)
        assert w.job()["status"].get("retryCount", 0) == retries


async def test_an_eviction_that_waits_is_remembered_and_void_when_the_pod_runs_again(world):
    async with world() as w:
        await running(w, with_policies({"event": "PodEvicted", "action": "RestartJob", "timeout": "30s"}))
        w.cluster.remove(r.PODS, "default", "train-worker-0", graceful=False)
        await w.until(lambda: "pumice.dev/happened" in w.job()["status"].get("controlledResources", {}))
        await place_new(w, 2)
        await asyncio.sleep(60)
        assert (w.phase(), w.job()["status"].get("retryCount", 0)) == ("Running", 0)
        assert "controlledResources" not in w.job()["status"]


async def test_an_eviction_that_is_not_made_good_in_time_sets_its_policy_off_also_after_a_crash(world):
    async with world() as w:
        await running(w, with_policies({"event": "PodEvicted", "action": "RestartJob", "timeout": "30s"}))
        w.cluster.remove(r.PODS, "default", "train-worker-0", graceful=False)
        await asyncio.sleep(5)
        await w.stop()
        await asyncio.sleep(5)
        await w.start()
        await asyncio.sleep(15)
        assert w.job()["status"].get("retryCount", 0) == 0
        await w.until(lambda: w.job()["status"].get("retryCount") == 1)
        await drained(w)
        await w.until(lambda: w.phase() == "Pending")


async def test_all_pods_of_a_task_done_end_the_job_after_the_timeout(world):
    async with world() as w:
        policy = {"event": "TaskCompleted", "action": "CompleteJob", "timeout": "20s"}
        await running(w, with_policies(policy, task="master"))
        w.cluster.end_pods("train-master-0")
        await asyncio.sleep(1)
        assert w.phase() == "Running"
        await w.until(lambda: w.phase() == "Completing", 30)


# ------------------------------------------------------------------------------- targeted restarts
async def test_a_task_is_restarted_when_one_of_its_pods_exits_with_the_policys_code(world):
    async with world() as w:
        await running(w, with_policies({"exitCode": 3, "action": "RestartTask"}, minAvailable=1))
        before = {name: pod["metadata"]["uid"] for name, pod in w.pods().items()}
        w.cluster.end_pods("train-worker-1", code=3)
        await w.until(lambda: w.job()["status"].get("retryCount") == 1)
        await drained(w)
        await place_new(w, 2)
        await w.until(lambda: w.phase() == "Running" and len(w.pods()) == 4)
        same = {name for name, pod in w.pods().items() if pod["metadata"]["uid"] == before[name]}
        assert same == {"train-master-0"}
        retries = {n: p["metadata"]["annotations"]["volcano.sh/job-retry-count"] for n, p in w.pods().items()}
        assert retries == {"train-master-0": "0"} | {f"train-worker-{i}": "1" for i in range(3)}
        await asyncio.sleep(5)
        assert w.job()["status"]["retryCount"] == 1
        assert "controlledResources" not in w.job()["status"]


async def test_pods_that_fail_together_are_one_retry(world):
    async with world() as w:
        await running(w, with_policies({"event": "PodFailed", "action": "RestartPod"}))
        w.cluster.end_pods("train-worker-0", "train-worker-1", "train-worker-2", code=1)
        await w.until(lambda: w.phase() == "Pending" and len(w.pods()) == 4)
        assert w.job()["status"]["retryCount"] == 1
        await place_new(w, 2)
        await w.until(lambda: w.phase() == "Running")


async def test_only_the_failed_pods_partition_is_restarted(world):
    async with world() as w:
        body = job()
        body["spec"]["minAvailable"] = 1
        task = {**body["spec"]["tasks"][1], "replicas": 4}
        task["partitionPolicy"] = {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1}
        task["policies"] = [{"event": "PodFailed", "action": "RestartPartition"}]
        body["spec"]["tasks"] = [task]
        await running(w, body)
        group = w.group()["spec"]
        assert group["minTaskMember"] == {"worker": 2}
        assert group["subGroupPolicy"] == [
            {
                "name": "worker",
                "subGroupSize": 2,
                "minSubGroups": 1,
                "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "worker"}},
                "matchLabelKeys": ["volcano.sh/partition-id"],
            }
        ]
        labels = [pod["metadata"]["labels"]["volcano.sh/partition-id"] for pod in w.pods().values()]
        assert labels == ["0", "0", "1", "1"]
        before = {name: pod["metadata"]["uid"] for name, pod in w.pods().items()}
        w.cluster.end_pods("train-worker-3", code=1)
        await w.until(lambda: w.job()["status"].get("retryCount") == 1)
        await drained(w)
        await w.until(lambda: len(w.pods()) == 4)
        same = {name for name, pod in w.pods().items() if pod["metadata"]["uid"] == before[name]}
        assert same == {"train-worker-0", "train-worker-1"}


async def test_containers_that_restart_too_often_make_their_task_fail(world):
    async with world() as w:
        await running(w, with_policies({"event": "TaskFailed", "action": "TerminateJob"}))
        for name, count in (("train-worker-0", 1), ("train-worker-1", 2)):
            assert w.phase() == "Running"
            pod = w.pods()[name]
            pod["status"]["containerStatuses"] = [{"name": "c", "ready": True, "restartCount": count}]
            w.cluster.set_status(r.PODS, pod, pod["status"])
            await asyncio.sleep(1)
        await w.until(lambda: w.phase() == "Terminating")
        await drained(w)
        await w.until(lambda: w.phase() == "Terminated")
        state = w.job()["status"]["state"]
        assert (state["reason"], state["message"]) == (
            "TaskFailed",
            "containers of task worker were restarted too often",
        )


async def test_a_gang_that_lost_members_is_unknown_only_when_there_is_no_room_for_others(world):
    async with world() as w:
        await running(w, with_policies({"event": "Unknown", "action": "RestartJob"}))
        w.cluster.remove(r.PODS, "default", "train-worker-0", graceful=False)
        await w.until(lambda: w.group_phase() == "Unknown")
        await asyncio.sleep(3)
        assert w.job()["status"].get("retryCount", 0) == 0
        await report_no_room(w, (await w.ready(2))[-1].gang)
        await w.until(lambda: w.job()["status"].get("retryCount") == 1)


async def test_a_gang_that_was_made_whole_again_is_not_called_unschedulable_any_more(world):
    async with world() as w:
        await running(w)
        w.cluster.remove(r.PODS, "default", "train-worker-0", graceful=False)
        await report_no_room(w, (await w.ready(2))[-1].gang)
        await w.until(lambda: "Unschedulable" in conditions(w))
        await place_new(w, 2)
        await w.until(lambda: w.group_phase() == "Running")
        assert conditions(w) == ["Scheduled"]


def conditions(w):
    return [one["type"] for one in w.group()["status"].get("conditions") or ()]


async def test_why_a_gang_waits_is_an_event_on_the_job_and_on_its_podgroup(world):
    async with world() as w:
        await w.admit(job())
        await report_no_room(w, (await w.ready())[0].gang)
        await w.until(lambda: len(w.cluster.all(r.EVENTS)) == 2)
        events = {e["involvedObject"]["kind"]: e for e in w.cluster.all(r.EVENTS)}
        assert events["PodGroup"]["involvedObject"]["uid"] == w.group()["metadata"]["uid"]
        assert (events["PodGroup"]["type"], events["PodGroup"]["reason"]) == ("Warning", "Unschedulable")
        assert events["PodGroup"]["message"] == "0/4 nodes have 8 nvidia.com/gpu free"
        assert events["Job"]["reason"] == "PodGroupPending"


async def test_a_restarting_job_can_be_suspended(world):
    async with world() as w:
        await running(w)
        await w.command(JobAction.RESTART)
        await w.until(lambda: w.phase() == "Restarting")
        await w.command(JobAction.SUSPEND)
        await drained(w)
        await w.until(lambda: w.phase() == "Aborted")
        assert w.pods() == {}


# --------------------------------------------------------------------------------- order of tasks
async def test_a_task_starts_when_all_that_it_waits_for_run_ready_or_have_succeeded(world):
    async with world() as w:
        await w.admit(job(tasks=tasks_in_order(), minAvailable=5))
        first = (await w.ready())[0].gang
        assert first.min_member == 3
        assert [len(t.members) for t in first.tasks] == [1, 2, 0]
        assert w.group()["spec"]["minMember"] == 5
        assert w.group()["spec"]["minTaskMember"] == {"init": 1, "server": 2, "worker": 2}
        await w.decide(first)
        assert (await w.results())[0].outcome is DecisionOutcome.APPLIED
        w.cluster.run_pods()
        w.cluster.end_pods("train-init-0")
        await w.until(lambda: w.group_phase() == "Running" and len(w.pods()) == 5)
        assert w.phase() == "Pending"
        gang = await place_new(w, 2)
        assert gang.min_member == 4  # the one that has ended needs no place
        await w.until(lambda: w.phase() == "Running" and w.group_phase() == "Running")
        w.cluster.end_pods()
        await w.until(lambda: w.phase() == "Completed" and w.group_phase() == "Completed")


async def test_a_dependency_whose_containers_are_not_ready_holds_the_next_task_back(world):
    async with world() as w:
        await w.admit(job(tasks=tasks_in_order(), minAvailable=5))
        await w.decide()
        await w.results()
        w.cluster.run_pods()
        pod = w.pods()["train-server-1"]
        unready = [{"name": "c", "ready": False, "restartCount": 0}]
        w.cluster.set_status(r.PODS, pod, {**pod["status"], "containerStatuses": unready})
        w.cluster.end_pods("train-init-0")
        await asyncio.sleep(5)
        assert len(w.pods()) == 3
        ready = [{"name": "c", "ready": True, "restartCount": 0}]
        w.cluster.set_status(
            r.PODS, w.pods()["train-server-1"], {**pod["status"], "containerStatuses": ready}
        )
        await w.until(lambda: len(w.pods()) == 5)


@pytest.mark.parametrize(("iteration", "pods"), [("any", 5), ("all", 3), (None, 3)])
async def test_any_of_several_dependencies_is_enough_only_when_the_job_says_so(world, iteration, pods):
    async with world() as w:
        await w.admit(job(tasks=tasks_in_order(iteration=iteration), minAvailable=5))
        await w.decide()
        await w.results()
        w.cluster.run_pods("train-server-0", "train-server-1")
        await asyncio.sleep(5)
        assert len(w.pods()) == pods


async def test_a_dependencys_own_minimum_is_what_the_next_task_waits_for(world):
    async with world() as w:
        await w.admit(job(tasks=tasks_in_order(server=1), minAvailable=4))
        await w.decide()
        await w.results()
        w.cluster.run_pods("train-init-0", "train-server-0")
        await w.until(lambda: len(w.pods()) == 5)


async def test_after_a_restart_tasks_start_in_order_again(world):
    async with world() as w:
        await w.admit(job(tasks=tasks_in_order(), minAvailable=5))
        await w.decide()
        await w.results()
        w.cluster.run_pods()
        await place_new(w, 2)
        await w.until(lambda: w.phase() == "Running")
        await w.command(JobAction.RESTART)
        await w.until(lambda: w.phase() == "Restarting")
        await drained(w)
        gang = (await w.ready(3))[-1].gang
        assert (gang.generation, gang.min_member) == (1, 3)
        assert [len(t.members) for t in gang.tasks] == [1, 2, 0]


async def test_tasks_that_wait_for_each_other_are_refused_with_a_reason(world):
    async with world() as w:
        tasks = tasks_in_order()
        tasks[0]["dependsOn"] = {"name": ["worker"]}
        await w.admit(job(tasks=tasks, minAvailable=5))
        await w.until(lambda: w.job().get("status", {}).get("state", {}).get("reason") == "Invalid")
        assert "init, worker wait for each other" in w.job()["status"]["state"]["message"]


# ------------------------------------------------------------------------------------------- scale
async def test_the_podgroup_follows_the_jobs_scale(world):
    async with world() as w:
        await running(w, job(minAvailable=2))
        patch = {"spec": {"minAvailable": 3, "priorityClassName": "high"}}
        w.cluster.change(r.JOBS, "default", "train", patch)
        await w.command(JobAction.SCALE, replicas={"worker": 4})
        await w.until(lambda: w.group()["spec"]["minTaskMember"] == {"master": 1, "worker": 4})
        spec = w.group()["spec"]
        assert (spec["minMember"], spec["priorityClassName"], spec["queue"]) == (3, "high", "default")
        assert spec["minResources"]["nvidia.com/gpu"] == "24"
        assert w.job()["status"]["minAvailable"] == 3
        writes = w.cluster.writes["patch", "podgroups"]
        await asyncio.sleep(5)
        assert w.cluster.writes["patch", "podgroups"] == writes


async def test_a_change_of_scale_restarts_a_job_that_wants_it_once(world):
    async with world() as w:
        policy = {"event": "JobUpdated", "action": "RestartJob"}
        await running(w, with_policies(policy, minAvailable=2))
        await w.command(JobAction.SCALE, replicas={"worker": 5})
        await w.until(lambda: w.job()["status"].get("retryCount") == 1)
        await drained(w)
        await asyncio.sleep(5)
        gang = (await w.ready(2))[-1].gang
        assert (gang.generation, sum(len(t.members) for t in gang.tasks)) == (1, 6)
        assert w.job()["status"]["retryCount"] == 1


async def test_any_event_does_not_mean_a_change_of_scale(world):
    async with world() as w:
        await running(w, with_policies({"event": "*", "action": "RestartJob"}, minAvailable=2))
        await w.command(JobAction.SCALE, replicas={"worker": 5})
        await w.until(lambda: len(w.pods()) == 6)
        await asyncio.sleep(3)
        assert w.job()["status"].get("retryCount", 0) == 0


async def test_a_raised_minimum_waits_for_its_pods_and_a_lowered_one_runs_at_once(world):
    async with world() as w:
        await running(w, job(minAvailable=2))
        w.cluster.change(r.JOBS, "default", "train", {"spec": {"minAvailable": 5}})
        await w.command(JobAction.SCALE, replicas={"worker": 4})
        await w.until(lambda: w.phase() == "Pending")
        w.cluster.change(r.JOBS, "default", "train", {"spec": {"minAvailable": 4}})
        await w.until(lambda: w.phase() == "Running")


# ---------------------------------------------------------------------------------------- refusals
async def refuse_pods(w, message):
    async def refuse(verb, resource, name):
        if verb == "create" and resource is r.PODS:
            raise Refused(message, status=403, reason="Forbidden")

    w.cluster.before = refuse


async def test_pods_that_are_refused_again_and_again_end_the_job(world):
    async with world(max_requeues=4) as w:
        await running(w, job(minAvailable=2))
        await refuse_pods(w, "pods is forbidden: by policy")
        await w.command(JobAction.SCALE, replicas={"worker": 5})
        await w.until(lambda: w.phase() == "Terminating")
        await drained(w)
        await w.until(lambda: w.phase() == "Terminated")
        state = w.job()["status"]["state"]
        assert state["reason"] == "RetryLimitReached"
        assert "refused 4 times in a row" in state["message"]
        assert "by policy" in state["message"]


async def test_decisions_whose_pods_are_refused_again_and_again_end_the_job(world):
    async with world(max_requeues=3) as w:
        await refuse_pods(w, "pods is forbidden: by policy")
        await w.admit(job())
        for number in range(1, 4):
            await w.decide((await w.ready())[-1].gang)
            await w.results(number)
            await asyncio.sleep(1)
        await w.until(lambda: w.phase() == "Terminated")


@pytest.mark.parametrize("limit", [3, -1])
async def test_a_used_up_quota_ends_no_job(world, limit):
    async with world(max_requeues=limit) as w:
        await running(w, job(minAvailable=2))
        await refuse_pods(w, "exceeded quota: team" if limit > 0 else "pods is forbidden: by policy")
        await w.command(JobAction.SCALE, replicas={"worker": 5})
        await asyncio.sleep(120)
        assert w.phase() == "Running"


async def test_a_command_object_with_an_unknown_action_is_taken_away_and_the_job_says_so(world):
    async with world() as w:
        await running(w)
        target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train"}
        for number, action in enumerate(("pods ended: success", "Explode")):
            body = {"metadata": {"name": f"c-{number}"}, "action": action, "target": target}
            w.cluster.put(r.COMMANDS, body, "default")
        await w.until(lambda: w.cluster.all(r.COMMANDS) == [])
        await asyncio.sleep(2)
        assert w.phase() == "Running"
        told = {e["message"].partition(":")[0] for e in w.cluster.all(r.EVENTS) if e["type"] == "Warning"}
        assert told == {'there is no action "pods ended', 'there is no action "Explode"'}


async def test_a_command_object_about_some_pods_that_names_none_says_so(world):
    async with world() as w:
        await running(w)
        target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train"}
        body = {"metadata": {"name": "c"}, "action": "RestartTask", "target": target}
        w.cluster.put(r.COMMANDS, body, "default")
        await w.until(lambda: any("none of the job's pods" in e["message"] for e in w.cluster.all(r.EVENTS)))
        assert (w.phase(), w.job()["status"].get("retryCount", 0)) == ("Running", 0)


# ---------------------------------------------------------------------- crashes, and Volcano before us
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", range(1, 13))
async def test_killed_in_the_middle_of_a_tasks_restart_it_is_restarted_once(world, number, when):
    async with world(settle_seconds=1.0) as w:
        await running(w, with_policies({"exitCode": 3, "action": "RestartTask"}, minAvailable=1))
        await w.stop()
        life = Life(number, when)
        await w.start(cluster=Mortal(w.cluster, life), log=Mortal(w.log, life))
        robot = asyncio.create_task(Robot(w, run_seconds=60).run())
        w.cluster.end_pods("train-worker-1", code=3)
        await asyncio.wait({asyncio.create_task(life.dead.wait())}, timeout=5)
        await die(w, life)
        await w.start()
        await w.until(lambda: len(w.pods()) == 4 and len(w.cluster.bound()) == 4)
        await asyncio.sleep(3)
        robot.cancel()
        made = Counter(line for line in w.cluster.log if line.startswith("create pods"))
        assert made == {
            "create pods/train-master-0": 1,
            **{f"create pods/train-worker-{index}": 2 for index in range(3)},
        }
        status = w.job()["status"]
        assert (status["retryCount"], status.get("version", 0), w.phase()) == (1, 0, "Running")


async def test_an_eviction_is_not_forgotten_when_the_controller_dies_before_it_wrote_what_follows(world):
    async with world() as w:
        await running(w, with_policies({"event": "PodEvicted", "action": "RestartJob"}))
        await w.stop()
        life = Life()

        async def slow(verb, resource, name):
            if (verb, resource, name) == ("patch", r.JOBS, "train"):
                await asyncio.sleep(1)
                life.dead.set()
                await asyncio.Event().wait()

        hook, w.cluster.before = w.cluster.before, slow
        await w.start(cluster=Mortal(w.cluster, life), log=Mortal(w.log, life))
        await asyncio.sleep(0.5)
        w.cluster.remove(r.PODS, "default", "train-worker-0", graceful=False)
        await asyncio.wait_for(life.dead.wait(), 5)
        await die(w, life)
        w.cluster.before = hook
        assert w.job()["status"].get("retryCount", 0) == 0
        await w.start()
        await w.until(lambda: w.job()["status"].get("retryCount") == 1)


async def test_a_lost_pods_end_is_told_when_its_job_goes_or_is_made_anew(world):
    async with world() as w:
        await running(w, with_policies({"event": "PodEvicted", "action": "AbortJob"}))
        w.cluster.remove(r.JOBS, "default", "train")
        w.cluster.stop_pods()
        w.cluster.put(r.JOBS, job(), "default")

        async def only_new():
            pods = [fact for key, fact in (await w.state()).items() if key.startswith("pod/")]
            return not pods

        await w.until(only_new)


async def test_a_job_that_volcano_has_restarted_before_us_goes_on(world):
    async with world() as w:
        await running(w)
        await w.stop()
        group = w.group()
        for key in [key for key in group["metadata"]["annotations"] if "pumice" in key or "version" in key]:
            patch = {"metadata": {"annotations": {key: None}}}
            w.cluster.change(r.PODGROUPS, "default", group["metadata"]["name"], patch)
        patch = {"status": {"version": 2}}
        w.cluster.change(r.JOBS, "default", "train", patch, subresource="status")
        for name in w.pods():
            patch = {"metadata": {"annotations": {"volcano.sh/job-version": "2"}}}
            w.cluster.change(r.PODS, "default", name, patch)
        before = {pod["metadata"]["uid"] for pod in w.pods().values()}
        await w.start()
        await asyncio.sleep(10)
        assert (w.phase(), w.group()["metadata"]["uid"]) == ("Running", group["metadata"]["uid"])
        assert {pod["metadata"]["uid"] for pod in w.pods().values()} == before


async def test_pods_have_their_jobs_priority_class_unless_their_template_names_one(world):
    async with world() as w:
        for name, value in (("low", 1), ("high", 5)):
            w.cluster.put(r.PRIORITYCLASSES, {"metadata": {"name": name}, "value": value})
        body = job(priorityClassName="high")
        body["spec"]["tasks"][0]["template"] = {
            "spec": {**body["spec"]["tasks"][0]["template"]["spec"], "priorityClassName": "low"}
        }
        await running(w, body)
        classes = {name: pod["spec"]["priorityClassName"] for name, pod in w.pods().items()}
        assert classes == {"train-master-0": "low"} | {f"train-worker-{i}": "high" for i in range(3)}


@pytest.mark.parametrize("is_placed", [True, False])
async def test_a_podgroup_that_somebody_deletes_is_made_again_and_the_gang_stays_as_it_is(world, is_placed):
    async with world() as w:
        await w.admit(job())
        await (w.run_gang() if is_placed else w.ready())
        before, old = w.pods().keys(), w.group()
        w.cluster.remove(r.PODGROUPS, "default", old["metadata"]["name"])
        phase = "Running" if is_placed else "Pending"
        await w.until(lambda: w.group() and w.group_phase() == phase)
        await asyncio.sleep(5)
        assert w.group()["metadata"]["uid"] != old["metadata"]["uid"]
        assert (w.phase(), w.job()["status"].get("version", 0)) == (phase, 0)
        assert (w.pods().keys(), w.cluster.writes["create", "pods"]) == (before, len(before))
        assert w.cluster.writes["delete", "pods"] == 0
