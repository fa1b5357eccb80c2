"""What would become of a job, asked of a whole platform, over the embedded log and over Kafka."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from pumice import Rejected
from services.standalone.options import Options
from shared.api.resources import JOBS, PODGROUPS, PODS, PRIORITYCLASSES
from tests.fixtures.platform import Platform, a_platform, gang

pytestmark = pytest.mark.timeout(120)


@pytest_asyncio.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.kafka)])
async def platform(request: pytest.FixtureRequest) -> AsyncIterator[Platform]:
    log = None
    if request.param == "kafka":
        log = f"kafka://{request.getfixturevalue('own_kafka_broker').bootstrap}"
    async with a_platform(Options(nodes=("2x8",), port=0, log=log)) as running:
        yield running


def important(name: str, **wants: Any) -> dict[str, Any]:
    job = gang(name, **wants)
    return {**job, "spec": {**job["spec"], "priorityClassName": "high"}}


async def test_a_trial_says_what_would_become_of_a_job_and_submits_nothing(platform: Platform) -> None:
    client, cluster = platform.client, platform.cluster
    high = {"kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1", "metadata": {"name": "high"}}
    await cluster.create(PRIORITYCLASSES, "", {**high, "value": 1000})

    found = await client.try_out(gang("train", workers=1, minimum=2))
    assert (found.outcome, found.waiting, found.later) == ("starts", None, 0)
    assert sorted(one.pod for one in found.place) == ["train-master-0", "train-worker-0"]
    assert len({one.node for one in found.place}) == 2
    assert await client.list() == ()
    for resource in (JOBS, PODGROUPS, PODS):
        assert (await cluster.list(resource, "default")).items == []

    own = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    made, absent = (gang("claims", workers=0) for _ in range(2))
    made["spec"]["volumes"] = [{"mountPath": "/data", "volumeClaim": own}]
    absent["spec"]["volumes"] = [{"mountPath": "/data", "volumeClaimName": "absent"}]
    assert (await client.try_out(made)).outcome == "starts"
    missing = await client.try_out(absent)
    assert (missing.outcome, missing.place) == ("waits", ())
    assert missing.waiting is not None
    assert "absent" in missing.waiting.reason.message

    running = gang("runs", workers=1, command="sleep 600")
    running["metadata"]["annotations"] = {"pumice.dev/run-time": "1h"}
    job = await client.submit(running, wait="running", timeout=60)

    waits = await client.try_out(gang("train", workers=1))
    assert (waits.outcome, waits.place) == ("waits", ())
    assert waits.waiting is not None
    assert waits.waiting.reason.code == "no-room"
    assert (waits.waiting.position, waits.waiting.queue_length) == (1, 1)
    assert waits.waiting.outlook == "when default/runs ends"
    assert waits.waiting.estimated_start is not None
    assert job.created_at is not None
    assert 3590 < (waits.waiting.estimated_start - job.created_at).total_seconds() < 3620

    evicts = await client.try_out(important("urgent", workers=0))
    assert (evicts.outcome, len(evicts.evicted), len(evicts.place)) == ("evicts", 2, 1)
    assert all("preempted by default/urgent" in one.reason for one in evicts.evicted)
    assert (await client.get("runs")).pods.running == 2

    with pytest.raises(Rejected) as refused:
        await client.try_out({**running, "spec": {**running["spec"], "queue": "none", "minAvailable": 9}})
    assert {one.path for one in refused.value.violations} >= {"spec.queue", "spec.minAvailable"}
    with pytest.raises(Rejected, match="exists in namespace"):
        await client.try_out(running)
    assert [one.name for one in await client.list()] == ["runs"]
