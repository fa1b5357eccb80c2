"""Pods that a decision takes away for its gang."""

from __future__ import annotations

import pytest

from services.controller.core.evicting import disruption, is_to_go
from shared.api import resources as r
from shared.errors import Conflict, Refused
from shared.events import topics
from shared.events.contracts import DecisionOutcome, Eviction, GangRef
from tests.unit.controller.conftest import EPOCH, job

WHY = "makes room for team-a/urgent, which has priority 100"


def victim(**more):
    meta = {"name": "v", "namespace": "default", "uid": "u", "creationTimestamp": "2026-03-01T12:00:00Z"}
    return {"metadata": meta, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}, **more}


GOING = {**victim()["metadata"], "deletionTimestamp": "2026-03-01T12:00:00Z"}


@pytest.mark.parametrize(
    ("pod", "uid", "to_go"),
    [
        (victim(), "u", True),
        (victim(status={"phase": "Pending"}), "u", True),
        (None, "u", False),
        (victim(), "an earlier one of that name", False),
        (victim(metadata=GOING), "u", False),
        (victim(status={"phase": "Succeeded"}), "u", False),
        (victim(status={"phase": "Failed"}), "u", False),
    ],
)
def test_only_the_very_pod_that_still_holds_room_is_taken_away(pod, uid, to_go):
    assert is_to_go(Eviction(namespace="default", pod="v", uid=uid, reason=WHY), pod) is to_go


def test_the_victims_status_says_why_before_it_goes():
    patch = disruption(Eviction(namespace="default", pod="v", uid="u", reason=WHY), EPOCH)
    assert patch["metadata"] == {"uid": "u"}
    assert patch["status"]["conditions"] == [
        {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": WHY,
            "lastTransitionTime": "2026-03-01T12:00:00Z",
        }
    ]


async def evict(w, *pods, reason=WHY, **changes):
    """Have the only gang there is evict pods, and return what became of it."""
    before = len(await w.events(topics.BIND_RESULTS))
    gang = (await w.ready())[-1].gang
    evictions = tuple(
        Eviction(namespace="default", pod=p["metadata"]["name"], uid=p["metadata"]["uid"], reason=reason)
        for p in pods
    )
    decided = w.decision(gang, pods=(), enqueue=False).model_copy(update={"evictions": evictions, **changes})
    await w.send(topics.BIND_DECISIONS, b"default", decided, event_id=decided.decision)
    return (await w.results(before + 1))[-1]


async def foreign(w, name="bare"):
    """A running pod that no job owns."""
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulerName": "other", "nodeName": "node-9", "containers": [{"name": "c", "image": "i"}]},
    }
    pod = await w.cluster.create(r.PODS, "default", body)
    w.cluster.run_pods(name)
    return pod


def evict_events(w) -> list[tuple[str, str, str]]:
    return sorted(
        (e["involvedObject"]["kind"], e["involvedObject"]["name"], e["message"])
        for e in w.cluster.all(r.EVENTS)
        if e["reason"] == "Evict"
    )


async def test_victims_go_with_two_writes_each_and_their_job_answers_as_to_any_loss(world):
    async with world() as w:
        policies = [{"event": "PodEvicted", "action": "RestartJob"}]
        await w.admit(job(policies=policies))
        await w.run_gang()
        pod, group = w.pods()["train-worker-1"], w.group()["metadata"]["name"]
        written = len(w.cluster.log)
        result = await evict(w, pod)
        assert result.outcome is DecisionOutcome.APPLIED
        assert result.eviction_failures == ()
        assert w.cluster.log[written : written + 2] == [
            "patch pods/train-worker-1",
            "delete pods/train-worker-1",
        ]
        w.cluster.stop_pods()
        await w.until(lambda: w.phase() == "Restarting")
        await w.until(lambda: len(evict_events(w)) == 2)
        assert evict_events(w) == [
            ("Pod", "train-worker-1", WHY),
            ("PodGroup", group, f"pod default/train-worker-1 was evicted: {WHY}"),
        ]


async def test_a_victim_without_a_policy_is_made_again_and_waits_for_a_node(world):
    async with world() as w:
        await w.admit(job())
        await w.run_gang()
        pod = w.pods()["train-worker-1"]
        await evict(w, pod)
        w.cluster.stop_pods()
        await w.until(
            lambda: w.pods().get("train-worker-1", pod)["metadata"]["uid"] != pod["metadata"]["uid"]
        )
        assert w.places()["train-worker-1"] is None


async def test_a_victim_that_is_gone_already_is_no_failure(world):
    async with world() as w:
        await w.admit(job())
        await w.run_gang()
        pod = w.pods()["train-worker-1"]
        gone = {**pod, "metadata": {**pod["metadata"], "uid": "earlier"}}
        result = await evict(w, gone)
        assert (result.outcome, result.eviction_failures) == (DecisionOutcome.APPLIED, ())
        assert "train-worker-1" in w.pods()


async def test_a_victim_that_the_api_server_keeps_is_told_and_the_others_go(world):
    async with world() as w:
        await w.admit(job())
        await w.run_gang()
        stays, goes = await foreign(w, "kept"), await foreign(w, "bare")

        async def refuse(verb, resource, name):
            if (verb, resource, name) == ("patch", r.PODS, "kept"):
                raise Refused("a webhook says no")

        w.cluster.before = refuse
        result = await evict(w, stays, goes)
        assert result.outcome is DecisionOutcome.PARTIAL
        assert [(one.pod, one.message) for one in result.eviction_failures] == [("kept", "a webhook says no")]
        assert result.message == "1 pods could not be evicted: a webhook says no"
        w.cluster.stop_pods()
        assert "kept" in w.pods()
        assert "bare" not in w.pods()


async def test_a_write_at_the_same_time_does_not_save_a_victim(world):
    async with world() as w:
        await w.admit(job())
        await w.run_gang()
        pod, left = await foreign(w), [True]

        async def conflict(verb, resource, name):
            if (verb, name) == ("patch", "bare") and left:
                left.pop()
                raise Conflict("somebody wrote")

        w.cluster.before = conflict
        result = await evict(w, pod)
        assert (result.outcome, left) == (DecisionOutcome.APPLIED, [])
        w.cluster.stop_pods()
        assert "bare" not in w.pods()


async def test_a_gang_that_others_went_for_still_waits_to_be_let_in(world):
    async with world() as w:
        await w.admit(job())
        pod = await foreign(w)
        result = await evict(w, pod)
        assert result.outcome is DecisionOutcome.APPLIED
        w.cluster.stop_pods()
        await w.admit(job("later"), "sub-2")
        await w.until(lambda: len(w.cluster.all(r.PODGROUPS)) == 2)
        assert {group["status"]["phase"] for group in w.cluster.all(r.PODGROUPS)} == {"Pending"}
        assert w.pods() == {}


async def test_nobody_goes_for_a_gang_that_is_no_more(world):
    async with world() as w:
        await w.admit(job())
        await w.run_gang()
        pod = await foreign(w)
        other = GangRef(namespace="default", name=w.group()["metadata"]["name"], uid="an earlier one")
        result = await evict(w, pod, gang=other)
        assert result.outcome is DecisionOutcome.REFUSED
        w.cluster.stop_pods()
        assert "bare" in w.pods()
