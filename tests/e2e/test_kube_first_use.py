"""What is written for Volcano runs here unchanged: by kubectl, on a real API server, with our webhooks.

Volcano's own examples and guides (``tests/data/volcano-guide``), and what the operators of Kubeflow, Spark
and Ray create for Volcano. Nothing of a manifest is changed; images never run: a simulated container whose
command is not known runs until it is deleted.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared.api import names
from shared.api import resources as r
from shared.clock import SystemClock
from shared.kube.client import connect
from shared.kube.port import JSON, Cluster, Patch, Resource
from simulator.volumes import Provisioner
from tests.fixtures.kube import start_control_plane, until, until_gone
from tests.fixtures.kube_services import Kubectl, kubectl_of
from tests.fixtures.processes import ROOT, Process
from tests.fixtures.services import free_port
from tests.fixtures.waiting import eventually
from tests.fixtures.webhooks import is_trusted

pytestmark = [pytest.mark.kube, pytest.mark.kubectl, pytest.mark.slow, pytest.mark.timeout(240)]
SIM_SECONDS = "pumice.dev/sim-run-seconds"
GUIDE = ROOT / "tests" / "data" / "volcano-guide"
TRAINJOBS = Resource("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob")
SPARKAPPLICATIONS = Resource("sparkoperator.k8s.io", "v1beta2", "sparkapplications", "SparkApplication")
RAYJOBS = Resource("ray.io", "v1", "rayjobs", "RayJob")
RAYCLUSTERS = Resource("ray.io", "v1", "rayclusters", "RayCluster")
OPERATORS = (TRAINJOBS, SPARKAPPLICATIONS, RAYJOBS, RAYCLUSTERS)


# --------------------------------------------------------------------------------------------- the world
@dataclass(frozen=True)
class World:
    """A cluster with Pumice as a user installs it."""

    kubeconfig: Path
    kubectl: Kubectl

    def refused(self, *words: str) -> str:
        """Return what kubectl says when it fails, and that it does."""
        command = ["kubectl", "--kubeconfig", str(self.kubeconfig), *words]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert ran.returncode == 1, ran.stdout
        return ran.stderr


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("first-use")
    plane = start_control_plane(folder / "kube")
    kubeconfig = str(plane.kubeconfig)
    port = free_port()
    admission = {"webhook_port": port, "webhook_host": "127.0.0.1", "webhook_names": ["127.0.0.1"]}
    config = folder / "pumice.yaml"
    config.write_text(yaml.safe_dump({"admission": {**admission, "host_paths": ["/home/work"]}}))
    words = ("-m", "pumice", "up", "--kubeconfig", kubeconfig, "--port", "0", "--config", str(config))
    ready = folder / "ready.json"
    nodes = Process(
        "nodes", "-m", "simulator.kubelet", "--nodes", "8x8", "--kubeconfig", kubeconfig, directory=folder
    )
    pumice = Process("pumice", *words, "--ready-file", str(ready), directory=folder)

    async def start() -> None:
        await nodes.start()
        await _install(kubeconfig, f"https://127.0.0.1:{port}")
        await pumice.start()
        await eventually(lambda: ready.exists() or not pumice.running, what="pumice up")
        assert pumice.running, pumice.output
        await eventually(lambda: "8 nodes are ready" in nodes.output, what="nodes")
        cluster = connect(kubeconfig, clock=SystemClock())
        await is_trusted(cluster)
        for kind in OPERATORS:
            await an_operators_kind(cluster, kind)
        await cluster.close()

    async def stop() -> list[int]:
        return [await process.stop() for process in (pumice, nodes) if process.running]

    try:
        asyncio.run(start())
        yield World(plane.kubeconfig, kubectl_of(plane.kubeconfig))
    finally:
        codes = asyncio.run(stop())
        plane.kill()
    assert codes == [0, 0]
    assert (pumice.unclean, nodes.unclean) == ([], [])


async def an_operators_kind(cluster: Cluster, kind: Resource) -> None:
    """Define a kind, so that what its objects own goes with them."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    body = {
        "apiVersion": r.CRDS.api_version,
        "kind": r.CRDS.kind,
        "metadata": {
            "name": f"{kind.plural}.{kind.group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": {"plural": kind.plural, "singular": kind.kind.lower(), "kind": kind.kind},
            "versions": [version],
        },
    }
    await cluster.create(r.CRDS, None, body)

    def is_served(crd: JSON) -> bool:
        conditions = (crd.get("status") or {}).get("conditions") or ()
        return any((one["type"], one["status"]) == ("Established", "True") for one in conditions)

    await until(cluster, r.CRDS, None, body["metadata"]["name"], is_served)


