"""The life of job flows, from the object to its end, in virtual time."""

from __future__ import annotations

import pytest

from services.workflows.core.probing import Check
from shared.api import resources as r
from shared.errors import Refused, Unavailable

pytestmark = pytest.mark.looptime


async def running(make, *templates: str, **settings):
    world = make(**settings)
    for name in templates:
        world.template(name)
    await world.start()
    return world


async def test_a_flow_of_three_steps_makes_each_job_when_the_one_before_is_complete(world):
    w = await running(world, "prepare", "train", "report")
    w.flow("f", "prepare", "train<prepare", "report<train")
    await w.until(lambda: w.flow_phase("f") == "Pending" and w.jobs())
    assert w.jobs() == ["f-prepare"]
    for number, step in enumerate(("prepare", "train", "report"), 1):
        await w.until(lambda s=step: f"f-{s}" in w.jobs())
        assert len(w.jobs()) == number
        w.phase(f"f-{step}", "Running")
        await w.until(lambda s=step: w.status(r.JOBFLOWS, "f").get("runningJobs") == [f"f-{s}"])
        assert w.flow_phase("f") == "Running"
        w.phase(f"f-{step}", "Completed")
    await w.until(lambda: w.flow_phase("f") == "Succeed")
    status = w.status(r.JOBFLOWS, "f")
    assert status["completedJobs"] == ["f-prepare", "f-train", "f-report"]
    assert "runningJobs" not in status
    assert [one["name"] for one in status["jobStatusList"]] == ["f-prepare", "f-train", "f-report"]
    assert [one["state"] for one in status["jobStatusList"][0]["runningHistories"]] == [
        "Running",
        "Completed",
    ]
    assert w.events("Created") == [
        f"Created: create a job named f-{step}!" for step in ("prepare", "train", "report")
    ]


async def test_a_job_is_volcanos_in_name_marks_and_owner(world):
    w = await running(world, "prepare")
    w.flow("f", "prepare")
    job = await w.until(lambda: w.cluster.one(r.JOBS, "f-prepare"))
    marks = {"volcano.sh/createdByJobTemplate": "default.prepare", "volcano.sh/createdByJobFlow": "default.f"}
    assert (job["metadata"]["labels"], job["metadata"]["annotations"]) == (marks, marks)
    uid = w.cluster.one(r.JOBFLOWS, "f")["metadata"]["uid"]
    assert job["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "flow.volcano.sh/v1alpha1",
            "kind": "JobFlow",
            "name": "f",
            "uid": uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert job["spec"] == w.cluster.one(r.JOBTEMPLATES, "prepare")["spec"]


async def test_steps_without_dependencies_start_together_and_a_step_waits_for_all_its_targets(world):
    w = await running(world, "a", "b", "c")
    w.flow("f", "c<a,b", "a", "b")
    await w.until(lambda: w.jobs() == ["f-a", "f-b"])
    w.phase("f-a", "Completed")
    await w.pass_time(5)
    assert w.jobs() == ["f-a", "f-b"]
    w.phase("f-b", "Completed")
    await w.until(lambda: w.jobs() == ["f-a", "f-b", "f-c"])


@pytest.mark.parametrize("end", ["Failed", "Terminated"])
async def test_a_flow_fails_with_its_first_job_and_starts_nothing_more(world, end):
    w = await running(world, "a", "b", "c")
    w.flow("f", "a", "b", "c<b")
    await w.until(lambda: len(w.jobs()) == 2)
    w.phase("f-a", end)
    await w.until(lambda: w.flow_phase("f") == "Failed")
    w.phase("f-b", "Completed")
    await w.pass_time(5)
    assert w.jobs() == ["f-a", "f-b"]
    status = w.status(r.JOBFLOWS, "f")
    assert (status["failedJobs" if end == "Failed" else "terminatedJobs"], status["completedJobs"]) == (
        ["f-a"],
        ["f-b"],
    )
    w.cluster.remove(r.JOBS, "default", "f-a")
    await w.pass_time(5)
    assert (w.flow_phase("f"), w.jobs()) == ("Failed", ["f-b"])


async def test_with_the_policy_delete_the_jobs_go_once_the_flow_has_succeeded(world):
    w = await running(world, "a")
    w.flow("f", "a", jobRetainPolicy="delete")
    await w.until(w.jobs)
    w.phase("f-a", "Completed")
    await w.until(lambda: not w.jobs())
    await w.pass_time(10)
    assert (w.jobs(), w.flow_phase("f")) == ([], "Succeed")
    assert w.status(r.JOBFLOWS, "f")["completedJobs"] == ["f-a"]


async def test_with_the_policy_retain_they_stay_and_a_completed_job_that_goes_is_not_made_again(world):
    w = await running(world, "a", "b")
    w.flow("f", "a", "b<a")
    await w.until(w.jobs)
    w.phase("f-a", "Completed")
    await w.until(lambda: "f-b" in w.jobs())
    w.cluster.remove(r.JOBS, "default", "f-a")
    await w.pass_time(5)
    assert w.jobs() == ["f-b"]
    w.phase("f-b", "Completed")
    await w.until(lambda: w.flow_phase("f") == "Succeed")
    w.cluster.remove(r.JOBS, "default", "f-b")
    await w.pass_time(5)
    assert w.jobs() == []
    assert w.status(r.JOBFLOWS, "f")["completedJobs"] == ["f-a", "f-b"]


async def test_a_job_that_is_deleted_before_its_end_is_made_again(world):
    w = await running(world, "a")
    w.flow("f", "a")
    await w.until(w.jobs)
    first = w.cluster.one(r.JOBS, "f-a")["metadata"]["uid"]
    w.phase("f-a", "Running")
    w.cluster.remove(r.JOBS, "default", "f-a")
    await w.until(lambda: w.jobs() and w.cluster.one(r.JOBS, "f-a")["metadata"]["uid"] != first)


async def test_a_flow_waits_for_a_missing_template_says_so_once_and_goes_on_when_it_comes(world):
    w = await running(world, "a")
    w.flow("f", "a", "late")
    await w.until(lambda: w.events("TemplateNotFound"))
    w.phase("f-a", "Completed")
    await w.pass_time(60)
    assert len(w.events("TemplateNotFound")) == 1
    assert w.flow_phase("f") == "Running"
    w.template("late")
    await w.until(lambda: "f-late" in w.jobs())


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        (["a<b", "b<a"], "flows wait for each other"),
        (["a<a"], "flows wait for each other: a → a"),
        (["a<c"], "spec.flows[0].dependsOn.targets[0]: there is no flow 'c'"),
        (["a" * 70], "characters, 63 are allowed"),
        (["A_b"], "cannot be the name of a job"),
    ],
)
async def test_a_flow_that_cannot_run_fails_says_why_and_goes_on_when_it_is_mended(world, steps, says):
    w = await running(world, "a", "b")
    w.flow("f", *steps)
    await w.until(lambda: w.flow_phase("f") == "Failed" and w.events("InvalidFlow"))
    assert says in w.events("InvalidFlow")[0]
    assert w.jobs() == []
    w.cluster.change(r.JOBFLOWS, "default", "f", {"spec": {"flows": [{"name": "a"}]}})
    await w.until(lambda: w.jobs() == ["f-a"] and w.flow_phase("f") == "Pending")


