"""A ConfigMap with Volcano's configuration decides on a whole platform, until it is deleted."""

from __future__ import annotations

from itertools import count

from services.standalone.options import Options
from shared.api import resources as r
from tests.fixtures.platform import Platform, a_platform, gang
from tests.fixtures.waiting import eventually

NAMESPACE, NAME, KEY = "volcano-system", "volcano-scheduler-configmap", "volcano-scheduler.conf"
SPREADS = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: nodeorder
    arguments: {leastrequested.weight: 10}
"""


async def test_the_policy_of_a_config_map_is_in_force_as_long_as_it_is_there() -> None:
    async with a_platform(Options(nodes=("4x8",), port=0)) as platform:
        cluster, numbers = platform.cluster, count()

        async def nodes() -> int:
            """Run a job of four small pods, and return on how many nodes they were."""
            name = f"job-{next(numbers)}"
            await platform.client.submit(gang(name, workers=3, gpus=1), wait="running", timeout=30)
            return len(await nodes_of(platform, name))

        async def spread() -> bool:
            return await nodes() > 1

        async def packed() -> bool:
            return await nodes() == 1

        assert await packed()
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": {KEY: SPREADS}}
        await cluster.create(r.NAMESPACES, None, namespace)
        await cluster.create(r.CONFIGMAPS, NAMESPACE, body)
        await eventually(spread)
        await cluster.delete(r.CONFIGMAPS, NAMESPACE, NAME)
        await eventually(packed)


async def nodes_of(platform: Platform, job: str) -> set[str]:
    return {
        pod["spec"]["nodeName"]
        for pod in await platform.pods()
        if pod["metadata"]["labels"].get("volcano.sh/job-name") == job
    }
