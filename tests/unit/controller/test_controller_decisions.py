"""Carrying decisions out: whole, in part above the minimum, or taken back."""

from __future__ import annotations

import asyncio

import pytest

from services.controller.core import apply
from services.controller.core.model import Priorities, read_group, read_job
from services.controller.core.podgroups import make_podgroup
from services.controller.core.podview import PodView
from services.controller.core.status import Status
from shared.api import resources as r
from shared.api.batch import JobPhase
from shared.errors import Refused, Unavailable
from shared.events import topics
from shared.events.contracts import (
    BindFailure,
    Binding,
    DecisionOutcome,
    GangDecided,
    GangRef,
    JobAction,
)
from tests.unit.controller.conftest import EPOCH, job

NODES = {"train-master-0": "n0", "train-worker-0": "n1", "train-worker-1": "n2", "train-worker-2": "n3"}


def node(*, ready=True, **more):
    conditions = [{"type": "Ready", "status": "True" if ready else "Unknown"}]
    return {"metadata": {}, "spec": {}, "status": {"conditions": conditions}} | more


THERE = {("", name): node() for name in NODES.values()}


def gang(*, phase="Pending", generation=0, job_phase=None, pods=(), nodes=None, **spec) -> apply.Gang:
    body = job(**spec)
    body["metadata"] |= {"uid": "u", "creationTimestamp": "2026-03-01T12:00:00Z", "resourceVersion": "1"}
    wanted = read_job(body)
    raw = make_podgroup(wanted, generation, Priorities(), EPOCH)
    raw["metadata"] |= {"uid": "g", "creationTimestamp": "2026-03-01T12:00:00Z"}
    raw["status"]["phase"] = phase
    status = Status(phase=job_phase, generation=generation)
    return apply.Gang(
        wanted, status, read_group(raw), {pod.name: pod for pod in pods}, THERE if nodes is None else nodes
    )


def decision(**changes) -> GangDecided:
    bindings = tuple(Binding(pod=pod, task=pod.split("-")[1], node=node) for pod, node in NODES.items())
    whole = {
        "decision": "d-1",
        "pool": "default",
        "gang": GangRef(namespace="default", name="train-u", uid="g", generation=0),
        "enqueue": True,
        "minimum": 4,
        "bindings": bindings,
        "decided_at": EPOCH,
    }
    return GangDecided(**(whole | changes))


def pod(name="train-worker-0", node=None, **more) -> PodView:
    values = {"generation": 0, "phase": "Pending"} | more
    return PodView(name=name, uid=f"uid-{name}", task=name.split("-")[1], index=0, node=node, **values)


# ----------------------------------------------------------------------------------------- examine
@pytest.mark.parametrize("bindings", [True, False])
def test_a_new_gang_is_let_in_and_created_bound(bindings):
    decided = decision() if bindings else decision(bindings=(), minimum=0)
    verdict = apply.examine(decided, gang())
    assert (verdict.refused, verdict.enqueue, verdict.hopeless) == ("", True, False)
    assert [type(step) for step in verdict.steps] == [apply.CreateBound] * (4 if bindings else 0)


@pytest.mark.parametrize(
    ("decided", "there", "why"),
    [
        ({}, apply.Gang(None, Status(), None, {}, {}), "job is gone"),
        ({"gang": GangRef(namespace="default", name="train-u", uid="older")}, gang(), "podgroup is gone"),
        ({}, gang(generation=2), "generation 0 is over"),
        ({}, gang(job_phase=JobPhase.ABORTING), "the job is Aborting"),
        ({"enqueue": False}, gang(), "not in the queue any more"),
    ],
)
def test_a_decision_about_what_is_no_more_is_refused(decided, there, why):
    verdict = apply.examine(decision(**decided), there)
    assert why in verdict.refused
    assert verdict.steps == ()


