"""What decides whether a pod may be evicted is told of it: its budgets, its cool-down, its own word."""

from __future__ import annotations

import pytest

from services.controller.core.facts import pod_state
from services.controller.core.model import Priorities
from services.controller.core.shapes import marks, shape_of
from shared.api import resources as r
from shared.api.pods import PodSpec
from shared.events.contracts import Shape
from tests.unit.controller.conftest import job


def budget(name: str, selector, allowed: int = 1) -> dict:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": selector},
        "status": {"disruptionsAllowed": allowed},
    }


async def test_pods_are_told_with_the_budgets_that_select_them_and_what_those_allow(world):
    async with world() as w:
        await w.admit(job())
        await w.run_gang()

        async def told(name: str, budgets: tuple[str, ...]):
            fact = (await w.state()).get(f"pod/default/{name}")
            return fact is not None and fact.budgets == budgets

        async def allowed(name: str):
            fact = (await w.state()).get(f"poddisruptionbudget/default/{name}")
            return None if fact is None else fact.disruptions_allowed

        assert await told("train-worker-0", ())
        workers = {"matchLabels": {"volcano.sh/task-spec": "worker"}}
        w.cluster.put(r.PDBS, budget("workers", workers))
        w.cluster.put(r.PDBS, budget("all", {}, allowed=0))
        w.cluster.put(r.PDBS, budget("none", None))
        await w.until(lambda: told("train-worker-0", ("all", "workers")))
        await w.until(lambda: told("train-master-0", ("all",)))
        assert [await allowed(name) for name in ("workers", "all")] == [1, 0]

        w.cluster.change(r.PDBS, "default", "workers", {"status": {"disruptionsAllowed": 3}})

        async def raised():
            return await allowed("workers") == 3

        await w.until(raised)
        w.cluster.remove(r.PDBS, "default", "all")
        await w.until(lambda: told("train-master-0", ()))
        assert await told("train-worker-0", ("workers",))


def pod(**meta) -> dict:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-03-01T12:00:05Z"}
    names = {"name": "p", "namespace": "ns", "uid": "u", "creationTimestamp": "2026-03-01T12:00:00Z"}
    return {"metadata": {**names, **meta}, "spec": {}, "status": {"conditions": [scheduled]}}


@pytest.mark.parametrize(
    ("meta", "seconds"),
    [
        ({}, 0),
        ({"annotations": {"volcano.sh/cooldown-time": "10m"}}, 600),
        ({"labels": {"volcano.sh/cooldown-time": "90s"}}, 90),
        ({"labels": {"volcano.sh/cooldown-time": "soon"}}, 0),
        ({"annotations": {"volcano.sh/cooldown-time": "-5s"}}, 0),
    ],
)
def test_a_pods_cool_down_is_told_in_seconds_from_when_it_was_bound(meta, seconds):
    fact = pod_state(pod(**meta), Shape(), frozenset())
    assert fact.cooldown == seconds
    assert fact.scheduled_at is not None
    assert fact.scheduled_at.isoformat() == "2026-03-01T12:00:05+00:00"


@pytest.mark.parametrize(
    ("labels", "annotations", "preemptable"),
    [
        ({}, {}, True),
        ({"volcano.sh/preemptable": "false"}, {}, False),
        ({}, {"volcano.sh/preemptable": "false"}, False),
        ({"volcano.sh/preemptable": "false"}, {"volcano.sh/preemptable": "true"}, True),
    ],
)
def test_a_pod_says_by_label_or_annotation_that_it_may_not_be_preempted(labels, annotations, preemptable):
    found = shape_of(PodSpec(), marks(labels, annotations), Priorities())
    assert found.preemptable is preemptable