async def test_a_flow_waits_until_another_job_of_that_name_is_gone(world):
    w = await running(world, "a")
    w.put(r.JOBS, "f-a", spec={"tasks": []})
    w.flow("f", "a")
    await w.until(lambda: w.events("ForeignJob"))
    assert "f-a exists and is not of this flow" in w.events("ForeignJob")[0]
    w.cluster.remove(r.JOBS, "default", "f-a")
    await w.until(
        lambda: w.cluster.one(r.JOBS, "f-a") and w.cluster.one(r.JOBS, "f-a")["metadata"].get("labels")
    )


async def test_what_the_api_server_refuses_is_said_and_tried_again(world):
    w = await running(world, "a")
    refusals = 2

    async def refuse(verb, resource, _name):
        nonlocal refusals
        if verb == "create" and resource is r.JOBS and refusals:
            refusals -= 1
            raise Refused("queue q does not exist")

    w.cluster.before = refuse
    w.flow("f", "a")
    await w.until(lambda: w.jobs() == ["f-a"])
    assert w.events("FailedCreate") == ["FailedCreate: job f-a was refused: queue q does not exist"]


async def test_a_patch_changes_what_it_names_and_nothing_else(world):
    w = world()
    w.template("a", queue="gold", maxRetry=7)
    await w.start()
    patch = {"jobSpec": {"priorityClassName": "high", "tasks": [{"name": "main", "replicas": 3}]}}
    w.flow("f", {"name": "a", "patch": patch})
    job = await w.until(lambda: w.cluster.one(r.JOBS, "f-a"))
    spec = job["spec"]
    assert (spec["queue"], spec["maxRetry"], spec["priorityClassName"]) == ("gold", 7, "high")
    [task] = spec["tasks"]
    assert (task["replicas"], task["template"]["spec"]["containers"][0]["image"]) == (3, "i")
    assert "priorityClassName" not in w.cluster.one(r.JOBTEMPLATES, "a")["spec"]


async def test_a_step_with_a_probe_of_a_task_starts_while_its_target_runs(world):
    w = await running(world, "serve", "client")
    probe = {"taskStatusList": [{"taskName": "main", "phase": "Running"}]}
    w.flow("f", "serve", {"name": "client", "dependsOn": {"targets": ["serve"], "probe": probe}})
    await w.until(w.jobs)
    w.phase("f-serve", "Running", taskStatusCount={"main": {"phase": {"Pending": 1}}})
    await w.pass_time(5)
    assert w.jobs() == ["f-serve"]
    w.phase("f-serve", "Running", taskStatusCount={"main": {"phase": {"Running": 1}}})
    await w.until(lambda: w.jobs() == ["f-client", "f-serve"])
    assert w.asked == []