@pytest.mark.parametrize(
    ("there", "uid", "step", "code"),
    [
        (pod(node="n1"), None, apply.InPlace, ""),
        (pod(), None, apply.BindExisting, ""),
        (pod(), "uid-train-worker-0", apply.BindExisting, ""),
        (pod(), "another", BindFailure, "name-taken"),
        (pod(node="n9"), None, BindFailure, "placed-elsewhere"),
        (pod(generation=7), None, BindFailure, "name-taken"),
        (pod(node="n1", deleting=True), None, BindFailure, "pod-gone"),
        (None, "uid-train-worker-0", BindFailure, "pod-gone"),
        (None, None, apply.CreateBound, ""),
    ],
)
def test_what_a_binding_needs_depends_on_the_pod_that_is_there(there, uid, step, code):
    binding = Binding(pod="train-worker-0", task="worker", node="n1", uid=uid)
    verdict = apply.examine(
        decision(bindings=(binding,), minimum=1), gang(pods=[there] if there else [], phase="Inqueue")
    )
    assert isinstance(verdict.steps[0], step)
    if code:
        assert verdict.steps[0].code == code


def test_a_pod_that_is_no_member_is_not_created():
    binding = Binding(pod="train-worker-9", task="worker", node="n1")
    verdict = apply.examine(decision(bindings=(binding,), minimum=1), gang())
    assert verdict.hopeless
    assert verdict.steps[0].code == "no-member"


def test_with_too_few_possible_bindings_nothing_is_tried():
    verdict = apply.examine(decision(), gang(pods=[pod(node="elsewhere")]))
    assert (verdict.hopeless, verdict.enqueue) == (True, False)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (None, "node n1 is gone"),
        (node(metadata={"deletionTimestamp": "2026-03-01T12:00:00Z"}), "node n1 is being deleted"),
        (node(spec={"unschedulable": True}), "node n1 is cordoned"),
        (node(ready=False), "node n1 is not ready"),
        (node(status={}), "node n1 is not ready"),
    ],
)
def test_no_pod_goes_to_a_node_that_was_lost_or_closed_since_the_decision(found, why):
    nodes = {key: one for key, one in (THERE | {("", "n1"): found}).items() if one}
    whole = apply.examine(decision(), gang(nodes=nodes))
    assert (whole.hopeless, whole.enqueue) == (True, False)
    there = gang(nodes=nodes, pods=[pod(), pod("train-worker-1", node="n2")], minAvailable=3, phase="Inqueue")
    steps = apply.examine(decision(minimum=3), there).steps
    assert [type(step) for step in steps] == [
        apply.CreateBound,
        BindFailure,
        apply.InPlace,
        apply.CreateBound,
    ]
    assert (steps[1].code, steps[1].message) == ("node-closed", f"train-worker-0: {why}")


def test_a_pod_that_tolerates_it_goes_to_a_cordoned_node_and_one_that_is_there_stays():
    cordoned = {key: node(spec={"unschedulable": True}) for key in THERE}
    tolerations = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
    tasks = job()["spec"]["tasks"]
    for task in tasks:
        task["template"]["spec"]["tolerations"] = tolerations
    assert not apply.examine(decision(), gang(nodes=cordoned, tasks=tasks)).hopeless
    placed = [pod(name, node=place) for name, place in NODES.items()]
    assert not apply.examine(decision(), gang(nodes=cordoned, pods=placed, phase="Inqueue")).hopeless


def test_a_tasks_own_minimum_holds_beside_the_jobs():
    three_workers = decision().bindings[1:]
    there = gang(minAvailable=3, tasks=job()["spec"]["tasks"])
    assert not apply.examine(decision(bindings=three_workers, minimum=3), there).hopeless  # 3 < Σ minimums
    strict = gang()
    assert apply.examine(decision(bindings=three_workers, minimum=3), strict).hopeless