async def _install(kubeconfig: str, url: str) -> None:
    words = ("-m", "pumice", "install", "--kubeconfig", kubeconfig, "--webhook-url", url)
    installing = await asyncio.create_subprocess_exec(sys.executable, *words, cwd=ROOT)
    assert await installing.wait() == 0


@pytest.fixture
async def cluster(world: World) -> AsyncIterator[Cluster]:
    connected = connect(str(world.kubeconfig), clock=SystemClock())
    yield connected
    await connected.close()


async def a_namespace(cluster: Cluster, name: str) -> None:
    await cluster.create(
        r.NAMESPACES, None, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    )
    await until(cluster, r.SERVICEACCOUNTS, name, "default")


@pytest.fixture
async def namespace(request: pytest.FixtureRequest, cluster: Cluster) -> AsyncIterator[str]:
    name = request.node.name.removeprefix("test_").replace("_", "-")[:60].strip("-")
    await a_namespace(cluster, name)
    yield name
    await cluster.delete(r.NAMESPACES, None, name)


def phase(name: str) -> Callable[[JSON], bool]:
    return lambda one: ((one.get("status") or {}).get("state") or {}).get("phase") == name


def group_phase(name: str, running: int) -> Callable[[JSON], bool]:
    def reached(group: JSON) -> bool:
        status = group.get("status") or {}
        return (status.get("phase"), status.get("running", 0)) == (name, running)

    return reached


async def pods_once(
    cluster: Cluster, namespace: str, condition: Callable[[list[JSON]], object], seconds: float = 120
) -> list[JSON]:
    """Return the namespace's pods once they are so."""
    found: list[JSON] = []
    try:
        async with asyncio.timeout(seconds):
            while True:
                found = (await cluster.list(r.PODS, namespace)).items
                if condition(found):
                    return found
                await asyncio.sleep(0.05)
    except TimeoutError:
        told = {one["metadata"]["name"]: (one["status"], one["metadata"].get("annotations")) for one in found}
        raise AssertionError(f"in vain: {told}") from None


def run(count: int) -> Callable[[list[JSON]], bool]:
    return placed(count, waiting=0)


def placed(running: int, waiting: int) -> Callable[[list[JSON]], bool]:
    def are_so(pods: list[JSON]) -> bool:
        nodes = [pod["spec"].get("nodeName") for pod in pods]
        phases = [pod["status"]["phase"] for pod in pods]
        return all(nodes) and len(nodes) == running + waiting and phases.count("Running") == running

    return are_so


# ------------------------------------------------------------------------------------ Volcano's manifests
@dataclass(frozen=True)
class Scene:
    """The pods and other objects of a manifest once it runs."""

    cluster: Cluster
    namespace: str
    pods: list[JSON]

    def of_task(self, task: str) -> list[JSON]:
        found = [one for one in self.pods if one["metadata"]["labels"].get(names.TASK_SPEC) == task]
        return sorted(found, key=lambda one: int(one["metadata"]["labels"][names.TASK_INDEX]))

    async def get(self, resource: Resource, name: str) -> JSON:
        return await self.cluster.get(resource, self.namespace, name)


Check = Callable[[Scene], Awaitable[None]]


def env(pod: JSON) -> dict[str, str | None]:
    return {one["name"]: one.get("value") for one in pod["spec"]["containers"][0].get("env", ())}


async def an_mpi_masters_hosts(scene: Scene) -> None:
    hosts = (await scene.get(r.CONFIGMAPS, "lm-mpi-job-svc"))["data"]["mpiworker.host"]
    assert hosts.split() == [f"lm-mpi-job-mpiworker-{index}.lm-mpi-job" for index in range(2)]
    secret = await scene.get(r.SECRETS, "lm-mpi-job-ssh")
    assert set(secret["data"]) == {"id_rsa", "id_rsa.pub", "authorized_keys", "config"}
    for pod in scene.pods:
        mounts = {one["mountPath"] for one in pod["spec"]["containers"][0]["volumeMounts"]}
        assert {"/etc/volcano", "/root/.ssh"} <= mounts


async def keys_elsewhere(scene: Scene) -> None:
    for index, pod in enumerate(scene.of_task("default-nginx")):
        mounts = {one["mountPath"] for one in pod["spec"]["containers"][0]["volumeMounts"]}
        assert "/home/user/.ssh" in mounts
        assert env(pod)["VC_TASK_INDEX"] == env(pod)["VK_TASK_INDEX"] == str(index)


