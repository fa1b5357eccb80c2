"""The main job on the embedded default: from submission to its end, as a gang."""

from __future__ import annotations

import pytest

from pumice import Rejected
from services.standalone.options import Options
from shared.api.resources import JOBS, PODGROUPS
from tests.fixtures.platform import a_platform, gang
from tests.fixtures.services import ended

OPTIONS = Options(nodes=("4x8",), port=0)


async def test_a_gang_goes_from_submission_to_completed_with_one_connected_trace():
    async with a_platform(OPTIONS) as platform:
        job = await platform.client.submit(gang("train"), wait="finished", timeout=30)
        assert job.phase == "Completed"
        assert job.pods.succeeded == 4

        stored = await platform.cluster.get(JOBS, "default", "train")
        assert stored["status"]["state"]["phase"] == "Completed"
        assert stored["status"]["succeeded"] == 4
        [podgroup] = (await platform.cluster.list(PODGROUPS, "default")).items
        assert podgroup["status"]["phase"] == "Completed"
        assert sorted(pod["metadata"]["name"] for pod in await platform.pods()) == [
            "train-master-0",
            "train-worker-0",
            "train-worker-1",
            "train-worker-2",
        ]
        assert len({pod["spec"]["nodeName"] for pod in await platform.pods()}) == 4

        spans = [span for span in platform.finished_spans if span.context is not None]
        [root] = [span for span in spans if span.name == "job"]
        assert root.context is not None
        mine = [span for span in spans if span.context and span.context.trace_id == root.context.trace_id]
        names = {span.name for span in mine}
        assert {"submit", "admit", "create", "queue", "decide", "bind", "start", "run", "finish"} <= names
        for span in mine:
            if span is not root:
                assert span.parent is not None, span.name
                assert span.parent.span_id in {one.context.span_id for one in mine if one.context}, span.name
                assert span.start_time is not None
                assert span.end_time is not None
                assert span.start_time <= span.end_time
        shown = await platform.client.trace("train")
        assert {span.name for span in shown.spans} >= names - {"finish"}


async def test_a_gang_that_does_not_fit_waits_without_pods_and_says_why_until_it_fits():
    async with a_platform(OPTIONS) as platform:
        await platform.client.submit(gang("first", command="sleep 1.5"), wait="running", timeout=30)
        waiting = await platform.client.submit(gang("second"), wait="admitted")
        async for change in platform.client.watch("second", until="running", timeout=30):
            if change.job.waiting is not None:
                waiting = change.job
                break
        assert waiting.waiting is not None
        assert "nvidia.com/gpu" in waiting.waiting.reason.message
        assert waiting.waiting.position == 1
        assert {pod["metadata"]["labels"]["volcano.sh/job-name"] for pod in await platform.pods()} == {
            "first"
        }
        ended = await platform.client.wait_until("second", "finished", timeout=30)
        assert ended.phase == "Completed"


async def test_a_job_with_five_mistakes_gets_five_reasons():
    job = gang("Bad_Name", queue="nowhere")
    job["spec"]["minAvailable"] = 40
    job["spec"]["tasks"][1]["name"] = "master"
    job["spec"]["policies"] = [{"event": "Nonsense", "action": "RestartJob"}]
    async with a_platform(OPTIONS) as platform:
        with pytest.raises(Rejected) as rejected:
            await platform.client.submit(job)
        paths = {violation.path for violation in rejected.value.violations}
        assert {
            "metadata.name",
            "spec.queue",
            "spec.minAvailable",
            "spec.tasks[1].name",
            "spec.policies[0].event",
        } <= paths


async def test_suspend_frees_the_gpus_and_resume_runs_the_job_again():
    async with a_platform(OPTIONS) as platform:
        await platform.client.submit(gang("train", command="sleep 600"), wait="running", timeout=30)
        await platform.client.suspend("train")
        async for change in platform.client.watch("train", until="finished", timeout=30):
            if change.job.phase == "Aborted":
                break
        other = await platform.client.submit(gang("other"), wait="finished", timeout=30)
        assert other.phase == "Completed"
        await platform.client.resume("train")
        again = await platform.client.wait_until("train", "running", timeout=30)
        assert again.phase == "Running"
        assert again.retry_count == 0


async def test_a_deleted_job_leaves_nothing():
    async with a_platform(OPTIONS) as platform:
        await platform.client.submit(gang("train", command="sleep 600"), wait="running", timeout=30)
        await platform.client.delete("train")
        other = await platform.client.submit(gang("other"), wait="finished", timeout=30)
        assert other.phase == "Completed"
        assert {pod["metadata"]["labels"]["volcano.sh/job-name"] for pod in await platform.pods()} == {
            "other"
        }
        assert [one["metadata"]["name"] for one in (await platform.cluster.list(JOBS)).items] == ["other"]


async def test_a_job_applied_to_kubernetes_takes_the_same_path():
    async with a_platform(OPTIONS) as platform:
        await platform.cluster.create(JOBS, "default", gang("applied"))
        job = await ended(platform.client, "applied", 30)
        assert job.phase == "Completed"
        assert {"create", "decide", "run"} <= {
            span.name for span in (await platform.client.trace("applied")).spans
        }
