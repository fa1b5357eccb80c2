"""A controller with GPUs that are shared: what it tells of them, and what becomes of decisions about them."""

from __future__ import annotations

import asyncio
import logging

import pytest

from shared.api import resources as r
from shared.events import topics
from shared.events.contracts import DecisionOutcome, DevicePart
from tests.unit.controller.conftest import job

pytestmark = pytest.mark.looptime

REGISTER = "volcano.sh/node-vgpu-register"
LIMITS = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 4096}


def registered(*uuids: str) -> str:
    return "".join(f"{uuid},10,16384,NVIDIA-T4,true,hami-core:" for uuid in uuids)


def put_node(w, text: str) -> None:
    w.cluster.change(r.NODES, None, "node-0", {"metadata": {"annotations": {REGISTER: text}}})


def pod(**annotations: str) -> dict:
    return {
        "metadata": {"name": "p", "namespace": "default", "annotations": annotations},
        "spec": {"nodeName": "node-0", "containers": [{"name": "c", "resources": {"limits": LIMITS}}]},
        "status": {"phase": "Running"},
    }


def shared_job() -> dict:
    container = {"name": "main", "image": "trainer", "resources": {"limits": LIMITS}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return job(minAvailable=2, tasks=[{"name": "worker", "replicas": 2, "template": template}])


def on_gpus(decided, *devices: tuple[int, ...]):
    """Put all pods of a decision on one node's GPUs."""
    bindings = zip(decided.bindings, devices, strict=True)
    chosen = (one.model_copy(update={"node": "node-0", "devices": gpus}) for one, gpus in bindings)
    return decided.model_copy(update={"bindings": tuple(chosen)})


async def decide(w, *devices: tuple[int, ...]) -> None:
    gang = (await w.ready())[-1].gang
    decided = on_gpus(w.decision(gang), *devices)
    await w.send(topics.BIND_DECISIONS, b"default", decided, event_id=decided.decision)


async def told(w, key: str, condition) -> None:
    async def look():
        fact = (await w.state()).get(key)
        return fact is not None and condition(fact)

    await w.until(look)


async def test_a_running_pods_gpus_follow_the_order_in_which_its_node_lists_them(world):
    async with world() as w:
        put_node(w, registered("GPU-a", "GPU-b"))
        w.cluster.put(r.PODS, pod(**{"volcano.sh/vgpu-ids-new": "GPU-b,NVIDIA,4096,0:"}))
        await told(w, "pod/default/p", lambda fact: fact.device_parts == (DevicePart(device=1, memory=4096),))
        put_node(w, registered("GPU-b", "GPU-a"))
        await told(w, "pod/default/p", lambda fact: fact.device_parts == (DevicePart(device=0, memory=4096),))
        put_node(w, registered("GPU-a"))
        await told(w, "pod/default/p", lambda fact: fact.device_parts == ())


async def test_gpus_that_cannot_be_read_are_said_once_and_the_node_is_told_without_them(world, caplog):
    caplog.set_level(logging.WARNING)
    async with world() as w:
        put_node(w, registered("GPU-a"))
        await told(w, "node//node-0", lambda fact: len(fact.devices) == 1)
        put_node(w, "GPU-a,ten,1,NVIDIA,true,hami-core:")
        for number in range(2):
            labels = {"metadata": {"labels": {"changed": str(number)}}}
            w.cluster.change(r.NODES, None, "node-0", labels)
            await told(w, "node//node-0", lambda fact: fact.devices == () and fact.ready)
        await asyncio.sleep(1)
        said = [one.getMessage() for one in caplog.records if "GPUs are left out" in one.getMessage()]
        assert len(said) == 1
        assert 'node node-0: its GPUs are left out: volcano.sh/node-vgpu-register: "GPU-a,ten' in said[0]


@pytest.mark.parametrize("born_bound", [True, False])
async def test_a_gang_is_told_its_gpus_by_one_write_for_each_pod(world, born_bound):
    async with world(born_bound=born_bound) as w:
        put_node(w, registered("GPU-a", "GPU-b"))
        await w.admit(shared_job())
        await decide(w, (1,), (0,))
        assert (await w.results())[0].outcome is DecisionOutcome.APPLIED
        annotations = [one["metadata"]["annotations"] for one in w.pods().values()]
        assert [one["volcano.sh/vgpu-ids-new"] for one in annotations] == [
            "GPU-b,NVIDIA,4096,0:",
            "GPU-a,NVIDIA,4096,0:",
        ]
        writes = [one.split()[0] for one in w.cluster.log if " pods/" in one and "dry-run" not in one]
        assert sorted(writes) == (["create"] * 2 if born_bound else ["bind"] * 2 + ["create"] * 2)


async def test_a_gang_whose_gpus_are_gone_is_taken_back_and_says_so(world):
    async with world() as w:
        put_node(w, registered("GPU-a"))
        await w.admit(shared_job())
        await decide(w, (0,), (1,))
        [result] = await w.results()
        assert result.outcome is DecisionOutcome.ROLLED_BACK
        assert [one.code for one in result.failures] == ["devices-gone"]
        assert "GPU 1 was chosen, and the node has 1 GPUs now" in result.failures[0].message
        await w.until(lambda: all(one["metadata"].get("deletionTimestamp") for one in w.pods().values()))
