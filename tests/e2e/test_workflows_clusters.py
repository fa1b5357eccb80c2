"""Flows, cron jobs and hypernodes with the whole platform, on the simulator and on a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from uuid import uuid4

import pytest
import yaml

from services.standalone.options import Options
from services.workflows.app import build
from services.workflows.settings import WorkflowsSettings
from shared.api import resources as r
from shared.clock import SystemClock
from shared.errors import AlreadyExists, NotFound, Refused
from shared.kube.client import HttpCluster, connect
from shared.kube.port import JSON, Cluster
from shared.telemetry.telemetry import Telemetry
from tests.fixtures.kube import install_crds, kubelets_of, until, until_gone
from tests.fixtures.platform import a_platform
from tests.fixtures.processes import ROOT
from tools.kube import ControlPlane

KINDS = {resource.kind: resource for resource in r.ALL}


@dataclass
class Place:
    cluster: Cluster
    namespace: str


@pytest.fixture(params=["simulated", "real"])
def plane(request: pytest.FixtureRequest) -> ControlPlane | None:
    return None if request.param == "simulated" else request.getfixturevalue("control_plane")


@pytest.fixture
async def place(plane: ControlPlane | None) -> AsyncIterator[Place]:
    """The whole platform on a cluster, and a namespace in it."""
    if plane is None:
        async with a_platform(Options(port=0)) as platform:
            yield Place(platform.cluster, "default")
        return
    kube = connect(str(plane.kubeconfig), clock=SystemClock())
    await install_crds(kube)
    name = f"test-{uuid4().hex[:8]}"
    await kube.create(
        r.NAMESPACES, None, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    )
    await until(kube, r.SERVICEACCOUNTS, name, "default")
    options = Options(port=0, kubeconfig=plane.kubeconfig)
    async with kubelets_of(kube, "flow=4x8"), a_platform(options) as platform:
        yield Place(platform.cluster, name)
    await kube.delete(r.NAMESPACES, None, name)
    await kube.close()


async def apply(place: Place, example: str) -> None:
    for body in yaml.safe_load_all((ROOT / "examples" / example).read_text()):
        resource = KINDS[body["kind"]]
        await place.cluster.create(resource, place.namespace if resource.namespaced else None, body)


def phase_is(*phases: str):
    return lambda obj: ((obj.get("status") or {}).get("state") or {}).get("phase") in phases


async def names_of(place: Place, resource) -> list[str]:
    return sorted(
        one["metadata"]["name"] for one in (await place.cluster.list(resource, place.namespace)).items
    )


async def test_the_example_flow_succeeds_step_by_step(place: Place):
    await apply(place, "jobflow.yaml")
    await until(place.cluster, r.JOBFLOWS, place.namespace, "nightly", phase_is("Running"))
    flow = await until(
        place.cluster, r.JOBFLOWS, place.namespace, "nightly", phase_is("Succeed", "Failed"), 60
    )
    status = flow["status"]
    assert status["state"]["phase"] == "Succeed"
    assert status["completedJobs"] == ["nightly-prepare", "nightly-train", "nightly-report"]
    lives = {one["name"]: one for one in status["jobStatusList"]}
    assert lives["nightly-prepare"]["endTimestamp"] <= lives["nightly-train"]["startTimestamp"]
    # The report began while the training ran: its probe, not its completion, was waited for.
    assert lives["nightly-report"]["startTimestamp"] < lives["nightly-train"]["endTimestamp"]
    train = await place.cluster.get(r.JOBS, place.namespace, "nightly-train")
    assert train["spec"]["tasks"][0]["replicas"] == 2
    assert train["status"]["succeeded"] == 2
    template = await until(
        place.cluster, r.JOBTEMPLATES, place.namespace, "train", lambda one: one.get("status")
    )
    assert template["status"]["jobDependsOnList"] == ["nightly-train"]
    await place.cluster.delete(r.JOBFLOWS, place.namespace, "nightly")
    for step in ("prepare", "train", "report"):
        await until_gone(place.cluster, r.JOBS, place.namespace, f"nightly-{step}")


async def test_a_job_of_a_cron_job_runs_to_its_end_and_is_noted(place: Place):
    body = yaml.safe_load((ROOT / "examples" / "cronjob.yaml").read_text())
    body["spec"] |= {"schedule": "@every 1s", "startingDeadlineSeconds": 60}
    await place.cluster.create(r.CRONJOBS, place.namespace, body)
    cron = await until(
        place.cluster,
        r.CRONJOBS,
        place.namespace,
        "nightly-evaluation",
        lambda one: (one.get("status") or {}).get("lastSuccessfulTime"),
    )
    assert cron["status"]["lastScheduleTime"]
    [name, *_] = await names_of(place, r.JOBS)
    job = await place.cluster.get(r.JOBS, place.namespace, name)
    stamp = job["metadata"]["annotations"]["volcano.sh/cronjob-scheduled-timestamp"]
    assert stamp.endswith(("+01:00", "+02:00"))
    await place.cluster.delete(r.CRONJOBS, place.namespace, "nightly-evaluation")
    await until_gone(place.cluster, r.JOBS, place.namespace, name)


async def test_the_example_hypernodes_are_counted_and_others_are_discovered(place: Place):
    labels = {"example.com/rack": "rack-2", "example.com/block": "block-9"}
    node: JSON = {"apiVersion": "v1", "kind": "Node", "metadata": {}}
    for name in ("rack1-a", "rack1-b", "other"):
        own = labels if name == "other" else {}
        await place.cluster.create(r.NODES, None, {**node, "metadata": {"name": name, "labels": own}})
    system = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "volcano-system"}}
    with suppress(AlreadyExists):
        await place.cluster.create(r.NAMESPACES, None, system)
    for body in yaml.safe_load_all((ROOT / "examples" / "hypernodes.yaml").read_text()):
        await place.cluster.create(KINDS[body["kind"]], body["metadata"].get("namespace"), body)

    def counts(number: int):
        return lambda one: (one.get("status") or {}).get("nodeCount") == number

    block = await until(place.cluster, r.HYPERNODES, None, "block-1", counts(3))
    [ready] = block["status"]["conditions"]
    assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "True", "MembersFound")
    found = await _discovered(place, 2)
    tiers = {one["spec"]["tier"]: one for one in found}
    assert tiers[1]["spec"]["members"] == [{"type": "Node", "selector": {"exactMatch": {"name": "other"}}}]
    rack = tiers[1]["metadata"]["name"]
    assert tiers[2]["spec"]["members"] == [{"type": "HyperNode", "selector": {"exactMatch": {"name": rack}}}]
    assert tiers[2]["metadata"]["labels"]["example.com/block"] == "block-9"
    await until(place.cluster, r.HYPERNODES, None, tiers[2]["metadata"]["name"], counts(1))

    await place.cluster.delete(r.NODES, None, "other")
    await until(place.cluster, r.HYPERNODES, None, "block-1", counts(2))
    for one in found:
        await until_gone(place.cluster, r.HYPERNODES, None, one["metadata"]["name"])
    await _clean(place)


async def _discovered(place: Place, number: int) -> list[JSON]:
    """Return the discovered hypernodes once there are so many."""
    async with asyncio.timeout(30):
        while True:
            listed = await place.cluster.list(r.HYPERNODES, labels="volcano.sh/network-topology-source=label")
            if len(listed.items) >= number:
                return listed.items
            await asyncio.sleep(0.1)


async def _clean(place: Place) -> None:
    for name in ("rack1-a", "rack1-b"):
        await place.cluster.delete(r.NODES, None, name)
    for name in ("block-1", "rack-1", "rack-2"):
        await place.cluster.delete(r.HYPERNODES, None, name)
    await place.cluster.delete(r.CONFIGMAPS, "volcano-system", "volcano-controller-configmap")


class FastClock(SystemClock):
    """The machine's clock, with a minute in each second from now on."""

    FACTOR = 60

    def __init__(self) -> None:
        self._begin = super().now()
        self._since = super().monotonic()

    def now(self):
        return self._begin + (super().now() - self._begin) * self.FACTOR

    def monotonic(self) -> float:
        return self._since + (super().monotonic() - self._since) * self.FACTOR

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / self.FACTOR)


