"""The webhooks as a real API server calls them, with kubectl; and what goes on while they are dead."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared.api.resources import (
    COMMANDS,
    CRONJOBS,
    HYPERNODES,
    JOBFLOWS,
    JOBS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PODGROUPS,
    PODS,
    QUEUES,
    SECRETS,
    SERVICEACCOUNTS,
    VALIDATING_WEBHOOKS,
)
from shared.api.webhooks import PATHS
from shared.clock import SystemClock
from shared.errors import AlreadyExists, Refused, Unavailable
from shared.kube.client import connect
from shared.kube.port import Cluster, Resource
from tests.fixtures.kube import install_crds, start_control_plane, until
from tests.fixtures.kube_platform import kube_platform
from tests.fixtures.waiting import eventually
from tests.fixtures.webhooks import NAMESPACE, install, is_trusted, webhooks
from tests.unit.admission.worlds import VALID, spoiled
from tools.kube import ControlPlane

KUBECTL = shutil.which("kubectl")
EXPIRY = "pumice_admission_webhook_certificate_expiry_seconds"
BUDGET = {"volcano.sh/jdb-min-available": "none"}
OPTIONS: dict[str, Any] = {
    "paths": PATHS,
    "trusted_users": ("somebody",),
    "pod_annotations": ("team",),
    "pod_namespaces": ("gpu",),
}
BAD = {
    HYPERNODES: ({"tier": 1, "members": [{"type": "Node", "selector": {"regexMatch": {"pattern": "a(b"}}}]},
                 "spec.members[0].selector.regexMatch.pattern: "),
    JOBFLOWS: ({"flows": [{"name": "a", "dependsOn": {"targets": ["z"]}}]}, "spec.flows[0].dependsOn.targets[0]: "),
    CRONJOBS: ({"schedule": "often", "jobTemplate": {"spec": VALID["spec"]}}, "spec.schedule: "),
    PODGROUPS: ({"queue": "nowhere"}, "spec.queue: "),
    QUEUES: ({"parent": "nowhere"}, "spec.parent: "),
}  # fmt: skip


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of this module's own: webhooks, dead ones too, are the whole cluster's."""
    made = start_control_plane(tmp_path_factory.mktemp("kube"), node_lifecycle=False)
    yield made
    made.kill()


@pytest.fixture
async def cluster(plane: ControlPlane) -> AsyncIterator[Cluster]:
    client = connect(str(plane.kubeconfig), clock=SystemClock())
    await install_crds(client)
    for resource, name, spec in (
        (NAMESPACES, "team", {}),
        (QUEUES, "research", {}),
        (QUEUES, "leaf", {"parent": "research"}),
    ):
        with suppress(AlreadyExists):
            await client.create(resource, None, obj(resource, name, spec))
    await until(client, SERVICEACCOUNTS, "team", "default")
    yield client
    for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        await client.delete(resource, None, "pumice")
    await client.close()


