"""Lives of jobs on a whole platform with simulated nodes, on the simulator and on real Kubernetes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from services.standalone.options import Options
from shared.api import resources as r
from shared.clock import SystemClock
from shared.kube.client import connect
from shared.kube.port import Patch
from tests.fixtures.kube import install_crds, kubelets_of, start_control_plane, until
from tests.fixtures.platform import Platform, a_platform, gang

pytestmark = pytest.mark.asyncio(loop_scope="module")
JSON = dict[str, Any]


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["simulator", "kubernetes"])
async def shared_platform(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Platform]:
    if request.param == "simulator":
        async with a_platform(Options(nodes=("4x8",), port=0)) as one:
            yield one
        return
    plane = await asyncio.to_thread(start_control_plane, tmp_path_factory.mktemp("kube"))
    cluster = connect(str(plane.kubeconfig), clock=SystemClock())
    await install_crds(cluster)
    async with (
        kubelets_of(cluster, "4x8"),
        a_platform(Options(port=0, kubeconfig=plane.kubeconfig)) as one,
    ):
        yield one
    await cluster.close()
    plane.kill()


@pytest_asyncio.fixture(loop_scope="module")
async def platform(shared_platform: Platform) -> AsyncIterator[Platform]:
    """The platform, empty again after each test."""
    yield shared_platform
    await shared_platform.cluster.delete(r.JOBS, "default", "train")
    async with asyncio.timeout(90):  # a new garbage collector learns of our kinds after half a minute
        while True:
            if not await shared_platform.pods():
                break
            await asyncio.sleep(0.05)


async def job(platform: Platform) -> JSON:
    return await platform.cluster.get(r.JOBS, "default", "train")


async def when(platform: Platform, condition: Callable[[JSON], bool], seconds: float = 30.0) -> JSON:
    """Wait until the job is so, and return it."""
    found: JSON = {}
    try:
        async with asyncio.timeout(seconds):
            while True:
                found = await job(platform)
                if condition(found.get("status") or {}):
                    return found
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"in vain: {found.get('status')}") from None


def phase(expected: str) -> Callable[[JSON], bool]:
    return lambda status: (status.get("state") or {}).get("phase") == expected


def group_phase(expected: str) -> Callable[[JSON], bool]:
    return lambda group: group["status"]["phase"] == expected


def task(name: str, replicas: int, script: str, **more: Any) -> JSON:
    amounts = {"cpu": "1", "nvidia.com/gpu": 8}
    container = {
        "name": "main",
        "image": "torch",
        "command": ["sh", "-c", script],
        "resources": {"requests": amounts, "limits": amounts},
    }
    spec = {"restartPolicy": "Never", "containers": [container]}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **more}


def of_tasks(*tasks: JSON, **spec: Any) -> JSON:
    body = gang("train")
    body["spec"] = {"queue": "default", "tasks": list(tasks), **spec}
    return body


async def test_a_policy_restarts_the_job_on_an_exit_code_until_no_retry_is_left(platform: Platform) -> None:
    policies = [{"exitCode": 3, "action": "RestartJob"}]
    tasks = [task("master", 1, "sleep 60"), task("worker", 2, "sleep 0.2; exit 3")]
    await platform.cluster.create(r.JOBS, "default", of_tasks(*tasks, policies=policies, maxRetry=2))
    found = await when(platform, phase("Failed"))
    assert found["status"]["retryCount"] == 2
    assert found["status"]["state"]["reason"] == "MaxRetryExceeded"
    await when(platform, lambda status: "terminating" not in status)
    names = {pod["metadata"]["name"] for pod in await platform.pods()}
    assert names <= {"train-worker-0", "train-worker-1"}


async def test_a_restarted_task_is_placed_again_beside_the_one_that_runs(platform: Platform) -> None:
    policies = [{"event": "PodFailed", "action": "RestartTask"}]
    tasks = [
        task("master", 1, "sleep 60"),
        task("worker", 2, "sleep 60"),
        task("canary", 1, "sleep 0.5; exit 1", policies=policies),
    ]
    await platform.cluster.create(r.JOBS, "default", of_tasks(*tasks, maxRetry=50))
    await when(platform, lambda status: status.get("retryCount", 0) >= 2)
    await when(platform, lambda status: status.get("running") == 4)
    pods = {pod["metadata"]["name"]: pod for pod in await platform.pods()}
    assert pods["train-master-0"]["metadata"]["annotations"]["volcano.sh/job-retry-count"] == "0"
    assert pods["train-canary-0"]["metadata"]["annotations"]["volcano.sh/job-retry-count"] != "0"


async def test_tasks_start_one_after_another_on_a_cluster_that_holds_only_one_of_them(
    platform: Platform,
) -> None:
    tasks = [
        task("prepare", 4, "sleep 0.3"),
        task("train", 4, "sleep 0.3", dependsOn={"name": ["prepare"]}),
    ]
    tasks[0]["minAvailable"] = 4
    await platform.cluster.create(r.JOBS, "default", of_tasks(*tasks))
    await when(platform, phase("Completed"))
    pods = {pod["metadata"]["name"]: pod for pod in await platform.pods()}
    assert len(pods) == 8
    begun = [
        pods[f"train-{name}-{index}"]["status"]["startTime"]
        for name in ("prepare", "train")
        for index in range(4)
    ]
    assert max(begun[:4]) <= min(begun[4:])


async def test_a_server_and_its_workers_run_together_once_the_server_runs(platform: Platform) -> None:
    tasks = [
        task("worker", 3, "sleep 60", dependsOn={"name": ["server"]}),
        task("server", 1, "sleep 60"),
    ]
    await platform.cluster.create(r.JOBS, "default", of_tasks(*tasks))
    found = await when(platform, phase("Running"))
    assert found["status"]["running"] == 4
    group = f"train-{found['metadata']['uid']}"
    seen = await until(platform.cluster, r.PODGROUPS, "default", group, group_phase("Running"))
    assert seen["spec"]["minMember"] == 4


async def test_a_running_job_is_scaled_down_and_up(platform: Platform) -> None:
    tasks = [task("master", 1, "sleep 60"), task("worker", 3, "sleep 60", minAvailable=1)]
    await platform.cluster.create(r.JOBS, "default", of_tasks(*tasks, minAvailable=2))
    await when(platform, lambda status: status.get("running") == 4)
    for count in (1, 3):
        patch = [{"op": "replace", "path": "/spec/tasks/1/replicas", "value": count}]
        await platform.cluster.patch(r.JOBS, "default", "train", patch, kind=Patch.JSON)
        want = count + 1
        await when(
            platform, lambda status, want=want: status.get("running") == want and "terminating" not in status
        )
        assert len(await platform.pods()) == want
        assert phase("Running")((await job(platform))["status"])


# ------------------------------------------------------------- what Volcano's own end-to-end tests expect
async def test_a_running_job_whose_lost_pod_finds_no_room_is_restarted_and_runs_when_there_is(
    platform: Platform,
) -> None:
    policies = [{"event": "Unknown", "action": "RestartJob"}]
    body = of_tasks(task("test", 4, "sleep 60"), policies=policies)
    await platform.cluster.create(r.JOBS, "default", body)
    await when(platform, phase("Running"))
    await cordon(platform, True)
    await platform.cluster.delete(r.PODS, "default", "train-test-0")
    await when(platform, lambda status: status.get("retryCount") == 1 and phase("Pending")(status))
    await cordon(platform, False)
    await when(platform, lambda status: status.get("running") == 4)
    assert (await job(platform))["status"]["retryCount"] == 1


async def cordon(platform: Platform, unschedulable: bool) -> None:
    for node in (await platform.cluster.list(r.NODES)).items:
        patch = {"spec": {"unschedulable": unschedulable}}
        await platform.cluster.patch(r.NODES, None, node["metadata"]["name"], patch)


async def test_a_failed_pod_is_replaced_in_time_for_the_policy_that_waits_about_evictions(
    platform: Platform,
) -> None:
    policies = [
        {"event": "PodFailed", "action": "RestartPod"},
        {"event": "PodEvicted", "action": "TerminateJob", "timeout": "5m"},
    ]
    tasks = [task("success", 2, "sleep 60"), task("fail", 1, "sleep 0.5; exit 1")]
    await platform.cluster.create(r.JOBS, "default", of_tasks(*tasks, policies=policies, maxRetry=50))
    await when(platform, phase("Running"))
    await when(platform, lambda status: status.get("retryCount", 0) >= 1)
    await when(platform, phase("Running"))
    await platform.cluster.delete(r.PODS, "default", "train-success-0")
    await when(platform, lambda status: status.get("running", 0) >= 2)
    conditions = {one["status"] for one in (await job(platform))["status"]["conditions"]}
    assert conditions == {"Pending", "Running", "Restarting"}


async def test_a_job_is_scaled_down_to_nothing_and_up_again(platform: Platform) -> None:
    await platform.cluster.create(r.JOBS, "default", of_tasks(task("default", 2, "sleep 60")))
    await when(platform, phase("Running"))
    for count in (0, 2):
        patch = [
            {"op": "add", "path": "/spec/minAvailable", "value": count},
            {"op": "add", "path": "/spec/tasks/0/replicas", "value": count},
            {"op": "add", "path": "/spec/tasks/0/minAvailable", "value": count},
        ]
        await platform.cluster.patch(r.JOBS, "default", "train", patch, kind=Patch.JSON)
        await when(platform, running(count))
        await when(platform, phase("Running"))


def running(count: int) -> Callable[[JSON], bool]:
    return lambda status: status.get("running", 0) == count and "terminating" not in status


async def test_enough_successes_complete_a_job_and_end_what_still_runs(platform: Platform) -> None:
    tasks = [
        task("short", 2, "sleep 0.5", minAvailable=1),
        task("log", 2, "sleep 60", minAvailable=1),
    ]
    await platform.cluster.create(r.JOBS, "default", of_tasks(*tasks, minSuccess=2, minAvailable=2))
    await when(platform, phase("Completed"))
    await when(platform, lambda status: status.get("running", 0) == 0 and "terminating" not in status)
    assert {pod["metadata"]["name"] for pod in await platform.pods()} == {"train-short-0", "train-short-1"}


async def test_suspended_and_resumed_by_command_objects_a_job_runs_again_without_a_retry(
    platform: Platform,
) -> None:
    await platform.cluster.create(r.JOBS, "default", of_tasks(task("default", 2, "sleep 60")))
    found = await when(platform, phase("Running"))
    for action, after in (("AbortJob", "Aborted"), ("ResumeJob", "Running")):
        body = {
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": {"name": f"train-{action.lower()}"},
            "action": action,
            "target": {
                "apiVersion": "batch.volcano.sh/v1alpha1",
                "kind": "Job",
                "name": "train",
                "uid": found["metadata"]["uid"],
                "controller": True,
            },
        }
        await platform.cluster.create(r.COMMANDS, "default", body)
        await when(platform, phase(after))
    status = (await job(platform))["status"]
    assert (status.get("retryCount", 0), status["version"]) == (0, 2)
