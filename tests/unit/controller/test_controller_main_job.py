"""The life of a job from its admission to its end, on a cluster in memory."""

from __future__ import annotations

import pytest

from shared.events import topics
from shared.events.contracts import DecisionOutcome
from tests.unit.controller.conftest import job

pytestmark = pytest.mark.looptime


async def test_an_admitted_job_goes_through_to_completed(world):
    async with world() as w:
        await w.admit(job())
        gang = (await w.ready())[0].gang
        assert [len(t.members) for t in gang.tasks] == [1, 3]
        assert w.pods() == {}
        await w.decide(gang)
        result = (await w.results())[0]
        assert result.outcome is DecisionOutcome.APPLIED
        assert set(w.places().values()) == {"node-0", "node-1", "node-2", "node-3"}
        w.cluster.run_pods()
        await w.until(lambda: w.phase() == "Running")
        w.cluster.end_pods()
        await w.until(lambda: w.phase() == "Completed")
        assert w.group_phase() == "Completed"
        phases = [(e.data.previous, e.data.phase) for e in await w.events(topics.JOB_LIFECYCLE)]
        assert phases == [("", "Pending"), ("Pending", "Running"), ("Running", "Completed")]