# ------------------------------------------------------------------------------------------ carried out
class TestCarriedOut:
    pytestmark = pytest.mark.looptime

    async def test_a_decision_that_counts_on_pods_which_are_gone_is_taken_back_untried(self, world):
        async with world() as w:
            await w.admit(job())
            await w.decide(pods={"train-master-0"}, minimum=1)
            [result] = await w.results()
            assert (result.outcome, result.bound) == (DecisionOutcome.ROLLED_BACK, ())
            assert "other pods of the gang are gone" in result.message
            assert w.pods() == {}
            await w.decide()
            assert (await w.results(2))[1].outcome is DecisionOutcome.APPLIED

    async def test_one_refused_pod_of_a_gang_takes_all_of_it_back(self, world):
        async with world() as w:
            await w.admit(job())
            ready = (await w.ready())[0].gang

            async def quota(verb, resource, name):
                if (verb, name) == ("create", "train-worker-1"):
                    raise Refused("exceeded quota", status=403, reason="Forbidden")

            w.cluster.before = quota
            await w.decide(ready)
            result = (await w.results())[0]
            assert result.outcome is DecisionOutcome.ROLLED_BACK
            assert [f.code for f in result.failures] == ["refused"]
            assert "exceeded quota" in result.failures[0].message
            w.cluster.stop_pods()
            await w.until(lambda: not any(w.places().values()) and w.group_phase() == "Pending")
            log = w.cluster.log
            assert log.index(next(line for line in log if "delete pods" in line)) > len(log) - 5

            async def told():
                return not [k for k in await w.state() if k.startswith("pod/")]

            await w.until(told)
            w.cluster.before = _nothing
            await w.decide(ready)
            assert (await w.results(2))[1].outcome is DecisionOutcome.APPLIED

    async def test_above_the_minimum_the_rest_is_made_pending_and_bound_later(self, world):
        async with world() as w:
            await w.admit(job(minAvailable=2))
            ready = (await w.ready())[0].gang
            await w.decide(ready, pods={"train-master-0", "train-worker-0"})
            assert (await w.results())[0].outcome is DecisionOutcome.APPLIED
            await w.until(lambda: len(w.pods()) == 4)
            assert sorted(name for name, node in w.places().items() if node is None) == [
                "train-worker-1",
                "train-worker-2",
            ]
            w.cluster.run_pods()
            await w.until(lambda: w.phase() == "Running")
            await w.decide(ready, pods={"train-worker-1", "train-worker-2"}, enqueue=False, minimum=0)
            assert (await w.results(2))[1].outcome is DecisionOutcome.APPLIED
            assert w.cluster.writes["bind", "pods"] == 2
            state = await w.state()
            assert state["pod/default/train-worker-2"].node is not None

    async def test_a_binding_that_fails_above_the_minimum_leaves_the_others(self, world):
        async with world() as w:
            await w.admit(job(minAvailable=2))
            ready = (await w.ready())[0].gang

            async def refuse(verb, resource, name):
                if (verb, name) == ("create", "train-worker-2"):
                    w.cluster.before = _nothing
                    raise Refused("no")

            w.cluster.before = refuse
            await w.decide(ready)
            result = (await w.results())[0]
            assert result.outcome is DecisionOutcome.PARTIAL
            assert len(result.bound) == 3
            await w.until(lambda: len(w.pods()) == 4)
            assert w.places()["train-worker-2"] is None

    async def test_an_api_server_that_is_away_is_waited_for_with_the_gang_half_made(self, world):
        async with world() as w:
            await w.admit(job())
            ready = (await w.ready())[0].gang
            tries = []

            async def away(verb, resource, name):
                if resource is r.PODS and name == "train-worker-2" and len(tries) < 5:
                    tries.append(name)
                    raise Unavailable("away")

            w.cluster.before = away
            await w.decide(ready)
            assert (await w.results())[0].outcome is DecisionOutcome.APPLIED
            assert len([line for line in w.cluster.log if line.startswith("create pods")]) == 4

    async def test_a_job_that_goes_with_all_it_has_while_its_gang_is_made_stops_nobody(self, world):
        async with world() as w:
            await w.admit(job())

            async def vanish(verb, resource, name):
                if (verb, name) == ("create", "train-worker-2"):
                    raise Refused("the namespace is being terminated")
                if (verb, name) == ("create", "train-worker-0"):
                    w.cluster.remove(r.JOBS, "default", "train")

            w.cluster.before = vanish
            await w.decide()
            assert (await w.results())[0].outcome is DecisionOutcome.ROLLED_BACK
            w.cluster.before = _nothing
            w.cluster.stop_pods()
            await w.admit(job(), "sub-2")
            await w.decide((await w.ready(2))[-1].gang)
            assert (await w.results(2))[1].outcome is DecisionOutcome.APPLIED

    async def test_why_pods_could_not_be_made_is_said_on_the_job_once(self, world):
        async with world() as w:
            await w.admit(job())
            ready = (await w.ready())[0].gang
            w.cluster.change(r.NODES, None, "node-2", {"spec": {"unschedulable": True}})

            async def seen():
                return (await w.state())["node//node-2"].unschedulable

            await w.until(seen)
            for tries in (1, 2):
                await w.decide(ready)
                assert (await w.results(tries))[-1].outcome is DecisionOutcome.ROLLED_BACK
            await asyncio.sleep(1)
            said = [e["message"] for e in w.cluster.all(r.EVENTS) if e["reason"] == "FailedCreate"]
            assert said == ["1 of 4 bindings failed: train-worker-1: node node-2 is cordoned"]
            assert w.pods() == {}

    async def test_the_states_of_the_pods_are_on_the_log_before_the_result(self, world):
        async with world() as w:
            await w.admit(job())
            await w.decide()
            reader = await w.log.read([topics.CLUSTER_STATE, topics.BIND_RESULTS])
            seen = []
            while not any(d.topic == topics.BIND_RESULTS for d in seen):
                seen += await reader.poll(timeout=0.1)
            bound = [
                d.key
                for d in seen
                if (d.key or b"").startswith(b"pod/") and b'"node":"node-' in (d.value or b"")
            ]
            assert len(set(bound)) == 4

    async def test_a_decision_for_a_suspended_job_is_refused(self, world):
        async with world() as w:
            await w.admit(job())
            ready = (await w.ready())[0].gang
            await w.command(JobAction.SUSPEND)
            await w.until(lambda: w.phase() == "Aborted")
            await w.decide(ready)
            assert (await w.results())[0].outcome is DecisionOutcome.REFUSED
            await asyncio.sleep(1)
            assert w.pods() == {}

    async def test_another_pod_under_a_members_name_is_not_taken_for_it(self, world):
        async with world() as w:
            await w.admit(job())
            ready = (await w.ready())[0].gang
            w.cluster.put(
                r.PODS,
                {"metadata": {"name": "train-worker-0"}, "spec": {"nodeName": "node-1", "containers": []}},
                "default",
            )
            await w.decide(ready)
            result = (await w.results())[0]
            assert result.outcome is DecisionOutcome.ROLLED_BACK
            assert [f.code for f in result.failures] == ["name-taken"]
            w.cluster.stop_pods()
            assert set(w.pods()) == {"train-worker-0"}

    async def test_no_pod_of_a_gang_is_made_while_somebody_else_is_known_to_have_the_name_of_one(self, world):
        async with world() as w:
            await w.admit(job())
            ready = (await w.ready())[0].gang
            w.cluster.put(r.PODS, {"metadata": {"name": "train-worker-0"}, "spec": {"containers": []}})
            await asyncio.sleep(1)
            await w.decide(ready)
            [result] = await w.results()
            assert [f.code for f in result.failures] == ["name-taken"]
            assert "belongs to somebody else" in result.message
            w.cluster.remove(r.PODS, "default", "train-worker-0")
            await asyncio.sleep(1)
            await w.decide(ready)
            await w.results(2)
            assert len(w.pods()) == 4
            assert [line for line in w.cluster.log if "delete pods" in line] == []


async def _nothing(verb, resource, name):
    return None