async def an_mpi_plugins_hosts(scene: Scene) -> None:
    [master] = scene.of_task("mpimaster")
    workers = [f"lm-mpi-job-mpiworker-{index}.lm-mpi-job" for index in range(2)]
    assert env(master)["MPI_HOST"] == ",".join(workers)
    await an_mpi_masters_hosts(scene)


async def a_pytorch_workers_rank(scene: Scene) -> None:
    for index, pod in enumerate(scene.of_task("worker")):
        known = env(pod)
        assert (known["MASTER_ADDR"], known["MASTER_PORT"]) == ("pytorch-job-master-0.pytorch-job", "23456")
        assert (known["WORLD_SIZE"], known["RANK"]) == ("3", str(index + 1))
        [waits] = pod["spec"]["initContainers"]
        assert waits["image"] == "busybox:1.36.1"


async def tensorflows_hosts(scene: Scene) -> None:
    hosts = (await scene.get(r.CONFIGMAPS, "tensorflow-dist-mnist-svc"))["data"]
    assert hosts["ps.host"].split() == ["tensorflow-dist-mnist-ps-0.tensorflow-dist-mnist"]
    assert hosts["VC_WORKER_NUM"] == "2"


async def a_ray_head(scene: Scene) -> None:
    [head] = scene.of_task("head")
    assert "ray start --head" in " ".join(head["spec"]["containers"][0]["command"])
    service = await scene.get(r.SERVICES, "ray-cluster-job-head-svc")
    assert {one["port"] for one in service["spec"]["ports"]} == {6379, 8265, 10001}
    for worker in scene.of_task("worker"):
        command = " ".join(worker["spec"]["containers"][0]["command"])
        assert "--address=ray-cluster-job-head-0.ray-cluster-job" in command


async def a_schedulers_host(scene: Scene) -> None:
    [pod] = scene.of_task("scheduler")
    assert f"{pod['spec']['hostname']}.{pod['spec']['subdomain']}" == env(pod)["DMLC_PS_ROOT_URI"]


async def tasks_in_order(scene: Scene) -> None:
    begun = [
        [pod["metadata"]["creationTimestamp"] for pod in scene.of_task(f"job-nginx{number}")]
        for number in (1, 2, 3)
    ]
    assert [len(times) for times in begun] == [1, 5, 5]
    assert max(begun[0]) <= min(begun[1])
    assert max(begun[1]) <= min(begun[2])


async def priorities_of_job_and_task(scene: Scene) -> None:
    found = {pod["metadata"]["labels"][names.TASK_SPEC]: pod["spec"]["priority"] for pod in scene.pods}
    assert found == {"preempt-task": 10, "non-preempt-task": 1}


async def a_group_of_two_for_three_pods(scene: Scene) -> None:
    [group] = (await scene.cluster.list(r.PODGROUPS, scene.namespace)).items
    assert (group["spec"]["minMember"], group["spec"]["queue"]) == (2, "default")
    assert group["spec"]["minResources"]["cpu"] == "2"

    def name_it(pods: list[JSON]) -> bool:
        """Their PodGroup is written on pods off the path of their bindings."""
        named = [pod["metadata"].get("annotations", {}).get(names.GROUP_NAME) for pod in pods]
        return named == [group["metadata"]["name"]] * 3

    await pods_once(scene.cluster, scene.namespace, name_it)


async def the_queue_of_the_annotation(scene: Scene) -> None:
    [group] = (await scene.cluster.list(r.PODGROUPS, scene.namespace)).items
    assert group["spec"]["queue"] == "test"


async def counted_hypernodes(scene: Scene) -> None:
    for name, count in (("s0", 2), ("s4", 4), ("s6", 8)):
        await until(
            scene.cluster,
            r.HYPERNODES,
            None,
            name,
            lambda one, n=count: (one.get("status") or {}).get("nodeCount") == n,
        )


async def a_started_cron_job(scene: Scene) -> None:
    cron = await scene.get(r.CRONJOBS, "volcano-cronjob-example")
    assert (cron["spec"]["schedule"], cron["spec"]["suspend"]) == ("*/5 * * * *", False)


@dataclass(frozen=True)
class Manifest:
    """A file of the guide, how many pods run in the end, and what else is then true."""

    file: str
    pods: int
    check: Check | None = None
    waiting: int = 0
    """Pods that have a node and do not run."""
    after: tuple[str, ...] = ()
    """What the guide applies before it."""
    remove: tuple[tuple[str, ...], ...] = ()
    """What is deleted, when it is not the file as it stands."""


