"""Gangs move on a whole platform with a simulated cluster, because somebody asks for it."""

from __future__ import annotations

from typing import Any

import pytest

from pumice import NotFound
from services.standalone.options import Options
from shared.api import resources as r
from tests.fixtures.platform import Platform, a_platform, gang
from tests.fixtures.waiting import eventually


def half(name: str) -> dict[str, Any]:
    return gang(name, workers=0, gpus=2, command="sleep 1000")


async def nodes_of(platform: Platform, job: str) -> set[str]:
    pods, _ = await platform.cluster.list(r.PODS, "default")
    found = (pod for pod in pods if pod["metadata"]["name"].startswith(f"{job}-"))
    return {pod["spec"].get("nodeName", "") for pod in found}


async def test_a_job_moves_when_somebody_asks_and_another_one_starts_on_its_node():
    async with a_platform(Options(nodes=("2x4",), port=0)) as platform:
        client = platform.client
        for name in "abcd":
            await client.submit(half(name), wait="running", timeout=30)
        places = {name: await nodes_of(platform, name) for name in "abcd"}
        assert places["a"] == places["b"] != places["c"] == places["d"]
        for name in "bd":
            await client.delete(name, wait=True, timeout=30)
        await client.submit(
            gang("large", workers=0, gpus=4, command="sleep 1000"), wait="admitted", timeout=30
        )
        await eventually(lambda: _waits(platform, "large"))
        assert (await client.defragment()).action == "defragment"
        assert (await client.wait_until("large", "running", timeout=30)).phase == "Running"
        assert (await client.wait_until("c", "running", timeout=30)).phase == "Running"
        await eventually(lambda: _is_on(platform, "c", places["a"]))
        assert await nodes_of(platform, "large") == places["c"]
        with pytest.raises(NotFound, match="there is no node pool other"):
            await client.defragment("other")


async def _waits(platform: Platform, name: str) -> bool:
    return "nvidia.com/gpu free" in (await platform.client.get(name)).message


async def _is_on(platform: Platform, name: str, nodes: set[str]) -> bool:
    return await nodes_of(platform, name) == nodes
