"""Labels of pods are told where the placing of some pod depends on them, and only those."""

from __future__ import annotations

import pytest

from services.controller.core.kin import asked_keys
from shared.api import resources as r
from tests.unit.controller.conftest import job

TERM = {
    "labelSelector": {
        "matchLabels": {"app": "x"},
        "matchExpressions": [{"key": "tier", "operator": "Exists"}],
    },
    "topologyKey": "zone",
    "matchLabelKeys": ["rev"],
}


@pytest.mark.parametrize(
    ("extras", "keys"),
    [
        ({}, set()),
        ({"claims": ["a"], "hostPorts": [["TCP", "0.0.0.0", 1]]}, set()),
        (
            {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}},
            {"app", "tier", "rev"},
        ),
        (
            {
                "podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "podAffinityTerm": TERM}
                    ]
                }
            },
            {"app", "tier", "rev"},
        ),
        ({"topologySpreadConstraints": [TERM, {"topologyKey": "zone"}]}, {"app", "tier", "rev"}),
    ],
)
def test_the_keys_that_affinity_and_spread_ask_for(extras, keys):
    assert asked_keys(extras) == keys


async def labels_told(w) -> dict[str, dict[str, str]]:
    return {
        key: fact.shape.labels for key, fact in (await w.state()).items() if key.startswith("pod/default/")
    }


def keeping_apart(name: str) -> dict:
    """A pod of somebody else that keeps away from those with the label app=train."""
    anti = {"requiredDuringSchedulingIgnoredDuringExecution": [{**TERM, "matchLabelKeys": []}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "other", "team": "b"}},
        "spec": {
            "nodeName": "node-9",
            "affinity": {"podAntiAffinity": anti},
            "containers": [{"name": "c", "image": "i"}],
        },
    }


async def test_labels_are_told_once_some_pod_asks_for_them(world):
    async with world() as w:
        body = job()
        for one in body["spec"]["tasks"]:
            one["template"] = {**one["template"], "metadata": {"labels": {"app": "train", "user": "ann"}}}
        await w.admit(body)
        await w.run_gang()
        assert set(map(str, (await labels_told(w)).values())) == {"{}"}
        await w.cluster.create(r.PODS, "default", keeping_apart("shy"))

        async def told():
            found = await labels_told(w)
            return len(found) == 5 and all(found.values()) and found

        found = await w.until(told)
        assert found["pod/default/train-worker-0"] == {"app": "train"}
        assert found["pod/default/shy"] == {"app": "other"}

        async def gang_told():
            groups = [fact for key, fact in (await w.state()).items() if key.startswith("podgroup/")]
            return {str(task.shape.labels) for fact in groups for task in fact.gang.tasks}

        assert await w.until(gang_told) == {"{'app': 'train'}"}


async def test_a_job_that_asks_for_its_own_labels_is_told_with_them_before_it_has_pods(world):
    async with world() as w:
        body = job()
        anti = {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"volcano.sh/job-name": "train"}}, "topologyKey": "zone"}
        ]}  # fmt: skip
        for one in body["spec"]["tasks"]:
            spec = {**one["template"]["spec"], "affinity": {"podAntiAffinity": anti}}
            one["template"] = {"spec": spec}
        await w.admit(body)
        gang = (await w.ready())[0].gang
        assert {str(task.shape.labels) for task in gang.tasks} == {"{'volcano.sh/job-name': 'train'}"}
