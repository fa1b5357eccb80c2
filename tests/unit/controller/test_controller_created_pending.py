"""With ``born_bound`` off: a gang's pods are created Pending, all of them, and then bound; whole or not at all."""

from __future__ import annotations

import asyncio

import pytest

from shared.api import resources as r
from shared.errors import Refused
from shared.events.contracts import DecisionOutcome
from tests.unit.controller.conftest import job
from tests.unit.controller.test_controller_dry_runs import allow

pytestmark = pytest.mark.looptime


def refuse(w, verb, pod):
    async def before(what, resource, name):
        if (what, resource, name) == (verb, r.PODS, pod):
            raise Refused("by policy", status=403)

    w.cluster.before = before


def pod_writes(w):
    return [line for line in w.cluster.log if " pods/" in line and not line.startswith("dry-run")]


async def test_all_pods_of_a_gang_exist_without_a_node_before_the_first_is_bound(world):
    async with world(born_bound=False) as w:
        await w.admit(job())
        gang = (await w.ready())[0].gang
        assert w.pods() == {}
        born = []

        async def note(verb, resource, name):
            if (verb, resource) == ("create", r.PODS):
                born.append((w.group_phase(), w.places()[name]))

        w.cluster.after = note
        decision = await w.decide(gang)
        assert (await w.results())[0].outcome is DecisionOutcome.APPLIED
        assert born == [("Inqueue", None)] * 4
        assert [line.split()[0] for line in pod_writes(w)] == ["create"] * 4 + ["bind"] * 4
        assert w.places() == {one.pod: one.node for one in decision.bindings}
        w.cluster.run_pods()
        await w.until(lambda: w.phase() == "Running")


@pytest.mark.parametrize(("verb", "bound"), [("create", 0), ("bind", 3)])
async def test_one_refused_pod_takes_all_of_the_gang_back_those_that_wait_too(world, verb, bound):
    async with world(born_bound=False) as w:
        await w.admit(job())
        gang = (await w.ready())[0].gang
        refuse(w, verb, "train-worker-1")
        await w.decide(gang)
        result = (await w.results())[0]
        assert result.outcome is DecisionOutcome.ROLLED_BACK
        assert [one.code for one in result.failures] == ["refused"]
        assert w.cluster.writes["bind", "pods"] == bound
        w.cluster.stop_pods()
        await w.until(lambda: w.pods() == {} and w.group_phase() == "Pending")
        await asyncio.sleep(10)
        assert (w.pods(), w.phase()) == ({}, "Pending"), "what is taken back is no eviction, and stays away"
        allow(w)
        await w.decide(gang)
        assert (await w.results(2))[1].outcome is DecisionOutcome.APPLIED


@pytest.mark.parametrize("verb", ["create", "bind"])
async def test_above_the_minimum_one_refused_pod_leaves_the_others(world, verb):
    async with world(born_bound=False) as w:
        await w.admit(job(minAvailable=2))
        gang = (await w.ready())[0].gang
        refuse(w, verb, "train-worker-2")
        await w.decide(gang)
        result = (await w.results())[0]
        assert (result.outcome, len(result.bound)) == (DecisionOutcome.PARTIAL, 3)
        assert [name for name, node in w.places().items() if node is None] in ([], ["train-worker-2"])
        allow(w)
        await w.until(lambda: len(w.pods()) == 4)


@pytest.mark.parametrize("wanted", [True, False])
async def test_an_event_on_each_pod_says_where_it_was_put_if_that_is_wanted(world, wanted):
    async with world(scheduled_events=wanted) as w:
        await w.admit(job())
        await w.run_gang()
        await asyncio.sleep(5)
        told = {
            one["involvedObject"]["name"]: one["message"]
            for one in w.cluster.all(r.EVENTS)
            if one["reason"] == "Scheduled" and one["involvedObject"]["kind"] == "Pod"
        }
        places = w.places() if wanted else {}
        assert told == {pod: f"Successfully assigned default/{pod} to {node}" for pod, node in places.items()}


@pytest.mark.parametrize(
    ("minimum", "wanted", "told"),
    [(4, False, ["pod group is ready"]), (1, False, []), (1, True, ["pod group is ready"])],
)
async def test_an_event_says_once_that_a_gang_started_and_of_a_gang_of_one_if_that_is_wanted(
    world, minimum, wanted, told
):
    async with world(scheduled_events=wanted) as w:
        await w.admit(job(minAvailable=minimum))
        await w.run_gang()
        w.cluster.run_pods()
        await asyncio.sleep(5)
        events = [one for one in w.cluster.all(r.EVENTS) if one["involvedObject"]["kind"] == "PodGroup"]
        assert [one["message"] for one in events] == told
        assert {(one["reason"], one["type"]) for one in events} <= {("Scheduled", "Normal")}
