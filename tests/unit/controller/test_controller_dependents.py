"""Services, config maps, secrets, policies and claims of a job, from before its pods to its end."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections import Counter

import pytest

from shared.api import resources as r
from shared.errors import Refused
from shared.events.contracts import JobAction
from tests.unit.controller.conftest import Life, Mortal, Robot, job

pytestmark = pytest.mark.looptime

PLUGINS = {"env": [], "svc": [], "ssh": [], "pytorch": ["--port=5000"]}
KINDS = (r.CONFIGMAPS, r.SECRETS, r.SERVICES, r.NETWORKPOLICIES, r.INGRESSES, r.PVCS)
ALL = {"configmaps/train-svc", "secrets/train-ssh", "services/train", "networkpolicies/train"}


def there(w):
    return {f"{kind.plural}/{one['metadata']['name']}" for kind in KINDS for one in w.cluster.all(kind)}


def made(w):
    return [entry.removeprefix("create ") for entry in w.cluster.log if entry.startswith("create ")]


def reasons(w):
    return [(e["reason"], e["message"]) for e in w.cluster.all(r.EVENTS) if e["type"] == "Warning"]


def message(w):
    return ((w.job().get("status") or {}).get("state") or {}).get("message", "")


def controlled(w):
    return (w.job().get("status") or {}).get("controlledResources", {})


async def runs_again(w):
    await w.ready(2)
    await w.decide()
    await w.results(2)
    w.cluster.run_pods()
    await w.until(lambda: w.phase() == "Running")


async def test_what_the_pods_need_is_there_before_group_and_pods(world):
    async with world() as w:
        await w.admit(job(plugins=PLUGINS))
        await w.run_gang()
        order = made(w)
        assert there(w) == ALL
        first = min(order.index(name) for name in order if name.startswith(("podgroups/", "pods/")))
        assert all(order.index(one) < first for one in ALL)
        container = w.pods()["train-worker-1"]["spec"]["containers"][0]
        values = {one["name"]: one.get("value") for one in container["env"]}
        assert (values["MASTER_ADDR"], values["RANK"]) == ("train-master-0.train", "2")
        await w.until(lambda: controlled(w) == {f"plugin-{name}": name for name in PLUGINS})


async def test_a_job_without_plugins_costs_no_write_more(world):
    async with world() as w:
        await w.admit(job())
        await w.run_gang()
        assert there(w) == set()
        assert w.cluster.writes["patch", "jobs"] <= 2


async def test_keys_are_made_once_and_outlive_the_controller(world):
    async with world() as w:
        await w.admit(job(plugins=PLUGINS))
        await w.run_gang()
        secret = w.cluster.one(r.SECRETS, "train-ssh")
        files = {name: base64.b64decode(text).decode() for name, text in secret["data"].items()}
        assert (files["id_rsa"], files["authorized_keys"]) == ("private 1", "public 1")
        await w.stop()
        before = made(w)
        await w.start()
        w.cluster.change(r.JOBS, "default", "train", {"metadata": {"labels": {"look": "again"}}})
        w.cluster.end_pods()
        await w.until(lambda: w.phase() == "Completed")
        assert made(w) == before
        assert w.keys_made == 1


async def test_what_somebody_deletes_is_made_again(world):
    async with world() as w:
        await w.admit(job(plugins=PLUGINS))
        await w.run_gang()
        for resource, name in ((r.SERVICES, "train"), (r.CONFIGMAPS, "train-svc"), (r.SECRETS, "train-ssh")):
            w.cluster.remove(resource, "default", name)
        await w.until(lambda: there(w) == ALL)
        assert w.keys_made == 2


async def test_what_somebody_changes_in_the_job_reaches_the_hosts(world):
    async with world() as w:
        await w.admit(job(plugins=PLUGINS))
        await w.run_gang()
        await w.command(JobAction.SCALE, replicas={"worker": 5})

        def hosts():
            return w.cluster.one(r.CONFIGMAPS, "train-svc")["data"]["VC_WORKER_NUM"] == "5"

        await w.until(hosts)
        secret = w.cluster.one(r.SECRETS, "train-ssh")["data"]
        assert "train-worker-4" in base64.b64decode(secret["config"]).decode()
        assert base64.b64decode(secret["id_rsa"]).decode() == "private 1"
        assert w.keys_made == 1


async def test_at_the_end_of_the_job_they_go(world):
    async with world() as w:
        await w.admit(job(plugins=PLUGINS))
        await w.run_gang()
        w.cluster.end_pods()
        await w.until(lambda: w.phase() == "Completed")
        await w.until(lambda: there(w) == set())
        await w.until(lambda: controlled(w) == {})
        assert [entry for entry in w.cluster.log if entry == "delete services/train"] == [
            "delete services/train"
        ]


async def test_a_suspended_job_has_them_again_when_it_is_resumed(world):
    async with world() as w:
        await w.admit(job(plugins=PLUGINS))
        await w.run_gang()
        await w.command(JobAction.ABORT)
        await w.until(lambda: w.cluster.stop_pods() or w.phase() == "Aborted")
        await w.until(lambda: there(w) == set())
        await w.command(JobAction.RESUME)
        await w.until(lambda: w.phase() == "Pending" and there(w) == ALL)
        await runs_again(w)


async def test_a_restart_keeps_them(world):
    async with world() as w:
        await w.admit(job(plugins=PLUGINS))
        await w.run_gang()
        await w.command(JobAction.RESTART)
        await w.until(lambda: w.cluster.stop_pods() or w.phase() == "Pending")
        await runs_again(w)
        assert there(w) == ALL
        assert w.keys_made == 1


async def test_they_go_with_the_job(world):
    async with world() as w:
        await w.admit(job(plugins=PLUGINS))
        await w.ready()
        w.cluster.remove(r.JOBS, "default", "train")
        await w.until(lambda: there(w) == set())


@pytest.mark.parametrize(
    ("plugins", "says"),
    [
        ({"svc": ["--no-such"]}, 'spec.plugins[svc]: there is no argument "--no-such"'),
        ({"ray": []}, "spec.plugins[ray]: the job has no task head"),
        ({"nosuch": []}, "spec.plugins[nosuch]: there is no such plugin"),
    ],
)
async def test_a_plugin_that_cannot_work_keeps_the_job_waiting_and_says_why(world, plugins, says):
    async with world() as w:
        await w.admit(job(plugins=plugins))
        await w.until(lambda: says in message(w))
        await w.until(lambda: reasons(w))
        assert [reason for reason, _ in reasons(w)] == ["PluginError"]
        assert w.phase() == "Pending"
        assert w.group() is None


async def test_a_job_that_runs_goes_on_with_arguments_that_a_new_one_may_not_have(world):
    async with world() as w:
        await w.admit(job(plugins={"svc": []}))
        await w.run_gang()
        w.cluster.change(r.JOBS, "default", "train", {"spec": {"plugins": {"svc": ["--bogus"]}}})
        w.cluster.remove(r.SERVICES, "default", "train")
        w.cluster.remove(r.PODS, "default", "train-worker-1", graceful=False)
        await w.until(lambda: "services/train" in there(w) and "train-worker-1" in w.pods())
        assert w.phase() in ("Running", "Pending")


async def test_a_service_of_somebody_else_is_left_alone_and_waited_for(world):
    async with world() as w:
        foreign = {"metadata": {"name": "train"}, "spec": {"selector": {"app": "web"}}}
        w.cluster.put(r.SERVICES, foreign, "default")
        await w.admit(job(plugins={"svc": []}))
        await w.until(lambda: "Service default/train is there already" in message(w))
        assert w.group() is None
        w.cluster.remove(r.SERVICES, "default", "train")
        await w.run_gang()
        assert message(w) == ""
        assert w.cluster.one(r.SERVICES, "train")["spec"]["clusterIP"] == "None"


async def test_what_the_api_server_refuses_is_said_and_tried_again(world):
    async with world() as w:
        full = [True]

        async def before(verb, resource, name):
            if (verb, resource) == ("create", r.SERVICES) and full[0]:
                raise Refused("exceeded quota: services", status=403, reason="Forbidden")

        w.cluster.before = before
        await w.admit(job(plugins={"svc": []}))
        await w.until(lambda: "Service train: exceeded quota: services" in message(w))
        assert w.group() is None
        full[0] = False
        await w.run_gang()
        assert w.cluster.writes["create", "configmaps"] == 1


async def test_what_volcano_made_for_the_job_is_taken_over(world):
    async with world() as w:
        raw = w.cluster.put(r.JOBS, job(plugins={"svc": [], "ssh": []}))
        owner = {"apiVersion": raw["apiVersion"], "kind": "Job", "controller": True}
        owners = [{**owner, "name": "train", "uid": raw["metadata"]["uid"]}]
        secret = {"id_rsa": "old", "config": "old"}
        w.cluster.put(r.SERVICES, {"metadata": {"name": "train", "ownerReferences": owners}, "spec": {}})
        w.cluster.put(
            r.SECRETS, {"metadata": {"name": "train-ssh", "ownerReferences": owners}, "data": secret}
        )
        await w.run_gang()
        assert "pumice.dev/job" in w.cluster.one(r.SERVICES, "train")["metadata"]["labels"]
        kept = w.cluster.one(r.SECRETS, "train-ssh")["data"]
        assert kept["id_rsa"] == "old"
        assert kept["config"] != "old"


# --------------------------------------------------------------------------------- claims
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
VOLUMES = [
    {"mountPath": "/out", "volumeClaim": CLAIM},
    {"mountPath": "/data", "volumeClaimName": "data"},
]


async def test_a_claim_that_is_not_there_is_waited_for(world):
    async with world() as w:
        await w.admit(job(volumes=VOLUMES))
        await w.until(lambda: "there is no claim data" in message(w))
        await w.until(lambda: reasons(w))
        assert reasons(w)[0][0] == "PVCError"
        assert w.group() is None
        w.cluster.put(r.PVCS, {"metadata": {"name": "data"}, "spec": CLAIM}, "default")
        await w.run_gang()
        assert message(w) == ""


async def test_claims_are_made_once_mounted_and_stay_until_the_job_goes(world):
    async with world() as w:
        w.cluster.put(r.PVCS, {"metadata": {"name": "data"}, "spec": CLAIM}, "default")
        await w.admit(job(volumes=VOLUMES))
        await w.run_gang()
        own = next(name for name in there(w) if name != "persistentvolumeclaims/data").split("/")[1]
        assert own.startswith("train-pvc-")
        assert len(own) == len("train-pvc-") + 12
        spec = w.pods()["train-worker-0"]["spec"]
        claims = {v["name"]: v["persistentVolumeClaim"]["claimName"] for v in spec["volumes"]}
        mounts = {m["mountPath"]: claims[m["name"]] for m in spec["containers"][0]["volumeMounts"]}
        assert mounts == {"/out": own, "/data": "data"}
        await w.until(
            lambda: controlled(w) == {f"volume-pvc-{own}": own, "volume-pvc-data": "data"},
        )
        w.cluster.end_pods()
        await w.until(lambda: w.phase() == "Completed")
        assert own in {one["metadata"]["name"] for one in w.cluster.all(r.PVCS)}
        w.cluster.remove(r.JOBS, "default", "train")
        await w.until(lambda: there(w) == {"persistentvolumeclaims/data"})


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", range(5, 12))
async def test_killed_at_any_write_nothing_is_made_twice(world, number, when):
    async with world(started=False, partial_grace_seconds=3.0, settle_seconds=1.0) as w:
        life = Life(number, when)
        await w.start(cluster=Mortal(w.cluster, life), log=Mortal(w.log, life))
        robot = asyncio.create_task(Robot(w).run())
        await w.admit(job(plugins=PLUGINS, volumes=VOLUMES[:1]))
        await asyncio.wait_for(life.dead.wait(), 30)
        for one in life.opened:
            await one.close()
        w.task.cancel()
        with contextlib.suppress(BaseException):
            await w.task
        await w.start()
        await w.until(lambda: w.phase() == "Completed", 60)
        await w.until(lambda: len(there(w)) == 1)
        robot.cancel()
        created = Counter(name for name in made(w) if not name.startswith("events/"))
        assert set(created.values()) == {1}
        assert {name.split("/")[0] for name in created} >= {kind.plural for kind in KINDS} - {"ingresses"}


@pytest.mark.parametrize(
    ("mode", "volume", "noted"),
    [
        ("WaitForFirstConsumer", None, "node-0"),
        ("WaitForFirstConsumer", "pv-1", None),
        ("Immediate", None, None),
    ],
)
async def test_a_claim_that_waits_for_pods_is_told_their_node_before_they_are_made(
    world, mode, volume, noted
):
    async with world() as w:
        storage = {"metadata": {"name": "local"}, "provisioner": "csi.example.org", "volumeBindingMode": mode}
        w.cluster.put(r.STORAGECLASSES, storage)
        spec = CLAIM | {"storageClassName": "local"} | ({"volumeName": volume} if volume else {})
        w.cluster.put(r.PVCS, {"metadata": {"name": "data"}, "spec": spec})
        if volume:
            w.cluster.bind_claim("data")
        await w.admit(job(volumes=VOLUMES[1:]))
        await w.run_gang()
        annotations = w.cluster.one(r.PVCS, "data")["metadata"].get("annotations", {})
        assert annotations.get("volume.kubernetes.io/selected-node") == noted
        if noted:
            log = w.cluster.log
            first = next(index for index, line in enumerate(log) if line.startswith("create pods/"))
            assert log.index("patch persistentvolumeclaims/data") < first