async def test_requests_are_asked_again_every_few_seconds_until_enough_pods_answer(world):
    w = await running(world, "serve", "client")
    probe = {
        "httpGetList": [{"taskName": "main", "path": "ready", "port": 8080}],
        "tcpSocketList": [{"port": 9}],
    }
    w.flow("f", "serve", {"name": "client", "dependsOn": {"targets": ["serve"], "probe": probe}})
    await w.until(w.jobs)
    http = Check("default", "f-serve", "main", 8080, "/ready")
    tcp = Check("default", "f-serve", "main", 9)
    await w.pass_time(21)
    assert 4 <= w.asked.count(http) <= 7
    w.passing = {http: 1}
    await w.pass_time(11)
    assert w.jobs() == ["f-serve"]
    w.passing = {http: 1, tcp: 1}
    await w.until(lambda: w.jobs() == ["f-client", "f-serve"])
    asked = len(w.asked)
    await w.pass_time(60)
    assert len(w.asked) == asked


async def test_a_flow_goes_on_after_a_restart_in_the_middle_and_makes_nothing_twice(world):
    w = await running(world, "a", "b")
    w.flow("f", "a", "b<a")
    await w.until(w.jobs)
    await w.stop()
    w.phase("f-a", "Completed")
    await w.start()
    await w.until(lambda: w.jobs() == ["f-a", "f-b"])
    await w.pass_time(5)
    assert w.cluster.writes["create", "jobs"] == 2


async def test_an_answer_that_was_lost_makes_no_second_job(world):
    w = await running(world, "a")
    lost = True

    async def lose(verb, resource, _name):
        nonlocal lost
        if verb == "create" and resource is r.JOBS and lost:
            lost = False
            raise Unavailable("the answer was lost")

    w.cluster.after = lose
    w.flow("f", "a")
    await w.until(lambda: w.flow_phase("f") == "Pending" and w.status(r.JOBFLOWS, "f").get("jobStatusList"))
    assert w.jobs() == ["f-a"]
    assert w.events("ForeignJob") == []


async def test_counts_of_pods_are_written_at_most_once_a_second(world):
    w = await running(world, "a")
    w.flow("f", "a")
    await w.until(w.jobs)
    w.phase("f-a", "Running")
    await w.until(lambda: w.flow_phase("f") == "Running")
    await w.pass_time(2)
    before = w.cluster.writes["patch", "jobflows"]
    for running_pods in range(1, 31):
        counts = {"main": {"phase": {"Running": running_pods}}}
        w.cluster.change(
            r.JOBS, "default", "f-a", {"status": {"taskStatusCount": counts}}, subresource="status"
        )
        await w.pass_time(0.1)
    await w.pass_time(2)
    assert w.cluster.writes["patch", "jobflows"] - before <= 5
    assert w.status(r.JOBFLOWS, "f")["conditions"]["f-a"]["taskStatusCount"] == {
        "main": {"phase": {"Running": 30}}
    }


async def test_a_settled_flow_costs_no_write(world):
    w = await running(world, "a")
    w.flow("f", "a")
    await w.until(w.jobs)
    w.phase("f-a", "Completed")
    await w.until(lambda: w.flow_phase("f") == "Succeed")
    await w.pass_time(2)
    before = w.cluster.writes.total()
    await w.stop()
    await w.start()
    await w.pass_time(600)
    assert w.cluster.writes.total() == before


async def test_a_template_lists_the_jobs_that_were_made_from_it(world):
    w = await running(world, "a")
    w.flow("f", "a")
    w.flow("g", "a")
    await w.until(lambda: w.status(r.JOBTEMPLATES, "a").get("jobDependsOnList") == ["f-a", "g-a"])
    w.cluster.remove(r.JOBFLOWS, "default", "f")
    await w.until(lambda: w.status(r.JOBTEMPLATES, "a").get("jobDependsOnList") == ["g-a"])
    w.cluster.remove(r.JOBFLOWS, "default", "g")
    await w.until(lambda: w.status(r.JOBTEMPLATES, "a").get("jobDependsOnList") == [])


async def test_names_too_long_for_a_label_are_in_the_annotation_only(world):
    w = await running(world)
    name = "t" * 60
    w.template(name)
    w.flow("f", name)
    job = await w.until(lambda: w.cluster.one(r.JOBS, f"f-{name}"))
    assert job["metadata"]["labels"] == {"volcano.sh/createdByJobFlow": "default.f"}
    assert job["metadata"]["annotations"]["volcano.sh/createdByJobTemplate"] == f"default.{name}"
    await w.until(lambda: w.status(r.JOBTEMPLATES, name).get("jobDependsOnList") == [f"f-{name}"])