def obj(resource: Resource, name: str, spec: Any, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


def job(name: str, *changes: tuple[str, Any]) -> dict[str, Any]:
    return spoiled(("metadata/name", name), ("spec/queue", "leaf"), *changes)


def pod(name: str, scheduler: str = "default-scheduler", **annotations: str) -> dict[str, Any]:
    spec = {"schedulerName": scheduler, "containers": [{"name": "main", "image": "x"}]}
    return obj(PODS, name, spec, annotations=annotations)


Kubectl = Callable[..., Awaitable[str]]


@pytest.fixture
def kubectl(plane: ControlPlane, tmp_path: Path) -> Kubectl:
    async def run(*arguments: str, stdin: Any = None, code: int = 0) -> str:
        process = await asyncio.create_subprocess_exec(
            str(KUBECTL), f"--kubeconfig={plane.kubeconfig}", f"--cache-dir={tmp_path}", *arguments,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        output, _ = await asyncio.wait_for(process.communicate(yaml.safe_dump(stdin).encode()), 60)
        assert process.returncode == code, output.decode()
        return output.decode()

    return run


@pytest.mark.kubectl
@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
async def test_kubectl_apply_of_a_bad_job_prints_every_reason(cluster, kubectl):
    async with webhooks(cluster) as running:
        await install(cluster, running.url)
        await is_trusted(cluster)
        bad = job("bad", ("spec/queue", "leef"), ("spec/tasks/1/name", "master"), ("spec/plugins/x", []))
        printed = await kubectl("apply", "-f", "-", stdin=bad, code=1)
        assert printed.splitlines()[0].strip() == 'The Job "bad" is invalid:'
        assert {line.partition(":")[0] for line in printed.splitlines()[1:]} == {
            "* spec.tasks[1].name", "* spec.plugins[x]", "* spec.queue",
        }  # fmt: skip
        assert "created" in await kubectl("apply", "-f", "-", stdin=job("good"))
        changed = await kubectl(
            "patch", "vcjob", "-n", "team", "good", "--type=merge", "-p", '{"spec":{"maxRetry":9}}', code=1
        )
        assert "spec.maxRetry: may not change" in changed
        refused = await kubectl("delete", "queue", "research", code=1)
        assert 'metadata.name: queue "research" has queues below it: delete "leaf" first' in refused


async def test_every_kind_is_asked_about_and_pods_only_when_they_are_ours(cluster):
    """The API server compiles and evaluates the conditions: nobody else can say that they are right."""
    async with webhooks(cluster, webhook_paths=PATHS) as running:
        await install(cluster, running.url, **OPTIONS)
        await is_trusted(cluster)
        made = await cluster.create(JOBS, "team", job("defaults", ("spec/minAvailable", ...)))
        assert (made["spec"]["minAvailable"], made["spec"]["schedulerName"]) == (4, "volcano")
        for resource, (spec, reason) in BAD.items():
            with pytest.raises(Refused) as caught:
                await cluster.create(
                    resource, "team" if resource.namespaced else None, obj(resource, "one", spec)
                )
            assert reason in str(caught.value)
        with pytest.raises(Refused, match="jdb-min-available"):
            await cluster.create(PODS, "team", pod("ours", "volcano", **BUDGET))
        await cluster.create(PODS, "team", pod("ours-too", "volcano", team="a"))
        await cluster.create(PODS, "team", pod("foreign", **BUDGET))
        await cluster.patch(QUEUES, None, "leaf", {"metadata": {"labels": {"a": "b"}}})
        with pytest.raises(Refused, match="hierarchy-weights"):
            await cluster.patch(
                QUEUES, None, "leaf", {"metadata": {"annotations": {"volcano.sh/hierarchy-weights": "x"}}}
            )

        def asked(path: str) -> float:
            verdicts = ("allowed", "patched", "denied")
            name = "pumice_admission_webhook_answers_total"
            return sum(running.metric(name, path=path, verdict=verdict) for verdict in verdicts)

        assert (asked("/pods/validate"), asked("/pods/mutate")) == (1, 1)
        assert asked("/queues/validate") == 2, "one create, one change of an annotation that a rule reads"


async def test_a_job_is_placed_where_the_resource_group_of_its_pods_says(cluster):
    """The group is not in the template: what the webhook adds counts before there is a pod."""
    trains = {"key": "only", "operator": "Equal", "value": "train", "effect": "NoSchedule"}
    group = {"resourceGroup": "train", "labels": {"group": "train"}, "tolerations": [trains]}
    template = {
        "metadata": {"annotations": {"volcano.sh/resource-group": "train"}},
        "spec": pod("x")["spec"] | {"schedulerName": "volcano", "restartPolicy": "Never"},
    }
    tasks = [{"name": "t", "replicas": 2, "template": template}]
    async with webhooks(cluster, resource_groups=[group]) as running:
        await install(cluster, running.url)
        await is_trusted(cluster)
        nodes = ("any=1x0", "train=1x0,label:group=train,taint:only=train:NoSchedule")
        async with kube_platform(cluster, *nodes):
            await cluster.create(JOBS, "team", obj(JOBS, "grouped", {"queue": "leaf", "tasks": tasks}))
            for index in range(2):
                name = f"grouped-t-{index}"
                made = await until(
                    cluster, PODS, "team", name, lambda one: one["status"]["phase"] == "Running"
                )
                assert (made["spec"]["nodeName"], made["spec"]["nodeSelector"]) == (
                    "train-0",
                    group["labels"],
                )
            await cluster.delete(JOBS, "team", "grouped")


async def test_a_queue_in_use_is_closed_and_deleted_its_jobs_run_on_and_none_is_let_in(cluster):
    spec = pod("x")["spec"] | {"schedulerName": "volcano", "restartPolicy": "Never"}
    spec["containers"][0]["command"] = ["sleep", "1000"]
    tasks = [{"name": "t", "replicas": 2, "template": {"spec": spec}}]

    def in_use(name: str) -> dict[str, Any]:
        return obj(JOBS, name, {"queue": "in-use", "tasks": tasks})

    async def runs(name: str) -> None:
        await until(cluster, JOBS, "team", name, lambda one: (one.get("status") or {}).get("running") == 2)

    def is_state(state: str) -> Callable[[Any], bool]:
        return lambda one: (one.get("status") or {}).get("state") == state

    async def command(action: str) -> None:
        target = {"apiVersion": QUEUES.api_version, "kind": "Queue", "name": "in-use", "uid": ""}
        body = obj(COMMANDS, "", None, generateName="queue-") | {"action": action, "target": target}
        del body["metadata"]["name"], body["spec"]
        await cluster.create(COMMANDS, "team", body)

    async def is_refused(name: str) -> None:
        said: list[str] = []

        async def look() -> bool:  # the webhook goes by what it has seen of the queue
            try:
                await cluster.create(JOBS, "team", in_use(name))
            except Refused as error:
                said.append(str(error))
                return True
            await cluster.delete(JOBS, "team", name)
            return False

        await eventually(look, f"{name} is refused")
        assert "spec.queue" in said[0]
        assert "in-use" in said[0]

    async with webhooks(cluster) as hooked, kube_platform(cluster, "queued=1x0"):
        await install(cluster, hooked.url)
        await is_trusted(cluster)
        await cluster.create(QUEUES, None, obj(QUEUES, "in-use", {"weight": 1}))
        await until(cluster, QUEUES, None, "in-use", is_state("Open"))
        await cluster.create(JOBS, "team", in_use("runs"))
        await runs("runs")

        await command("CloseQueue")
        await until(cluster, QUEUES, None, "in-use", is_state("Closing"))
        await is_refused("late")
        await command("OpenQueue")
        await until(cluster, QUEUES, None, "in-use", is_state("Open"))
        await cluster.create(JOBS, "team", in_use("opened"))
        await runs("opened")

        await cluster.delete(QUEUES, None, "in-use")
        await is_refused("later")
        for name in ("runs", "opened"):
            await runs(name)
            await cluster.delete(JOBS, "team", name)


async def test_a_dead_webhook_stops_no_pod_that_is_not_ours_and_nobody_who_cleans_up(cluster):
    async with webhooks(cluster) as running:
        await install(cluster, running.url)
        await is_trusted(cluster)
        await cluster.create(JOBS, "team", job("kept"))
    await cluster.create(PODS, "team", pod("while-dead"))
    await cluster.create(PODS, "team", pod("while-dead-2", **BUDGET))
    await cluster.create(PODS, "team", pod("ours-while-dead", "volcano"))
    await cluster.create(PODS, "team", pod("ours-while-dead-2", "volcano", **BUDGET))
    await cluster.patch(JOBS, "team", "kept", {"metadata": {"annotations": {"a": "b"}}})
    await cluster.patch(JOBS, "team", "kept", {"status": {"version": 1}}, subresource="status")
    await cluster.delete(JOBS, "team", "kept")
    with pytest.raises(Unavailable, match=r"mutate\.jobs\.pumice\.dev"):
        await cluster.create(JOBS, "team", job("late"))


class MovedClock(SystemClock):
    """The machine's clock, set back."""

    def __init__(self) -> None:
        self.offset = -timedelta(days=61)

    def now(self):
        return super().now() + self.offset


async def test_the_api_server_believes_a_new_authority_without_a_pause(cluster):
    clock = MovedClock()
    lives = {"webhook_secret": "short-lived", "webhook_authority_days": 91}

    async def ask() -> None:
        with pytest.raises(Refused, match=r"spec\.queue"):  # by us, and never for want of an answer
            await cluster.create(JOBS, "team", job("never", ("spec/queue", "nowhere")))

    async with webhooks(cluster, clock=clock, **lives) as running:
        await install(cluster, running.url)
        await is_trusted(cluster)
        port = running.service.webhook_port
        before = running.metric(EXPIRY)
        clock.offset = timedelta()
        looked = {"metadata": {"annotations": {"look": "now"}}}  # as it does by itself twice a day
        await cluster.patch(SECRETS, NAMESPACE, "short-lived", looked)
        async with asyncio.timeout(60):
            while True:
                await ask()
                if running.metric(EXPIRY) != before:
                    break
                await asyncio.sleep(0.05)
        await ask()
    async with webhooks(cluster, clock=clock, webhook_port=port, **lives):
        await ask()  # over a new connection, so that the new certificate is shown