LEAVES, BRANCHES = ("subchild-queue-a1", "subchild-queue-a2"), ("child-queue-a", "child-queue-b")
MANIFESTS = [
    Manifest("job", 6),
    Manifest("job-plugin", 3, keys_elsewhere),
    Manifest("quickstart-job", 3),
    Manifest("job-policy", 3, tensorflows_hosts),
    Manifest("job-ttl", 1, remove=(("vcjob", "--all"),)),  # its name is generated
    Manifest("min-success", 6),
    Manifest("priority-class", 2, priorities_of_job_and_task),
    Manifest("numa-aware", 1),
    Manifest("network-topology", 3, counted_hypernodes, after=("hypernodes-leaf", "hypernodes-upper")),
    Manifest("task-start-dependency", 11, tasks_in_order),
    Manifest("task-start-dependency-mpi", 11),
    Manifest("mpi", 3, an_mpi_masters_hosts),
    Manifest("mpi-plugin", 3, an_mpi_plugins_hosts),
    Manifest("horovod", 4),
    Manifest("pytorch-plugin", 1, a_pytorch_workers_rank, waiting=2),  # in their init container, for ever
    Manifest("tensorflow", 3, tensorflows_hosts),
    Manifest("ray", 3, a_ray_head),
    Manifest("mxnet", 5, a_schedulers_host),
    Manifest("paddlepaddle", 4),
    Manifest("mindspore-gpu", 3),
    Manifest("elastic-job", 10),
    Manifest("job-in-queue", 1, after=("queue",)),
    Manifest("hierarchical-queue", 1, remove=(("vcjob", "job-a"), ("queue", *LEAVES), ("queue", *BRANCHES))),
    Manifest("hierarchy-jobs", 24, after=("hierarchy-queues",)),
    Manifest("deployment", 1, the_queue_of_the_annotation, after=("deployment-queue",)),
    Manifest("deployment-min-member", 3, a_group_of_two_for_three_pods),
    Manifest("replicaset", 8),
    Manifest("cronjob", 0, a_started_cron_job),
]


async def life(world: World, cluster: Cluster, manifest: Manifest, slots: asyncio.Semaphore) -> None:
    """Apply a manifest, see it run whole and as it should be, delete it, and see nothing of it stay."""
    space = f"guide-{manifest.file}"

    async def kubectl(*words: str) -> str:
        async with slots:
            return await asyncio.to_thread(world.kubectl, "-n", space, *words)

    files = [
        word for name in (*manifest.after, manifest.file) for word in ("-f", str(GUIDE / f"{name}.yaml"))
    ]
    generated = manifest.file == "job-ttl"
    await a_namespace(cluster, space)
    await kubectl("create" if generated else "apply", *files)
    pods = await pods_once(cluster, space, placed(manifest.pods, manifest.waiting))
    await groups_run(cluster, space, manifest.pods)
    if not generated:
        await kubectl("apply", *files)  # once more: it is no change
    if manifest.check is not None:
        await manifest.check(Scene(cluster, space, pods))
    for what in manifest.remove or (files,):
        await kubectl("delete", "--wait=false", *what)
    await nothing_stays(cluster, space)


async def groups_run(cluster: Cluster, namespace: str, pods: int) -> None:
    """Wait until the PodGroups say that all pods run."""
    async with asyncio.timeout(60):
        while True:
            groups = [one["status"] for one in (await cluster.list(r.PODGROUPS, namespace)).items]
            if sum(one.get("running", 0) for one in groups) == pods and all(
                one["phase"] == "Running" for one in groups
            ):
                return
            await asyncio.sleep(0.05)


async def nothing_stays(cluster: Cluster, namespace: str) -> None:
    kinds = (r.JOBS, r.PODGROUPS, r.PODS, r.SERVICES, r.CONFIGMAPS, r.SECRETS, r.NETWORKPOLICIES)
    left: list[str] = []
    try:
        async with asyncio.timeout(90):  # a new garbage collector learns of our kinds after half a minute
            while True:
                left = [
                    f"{kind.kind} {one['metadata']['name']}"
                    for kind in kinds
                    for one in (await cluster.list(kind, namespace)).items
                    if one["metadata"]["name"] not in ("kube-root-ca.crt", "kubernetes")
                ]
                if not left:
                    return
                await asyncio.sleep(0.5)
    except TimeoutError:
        raise AssertionError(f"left of it: {left}") from None


