"""The services as processes over a real broker and a real API server: gangs go to their ends."""

from __future__ import annotations

import asyncio

import pytest
import yaml
from aiokafka import AIOKafkaProducer

from shared.api.resources import JOBS, PODGROUPS
from shared.events.topics import JOB_SUBMITTED
from tests.fixtures.kube import until_gone
from tests.fixtures.kube_services import Kubectl
from tests.fixtures.platform import gang
from tests.fixtures.services import PodWatch, Services, ended


async def test_gangs_submitted_applied_and_published_all_complete_and_no_pod_is_made_twice(
    kube_services: Services, kubectl: Kubectl
):
    submitted = [f"many-http-{number}" for number in range(6)]
    async with (
        kube_services.client() as client,
        kube_services.cluster() as cluster,
        PodWatch(cluster) as seen,
    ):
        for name in submitted:
            await client.submit(gang(name, command="sleep 0.5"))
        kubectl("apply", "-f", "-", given=yaml.safe_dump(gang("many-kubectl")))
        producer = AIOKafkaProducer(bootstrap_servers=kube_services.bootstrap)
        await producer.start()
        body = yaml.safe_dump(gang("many-kafka")).encode()
        await producer.send_and_wait(JOB_SUBMITTED, body, key=b"default/many-kafka")
        await producer.stop()
        jobs = await asyncio.gather(
            *(ended(client, name, 100) for name in (*submitted, "many-kubectl", "many-kafka"))
        )
        assert {(job.phase, job.pods.succeeded) for job in jobs} == {("Completed", 4)}
        assert seen.twice("many-") == {}
        assert len(seen.pods("many-")) == 4 * len(jobs)


async def test_kubectl_shows_what_became_of_a_job(kube_services: Services, kubectl: Kubectl):
    async with kube_services.client() as client:
        await client.submit(gang("shown", command="echo step"), wait="finished", timeout=60)
    row = kubectl("get", "vcjob", "shown", "--no-headers").split()
    assert row[:3] == ["shown", "Completed", "4"]
    told = kubectl("get", "pods", "-l", "volcano.sh/job-name=shown", "--no-headers").splitlines()
    assert [line.split()[2] for line in told] == ["Completed"] * 4
    assert kubectl("logs", "shown-worker-2") == "step\n"


async def test_a_job_deleted_by_kubectl_leaves_nothing(kube_services: Services, kubectl: Kubectl):
    async with kube_services.client() as client, kube_services.cluster() as cluster:
        await client.submit(gang("doomed", command="sleep 600"), wait="running", timeout=60)
        [group] = [
            one["metadata"]["name"]
            for one in (await cluster.list(PODGROUPS, "default")).items
            if one["metadata"]["name"].startswith("doomed")
        ]
        kubectl("delete", "vcjob", "doomed", "--wait=true")
        await until_gone(cluster, JOBS, "default", "doomed")
        await until_gone(cluster, PODGROUPS, "default", group)
        kubectl("wait", "pods", "-l", "volcano.sh/job-name=doomed", "--for=delete", "--timeout=30s")


@pytest.mark.slow
async def test_a_controller_killed_in_the_middle_makes_no_pod_twice(kube_services: Services):
    async with (
        kube_services.client() as client,
        kube_services.cluster() as cluster,
        PodWatch(cluster) as seen,
    ):
        for number in range(8):
            await client.submit(gang(f"survives-{number}", command="sleep 2", gpus=4))
        await kube_services.processes["controller"].kill()
        await kube_services.processes["controller"].start()
        jobs = await asyncio.gather(*(ended(client, f"survives-{number}", 100) for number in range(8)))
        assert {job.phase for job in jobs} == {"Completed"}
        assert seen.twice("survives-") == {}
