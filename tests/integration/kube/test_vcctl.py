"""Volcano's own command line, vcctl, on the whole platform: what it prints is true, and what it asks for is done."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
import pytest_asyncio
import yaml

from services.standalone.options import Options
from shared.api import names
from shared.api import resources as r
from shared.clock import SystemClock
from shared.errors import NotFound
from shared.kube.client import connect
from shared.kube.port import JSON, Cluster
from tests.fixtures.kube import install_crds, kubelets_of, until, until_gone
from tests.fixtures.platform import a_platform, gang
from tests.fixtures.processes import ROOT
from tests.fixtures.vcctl import FAILED, Vcctl
from tools.kube import ControlPlane
from tools.kube.program import VCCTL

pytestmark = pytest.mark.asyncio(loop_scope="module")
NODES = "vcctl=2x8"
NOTHING = "No resources found\n"


@dataclass(frozen=True)
class World:
    """A running platform with nodes, a namespace of its own, and the command line for it."""

    cluster: Cluster
    namespace: str
    run: Vcctl
    folder: Path

    async def vcctl(self, *words: str, code: int = 0) -> str:
        """Run a command about what is in the namespace."""
        return await self.run(*words, "-n", self.namespace, code=code)

    async def table(self, *words: str) -> list[dict[str, str]]:
        """Return what a command about the namespace prints, by columns."""
        return await self.run.table(*words, "-n", self.namespace)

    async def job(self, name: str, condition: Callable[[JSON], object] = bool) -> JSON:
        """Return a job once its status is so."""
        return await until(self.cluster, r.JOBS, self.namespace, name, of_status(condition), 60)

    async def pods(self, job: str) -> list[JSON]:
        labels = f"{names.JOB_NAME}={job}"
        return (await self.cluster.list(r.PODS, self.namespace, labels=labels)).items

    def file(self, *bodies: JSON) -> str:
        """Write a file of objects of the namespace."""
        for body in bodies:
            body["metadata"]["namespace"] = self.namespace
        path = self.folder / f"{uuid4().hex}.yaml"
        path.write_text(yaml.safe_dump_all(bodies))
        return str(path)

    async def remove(self, name: str) -> None:
        """Delete a job as a user of vcctl does; return when all of it is gone."""
        group, pods = f"{name}-{(await self.job(name))['metadata']['uid']}", await self.pods(name)
        assert await self.vcctl("job", "delete", "-N", name) == f"delete job {name} successfully\n"
        await until_gone(self.cluster, r.JOBS, self.namespace, name)
        await until_gone(self.cluster, r.PODGROUPS, self.namespace, group)
        for pod in pods:
            await until_gone(self.cluster, r.PODS, self.namespace, pod["metadata"]["name"])


@pytest.fixture(scope="module", params=["simulator", "kubernetes"])
def plane(request: pytest.FixtureRequest, vcctl_program: Path) -> ControlPlane | None:
    return None if request.param == "simulator" else request.getfixturevalue("control_plane")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_world(
    plane: ControlPlane | None, vcctl_program: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[World]:
    folder = tmp_path_factory.mktemp("vcctl")
    name = f"test-{uuid4().hex[:8]}"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    if plane is None:
        async with a_platform(Options(port=0, nodes=(NODES,))) as one:
            await one.cluster.create(r.NAMESPACES, None, namespace)
            yield World(one.cluster, name, Vcctl(vcctl_program, one.ready.kubeconfig), folder)
        return
    cluster = connect(str(plane.kubeconfig), clock=SystemClock())
    await install_crds(cluster)
    await cluster.create(r.NAMESPACES, None, namespace)
    await until(cluster, r.SERVICEACCOUNTS, name, "default")
    async with (
        kubelets_of(cluster, NODES),
        a_platform(Options(port=0, kubeconfig=plane.kubeconfig)),
    ):
        yield World(cluster, name, Vcctl(vcctl_program, plane.kubeconfig), folder)
        await cluster.delete(r.NAMESPACES, None, name)
    await cluster.close()


@pytest_asyncio.fixture(loop_scope="module")
async def world(shared_world: World) -> AsyncIterator[World]:
    """The world, empty again after each test."""
    yield shared_world
    cluster, namespace = shared_world.cluster, shared_world.namespace
    for resource in (r.JOBFLOWS, r.JOBTEMPLATES, r.JOBS):
        for one in (await cluster.list(resource, namespace)).items:
            with suppress(NotFound):
                await cluster.delete(resource, namespace, one["metadata"]["name"])
    async with asyncio.timeout(90):  # a new garbage collector learns of our kinds after half a minute
        while True:
            if not [one for kind in (r.JOBS, r.PODS) for one in (await cluster.list(kind, namespace)).items]:
                break
            await asyncio.sleep(0.05)


def of_status(condition: Callable[[JSON], object]) -> Callable[[JSON], object]:
    """Return a condition of objects, from one of their status."""
    return lambda one: condition(one.get("status") or {})


def phase(expected: str) -> Callable[[JSON], bool]:
    return lambda status: (status.get("state") or {}).get("phase") == expected


def running(count: int) -> Callable[[JSON], bool]:
    return lambda status: phase("Running")(status) and status.get("running") == count


def counts(row: dict[str, str]) -> dict[str, int]:
    """Return a row's numbers other than 0."""
    return {name: int(value) for name, value in row.items() if value.isdigit() and value != "0"}