@pytest.fixture(scope="module")
def lives(world: World) -> dict[str, BaseException | None]:
    """What went wrong with each manifest: all of them live in the cluster at the same time."""

    async def all_of_them() -> list[BaseException | None]:
        cluster = connect(str(world.kubeconfig), clock=SystemClock())
        slots = asyncio.Semaphore(4)
        try:
            await made(cluster, r.QUEUES, "", "testing")  # the job with a time to live is for it
            ways = (life(world, cluster, one, slots) for one in MANIFESTS)
            return await asyncio.gather(*ways, return_exceptions=True)
        finally:
            await cluster.close()

    return dict(zip((one.file for one in MANIFESTS), asyncio.run(all_of_them()), strict=True))


@pytest.mark.parametrize("manifest", [one.file for one in MANIFESTS])
def test_a_manifest_of_volcanos_guides_runs_whole_and_goes_whole(
    lives: dict[str, BaseException | None], manifest: str
) -> None:
    if (wrong := lives[manifest]) is not None:
        raise wrong


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("duplicatedPolicyEvent", "PodFailed"),
        ("duplicatedTaskName", "spec.tasks[1].name"),
        ("minAvailable", "spec.minAvailable"),
    ],
)
def test_what_volcano_refuses_is_refused_with_the_reason(world: World, file: str, reason: str) -> None:
    assert reason in world.refused("apply", "-f", str(GUIDE / f"invalid-{file}.yaml"))


async def test_the_guides_flow_succeeds_in_its_order_and_its_jobs_go(world: World, cluster: Cluster) -> None:
    world.kubectl("apply", "-f", str(GUIDE / "jobtemplate.yaml"))
    brief = {
        "op": "add",
        "path": "/spec/tasks/0/template/metadata/annotations",
        "value": {SIM_SECONDS: "0.2"},
    }
    for template in "abcde":
        await cluster.patch(r.JOBTEMPLATES, "default", template, [brief], kind=Patch.JSON)
    world.kubectl("apply", "-f", str(GUIDE / "jobflow.yaml"))
    flow = await until(cluster, r.JOBFLOWS, "default", "test", phase("Succeed"), 60)
    lives = {one["name"].removeprefix("test-"): one for one in flow["status"]["jobStatusList"]}
    for first, then in ("ab", "bc", "bd", "ce", "de"):
        assert lives[first]["endTimestamp"] <= lives[then]["startTimestamp"]
    for step in "abcde":
        await until_gone(cluster, r.JOBS, "default", f"test-{step}")
    for file in ("jobflow", "jobtemplate"):
        world.kubectl("delete", "-f", str(GUIDE / f"{file}.yaml"))


# ------------------------------------------------------------------------------------- by hand, with kubectl
async def test_the_examples_are_taken_together_and_go_to_their_ends(
    world: World, cluster: Cluster, namespace: str
) -> None:
    """One of them asks for a claim, which somebody has to give a volume."""
    provisioner = asyncio.create_task(Provisioner(cluster, SystemClock()).run())
    try:
        await take_the_examples(world, cluster, namespace)
    finally:
        provisioner.cancel()


async def take_the_examples(world: World, cluster: Cluster, namespace: str) -> None:
    examples = [
        word
        for name in ("train", "pytorch", "jobflow")
        for word in ("-f", str(ROOT / "examples" / f"{name}.yaml"))
    ]
    world.kubectl("-n", namespace, "apply", *examples)
    for kind, name, end in (
        (r.JOBS, "train", "Completed"),
        (r.JOBS, "pytorch-job", "Completed"),
        (r.JOBFLOWS, "nightly", "Succeed"),
    ):
        await until(cluster, kind, namespace, name, phase(end), 60)
    head, row = world.kubectl("-n", namespace, "get", "jobflow").splitlines()
    assert (head.split(), row.split()[:2]) == (["NAME", "STATUS", "AGE"], ["nightly", "Succeed"])


def a_job(name: str, script: str, *, replicas: int = 1, **spec: Any) -> JSON:
    pod = {"restartPolicy": "Never", "containers": [container("main", script, cpu="1")]}
    tasks = [{"name": "main", "replicas": replicas, "template": {"spec": pod}}]
    body = {"apiVersion": r.JOBS.api_version, "kind": "Job", "metadata": {"name": name}}
    return {**body, "spec": {"schedulerName": "volcano", "tasks": tasks, **spec}}


