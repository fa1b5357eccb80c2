"""An eviction: the victim goes after its grace, its job's pod comes again, and everybody can follow."""

from __future__ import annotations

from datetime import timedelta

import pytest

from services.simulation.core.engine import Simulation
from services.simulation.core.timeline import seconds
from shared.api import resources as r
from shared.events.contracts import Eviction, GangDecided, GangRef
from tests.unit.simulation.worlds import happened, job, node, pod, run, scenario


class World(Simulation):
    """A simulation in which a test decides."""

    def evict(self, victim: str, beneficiary: str) -> None:
        raw = self._store.all(r.PODS)["default", victim]
        group = next(
            one["metadata"]
            for one in self._store.all(r.PODGROUPS).values()
            if one["metadata"]["ownerReferences"][0]["name"] == beneficiary
        )
        eviction = Eviction(
            namespace="default",
            pod=victim,
            uid=raw["metadata"]["uid"],
            reason=f"makes room for {beneficiary}",
        )
        self._applier.carry_out(
            GangDecided(
                decision=f"test/{victim}",
                pool="default",
                gang=GangRef(namespace="default", name=group["name"], uid=group["uid"]),
                evictions=(eviction,),
                decided_at=self._timeline.now,
            )
        )
        self._settle()

    def go_on(self, until: float) -> None:
        while (at := self._timeline.next()) is not None and seconds(at) <= until:
            self._timeline.advance(at)
            self._settle()


@pytest.mark.parametrize("grace", [0, 30])
def test_a_victim_is_told_goes_after_its_grace_and_its_pod_is_made_again(grace: int) -> None:
    world = World()
    low = job("low", grace_period=f"{grace}s")
    outcome = world.run(scenario(node("a"), low, job("high", at="5s")), timedelta(seconds=10))
    before = world._store.all(r.PODS)["default", "low-w-0"]["metadata"]["uid"]
    world.evict("low-w-0", "high")
    if grace:
        assert world._store.all(r.PODS)["default", "low-w-0"]["metadata"]["deletionTimestamp"]
        assert world._model.pods["default", "low-w-0"].releasing
    world.go_on(100)
    found = outcome.as_json()
    (evicted,) = found["evicted"]
    assert evicted == {
        "pod": "default/low-w-0",
        "at": 5.0,
        "for": "default/high",
        "reason": "makes room for high",
    }
    assert happened(found, "deleted", "Pod") == [(5.0 + grace, "Pod default/low-w-0")]
    assert world._store.get(r.PODS, ("default", "low-w-0")) is None or (
        world._store.all(r.PODS)["default", "low-w-0"]["metadata"]["uid"] != before
    )
    assert [one for _, one in happened(found, "started")][:1] == ["Pod default/low-w-0"]
    assert len(happened(found, "started")) == 2


def test_a_victim_that_ended_meanwhile_is_not_evicted() -> None:
    world = World()
    outcome = world.run(
        scenario(node("a"), job("low", run_for="3s"), job("high", gpu=16)),
        timedelta(seconds=10),
    )
    world.evict("low-w-0", "high")
    assert outcome.as_json()["evicted"] == []


URGENT = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "urgent"},
    "value": 100,
}


@pytest.mark.parametrize(("says", "evicted"), [("true", ["default/low-w-0"]), ("false", [])])
def test_a_pods_label_says_whether_it_may_be_evicted(says: str, evicted: list[str]) -> None:
    low = job("low")
    low["spec"]["tasks"][0]["template"]["metadata"]["labels"] = {"volcano.sh/preemptable": says}
    high = job("high", at="5s", run_for="10s", spec={"priorityClassName": "urgent"})
    found = run(URGENT, node("a"), low, high, until=timedelta(minutes=10))
    assert [one["pod"] for one in found["evicted"]] == evicted


def test_a_cooldown_begins_when_its_pod_is_bound() -> None:
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"minMember": 1},
    }
    low = pod("low", 8, group="g")
    low["metadata"]["labels"] = {"volcano.sh/cooldown-time": "60s"}
    high = job("high", at="110s", run_for="10s", spec={"priorityClassName": "urgent"})
    found = run(URGENT, node("a", at="100s"), group, low, high, until=timedelta(minutes=10))
    assert [(one["pod"], one["at"]) for one in found["evicted"]] == [("default/low", 160.0)]
