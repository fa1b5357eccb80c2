"""Volcano's state machine, row by row: what a job in a phase does on a trigger."""

from __future__ import annotations

import pytest

from services.controller.core.jobs import plan
from services.controller.core.lifecycle import Trigger
from services.controller.core.policies import Order
from tests.unit.controller.worlds import NOW, pod, pods, status, task, wanted, world

ENDED = ("Succeeded", "Failed")


def order(action, **about):
    return Order(Trigger(action), "CommandIssued", "because", **about)


def names(found):
    return {one.name.removeprefix("train-") for one in found}


MIXED = (pod("master-0", "Succeeded"), pod("worker-0", "Failed"), pod("worker-1"), pod("worker-2"))


# ------------------------------------------------------------------------------------ live jobs
@pytest.mark.parametrize(
    ("ended", "running", "after"),
    [(0, 3, "Pending"), (0, 4, "Running"), (1, 3, "Running"), (4, 0, "Running")],
)
def test_a_pending_job_runs_when_its_minimum_runs_or_has_ended(ended, running, after):
    members = pods(wanted(minSuccess=4))
    members = [
        *(pod(m.name.removeprefix("train-"), "Failed") for m in members[:ended]),
        *members[ended : ended + running],
    ]
    found = plan(world(members=members, state=status("Pending")), NOW)
    assert [change.phase for change in found.changes][:1] == ([after] if after == "Running" else [])


@pytest.mark.parametrize("phase", ["Pending", "Running"])
def test_restart_job_takes_all_pods_and_is_a_retry(phase):
    found = plan(world(members=MIXED, state=status(phase), order=order("RestartJob")), NOW)
    assert (found.status.phase, found.status.retries, found.status.generation) == ("Restarting", 1, 1)
    assert names(found.delete) == {"master-0", "worker-0", "worker-1", "worker-2"}
    assert found.drop_group
    assert found.urgent


@pytest.mark.parametrize("phase", ["Pending", "Running"])
@pytest.mark.parametrize(
    ("action", "about", "targets"),
    [
        ("RestartTask", {"task": "worker"}, {"worker-0", "worker-1", "worker-2"}),
        ("RestartPod", {"task": "worker", "pod": "train-worker-1"}, {"worker-1"}),
        ("RestartPartition", {"task": "worker", "partition": 0}, {"worker-0", "worker-1"}),
    ],
)
def test_a_targeted_restart_takes_only_its_target_keeps_the_podgroup_and_is_a_retry(
    phase, action, about, targets
):
    tasks = [task("worker", 4, partitionPolicy={"totalPartitions": 2, "partitionSize": 2})]
    one = wanted(tasks=tasks)
    targets = targets | ({"worker-3"} if action == "RestartTask" else set())
    found = plan(world(one, state=status(phase), order=order(action, **about)), NOW)
    assert (found.status.phase, found.status.retries, found.status.generation) == ("Restarting", 1, 0)
    assert names(found.delete) == names(found.mark) == targets
    assert not found.drop_group


@pytest.mark.parametrize("phase", ["Pending", "Running", "Restarting"])
@pytest.mark.parametrize(
    ("action", "after"),
    [("AbortJob", "Aborting"), ("CompleteJob", "Completing"), ("TerminateJob", "Terminating")],
)
def test_an_ending_order_keeps_what_has_ended_voids_decisions_and_is_no_retry(phase, action, after):
    found = plan(world(members=MIXED, state=status(phase), order=order(action)), NOW)
    assert (found.status.phase, found.status.retries, found.status.generation) == (after, 0, 1)
    assert names(found.delete) == {"worker-1", "worker-2"}
    assert found.drop_group


def test_scaled_down_to_nothing_a_running_job_stays_as_it_is():
    one = wanted(tasks=[task("worker", 0)], minAvailable=0)
    assert plan(world(one, members=()), NOW).status.phase == "Running"


@pytest.mark.parametrize(
    ("spec", "phases", "after"),
    [
        ({"minSuccess": 1}, ["Succeeded", "Running", "Running", "Running"], "Completed"),
        ({"minSuccess": 2}, ["Succeeded", "Running", "Running", "Running"], "Running"),
        ({"minSuccess": 3}, ["Succeeded", "Succeeded", "Failed", "Failed"], "Failed"),
        ({}, ["Succeeded"] * 4, "Completed"),
        ({}, ["Succeeded"] * 3 + ["Failed"], "Failed"),
        ({}, ["Succeeded"] * 3 + ["Running"], "Running"),
        ({"minAvailable": 2}, ["Succeeded"] * 3 + ["Failed"], "Completed"),
        ({"minAvailable": 2}, ["Succeeded", "Failed", "Failed", "Failed"], "Failed"),
    ],
)
def test_how_a_running_job_ends(spec, phases, after):
    one = wanted(**spec)
    members = [pod(m.name.removeprefix("train-"), p, retry=0) for m, p in zip(pods(one), phases, strict=True)]
    assert plan(world(one, members), NOW).status.phase == after