async def test_a_job_is_scaled_by_its_manifest_and_nothing_else_of_it_changes(
    world: World, cluster: Cluster, namespace: str
) -> None:
    def apply(replicas: int, **spec: Any) -> str:
        body = a_job("grows", "sleep 1000", replicas=replicas, plugins={"svc": []}, **spec)
        return world.kubectl("-n", namespace, "apply", "-f", "-", given=json.dumps(body))

    apply(2, minAvailable=1)
    first = await pods_once(cluster, namespace, run(2))
    apply(2, minAvailable=1)
    apply(4, minAvailable=1)
    grown = await pods_once(cluster, namespace, run(4))
    assert {pod["metadata"]["uid"] for pod in first} <= {pod["metadata"]["uid"] for pod in grown}
    apply(1, minAvailable=1)
    await pods_once(cluster, namespace, run(1))
    with pytest.raises(AssertionError, match=r"spec\.maxRetry: may not change"):
        apply(1, minAvailable=1, maxRetry=9)
    job = await until(cluster, r.JOBS, namespace, "grows", phase("Running"))
    assert (job["status"].get("retryCount", 0), job["status"].get("version", 0)) == (0, 0)


async def test_describe_tells_each_restart_and_why_the_job_failed(
    world: World, cluster: Cluster, namespace: str
) -> None:
    policies = [{"exitCode": 3, "action": "RestartJob"}]
    body = a_job("fails", "sleep 1; exit 3", policies=policies, maxRetry=2)
    world.kubectl("-n", namespace, "apply", "-f", "-", given=json.dumps(body))
    await until(cluster, r.JOBS, namespace, "fails", phase("Failed"))
    line = "Start to execute action RestartJob: pod fails-main-0 failed with exit code 3"
    told = ""

    def is_told_twice() -> bool:  # events are written beside a job's way
        nonlocal told
        told = world.kubectl("-n", namespace, "describe", "vcjob", "fails")
        return told.count(line) == 2

    await eventually(is_told_twice, what="both events")
    assert "MaxRetryExceeded" in told
    assert "restarted 2 times, maxRetry is 2" in told


async def test_a_job_that_waits_in_a_closed_queue_starts_when_the_queue_is_opened(
    world: World, cluster: Cluster, namespace: str
) -> None:
    queue = "first-use"
    await made(cluster, r.QUEUES, "", queue, spec={"weight": 1, "capability": {"cpu": "1"}})

    def apply(name: str, script: str) -> None:
        body = a_job(name, script, queue=queue)
        world.kubectl("-n", namespace, "apply", "-f", "-", given=json.dumps(body))

    def order(action: str) -> None:
        target = {"apiVersion": r.QUEUES.api_version, "kind": "Queue", "name": queue, "uid": ""}
        body = {"apiVersion": r.COMMANDS.api_version, "kind": "Command", "action": action, "target": target}
        given = json.dumps({**body, "metadata": {"generateName": "order-"}})
        world.kubectl("-n", namespace, "create", "-f", "-", given=given)

    apply("runs", "sleep 1000")
    await until(cluster, r.JOBS, namespace, "runs", phase("Running"))
    apply("waits", "true")
    waits = await until(cluster, r.JOBS, namespace, "waits", phase("Pending"))
    group = names.podgroup_name("waits", waits["metadata"]["uid"])
    await until(cluster, r.PODGROUPS, namespace, group, lambda one: one["status"].get("conditions"))
    order("CloseQueue")
    await until(cluster, r.QUEUES, None, queue, lambda one: one["status"]["state"] == "Closing")
    with pytest.raises(AssertionError, match=r'spec\.queue: queue "first-use" is closing'):
        apply("late", "true")
    world.kubectl("-n", namespace, "delete", "vcjob", "runs")
    await pods_once(cluster, namespace, lambda pods: not pods)
    order("OpenQueue")
    await until(cluster, r.JOBS, namespace, "waits", phase("Completed"))
    told = world.kubectl("describe", "queue", queue)
    assert "Close queue succeed" in told
    assert "Open queue succeed" in told
    world.kubectl("-n", namespace, "delete", "vcjob", "waits")
    world.kubectl("delete", "queue", queue)


# ------------------------------------------------------------------------------- what operators create
BATCH_JOBS = Resource("batch", "v1", "jobs", "Job")


async def made(cluster: Cluster, kind: Resource, namespace: str, name: str, **more: Any) -> JSON:
    metadata = {"name": name, **more.pop("metadata", {})}
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **more}
    return await cluster.create(kind, namespace, body)