async def test_a_job_each_minute_on_a_real_api_server(kube: HttpCluster, namespace: str):
    await install_crds(kube)
    service = build(
        WorkflowsSettings(),
        clock=FastClock(),
        cluster=kube,
        ids=lambda: "unused",
        telemetry=Telemetry("workflows"),
    )
    body = yaml.safe_load((ROOT / "examples" / "cronjob.yaml").read_text())
    body["spec"] |= {"schedule": "* * * * *", "concurrencyPolicy": "Allow"}
    task = asyncio.create_task(service.run())
    try:
        made = await kube.create(r.CRONJOBS, namespace, body)
        cron = await until(
            kube,
            r.CRONJOBS,
            namespace,
            made["metadata"]["name"],
            lambda one: len((one.get("status") or {}).get("active", ())) >= 4,
        )
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    minutes = [int(one["name"].rsplit("-", 1)[1]) for one in cron["status"]["active"]]
    assert minutes == list(range(minutes[0], minutes[0] + len(minutes)))
    jobs = (await kube.list(r.JOBS, namespace)).items
    assert {job["metadata"]["ownerReferences"][0]["uid"] for job in jobs} == {made["metadata"]["uid"]}
    assert {job["spec"]["queue"] for job in jobs} == {"default"}


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ({}, "Either ExactMatch or RegexMatch or LabelMatch must be specified"),
        ({"exactMatch": {"name": "a"}, "regexMatch": {"pattern": "a"}}, "Only one of ExactMatch"),
    ],
)
async def test_a_real_api_server_refuses_members_selected_in_no_way_or_two(
    kube: HttpCluster, selector, message
):
    await install_crds(kube)
    body = {
        "apiVersion": r.HYPERNODES.api_version,
        "kind": "HyperNode",
        "metadata": {"name": "bad"},
        "spec": {"tier": 1, "members": [{"type": "Node", "selector": selector}]},
    }
    with pytest.raises(Refused, match=message):
        await kube.create(r.HYPERNODES, None, body)
    with pytest.raises(NotFound):
        await kube.get(r.HYPERNODES, None, "bad")


async def test_a_real_api_server_fills_nothing_into_a_patch(kube: HttpCluster, namespace: str):
    await install_crds(kube)
    step = {"name": "a", "patch": {"jobSpec": {"priorityClassName": "high"}}}
    body = {
        "apiVersion": r.JOBFLOWS.api_version,
        "kind": "JobFlow",
        "metadata": {"name": "f"},
        "spec": {"flows": [step]},
    }
    made = await kube.create(r.JOBFLOWS, namespace, body)
    assert made["spec"]["flows"] == [step]
