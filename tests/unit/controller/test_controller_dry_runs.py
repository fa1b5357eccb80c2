"""Gangs are announced with what the API server would make of their pods, and wait where it would refuse them."""

from __future__ import annotations

import asyncio
import copy

import pytest

from services.controller.core.dryrun import Admitted, read_shapes, template_digest, write_shapes
from services.controller.core.model import Priorities, read_job
from shared.api import names
from shared.api import resources as r
from shared.errors import Conflict, Refused, Unavailable
from shared.events import topics
from shared.events.contracts import JobAction, Shape
from tests.unit.controller.conftest import job

SIDECAR = {"name": "proxy", "image": "proxy", "resources": {"requests": {"cpu": "500m"}}}
TOLERATION = {"key": "pool", "operator": "Exists"}


def read(body, uid="u", namespace="default"):
    body = copy.deepcopy(body)
    body["metadata"] |= {"uid": uid, "namespace": namespace, "creationTimestamp": "2026-03-01T12:00:00Z"}
    return read_job(body)


def changed(change, **spec):
    body = copy.deepcopy(job(**spec))
    for task in body["spec"]["tasks"]:
        task["template"] = copy.deepcopy(task["template"])
        change(task["template"])
    return body


def set_env(template):
    template["spec"]["containers"][0] |= {"env": [{"name": "LR", "value": "0.1"}], "args": ["--lr=0.1"]}


# ------------------------------------------------------------------------------------------ which are alike
def digest(body, **more):
    one = read(body, **more)
    return template_digest(one, one.tasks[0], Priorities({"high": 9}))


def test_jobs_that_differ_in_name_and_program_alone_are_asked_about_once():
    assert digest(job()) == digest(job("other"), uid="v") == digest(changed(set_env))


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t["spec"]["containers"][0]["resources"]["requests"].update({"cpu": "3"}),
        lambda t: t["spec"]["containers"][0].update(image="other"),
        lambda t: t["spec"].update(nodeSelector={"a": "b"}),
        lambda t: t["spec"].update(serviceAccountName="robot"),
        lambda t: t["spec"].update(priorityClassName="high"),
        lambda t: t.update(metadata={"labels": {"team": "a"}}),
        lambda t: t.update(metadata={"annotations": {"sidecar.example.org/inject": "true"}}),
    ],
)
def test_what_a_webhook_or_default_may_look_at_is_asked_about_anew(change):
    assert digest(changed(change)) != digest(job())


def test_namespaces_queues_plugins_and_claims_are_asked_about_apart():
    volumes = [{"mountPath": "/data", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}]
    others = [
        job(queue="other"),
        job(plugins={"svc": []}),
        job(volumes=volumes),
        job(priorityClassName="high"),
    ]
    found = {digest(one) for one in others} | {digest(job(), namespace="team"), digest(job())}
    assert len(found) == len(others) + 2
    assert digest(job(volumes=volumes), uid="v") not in found


def test_tasks_with_equal_shapes_share_one_and_all_are_read_back():
    one, two = Admitted(Shape(requests={"cpu": 1})), Admitted(Shape(requests={"cpu": 2}), "high")
    text = write_shapes({"a": one, "b": two, "c": one})
    assert text.count("shape") == 2
    assert read_shapes(text) == {"a": one, "b": two, "c": one}
    assert two.shape_now(Priorities({"high": 9})).priority == 9