def test_a_task_below_its_own_minimum_fails_a_job_whose_minimum_covers_the_tasks():
    tasks = [task("master", 1), task("worker", 3, minAvailable=1)]
    failed_master = (pod("master-0", "Failed"), *(pod(f"worker-{i}", "Succeeded") for i in range(3)))
    assert plan(world(wanted(tasks=tasks, minAvailable=2), failed_master), NOW).status.phase == "Failed"
    assert plan(world(wanted(tasks=tasks, minAvailable=1), failed_master), NOW).status.phase == "Completed"


def test_with_too_few_active_pods_a_running_job_is_pending_again():
    waiting = [*pods(wanted())[:3], pod("worker-2", "Pending", node=None)]
    assert plan(world(members=waiting), NOW).status.phase == "Pending"
    assert plan(world(wanted(minAvailable=3), waiting), NOW).status.phase == "Running"


# --------------------------------------------------------------------------------- on the way
@pytest.mark.parametrize(
    ("retries", "leaving", "after"),
    [(1, 1, "Restarting"), (1, 0, "Pending"), (3, 4, "Failed"), (3, 0, "Failed")],
)
def test_a_restart_is_over_when_the_names_are_free_and_fails_without_retries(retries, leaving, after):
    members = [pod(f"worker-{i}", deleting=True) for i in range(leaving)]
    state = status("Restarting", generation=1, retries=retries)
    assert plan(world(members=members, state=state, of=""), NOW).status.phase == after


def test_on_the_last_retry_what_has_ended_stays():
    found = plan(world(members=MIXED, state=status(retries=2), order=order("RestartJob")), NOW)
    assert (found.status.phase, found.status.reason) == ("Failed", "MaxRetryExceeded")
    assert names(found.delete) == {"worker-1", "worker-2"}


def test_a_restart_ordered_while_another_is_under_way_joins_it():
    state = status("Restarting", retries=1, controlled={"pumice.dev/restarting": "pod/train-worker-0"})
    more = order("RestartPod", task="worker", pod="train-worker-1")
    found = plan(world(state=state, order=more), NOW)
    assert (found.status.phase, found.status.retries) == ("Restarting", 1)
    assert names(found.delete) == {"worker-0", "worker-1"}
    whole = plan(world(state=state, order=order("RestartJob")), NOW)
    assert (whole.status.phase, whole.status.retries, whole.status.generation) == ("Restarting", 1, 1)
    assert len(whole.delete) == 4


@pytest.mark.parametrize("phase", ["Aborting", "Completing", "Terminating"])
@pytest.mark.parametrize("active", ["Pending", "Running", "Unknown"])
def test_a_job_that_is_ending_waits_until_no_pod_is_active(phase, active):
    left = [pod("worker-0", active), pod("worker-1", "Succeeded")]
    found = plan(world(members=left, state=status(phase, generation=1), of=""), NOW)
    assert found.status.phase == phase
    assert names(found.delete) == {"worker-0"}


@pytest.mark.parametrize(
    ("phase", "after"),
    [("Aborting", "Aborted"), ("Completing", "Completed"), ("Terminating", "Terminated")],
)
def test_an_ended_job_keeps_the_reason_of_its_ending(phase, after):
    state = status(phase, generation=1, reason="PodFailed", message="pod train-worker-0 failed")
    found = plan(world(members=[pod("worker-0", "Failed")], state=state, of=""), NOW)
    assert (found.status.phase, found.status.reason) == (after, "PodFailed")
    assert found.status.message == "pod train-worker-0 failed"
    assert found.delete == ()


@pytest.mark.parametrize("phase", ["Aborting", "Aborted"])
def test_a_resume_begins_a_new_generation_and_is_no_retry(phase):
    found = plan(world(members=(), state=status(phase, 1, 2), of="", order=order("ResumeJob")), NOW)
    assert [change.phase for change in found.changes] == ["Restarting", "Pending"]
    assert (found.status.generation, found.status.retries) == (2, 2)


@pytest.mark.parametrize("phase", ["Aborting", "Aborted"])
@pytest.mark.parametrize("action", ["AbortJob", "RestartJob", "CompleteJob", "TerminateJob"])
def test_a_suspended_job_obeys_nothing_but_a_resume(phase, action):
    found = plan(world(members=[pod("worker-0")], state=status(phase, 1), of="", order=order(action)), NOW)
    assert (found.status.phase, found.status.generation) == (phase, 1)


@pytest.mark.parametrize("phase", ["Aborted", "Completed", "Failed", "Terminated"])
def test_a_job_that_has_ended_takes_away_what_still_runs_and_keeps_the_rest(phase):
    found = plan(world(members=MIXED, state=status(phase), of="Running"), NOW)
    assert (found.status.phase, found.changes) == (phase, ())
    assert names(found.delete) == {"worker-1", "worker-2"}
    assert found.create == ()


@pytest.mark.parametrize("phase", ["Completed", "Failed", "Terminated"])
@pytest.mark.parametrize("action", [t.value for t in Trigger if t.value.isalpha()])
def test_a_job_that_has_ended_obeys_nothing(phase, action):
    found = plan(world(members=(), state=status(phase, 1), of="", order=order(action)), NOW)
    assert (found.status.phase, found.status.generation) == (phase, 1)