def owned_by(owner: JSON) -> list[JSON]:
    meta = owner["metadata"]
    return [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": meta["name"],
            "uid": meta["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def container(name: str, command: str = "train", **requests: str) -> JSON:
    return {
        "name": name,
        "image": name,
        "command": ["sh", "-c", command],
        "resources": {"requests": requests},
    }


def bound(pods: list[JSON]) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName"))


async def test_a_kubeflow_train_job_starts_whole_is_suspended_and_goes(
    world: World, cluster: Cluster, namespace: str
) -> None:
    """Trainer 2: the PodGroup of all nodes, then batch Jobs whose pods name it."""
    queue = "high-priority-queue"
    await made(cluster, r.QUEUES, "", queue, spec={"weight": 1})
    train = await made(cluster, TRAINJOBS, namespace, "volcano-example", spec={"suspend": False})
    group = {
        "apiVersion": r.PODGROUPS.api_version,
        "kind": "PodGroup",
        "metadata": {"name": "volcano-example", "namespace": namespace, "ownerReferences": owned_by(train)},
        "spec": {"minMember": 4, "minResources": {"cpu": "4", "memory": "8Gi"}, "queue": queue},
    }
    words = ("apply", "--server-side", "--field-manager=trainer", "-f", "-")
    world.kubectl(*words, given=json.dumps(group))
    for name, nodes in (("launcher", 1), ("node", 3)):
        pod = {
            "metadata": {"annotations": {names.GROUP_NAME: "volcano-example"}},
            "spec": {
                "schedulerName": "volcano",
                "restartPolicy": "Never",
                "containers": [container(name, cpu="1", memory="2Gi")],
            },
        }
        spec = {"parallelism": nodes, "completions": nodes, "completionMode": "Indexed", "template": pod}
        await made(
            cluster, BATCH_JOBS, namespace, f"volcano-example-{name}-0",
            metadata={"ownerReferences": owned_by(train)}, spec=spec,
        )  # fmt: skip
    await pods_once(cluster, namespace, run(4))
    seen = await until(cluster, r.PODGROUPS, namespace, "volcano-example", group_phase("Running", 4))
    assert seen["spec"]["minResources"] == {"cpu": "4", "memory": "8Gi"}
    assert len((await cluster.list(r.PODGROUPS, namespace)).items) == 1

    jobs = [f"volcano-example-{name}-0" for name in ("launcher", "node")]
    for suspended, count in ((True, 0), (False, 4)):
        for job in jobs:
            await cluster.patch(BATCH_JOBS, namespace, job, {"spec": {"suspend": suspended}})
        await pods_once(cluster, namespace, run(count))
    await until(cluster, r.PODGROUPS, namespace, "volcano-example", group_phase("Running", 4))
    world.kubectl("-n", namespace, "delete", "trainjob", "volcano-example", "--wait=false")
    await nothing_stays(cluster, namespace)
    await cluster.delete(r.QUEUES, None, queue)


async def test_a_spark_application_runs_from_its_driver_to_its_end(
    world: World, cluster: Cluster, namespace: str
) -> None:
    """spark-operator: a PodGroup of one, the driver's, with the resources of all; executors join it."""
    app = await made(cluster, SPARKAPPLICATIONS, namespace, "spark-pi-volcano", spec={"mode": "cluster"})
    group = "spark-spark-pi-volcano-pg"
    await made(
        cluster, r.PODGROUPS, namespace, group, metadata={"ownerReferences": owned_by(app)},
        spec={"minMember": 1, "minResources": {"cpu": "3", "memory": "2688Mi"}}, status={"phase": "Pending"},
    )  # fmt: skip

    async def spark_pod(name: str, role: str, owner: JSON, command: str) -> JSON:
        return await made(
            cluster, r.PODS, namespace, name,
            metadata={
                "labels": {"spark-role": role, "spark-app-name": "spark-pi-volcano"},
                "annotations": {names.GROUP_NAME: group},
                "ownerReferences": owned_by(owner),
            },
            spec={
                "schedulerName": "volcano",
                "restartPolicy": "Never",
                "containers": [container(role, command, cpu="1", memory="896Mi")],
            },
        )  # fmt: skip

    driver = await spark_pod("spark-pi-volcano-driver", "driver", app, "sleep 4")
    await until(cluster, r.PODGROUPS, namespace, group, group_phase("Running", 1))
    executors = [f"spark-pi-exec-{number}" for number in (1, 2)]
    for name in executors:
        await spark_pod(name, "executor", driver, "sleep 1000")
    await until(cluster, r.PODGROUPS, namespace, group, group_phase("Running", 3))
    await until(
        cluster,
        r.PODS,
        namespace,
        "spark-pi-volcano-driver",
        lambda pod: pod["status"]["phase"] == "Succeeded",
    )
    for name in executors:
        await cluster.delete(r.PODS, namespace, name)  # as the driver does when it is done
    ended = await until(cluster, r.PODGROUPS, namespace, group, group_phase("Completed", 0))
    assert ended["status"]["succeeded"] == 1
    await cluster.delete(r.PODGROUPS, namespace, group)  # as the operator does
    world.kubectl("-n", namespace, "delete", "sparkapplication", "spark-pi-volcano", "--wait=false")
    await nothing_stays(cluster, namespace)


async def test_a_ray_job_starts_its_cluster_whole_and_then_its_submitter(
    world: World, cluster: Cluster, namespace: str
) -> None:
    """KubeRay: head and workers are the gang; the submitter joins it, and its end gives the gang up."""
    queue, group = "kuberay-test-queue", "ray-rayjob-sample-0-pg"
    capability = {"cpu": "4", "memory": "6Gi"}
    await made(cluster, r.QUEUES, "", queue, spec={"weight": 1, "capability": capability})
    labels = {names.QUEUE_NAME: queue}
    job = await made(cluster, RAYJOBS, namespace, "rayjob-sample-0", metadata={"labels": labels}, spec={})
    await made(
        cluster, r.PODGROUPS, namespace, group,
        metadata={"ownerReferences": owned_by(job), "annotations": {"example.org/of": "the job"}},
        spec={"minMember": 3, "minResources": {"cpu": "3500m", "memory": "4296Mi"}, "queue": queue},
        status={"phase": "Pending"},
    )  # fmt: skip
    rays = await made(
        cluster,
        RAYCLUSTERS,
        namespace,
        "rayjob-sample-0-abcde",
        metadata={"ownerReferences": owned_by(job)},
        spec={},
    )

    def member(task: str, command: str = "ray start") -> JSON:
        return {
            "metadata": {
                "labels": {**labels, "ray.io/cluster": "rayjob-sample-0-abcde"},
                "annotations": {names.GROUP_NAME: group, names.TASK_SPEC: task},
            },
            "spec": {
                "schedulerName": "volcano",
                "restartPolicy": "Never",
                "containers": [container("ray", command, cpu="500m" if task == "submitter" else "1")],
            },
        }

    async def ray_pod(name: str, task: str) -> None:
        body = member(task)
        body["metadata"]["ownerReferences"] = owned_by(rays)
        await made(cluster, r.PODS, namespace, name, **body)

    await ray_pod("head", "headgroup")
    await ray_pod("small-group-worker-1", "small-group")
    await until(
        cluster, r.PODGROUPS, namespace, group, lambda one: (one.get("status") or {}).get("conditions")
    )
    assert bound((await cluster.list(r.PODS, namespace)).items) == []
    await ray_pod("small-group-worker-2", "small-group")
    await pods_once(cluster, namespace, run(3))
    seen = await until(cluster, r.PODGROUPS, namespace, group, group_phase("Running", 3))
    assert seen["metadata"]["annotations"]["example.org/of"] == "the job"

    spec = {"backoffLimit": 0, "template": member("submitter", "sleep 1")}
    await made(
        cluster,
        BATCH_JOBS,
        namespace,
        "rayjob-sample-0",
        metadata={"ownerReferences": owned_by(job)},
        spec=spec,
    )
    await until(
        cluster, BATCH_JOBS, namespace, "rayjob-sample-0", lambda one: one["status"].get("succeeded") == 1
    )
    await cluster.delete(RAYCLUSTERS, namespace, "rayjob-sample-0-abcde")
    await cluster.patch(
        r.PODGROUPS,
        namespace,
        group,
        {"spec": {"minMember": 0, "minResources": {"cpu": None, "memory": None}}},
    )
    await pods_once(
        cluster, namespace, lambda pods: all(pod["status"]["phase"] == "Succeeded" for pod in pods)
    )
    await until(cluster, r.PODGROUPS, namespace, group, group_phase("Completed", 0))
    world.kubectl("-n", namespace, "delete", "rayjob", "rayjob-sample-0", "--wait=false")
    await nothing_stays(cluster, namespace)
    await cluster.delete(r.QUEUES, None, queue)