# ----------------------------------------------------------------------------------------- what is announced
class TestAnnounced:
    pytestmark = pytest.mark.looptime

    async def test_what_the_api_server_adds_counts_before_any_pod_exists(self, world):
        async with world() as w:
            w.cluster.admit = inject
            await w.admit(job())
            gang = (await w.ready())[0].gang
            assert (w.pods(), gang.pool) == ({}, "gpu")
            for task in gang.tasks:
                shape = task.shape
                assert shape.requests == {"cpu": 2500 + 250, "nvidia.com/gpu": 8}
                assert (shape.node_selector, shape.priority) == ({names.NODE_POOL: "gpu"}, 0)
                assert [one.key for one in shape.tolerations] == ["pool"]
            await w.decide(gang)
            await w.results()
            state = await w.state()
            announced = {m.pod: t.shape for t in gang.tasks for m in t.members}
            for name, shape in announced.items():
                assert state[f"pod/default/{name}"].shape == shape

    async def test_a_burst_of_equal_jobs_is_asked_about_once_for_each_task(self, world):
        async with world() as w:
            for number in range(30):
                body = changed(set_env)
                body["metadata"]["name"] = f"train-{number}"
                body["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["args"] = [str(number)]
                await w.admit(body, submission=f"sub-{number}")
            await w.ready(30)
            assert writes(w, "dry-run", "pods") == 2
            assert writes(w, "create", "podgroups") == 30
            assert writes(w, "create", "pods") == writes(w, "patch", "podgroups") == 0

    async def test_a_gang_that_waits_is_asked_about_again_after_a_while(self, world):
        async with world(dry_run_seconds=60) as w:
            await w.admit(job())
            assert (await w.ready())[0].gang.tasks[0].shape.requests["cpu"] == 2000
            w.cluster.admit = inject
            await asyncio.sleep(30)
            assert len(await w.ready()) == 1
            again = (await w.until(lambda: news(w, 2), seconds=40))[-1].gang
            assert again.tasks[0].shape.requests["cpu"] == 2750
            assert (await w.state())[f"podgroup/default/{again.name}"].gang == again
            await asyncio.sleep(300)
            assert len(await w.ready()) == 2

    async def test_a_new_controller_tells_the_same_of_a_gang_that_waits(self, world):
        async with world() as w:
            w.cluster.admit = inject
            await w.admit(job())
            gang = (await w.ready())[0].gang
            await w.stop()
            before = len(await w.events(topics.CLUSTER_STATE))
            await w.start()
            await asyncio.sleep(10)
            told = [e.data for e in (await w.events(topics.CLUSTER_STATE))[before:] if e is not None]
            assert [one for one in told if getattr(one, "gang", None)] == []
            assert (await w.state())[f"podgroup/default/{gang.name}"].gang == gang

    async def test_what_somebody_else_wrote_over_the_answer_is_put_right(self, world):
        async with world() as w:
            await w.admit(job())
            gang = (await w.ready())[0].gang
            await w.stop()
            annotations = {names.SHAPES: '[{"tasks": 3}]'}
            w.cluster.change(r.PODGROUPS, "default", gang.name, {"metadata": {"annotations": annotations}})
            await w.start()

            async def right():
                return (await w.state())[f"podgroup/default/{gang.name}"].gang == gang

            await w.until(right)

    async def test_pods_that_come_out_otherwise_are_told_as_they_are_and_asked_about_anew(self, world):
        async with world() as w:
            await w.admit(job())
            gang = (await w.ready())[0].gang
            await asyncio.sleep(60)
            w.cluster.admit = inject
            await w.decide(gang)
            await w.results()
            assert (await w.state())["pod/default/train-worker-0"].shape.requests["cpu"] == 2750
            await w.admit(job("next"), "sub-2")
            assert (await w.ready(2))[1].gang.tasks[0].shape.requests["cpu"] == 2750


def inject(resource, obj):
    """A sidecar, a resource group, an overhead: what webhooks and the API server add to a pod."""
    if resource is r.PODS:
        spec = obj["spec"]
        spec["containers"] = [*spec["containers"], SIDECAR]
        spec["nodeSelector"] = {names.NODE_POOL: "gpu"}
        spec["tolerations"] = [TOLERATION]
        spec["overhead"] = {"cpu": "250m"}


def writes(w, verb, kind):
    labels = {"verb": verb, "kind": kind, "outcome": "ok"}
    return w.telemetry.registry.get_sample_value("pumice_controller_api_writes_total", labels) or 0


async def news(w, count):
    found = [e.data for e in await w.events(topics.PODGROUP_READY)]
    return found if len(found) >= count else None


# ----------------------------------------------------------------------------------------- what is refused
def forbid(w, error):
    async def before(verb, resource, name):
        if (verb, resource) == ("dry-run", r.PODS):
            raise error

    w.cluster.before = before


def allow(w):
    async def before(verb, resource, name):
        return None

    w.cluster.before = before


class TestRefused:
    pytestmark = pytest.mark.looptime

    @pytest.mark.parametrize(
        "error",
        [
            Refused(
                'POST /api/v1/namespaces/default/pods: pods "train-master-0-dry-run" is forbidden:'
                " maximum cpu usage per Container is 1, but limit is 2",
                status=403,
                reason="Forbidden",
            ),
            Unavailable(
                "POST /api/v1/namespaces/default/pods: Internal error occurred: failed calling webhook"
                ' "x.example.org": context deadline exceeded: maximum cpu usage'
            ),
            Conflict('admission webhook "x.example.org" denied the request: maximum cpu usage'),
        ],
    )
    async def test_a_job_waits_with_the_reason_and_takes_no_place_until_it_is_let(self, world, error):
        async with world() as w:
            forbid(w, error)
            await w.admit(job())
            await w.until(lambda: "maximum cpu usage" in message(w))
            await asyncio.sleep(120)
            assert (w.phase(), w.group(), await w.events(topics.PODGROUP_READY)) == ("Pending", None, [])
            assert message(w).startswith("spec.tasks[0].template: ")
            assert "dry-run" not in message(w)
            told = [e for e in w.cluster.all(r.EVENTS) if e["reason"] == "FailedCreate"]
            assert [one["type"] for one in told] == ["Warning"]
            assert writes(w, "patch", "jobs") < 5
            allow(w)
            await w.until(lambda: w.group() is not None, seconds=35)
            await w.ready()
            await w.until(lambda: not message(w))

    async def test_a_job_that_waits_obeys(self, world):
        async with world() as w:
            forbid(w, Refused("pods is forbidden: by policy"))
            await w.admit(job())
            await w.until(lambda: "by policy" in message(w))
            await w.command(JobAction.TERMINATE)
            await w.until(lambda: w.phase() == "Terminated")

    async def test_equal_jobs_that_are_refused_share_their_tries_and_numbers_are_no_news(self, world):
        async with world() as w:
            tries = []

            async def full(verb, resource, name):
                if verb == "dry-run":
                    tries.append(name)
                    raise Refused(f"exceeded quota: team, used: pods={len(tries)}", status=403)

            w.cluster.before = full
            for number in range(20):
                await w.admit(job(f"train-{number}"), submission=f"sub-{number}")
            await w.until(lambda: all("exceeded quota" in message(w, f"train-{n}") for n in range(20)))
            await asyncio.sleep(60)
            patches = w.cluster.writes["patch", "jobs"]
            known = len(tries)
            await asyncio.sleep(300)
            assert len(tries) - known <= 2 * (300 / 30 + 1), "two tasks, one try each in half a minute"
            assert w.cluster.writes["patch", "jobs"] == patches

    async def test_an_api_server_that_is_away_is_no_refusal(self, world):
        async with world() as w:
            forbid(w, Unavailable("connection refused"))
            await w.admit(job())
            await asyncio.sleep(10)
            assert message(w) == ""
            allow(w)
            await w.ready()

    async def test_a_gang_that_is_announced_keeps_its_place_when_it_would_be_refused_later(self, world):
        async with world(dry_run_seconds=60) as w:
            await w.admit(job())
            gang = (await w.ready())[0].gang
            forbid(w, Refused("exceeded quota: team", status=403))
            await w.until(
                lambda: any("exceeded quota" in e["message"] for e in w.cluster.all(r.EVENTS)), seconds=70
            )
            assert (await w.state())[f"podgroup/default/{gang.name}"].gang == gang
            allow(w)
            await w.decide(gang)
            await w.results()
            assert len(w.pods()) == 4

    async def test_a_changed_template_is_asked_about_at_once(self, world):
        async with world() as w:
            forbid(w, Refused("pods is forbidden: by policy"))
            await w.admit(job())
            await w.until(lambda: "by policy" in message(w))
            await asyncio.sleep(60)
            allow(w)
            spec = changed(lambda t: t["spec"].update(nodeSelector={"a": "b"}))["spec"]
            w.cluster.change(r.JOBS, "default", "train", {"spec": {"tasks": spec["tasks"]}})
            await w.until(lambda: w.group() is not None, seconds=0.5)


def message(w, name="train"):
    return ((w.job(name).get("status") or {}).get("state") or {}).get("message", "")


@pytest.mark.looptime
async def test_a_pod_that_kubelet_rejects_is_answered_as_a_failed_one_and_takes_no_room(world):
    async with world() as w:
        await w.admit(job(policies=[{"event": "PodFailed", "action": "RestartJob"}]))
        await w.decide()
        await w.results()
        rejected = {
            "phase": "Failed",
            "reason": "OutOfcpu",
            "message": "Node didn't have enough resource: cpu",
        }
        w.cluster.set_status(r.PODS, w.pods()["train-worker-1"], rejected)
        w.cluster.run_pods()
        await w.until(lambda: (w.job().get("status") or {}).get("retryCount") == 1)
        assert "pod/default/train-worker-1" not in await w.state()
        w.cluster.stop_pods()
        await w.until(lambda: w.pods() == {})
        assert (await w.ready(2))[1].gang.generation == 1


# ----------------------------------------------------------------------------------------- what lets them in
def use(w, pods: int) -> None:
    """The namespace's quota counts so many pods."""
    status = {"hard": {"pods": "100"}, "used": {"pods": str(pods)}}
    w.cluster.set_status(r.RESOURCEQUOTAS, w.cluster.one(r.RESOURCEQUOTAS, "team"), status)


def quota(w, hard: str = "100") -> None:
    w.cluster.put(r.RESOURCEQUOTAS, {"metadata": {"name": "team"}, "spec": {"hard": {"pods": hard}}})


class TestLimits:
    pytestmark = pytest.mark.looptime

    async def test_a_job_that_a_quota_holds_is_let_in_soon_after_less_of_it_is_used(self, world):
        async with world() as w:
            quota(w)
            use(w, 99)
            forbid(w, Refused("exceeded quota: team", status=403))
            await w.admit(job())
            await w.until(lambda: "exceeded quota" in message(w))
            await asyncio.sleep(100)
            allow(w)
            use(w, 100)
            await asyncio.sleep(3)
            assert w.group() is None, "more is used: that lets nobody in"
            use(w, 90)
            await w.until(lambda: w.group() is not None, seconds=2)

    async def test_a_quota_that_is_used_less_and_less_does_not_make_a_request_for_each_pod(self, world):
        async with world() as w:
            quota(w)
            use(w, 1000)
            forbid(w, Refused("exceeded quota: team", status=403))
            for number in range(30):
                await w.admit(job(f"train-{number}"), submission=f"sub-{number}")
            await w.until(lambda: all("exceeded quota" in message(w, f"train-{n}") for n in range(30)))
            await asyncio.sleep(100)
            tries = []

            async def count(verb, resource, name):
                if verb == "dry-run":
                    tries.append(name)
                    raise Refused("exceeded quota: team", status=403)

            w.cluster.before = count
            for pods in range(999, 599, -1):
                use(w, pods)
                await asyncio.sleep(0.05)
            assert 20 <= len(tries) <= 2 * (20 + 2), "two templates, about once a second for 20 seconds"

    async def test_a_limit_range_that_comes_is_heeded_by_a_gang_that_waits(self, world):
        async with world() as w:
            await w.admit(job())
            assert (await w.ready())[0].gang.tasks[0].shape.requests["cpu"] == 2000
            w.cluster.admit = inject
            limits = {"limits": [{"type": "Container", "defaultRequest": {"cpu": "1"}}]}
            w.cluster.put(r.LIMITRANGES, {"metadata": {"name": "defaults"}, "spec": limits})
            again = (await w.until(lambda: news(w, 2), seconds=3))[-1].gang
            assert again.tasks[0].shape.requests["cpu"] == 2750

    async def test_limits_of_another_namespace_are_no_reason_to_ask(self, world):
        async with world() as w:
            await w.admit(job())
            await w.ready()
            asked = writes(w, "dry-run", "pods")
            w.cluster.put(r.LIMITRANGES, {"metadata": {"name": "defaults", "namespace": "other"}, "spec": {}})
            await asyncio.sleep(10)
            assert writes(w, "dry-run", "pods") == asked
