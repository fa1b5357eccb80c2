"""What comes in: admitted jobs, jobs by kubectl, reports; and what each costs."""

from __future__ import annotations

import asyncio

import pytest

from shared.api import names
from shared.api import resources as r
from shared.errors import NotFound, Refused
from shared.events import topics
from shared.events.contracts import GangReport, JobAction, Reason
from shared.telemetry.spans import job_trace
from tests.unit.controller.conftest import EPOCH, job
from tests.unit.controller.worlds import task

pytestmark = pytest.mark.looptime


async def test_counts_that_change_quickly_are_written_together(world):
    async with world(status_delay_seconds=0.5) as w:
        await w.admit(job(minAvailable=1))
        await w.decide()
        await w.results()
        before = w.cluster.writes["patch", "jobs"]
        for name in w.pods():
            w.cluster.run_pods(name)
            await asyncio.sleep(0.05)
        await asyncio.sleep(2)
        assert w.job()["status"]["running"] == 4
        assert w.cluster.writes["patch", "jobs"] - before == 2


async def test_a_waiting_job_shows_pending(world):
    async with world() as w:
        await w.admit(job())
        await w.until(lambda: w.phase() == "Pending")
        assert w.group_phase() == "Pending"
        assert w.job()["status"]["conditions"][0]["status"] == "Pending"


async def test_a_submission_delivered_twice_makes_one_job(world):
    async with world() as w:
        await w.admit(job())
        await w.admit(job())
        await asyncio.sleep(2)
        assert w.cluster.writes["create", "jobs"] == 1
        assert await w.events(topics.JOB_REJECTED) == []


async def test_another_job_of_the_same_name_is_rejected(world):
    async with world() as w:
        await w.admit(job())
        await w.admit(job(), submission="sub-2")

        async def rejected():
            return await w.events(topics.JOB_REJECTED)

        event = (await w.until(rejected))[0].data
        assert (event.submission, event.violations[0].code) == ("sub-2", "already-exists")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Refused("spec.tasks: wrong", status=422), "refused-by-api-server"),
        (Refused("Request entity too large: limit is 3145728", status=413), "too-large"),
        (NotFound("namespaces default not found"), "namespace-not-found"),
    ],
)
async def test_what_the_api_server_refuses_is_rejected_with_its_words(world, error, code):
    async with world() as w:

        async def refuse(verb, resource, name):
            if (verb, resource) == ("create", r.JOBS):
                raise error

        w.cluster.before = refuse
        await w.admit(job())

        async def rejected():
            return await w.events(topics.JOB_REJECTED)

        violation = (await w.until(rejected))[0].data.violations[0]
        assert violation.code == code


async def test_a_job_carries_whose_submission_it_is_and_its_trace(world):
    async with world() as w:
        asker = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        from shared.events.contracts import JobAdmitted

        event = JobAdmitted(submission="s", job=job(), submitted_by="alice", submitted_at=EPOCH)
        await w.send(topics.JOB_ADMITTED, b"default/train", event, event_id="a", traceparent=asker)
        annotations = (await w.until(w.job))["metadata"]["annotations"]
        assert annotations["pumice.dev/submission-id"] == "s"
        assert annotations["pumice.dev/submitted-by"] == "alice"
        assert annotations["pumice.dev/submitted-at"] == "2026-03-01T12:00:00.000000Z"
        assert "0af7651916cd43dd8448eb211c80319c" in annotations["pumice.dev/traceparent"]
        ready = await w.until(lambda: w.events(topics.PODGROUP_READY))
        assert ready[0].traceparent == annotations["pumice.dev/traceparent"]


async def test_the_trace_of_a_finished_job_is_whole(world):
    async with world() as w:
        await w.admit(job())
        await w.run_gang()
        w.cluster.end_pods()
        await w.until(lambda: w.phase() == "Completed")
        spans = {span.name: span for span in w.spans.get_finished_spans()}
        assert set(spans) == {"create", "bind", "start", "run", "finish", "job"}
        root = spans["job"].context
        for name, span in spans.items():
            assert span.context.trace_id == root.trace_id
            assert span.start_time <= span.end_time
            if name != "job":
                assert span.parent.span_id == root.span_id
        assert spans["run"].start_time == spans["start"].end_time
        assert spans["job"].end_time == spans["run"].end_time


async def test_a_job_by_kubectl_gets_a_trace_of_its_own_and_the_same_life(world):
    async with world() as w:
        w.cluster.put(r.JOBS, job())
        await w.run_gang()
        traces = {
            one["metadata"]["annotations"][names.TRACEPARENT] for one in (*w.pods().values(), w.group())
        }
        assert traces == {job_trace(w.job()["metadata"]["uid"]).traceparent}
        assert (await w.events(topics.JOB_LIFECYCLE))[0].traceparent in traces


async def test_a_job_whose_queue_is_missing_waits_and_says_so_until_there_is_one(world):
    async with world() as w:
        w.cluster.put(r.JOBS, job(queue="team-a"))
        await w.until(lambda: w.phase() == "Pending")
        state = w.job()["status"]["state"]
        assert (state["reason"], state["message"]) == ("Invalid", "spec.queue: there is no queue team-a")
        assert w.group() is None
        assert any(e["reason"] == "PodGroupError" for e in w.cluster.all(r.EVENTS))
        w.cluster.put(r.QUEUES, {"metadata": {"name": "team-a"}, "spec": {"weight": 1}})
        await w.ready()
        await w.until(lambda: "reason" not in w.job()["status"]["state"])


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"minAvailable": 9}, "9 is more than the 4 pods"),
        ({"minAvailable": -1}, "-1 is below 0"),
        ({"tasks": [task("w", 2**31 - 1)]}, "more than 10000 pods in all"),
        ({"tasks": [task(f"w{n}", 9000) for n in range(100)]}, "more than 10000 pods in all"),
        ({"queue": "root"}, "root holds other queues"),
        ({"tasks": []}, "at least one task"),
        ({"schedulerName": "other"}, "other is not served here, but volcano"),
    ],
)
async def test_a_job_that_cannot_be_run_says_why(world, spec, text):
    async with world() as w:
        w.cluster.put(r.JOBS, job(**spec))
        await w.until(lambda: text in ((w.job().get("status") or {}).get("state") or {}).get("message", ""))
        assert w.group() is None


