"""The ConfigMap with the scheduler's policy is told as it is; other ConfigMaps are nobody's business."""

from __future__ import annotations

import asyncio

import pytest

from shared.api import resources as r
from shared.events.contracts import PolicyState
from tests.unit.controller.conftest import job

pytestmark = pytest.mark.looptime
NAMESPACE, NAME, KEY = "volcano-system", "volcano-scheduler-configmap", "volcano-scheduler.conf"
FACT = f"policy/{NAMESPACE}/{NAME}"


def write(w, **data: str | None) -> str:
    """Make or change the ConfigMap; return its version."""
    if (NAMESPACE, NAME) in w.cluster._of(r.CONFIGMAPS):
        made = w.cluster.change(r.CONFIGMAPS, NAMESPACE, NAME, {"data": data})
    else:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": data}
        made = w.cluster.put(r.CONFIGMAPS, body, NAMESPACE)
    return made["metadata"]["resourceVersion"]


async def text(w) -> str | None:
    fact = (await w.state()).get(FACT)
    assert fact is None or isinstance(fact, PolicyState)
    return None if fact is None else fact.text


async def until_text(w, wanted: str | None) -> None:
    async def there() -> bool:
        return await text(w) == wanted

    await w.until(there)


async def test_the_policy_is_told_and_every_change_of_it(world):
    async with world() as w:
        version = write(w, **{KEY: "one", "other": "x"})
        await until_text(w, "one")
        fact = (await w.state())[FACT]
        assert (fact.namespace, fact.name, fact.key) == (NAMESPACE, NAME, KEY)
        assert fact.resource_version == version
        write(w, **{KEY: "two"})
        await until_text(w, "two")


async def test_a_policy_that_is_gone_or_has_another_key_is_told_to_be_gone(world):
    async with world() as w:
        write(w, **{KEY: "one"})
        await until_text(w, "one")
        write(w, **{KEY: None, "other": "one"})
        await until_text(w, None)
        write(w, **{KEY: "two"})
        await until_text(w, "two")
        w.cluster.remove(r.CONFIGMAPS, NAMESPACE, NAME)
        await until_text(w, None)


async def test_config_maps_of_jobs_are_not_told(world):
    async with world() as w:
        w.cluster.put(r.JOBS, job(plugins={"svc": []}))
        await w.until(lambda: w.cluster.all(r.CONFIGMAPS))
        await asyncio.sleep(1)
        assert not [key for key in await w.state() if key.startswith("policy/")]
        assert w.service.hands.views.store(r.CONFIGMAPS) == {}


@pytest.mark.parametrize(("key", "applied"), [(KEY, True), ("other", False)])
async def test_a_job_is_told_whether_the_policy_heeds_what_it_asks_for(world, key, applied):
    async with world() as w:
        write(w, **{KEY: "tiers: []", key: "tiers: [{plugins: [{name: numa-aware}]}]"})
        await w.until(lambda: w.service.hands.views.store(r.CONFIGMAPS))
        asking = job()
        asking["spec"]["tasks"][1] |= {"topologyPolicy": "best-effort"}
        await w.admit(asking)
        await w.until(lambda: w.phase() == "Pending")
        said = w.job()["status"]["state"].get("message") or ""
        assert ("topologyPolicy of tasks" in said) != applied