async def queue_state(world: World, name: str, expected: str) -> JSON:
    wanted = of_status(lambda status: status.get("state") == expected)
    return await until(world.cluster, r.QUEUES, None, name, wanted)


# --------------------------------------------------------------------------------------------------- jobs
async def test_a_job_of_flags_is_run_listed_viewed_suspended_resumed_and_deleted(world: World):
    flags = ("-N", "flags", "-m", "2", "-r", "3", "-R", "cpu=500m,memory=64Mi", "-L", "cpu=1,memory=64Mi")
    assert await world.vcctl("job", "run", *flags, "-i", "torch") == "run job flags successfully\n"
    made = await world.job("flags", running(3))
    resources = {"requests": {"cpu": "500m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "64Mi"}}
    for pod in await world.pods("flags"):
        [container] = pod["spec"]["containers"]
        assert (container["image"], container["resources"]) == ("torch", resources)

    row = {
        "Name": "flags",
        "Creation": made["metadata"]["creationTimestamp"][:10],
        "Phase": "Running",
        "JobType": "Batch",
    }
    [listed] = await world.table("job", "list", "--selector", "lag")
    assert {name: listed[name] for name in row} == row
    assert counts(listed) == {"Replicas": 3, "Min": 2, "Running": 3}
    assert "RetryCount" in listed
    everywhere = await world.run.table("job", "list", "--all-namespaces", "-S", "volcano")
    assert [one["Name"] for one in everywhere if one["Namespace"] == world.namespace] == ["flags"]
    assert await world.vcctl("job", "list", "-q", "nowhere") == NOTHING

    shown = await world.vcctl("job", "view", "-N", "flags")
    status = shown[shown.index("\nStatus:") :]
    for line in ("Running: +3", "Min Available: *2", "Phase: *Running"):
        assert re.search(rf"(?m)^ *{line}$", status.expandtabs(1)), shown

    assert await world.vcctl("job", "suspend", "-N", "flags") == ""
    await world.job("flags", phase("Aborted"))
    [listed] = await world.table("job", "list")
    assert (listed["Phase"], counts(listed)) == ("Aborted", {"Replicas": 3, "Min": 2})
    assert await world.vcctl("pod", "list", "-j", "flags") == NOTHING
    async with asyncio.timeout(30):  # events are written when there is time
        while True:
            if "CommandIssued" in await world.vcctl("job", "view", "-N", "flags"):
                break
            await asyncio.sleep(0.1)

    assert await world.vcctl("job", "resume", "-N", "flags") == ""
    await world.job("flags", running(3))
    [listed] = await world.table("job", "list")
    assert (listed["Phase"], counts(listed)) == ("Running", {"Replicas": 3, "Min": 2, "Running": 3})
    assert len(await world.table("pod", "list", "-j", "flags")) == 3
    await world.remove("flags")
    assert await world.vcctl("job", "list") == NOTHING
    assert (await world.cluster.list(r.COMMANDS, world.namespace)).items == []


async def test_jobs_of_files_are_counted_as_they_wait_and_end(world: World):
    for body in (
        gang("too-big", workers=2),
        gang("ends", workers=1, gpus=1, command="echo done"),
        gang("fails", workers=1, gpus=1, command="exit 3"),
    ):
        printed = await world.vcctl("job", "run", "-f", world.file(body))
        assert printed == f"run job {body['metadata']['name']} successfully\n"
    await world.job("ends", phase("Completed"))
    await world.job("fails", phase("Failed"))
    await world.job("too-big", phase("Pending"))
    rows = {row["Name"]: row for row in await world.table("job", "list")}
    assert {name: (row["Phase"], counts(row)) for name, row in rows.items()} == {
        "too-big": ("Pending", {"Replicas": 3, "Min": 3}),
        "ends": ("Completed", {"Replicas": 2, "Min": 2, "Succeeded": 2}),
        "fails": ("Failed", {"Replicas": 2, "Min": 2, "Failed": 2}),
    }
    refused = await world.vcctl("job", "run", "-f", world.file(gang("ends")), code=FAILED)
    assert refused == 'Failed to run job: jobs.batch.volcano.sh "ends" already exists\n'


@pytest.mark.parametrize("verb", ["view", "suspend", "resume", "delete"])
async def test_a_job_that_is_not_there_is_said_to_be_missing(world: World, verb: str):
    printed = await world.vcctl("job", verb, "-N", "nobody", code=FAILED)
    assert printed == f'Failed to {verb} job: jobs.batch.volcano.sh "nobody" not found\n'


# ------------------------------------------------------------------------------------------------- queues
async def test_a_queue_is_created_counted_weighed_closed_opened_and_deleted(world: World):
    name = f"team-{world.namespace}"
    await world.run("queue", "create", "-n", name, "-w", "3", "-S", "Closed")
    queue = await queue_state(world, name, "Open")  # its state is not the client's to write
    assert queue["spec"]["weight"] == 3
    body = gang("works", workers=1, gpus=1, command="sleep 600", queue=name)
    await world.vcctl("job", "run", "-f", world.file(body))
    await world.job("works", running(2))
    group = f"works-{(await world.job('works'))['metadata']['uid']}"
    in_use = of_status(lambda status: status.get("phase") == "Running")
    await until(world.cluster, r.PODGROUPS, world.namespace, group, in_use)

    async def row() -> dict[str, str]:
        [got] = await world.run.table("queue", "get", "-n", name)
        [listed] = [one for one in await world.run.table("queue", "list") if one["Name"] == name]
        assert got == listed
        return got

    found = await row()
    assert (found["State"], found["Parent"]) == ("Open", "root")
    assert counts(found) == {"Weight": 3, "Running": 1}

    await world.run("queue", "operate", "-n", name, "-a", "update", "-w", "5")
    assert counts(await row()) == {"Weight": 5, "Running": 1}
    await world.run("queue", "operate", "-n", name, "-a", "close")
    await queue_state(world, name, "Closing")
    assert (await row())["State"] == "Closing"
    await world.remove("works")
    await queue_state(world, name, "Closed")
    assert ((await row())["State"], counts(await row())) == ("Closed", {"Weight": 5})
    await world.run("queue", "operate", "-n", name, "-a", "open")
    await queue_state(world, name, "Open")
    await world.run("queue", "delete", "-n", name)
    await until_gone(world.cluster, r.QUEUES, None, name)
    missing = await world.run("queue", "get", "-n", name, code=FAILED)
    assert missing == f'Failed to get queue: queues.scheduling.volcano.sh "{name}" not found\n'


# --------------------------------------------------------------------------------------------------- pods
async def test_pods_are_listed_by_job_and_by_queue_also_those_that_no_job_made(world: World):
    name = f"pods-{world.namespace}"
    await world.run("queue", "create", "-n", name)
    await queue_state(world, name, "Open")
    for job, queue in (("here", name), ("there", "default")):
        body = gang(job, workers=1, gpus=1, command="sleep 600", queue=queue)
        await world.vcctl("job", "run", "-f", world.file(body))
    bare = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bare", "annotations": {names.GROUP_QUEUE_NAME: name}},
        "spec": {"schedulerName": "volcano", "containers": [{"name": "main", "image": "torch"}]},
    }
    await world.cluster.create(r.PODS, world.namespace, bare)
    for job in ("here", "there"):
        await world.job(job, running(2))
    await until(world.cluster, r.PODS, world.namespace, "bare", is_ready)

    here, there = {"here-master-0", "here-worker-0"}, {"there-master-0", "there-worker-0"}
    rows = await world.table("pod", "list", "-j", "here")
    assert {row["Name"] for row in rows} == here
    assert {(row["Ready"], row["Status"], row["Restart"]) for row in rows} == {("1/1", "Running", "0")}
    assert {row["Name"] for row in await world.table("pod", "list")} == here | there
    assert {row["Name"] for row in await world.table("pod", "list", "-q", name)} == here | {"bare"}
    assert {row["Name"] for row in await world.table("pod", "list", "-q", name, "-j", "here")} == here
    wrong = await world.vcctl("pod", "list", "-q", name, "-j", "there", code=FAILED)
    assert wrong == f"Failed to list pod: the input vcjob there does not match the queue {name}\n"
    await world.cluster.delete(r.PODS, world.namespace, "bare", grace_seconds=0)
    await world.run("queue", "delete", "-n", name)


def is_ready(pod: JSON) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any((one["type"], one["status"]) == ("Ready", "True") for one in conditions)


# ---------------------------------------------------------------------------------------------- workflows
async def test_a_flow_of_templates_is_created_runs_is_told_of_and_deleted(world: World):
    documents = list(yaml.safe_load_all((ROOT / "examples" / "jobflow.yaml").read_text()))
    templates = [one for one in documents if one["kind"] == "JobTemplate"]
    [flow] = [one for one in documents if one["kind"] == "JobFlow"]
    created = await world.run("jobtemplate", "create", "-f", world.file(*templates))
    assert created == "".join(
        f"Created JobTemplate: {world.namespace}/{name}\n" for name in ("prepare", "train", "report")
    )
    created = await world.run("jobflow", "create", "-f", world.file(flow))
    assert created == f"Created JobFlow: {world.namespace}/nightly\n"
    await until(world.cluster, r.JOBFLOWS, world.namespace, "nightly", of_status(phase("Succeed")), 60)
    [listed] = await world.table("jobflow", "list")
    [got] = await world.table("jobflow", "get", "-N", "nightly")
    for row in (listed, got):
        assert (row["Name"], row["Namespace"], row["Phase"]) == ("nightly", world.namespace, "Succeed")
    told = yaml.safe_load(await world.vcctl("jobflow", "describe", "-N", "nightly"))
    assert told["status"]["completedJobs"] == ["nightly-prepare", "nightly-train", "nightly-report"]
    assert [one["state"] for one in told["status"]["jobStatusList"]] == ["Completed"] * 3
    jobs = {row["Name"]: counts(row) for row in await world.table("job", "list")}
    assert jobs["nightly-train"] == {"Replicas": 2, "Min": 2, "Succeeded": 2}

    rows = await world.table("jobtemplate", "list")
    assert {row["Name"] for row in rows} == {"prepare", "train", "report"}
    assert await world.table("jobtemplate", "get", "-N", "train") == [
        {"Name": "train", "Namespace": world.namespace}
    ]
    await until(world.cluster, r.JOBTEMPLATES, world.namespace, "train", of_status(bool), 60)
    told = json.loads(await world.vcctl("jobtemplate", "describe", "-N", "train", "-o", "json"))
    assert told["status"]["jobDependsOnList"] == ["nightly-train"]

    deleted = await world.vcctl("jobflow", "delete", "-N", "nightly")
    assert deleted == f"Deleted JobFlow: {world.namespace}/nightly\n"
    await until_gone(world.cluster, r.JOBFLOWS, world.namespace, "nightly")
    for job in jobs:
        await until_gone(world.cluster, r.JOBS, world.namespace, job)
    deleted = await world.run("jobtemplate", "delete", "-f", world.file(*templates))
    assert deleted.count("Deleted JobTemplate: ") == 3
    assert await world.vcctl("jobtemplate", "list") == NOTHING
    assert await world.vcctl("jobflow", "list") == NOTHING


async def test_it_says_which_version_it_is(world: World):
    assert f"Version: v{VCCTL.version}\n" in await world.run("version")
