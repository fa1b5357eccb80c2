"""What a job costs the API server: each write of its life, so that none creeps in."""

from __future__ import annotations

import asyncio

import pytest

from shared.api import resources as r
from shared.events.contracts import DecisionOutcome
from tests.unit.controller.conftest import job

pytestmark = pytest.mark.looptime

TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}


def gang(size: int) -> dict:
    return job(tasks=[{"name": "t", "replicas": size, "template": TEMPLATE}], minAvailable=size)


async def cost(w, submit) -> list[str]:
    """Return the writes of a job that runs at once and ends, in order and without its events; the PodGroup is G."""
    await asyncio.sleep(1)
    before = len(w.cluster.log)
    await submit()
    await w.run_gang()
    await asyncio.sleep(1)
    w.cluster.end_pods()
    await w.until(lambda: w.phase() == "Completed")
    await asyncio.sleep(5)
    name = w.group()["metadata"]["name"]
    return [line.replace(name, "G") for line in w.cluster.log[before:] if " events/" not in line]


def expected(pods: list[str]) -> list[str]:
    return [
        "create podgroups/G",  # Pending
        *(["patch podgroups/G"] if len(pods) > 1 else []),  # Inqueue: a single pod says it by itself
        *(f"create pods/{name}" for name in pods),  # bound: no write of its own for the binding
        "patch jobs/train",  # Pending and Running
        "patch podgroups/G",  # Running, with its counts
        "patch jobs/train",  # Completed
        "patch podgroups/G",  # Completed
    ]


@pytest.mark.parametrize("size", [1, 20])
async def test_a_gang_costs_a_write_for_each_pod_and_three_for_itself_until_it_runs_or_two_if_it_is_one_pod(
    world, size
):
    async with world() as w:
        pods = [f"train-t-{index}" for index in range(size)]
        found = await cost(w, lambda: w.admit(gang(size)))
        assert found == ["create jobs/train", "dry-run pods/train-t-0-dry-run", *expected(pods)]
        assert w.cluster.writes["create", "events"] == (size > 1)  # that the gang is whole


async def test_a_job_by_kubectl_costs_what_one_by_the_gateway_costs_but_for_its_create(world):
    async with world() as w:

        async def apply():
            w.cluster.put(r.JOBS, gang(1))

        assert await cost(w, apply) == ["dry-run pods/train-t-0-dry-run", *expected(["train-t-0"])]


async def test_a_second_job_of_a_template_costs_no_dry_run(world):
    async with world() as w:
        await w.admit(gang(1))
        await w.ready()
        before = len(w.cluster.log)
        other = gang(1)
        other["metadata"]["name"] = "other"
        await w.admit(other, "sub-2")
        await w.ready(2)
        assert [line.split("/")[0] for line in w.cluster.log[before:]] == ["create jobs", "create podgroups"]


async def test_a_gang_that_is_taken_back_costs_its_podgroup_nothing(world):
    async with world() as w:
        await w.admit(job())
        ready = (await w.ready())[0].gang
        w.cluster.change(r.NODES, None, "node-2", {"spec": {"unschedulable": True}})
        await asyncio.sleep(1)
        before = w.cluster.writes["patch", "podgroups"]
        await w.decide(ready)
        assert (await w.results())[0].outcome is DecisionOutcome.ROLLED_BACK
        await asyncio.sleep(5)
        assert (w.cluster.writes["patch", "podgroups"], w.group_phase()) == (before, "Pending")


@pytest.mark.parametrize("size", [1, 4])
async def test_a_pod_that_goes_before_its_podgroup_says_running_was_evicted(world, size):
    body = gang(size)
    body["spec"]["policies"] = [{"event": "PodEvicted", "action": "AbortJob"}]
    async with world(status_delay_seconds=5) as w:
        await w.admit(body)
        await w.decide()
        await w.results()
        assert w.group_phase() == ("Inqueue" if size > 1 else "Pending")
        w.cluster.remove(r.PODS, "default", "train-t-0", graceful=False)
        await w.until(lambda: w.phase() in ("Aborting", "Aborted"))


@pytest.mark.parametrize("size", [1, 4])
async def test_a_pod_that_goes_before_its_podgroup_says_running_is_made_again(world, size):
    async with world(status_delay_seconds=5) as w:
        await w.admit(gang(size))
        await w.decide()
        await w.results()
        w.cluster.remove(r.PODS, "default", "train-t-0", graceful=False)
        await w.until(lambda: w.group_phase() == "Inqueue" and w.places().get("train-t-0", "") is None)
