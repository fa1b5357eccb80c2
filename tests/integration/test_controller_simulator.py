"""The controller against the simulated API server, over HTTP, with simulated kubelets."""

from __future__ import annotations

import asyncio
import itertools
import json
from contextlib import asynccontextmanager

import pytest

from services.controller.app import build
from services.controller.settings import ControllerSettings
from shared.api import resources as r
from shared.clock import SystemClock
from shared.errors import NotFound
from shared.events import topics
from shared.events.codec import decode, encode
from shared.events.contracts import Binding, GangDecided, JobAdmitted
from shared.events.envelope import Envelope
from shared.kube.client import connect
from shared.log.memory import MemoryLog
from shared.telemetry.telemetry import Telemetry
from simulator.kubelet.core.nodes import parse_nodes
from simulator.kubelet.kubelets import Kubelets
from simulator.server import Simulator


@asynccontextmanager
async def platform(tmp_path, nodes="4x8"):
    clock, number = SystemClock(), itertools.count()
    simulator = Simulator(clock, lambda: f"00000000-0000-4000-8000-{next(number):012x}", crds="deploy/crds")
    await simulator.start()
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(simulator.kubeconfig()))
    cluster = connect(str(kubeconfig), clock=clock)
    log = MemoryLog(clock)
    await log.start()
    await log.create_topics(topics.SPECS)
    service = build(
        ControllerSettings(),
        clock=clock,
        log=log,
        cluster=cluster,
        ids=lambda: "unused",
        telemetry=Telemetry("controller"),
    )
    kubelets = Kubelets(cluster, clock, lambda: f"lease-{next(number)}", parse_nodes(nodes))
    tasks = [asyncio.create_task(service.run()), asyncio.create_task(kubelets.run())]
    tasks.append(asyncio.create_task(place_gangs(log, clock)))
    try:
        yield cluster, log, tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await cluster.close()
        await log.close()
        await simulator.stop()


async def place_gangs(log, clock) -> None:
    """Play the scheduler: each member of a gang gets a node of its own."""
    reader = await log.read([topics.PODGROUP_READY])
    for number in itertools.count():
        for delivery in await reader.poll():
            gang = decode(delivery).data.gang
            members = [(task.name, m.pod) for task in gang.tasks for m in task.members]
            decided = GangDecided(
                decision=f"{gang.uid}/{gang.generation}/{number}",
                pool="default",
                gang=gang.ref,
                enqueue=True,
                minimum=gang.min_member,
                bindings=tuple(
                    Binding(pod=pod, task=task, node=f"node-{index}")
                    for index, (task, pod) in enumerate(members)
                ),
                decided_at=clock.now(),
            )
            envelope = Envelope(id=decided.decision, source="/test", time=clock.now(), data=decided)
            await log.producer.send(encode(topics.BIND_DECISIONS, b"default", envelope))


def job(name="train", *, script="echo hello; sleep 0.3", namespace="default") -> dict:
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["sh", "-c", script],
        "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": 8}, "limits": {"nvidia.com/gpu": 8}},
    }
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "minAvailable": 4,
            "queue": "default",
            "tasks": [
                {"name": "master", "replicas": 1, "template": template},
                {"name": "worker", "replicas": 3, "template": template},
            ],
        },
    }


async def phase_of(cluster, name="train") -> str:
    status = (await cluster.get(r.JOBS, "default", name)).get("status") or {}
    return (status.get("state") or {}).get("phase", "")


async def until(condition, tasks, seconds=20.0):
    async with asyncio.timeout(seconds):
        while True:
            for task in tasks:
                if task.done():
                    task.result()
            found = await condition()
            if found:
                return found
            await asyncio.sleep(0.02)


async def submit(log, clock, body) -> None:
    event = JobAdmitted(submission="s-1", job=body, submitted_at=clock.now())
    envelope = Envelope(id="admitted-s-1", source="/test", time=clock.now(), data=event)
    await log.producer.send(encode(topics.JOB_ADMITTED, b"default/train", envelope))


async def test_the_main_job_runs_to_its_end_over_http(tmp_path):
    async with platform(tmp_path) as (cluster, log, tasks):
        await submit(log, SystemClock(), job())

        async def completed():
            try:
                return await phase_of(cluster) == "Completed"
            except NotFound:
                return False

        await until(completed, tasks)
        found = await cluster.get(r.JOBS, "default", "train")
        assert found["status"]["succeeded"] == 4
        assert [c["status"] for c in found["status"]["conditions"]] == ["Pending", "Running", "Completed"]
        group = (await cluster.list(r.PODGROUPS)).items[0]
        assert group["metadata"]["name"] == f"train-{found['metadata']['uid']}"
        assert group["status"]["phase"] == "Completed"
        pods = (await cluster.list(r.PODS)).items
        assert {pod["spec"]["nodeName"] for pod in pods} == {"node-0", "node-1", "node-2", "node-3"}
        for queue in (await cluster.list(r.QUEUES)).items:
            assert queue["status"]["state"] == "Open"


async def test_a_job_applied_by_kubectl_takes_the_same_path_and_its_deletion_takes_all_along(tmp_path):
    async with platform(tmp_path) as (cluster, log, tasks):
        await cluster.create(r.JOBS, "default", job(script="sleep 1000"))
        await until(lambda: _is(cluster, "Running"), tasks)
        await cluster.delete(r.JOBS, "default", "train")

        async def empty():
            pods = (await cluster.list(r.PODS)).items
            groups = (await cluster.list(r.PODGROUPS)).items
            return not pods and not groups

        await until(empty, tasks)

        async def no_facts():
            reader = await log.read([topics.CLUSTER_STATE])
            keys = {}
            while not await reader.caught_up():
                for delivery in await reader.poll(timeout=0.05):
                    keys[delivery.key] = delivery.value
            await reader.close()
            return not [
                k
                for k, v in keys.items()
                if v is not None and k.split(b"/")[0] in (b"pod", b"job", b"podgroup")
            ]

        await until(no_facts, tasks)


@pytest.mark.parametrize(("script", "phase"), [("exit 3", "Failed"), ("exit 0", "Completed")])
async def test_how_the_pods_end_is_how_the_job_ends(tmp_path, script, phase):
    async with platform(tmp_path) as (cluster, _log, tasks):
        await cluster.create(r.JOBS, "default", job(script=script))
        await until(lambda: _is(cluster, phase), tasks)


async def _is(cluster, phase) -> bool:
    return await phase_of(cluster) == phase
