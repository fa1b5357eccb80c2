"""Gangs with CPUs for themselves on a real API server: what is written on pods, and what exporters tell later."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from shared.api import resources as r
from shared.kube.client import HttpCluster
from shared.kube.port import JSON
from tests.fixtures.kube import until
from tests.fixtures.kube_platform import kube_platform
from tests.integration.kube.test_kube_admitted_pods import job
from tests.integration.kube.test_kube_plain_pods import running

CONF = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: predicates}, {name: nodeorder}, {name: numa-aware}]
"""


def asking(name: str, replicas: int, cpu: int, policy: str = "single-numa-node") -> JSON:
    made = job(name, replicas, limits={"cpu": str(cpu), "memory": "64Mi"})
    made["spec"]["tasks"][0]["topologyPolicy"] = policy
    return made


def spec(free: str, *pods: JSON) -> JSON:
    """Two NUMA nodes with 8 CPUs each, of which kubelet keeps back the first."""
    return {
        "policies": {"CPUManagerPolicy": "static", "TopologyManagerPolicy": "single-numa-node"},
        "resReserved": {"cpu": "1"},
        "numares": {"cpu": {"allocatable": free, "capacity": 16}},
        "cpuDetail": {str(cpu): {"numa": cpu // 8, "socket": cpu // 8, "core": cpu % 8} for cpu in range(16)},
        "podAllocations": list(pods),
    }


def allocation(pod: JSON, cpus: str) -> JSON:
    """What the exporter tells that kubelet gave to a pod."""
    containers = [{"name": "main", "allocations": {"cpu": cpus}}]
    return {"uid": pod["metadata"]["uid"], "containerAllocations": containers}


def decisions(pods: list[JSON]) -> list[JSON]:
    return [json.loads(one["metadata"]["annotations"]["volcano.sh/topology-decision"]) for one in pods]


@asynccontextmanager
async def machine(kube: HttpCluster, namespace: str, *, born_bound: bool) -> AsyncIterator[str]:
    """A node whose exporter tells of it, and a scheduler that heeds it."""
    conf = {"metadata": {"name": "conf"}, "data": {"volcano-scheduler.conf": CONF}}
    await kube.create(r.CONFIGMAPS, namespace, conf)
    node = f"{namespace}-0"
    where = {"policy_namespace": namespace, "policy_config_map": "conf", "born_bound": born_bound}
    async with kube_platform(kube, f"{namespace}=1x0,cpu=15,memory=64Gi", **where):
        of = {"apiVersion": r.NUMATOPOLOGIES.api_version, "kind": "Numatopology"}
        await kube.create(r.NUMATOPOLOGIES, None, {**of, "metadata": {"name": node}, "spec": spec("0-15")})
        yield node
        await kube.delete(r.NUMATOPOLOGIES, None, node)


async def waits(kube: HttpCluster, namespace: str, name: str, words: str) -> None:
    """Wait until a job's PodGroup says why it waits."""

    def says(group: JSON) -> bool:
        conditions = (group.get("status") or {}).get("conditions") or ()
        return any(words in one["message"] for one in conditions)

    uid = (await kube.get(r.JOBS, namespace, name))["metadata"]["uid"]
    await until(kube, r.PODGROUPS, namespace, f"{name}-{uid}", says)


@pytest.mark.parametrize("born_bound", [True, False])
async def test_which_numa_nodes_a_gang_has_cpus_of_is_written_on_it_until_the_exporter_tells_others(
    kube, namespace, born_bound
):
    async with machine(kube, namespace, born_bound=born_bound) as node:
        await kube.create(r.JOBS, namespace, asking("pair", 2, 5))
        pair = await running(kube, namespace, 2)
        assert decisions(pair) == [{"numa": {"0": {"cpu": "5"}}}, {"numa": {"1": {"cpu": "5"}}}]
        assert {one["metadata"]["annotations"]["volcano.sh/numa-topology-policy"] for one in pair} == {
            "single-numa-node"
        }
        await kube.create(r.JOBS, namespace, asking("late", 1, 4))
        await waits(kube, namespace, "late", "the most that is free of one NUMA node is 3")
        # Kubelet has given the first pod CPUs of both NUMA nodes, whatever made it do so.
        told = spec("0,3-7", allocation(pair[0], "1-2,8-10"), allocation(pair[1], "11-15"))
        await kube.patch(r.NUMATOPOLOGIES, None, node, {"spec": told})
        pods = await running(kube, namespace, 3)
        late = [one for one in pods if one["metadata"]["name"].startswith("late")]
        assert decisions(late) == [{"numa": {"0": {"cpu": "4"}}}]
        await kube.delete(r.JOBS, namespace, "pair")
        await kube.delete(r.JOBS, namespace, "late")
