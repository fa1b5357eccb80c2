"""A controller with nodes that tell of NUMA nodes: what it tells of them, and what becomes of decisions."""

from __future__ import annotations

import asyncio
import logging

import pytest

from shared.api import resources as r
from shared.events import topics
from shared.events.contracts import NumaCpus
from tests.unit.controller.conftest import job
from tests.unit.controller.test_controller_numa import DECISION, WHOLE, allocation, numatopology

pytestmark = pytest.mark.looptime


def put(w, raw: dict) -> None:
    if w.cluster.one(r.NUMATOPOLOGIES, "node-0", "") is None:
        w.cluster.put(r.NUMATOPOLOGIES, {**raw, "metadata": {"name": "node-0"}})
    else:
        w.cluster.change(r.NUMATOPOLOGIES, None, "node-0", {"spec": raw["spec"]})


def run_pod(w, **annotations: str) -> dict:
    body = {
        "metadata": {"name": "p", "annotations": annotations},
        "spec": {"nodeName": "node-0", "containers": [{"name": "c", "resources": {"limits": WHOLE}}]},
    }
    made = w.cluster.put(r.PODS, body)
    w.cluster.set_status(r.PODS, made, {"phase": "Running", "qosClass": "Guaranteed"})
    return made


async def told(w, key: str, condition) -> None:
    async def look():
        fact = (await w.state()).get(key)
        return fact is not None and condition(fact)

    await w.until(look)


def rooms(*usable: int):
    return lambda fact: fact.numa is not None and tuple(one.usable for one in fact.numa.nodes) == usable


async def test_a_nodes_fact_follows_its_numatopology(world):
    async with world() as w:
        await told(w, "node//node-0", lambda fact: fact.numa is None)
        put(w, numatopology(reserved="1"))
        await told(w, "node//node-0", rooms(7, 8))
        put(w, numatopology(reserved="2"))
        await told(w, "node//node-0", rooms(6, 8))
        w.cluster.remove(r.NUMATOPOLOGIES, None, "node-0")
        await told(w, "node//node-0", lambda fact: fact.numa is None)


async def test_a_pods_cpus_are_those_of_its_binding_until_its_node_tells_them(world):
    async with world() as w:
        put(w, numatopology())
        made = run_pod(w, **{DECISION: '{"numa":{"0":{"cpu":"4"}}}'})
        await told(w, "pod/default/p", lambda fact: fact.numa == (NumaCpus(node=0, cpus=4),))
        put(w, numatopology(free="0-3,8-15", pods=[allocation("4-7", uid=made["metadata"]["uid"])]))
        await told(w, "pod/default/p", lambda fact: fact.numa == (NumaCpus(node=1, cpus=4),))


async def test_cpus_of_a_pod_that_somebody_else_bound_are_told_when_its_node_tells_them(world):
    async with world() as w:
        run_pod(w)
        await told(w, "pod/default/p", lambda fact: fact.numa == ())
        put(w, numatopology(free="4-15", pods=[allocation("0-3", namespace="default", name="p")]))
        await told(w, "pod/default/p", lambda fact: fact.numa == (NumaCpus(node=0, cpus=4),))
        await told(w, "node//node-0", rooms(8, 8))


async def test_where_an_exporter_names_no_pods_taken_cpus_are_others_beyond_what_running_pods_were_told(
    world,
):
    async with world() as w:
        run_pod(w, **{DECISION: '{"numa":{"0":{"cpu":"4"}}}'})
        put(w, numatopology(free="6-15"))
        # Of the six CPUs that are taken (0-5) four are of NUMA node 0: the pod's.
        await told(w, "node//node-0", rooms(8, 6))
        w.cluster.remove(r.PODS, "default", "p", graceful=False)
        await told(w, "node//node-0", rooms(4, 6))


async def test_a_numatopology_that_cannot_be_read_is_said_once_and_the_node_is_told_without_it(world, caplog):
    caplog.set_level(logging.WARNING)
    async with world() as w:
        broken = numatopology(free="0-x")
        put(w, broken)
        await told(w, "node//node-0", lambda fact: fact.numa is None)
        for size in ("1", "2"):
            w.cluster.change(r.NODES, None, "node-0", {"metadata": {"labels": {"size": size}}})
            await told(w, "node//node-0", lambda fact, size=size: fact.labels.get("size") == size)
        said = [one.getMessage() for one in caplog.records if "NUMA nodes are left out" in one.getMessage()]
        assert said == ['node node-0: its NUMA nodes are left out: "x" is no number of a CPU']


@pytest.mark.parametrize("born_bound", [True, False])
async def test_pods_are_told_by_the_write_that_binds_them_which_cpus_they_will_have(world, born_bound):
    async with world(born_bound=born_bound) as w:
        put(w, numatopology())
        container = {"name": "main", "image": "trainer", "resources": {"limits": WHOLE}}
        template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
        task = {"name": "worker", "replicas": 2, "topologyPolicy": "restricted", "template": template}
        await w.admit(job(minAvailable=2, tasks=[task]))
        gang = (await w.ready())[-1].gang
        assert gang.tasks[0].shape.numa.policy == "restricted"
        decided = w.decision(gang)
        cpus = [(NumaCpus(node=0, cpus=4),), (NumaCpus(node=0, cpus=3), NumaCpus(node=1, cpus=1))]
        bindings = (
            one.model_copy(update={"node": "node-0", "numa": some})
            for one, some in zip(decided.bindings, cpus, strict=True)
        )
        decided = decided.model_copy(update={"bindings": tuple(bindings)})
        await w.send(topics.BIND_DECISIONS, b"default", decided, event_id=decided.decision)
        await w.until(lambda: sum("nodeName" in one["spec"] for one in w.cluster.all(r.PODS)) == 2)
        await asyncio.sleep(1)
        said = [one["metadata"]["annotations"].get(DECISION) for one in w.cluster.all(r.PODS)]
        assert said == ['{"numa":{"0":{"cpu":"4"}}}', '{"numa":{"0":{"cpu":"3"},"1":{"cpu":"1"}}}']
        name = w.cluster.all(r.PODS)[1]["metadata"]["name"]
        await told(w, f"pod/default/{name}", lambda fact: fact.numa == cpus[1])