async def test_a_job_of_wrong_types_harms_no_other(world):
    async with world() as w:
        w.cluster.put(r.JOBS, {**job("broken"), "spec": {"tasks": "none"}})
        await w.admit(job())
        await w.run_gang()
        said = [e["message"] for e in w.cluster.all(r.EVENTS) if e["involvedObject"]["name"] == "broken"]
        assert len(said) == 1
        assert "the job cannot be read" in said[0]


async def test_a_job_with_a_limit_that_is_no_quantity_says_so_and_harms_no_other(world):
    async with world() as w:
        broken = job("broken")
        broken["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["resources"] = {
            "requests": {"cpu": "1"},
            "limits": {"cpu": "one"},
        }
        w.cluster.put(r.JOBS, broken)
        await w.until(lambda: w.phase("broken") == "Pending")
        assert "spec.tasks[0].template" in w.job("broken")["status"]["state"]["message"]
        await w.admit(job())
        await w.run_gang()


async def test_a_command_with_a_reason_as_long_as_a_record_is_obeyed(world):
    async with world() as w:
        await w.admit(job())
        await w.run_gang()
        await w.command(JobAction.SUSPEND, reason="because " + 999_000 * "x")
        await w.until(lambda: w.phase() in ("Aborting", "Aborted"))
        assert w.job()["status"]["state"]["message"].startswith("suspend: because xxx")
        assert len(w.job()["status"]["state"]["message"]) <= 1000


async def test_what_is_ordered_again_is_told_again(world):
    async with world() as w:
        await w.admit(job())
        await w.run_gang()
        orders = ((JobAction.SUSPEND, "Aborted"), (JobAction.RESUME, "Pending")) * 2
        for number, (action, phase) in enumerate(orders):
            await w.command(action, event_id=f"order-{number}")
            await asyncio.sleep(1)
            w.cluster.stop_pods()
            await w.until(lambda phase=phase: w.phase() == phase)
        said = [e["message"] for e in w.cluster.all(r.EVENTS) if e["reason"] == "CommandIssued"]
        assert len([text for text in said if "AbortJob" in text]) == 2
        assert len([text for text in said if "ResumeJob" in text]) == 2


async def test_what_is_not_applied_is_said(world):
    async with world() as w:
        asking = job()
        asking["spec"]["tasks"][1] |= {"topologyPolicy": "best-effort"}
        await w.admit(asking)
        await w.until(lambda: w.phase() == "Pending")
        assert "topologyPolicy of tasks" in w.job()["status"]["state"]["message"]
        assert [e["reason"] for e in w.cluster.all(r.EVENTS)] == ["PluginError"]
        await w.run_gang()


def report(gang, message, code="no-room", generation=0):
    return GangReport(
        gang=gang.ref.model_copy(update={"generation": generation}),
        job="train",
        queue="default",
        waiting_since=EPOCH,
        position=1,
        queue_length=1,
        reason=Reason(code=code, message=message),
        at=EPOCH,
    )


async def test_the_podgroup_says_why_its_gang_waits(world):
    async with world() as w:
        await w.admit(job())
        gang = (await w.ready())[0].gang

        async def say(number, message, code="no-room"):
            event = report(gang, message, code)
            await w.send(topics.SCHEDULING_REPORTS, b"default/train", event, event_id=f"r{number}")

        def condition():
            conditions = w.group()["status"].get("conditions") or [{}]
            return conditions[0].get("message")

        await say(0, "3 nodes have room for 0")
        await w.until(lambda: condition() == "3 nodes have room for 0")
        writes = w.cluster.writes["patch", "podgroups"]
        for number in range(1, 50):
            await say(number, f"{number} nodes have room for 0")
            await asyncio.sleep(0.1)
        assert w.cluster.writes["patch", "podgroups"] == writes  # the same reason: not before its pause
        await say(50, "the queue is over its limit", "queue-limit")
        await w.until(lambda: condition() == "the queue is over its limit")
        events = [e["message"] for e in w.cluster.all(r.EVENTS) if e["reason"] == "PodGroupPending"]
        assert len(events) == 2
        await w.run_gang()
        await w.until(lambda: w.group()["status"]["conditions"][0]["type"] == "Scheduled")
        assert len(w.group()["status"]["conditions"]) == 1


async def test_root_and_default_queue_are_made_open_and_a_new_queue_becomes_open(world):
    async with world() as w:
        w.cluster.put(r.QUEUES, {"metadata": {"name": "new"}, "spec": {"weight": 2}})
        names = ("root", "default", "new")

        def states():
            found = [w.cluster.one(r.QUEUES, name) for name in names]
            return [((q or {}).get("status") or {}).get("state") for q in found] == ["Open"] * 3

        await w.until(states)
        assert w.cluster.one(r.QUEUES, "root")["spec"]["reclaimable"] is False
        assert (await w.state())["queue//default"].parent == "root"
