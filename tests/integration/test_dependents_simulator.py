"""Plugins, claims and exposed ports on the simulated API server, over HTTP, with real SSH keys."""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import asynccontextmanager
from pathlib import Path

from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_public_key

from pumice import Job
from pumice.manifest import documents
from services.standalone.options import Options
from shared.api import resources as r
from shared.kube.port import Patch
from tests.fixtures.platform import a_platform

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
KINDS = (r.CONFIGMAPS, r.SECRETS, r.SERVICES, r.NETWORKPOLICIES, r.INGRESSES, r.PVCS)
"""Kinds of what jobs have beside pods."""
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def training(name="train", seconds=30, **spec):
    container = {"name": "main", "image": "torch", "command": ["sh", "-c", f"sleep {seconds}"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "queue": "default",
            "schedulerName": "volcano",
            "minAvailable": 3,
            "tasks": [
                {"name": "master", "replicas": 1, "template": template},
                {"name": "worker", "replicas": 2, "template": template},
            ],
            **spec,
        },
    }


@asynccontextmanager
async def a_platform_with_urls(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(
        "controller:\n"
        '  expose_url: "https://{name}-{job}-{namespace}.apps.example.org"\n'
        "  expose_ingress_class: nginx\n"
    )
    async with a_platform(Options(nodes=("4x8",), port=0, config=config)) as platform:
        yield platform


async def there(platform):
    found = set()
    for kind in KINDS:
        for one in (await platform.cluster.list(kind, "default")).items:
            if kind is not r.CONFIGMAPS or one["metadata"]["name"] != "kube-root-ca.crt":
                found.add(f"{kind.plural}/{one['metadata']['name']}")
    return found


async def until(look, seconds=20.0):
    async with asyncio.timeout(seconds):
        while True:
            if found := await look():
                return found
            await asyncio.sleep(0.05)


async def until_running(platform, name: str) -> None:
    """Wait by the API server: the gateway may not have heard of a job that was just created there."""

    async def running() -> bool:
        job = await platform.cluster.get(r.JOBS, "default", name)
        return job.get("status", {}).get("state", {}).get("phase") == "Running"

    await until(running)


async def test_a_pytorch_job_has_its_objects_from_start_to_end_and_nothing_stays(tmp_path):
    async with a_platform_with_urls(tmp_path) as platform:
        volumes = [{"mountPath": "/out", "volumeClaim": CLAIM}]
        plugins = {"env": [], "svc": [], "ssh": [], "pytorch": ["--port=5000"]}
        await platform.cluster.create(r.JOBS, "default", training(plugins=plugins, volumes=volumes))
        await until_running(platform, "train")
        claims = {one for one in await there(platform) if one.startswith("persistentvolumeclaims/train-pvc-")}
        objects = {"configmaps/train-svc", "secrets/train-ssh", "services/train", "networkpolicies/train"}
        assert await there(platform) == objects | claims
        assert len(claims) == 1

        pods = {pod["metadata"]["name"]: pod for pod in await platform.pods()}
        container = pods["train-worker-1"]["spec"]["containers"][0]
        env = {one["name"]: one.get("value") for one in container["env"]}
        assert {key: env[key] for key in ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")} == {
            "MASTER_ADDR": "train-master-0.train",
            "MASTER_PORT": "5000",
            "WORLD_SIZE": "3",
            "RANK": "2",
        }

        secret = (await platform.cluster.get(r.SECRETS, "default", "train-ssh"))["data"]
        private = load_pem_private_key(base64.b64decode(secret["id_rsa"]), None)
        public = load_ssh_public_key(base64.b64decode(secret["id_rsa.pub"]))
        assert private.public_key() == public
        assert public.key_size == 2048

        await platform.client.delete("train")

        async def nothing():
            return not await there(platform)

        await until(nothing)


async def test_scaling_reaches_the_hosts_and_what_is_deleted_is_made_again(tmp_path):
    async with a_platform_with_urls(tmp_path) as platform:
        await platform.cluster.create(r.JOBS, "default", training(plugins={"svc": []}))
        await until_running(platform, "train")
        scale = [{"op": "replace", "path": "/spec/tasks/1/replicas", "value": 4}]
        await platform.cluster.patch(r.JOBS, "default", "train", scale, kind=Patch.JSON)

        async def hosts():
            data = (await platform.cluster.get(r.CONFIGMAPS, "default", "train-svc"))["data"]
            return data["VC_WORKER_NUM"] == "4"

        await until(hosts)
        old = await platform.cluster.get(r.SERVICES, "default", "train")
        await platform.cluster.delete(r.SERVICES, "default", "train")

        async def again():
            found = (await platform.cluster.list(r.SERVICES, "default")).items
            return found and found[0]["metadata"]["uid"] != old["metadata"]["uid"]

        await until(again)


async def test_a_notebook_in_the_short_form_is_reached_by_url_until_it_is_deleted(tmp_path):
    async with a_platform_with_urls(tmp_path) as platform:
        ingress_class = {"metadata": {"name": "nginx"}, "spec": {"controller": "k8s.io/ingress-nginx"}}
        await platform.cluster.create(r.INGRESSCLASSES, None, ingress_class)
        note = Job(name="note", image="jupyter", command="sleep 60", expose=["jupyter:8888"])
        await platform.client.submit(note)
        await platform.client.wait_until("note", "running", timeout=30)
        url = "https://jupyter-note-default.apps.example.org"

        async def shown():
            return (await platform.client.get("note")).urls

        assert await until(shown) == {"jupyter": url}
        job = await platform.cluster.get(r.JOBS, "default", "note")
        assert json.loads(job["metadata"]["annotations"]["pumice.dev/urls"]) == {"jupyter": url}
        ingress = await platform.cluster.get(r.INGRESSES, "default", "note-expose")
        assert ingress["spec"]["rules"][0]["host"] == "jupyter-note-default.apps.example.org"
        assert ingress["spec"]["ingressClassName"] == "nginx"
        service = await platform.cluster.get(r.SERVICES, "default", "note-jupyter")
        pod = (await platform.pods())[0]
        assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
        warnings = [e["reason"] for e in (await platform.cluster.list(r.EVENTS, "default")).items]
        assert "ExposeError" not in warnings

        await platform.client.delete("note")

        async def nothing():
            return not await there(platform)

        await until(nothing)
        assert (await platform.client.get("note")).urls == {}


async def test_the_examples_of_plugins_and_exposed_ports_run(tmp_path):
    async with a_platform_with_urls(tmp_path) as platform:
        for name in ("pytorch", "notebook"):
            for body in documents((EXAMPLES / f"{name}.yaml").read_text()):
                await platform.client.submit(body)
        job = await platform.client.wait_until("pytorch-job", "finished", timeout=30)
        assert job.phase == "Completed"
        note = await platform.client.wait_until("notebook", "running", timeout=30)
        assert note.urls == {"jupyter": "https://jupyter-notebook-default.apps.example.org"}
        claims = [one for one in await there(platform) if one.startswith("persistentvolumeclaims/")]
        assert len(claims) == 2
