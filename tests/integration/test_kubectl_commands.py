"""kubectl against the simulator: what a user types and what comes back."""

from __future__ import annotations

import asyncio
import json
import shutil
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import yaml

from shared.clock import SystemClock
from simulator.server import Simulator

KUBECTL = shutil.which("kubectl")
pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed"),
]
CRDS = Path(__file__).resolve().parents[2] / "deploy" / "crds"

Run = Callable[..., Awaitable[str]]

POD = """
apiVersion: v1
kind: Pod
metadata: {name: train, labels: {app: train}}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: train:1
    command: [sleep, "60"]
    resources: {limits: {nvidia.com/gpu: 8, cpu: 4000m}}
"""
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: '1', b: '2'}\n"


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    made = Simulator(SystemClock(), lambda: str(uuid.uuid4()), crds=CRDS)
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def kubectl(simulator: Simulator, tmp_path: Path) -> Run:
    config = tmp_path / "kubeconfig"
    config.write_text(yaml.safe_dump(simulator.kubeconfig()))

    async def run(*arguments: str, stdin: str = "", code: int = 0) -> str:
        assert KUBECTL is not None
        process = await asyncio.create_subprocess_exec(
            KUBECTL,
            f"--kubeconfig={config}",
            f"--cache-dir={tmp_path}/cache",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(stdin.encode()), 60)
        assert process.returncode == code, (out + err).decode()
        return out.decode() + (err.decode() if code else "")

    return run


async def test_create_get_and_describe(kubectl: Run):
    assert "pod/train created" in await kubectl("create", "-f", "-", stdin=POD)
    assert "AlreadyExists" in await kubectl("create", "-f", "-", stdin=POD, code=1)
    lines = (await kubectl("get", "pods", "-o", "wide")).splitlines()
    assert lines[0].split()[:7] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE"]
    assert lines[1].split()[:4] == ["train", "0/1", "Pending", "0"]
    limits = json.loads(await kubectl("get", "pod", "train", "-o", "json"))["spec"]["containers"][0][
        "resources"
    ]["limits"]
    assert limits == {"nvidia.com/gpu": "8", "cpu": "4"}
    described = await kubectl("describe", "pod", "train")
    assert "Status:       Pending" in described
    assert "NotFound" in await kubectl("get", "pod", "nope", code=1)


async def test_apply_is_repeatable_and_patches_what_changed(kubectl: Run):
    assert "created" in await kubectl("apply", "-f", "-", stdin=CONFIG)
    assert "unchanged" in await kubectl("apply", "-f", "-", stdin=CONFIG)
    assert "configured" in await kubectl("apply", "-f", "-", stdin=CONFIG.replace("b: '2'", "c: '3'"))
    assert json.loads(await kubectl("get", "cm", "settings", "-o", "json"))["data"] == {"a": "1", "c": "3"}


async def test_apply_server_side_tells_conflicts(kubectl: Run):
    assert "serverside-applied" in await kubectl("apply", "--server-side", "-f", "-", stdin=CONFIG)
    changed = CONFIG.replace("a: '1'", "a: '9'")
    refused = await kubectl(
        "apply", "--server-side", "--field-manager=other", "-f", "-", stdin=changed, code=1
    )
    assert 'conflict with "kubectl": .data.a' in refused
    forced = await kubectl(
        "apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", "-", stdin=changed
    )
    assert "serverside-applied" in forced


async def test_apply_tells_fields_that_no_pod_has(kubectl: Run):
    wrong = POD.replace("restartPolicy: Never", "restartPolicy: Never\n  restartPolicies: x")
    assert 'unknown field "spec.restartPolicies"' in await kubectl("apply", "-f", "-", stdin=wrong, code=1)


async def test_typed_create_commands_work(kubectl: Run):
    await kubectl("create", "namespace", "team")
    await kubectl("-n", "team", "create", "configmap", "c", "--from-literal=a=b")
    await kubectl("-n", "team", "create", "secret", "generic", "s", "--from-literal=key=value")
    await kubectl("-n", "team", "create", "deployment", "d", "--image=nginx", "--replicas=2", "--port=80")
    await kubectl("-n", "team", "create", "job", "j", "--image=busybox", "--", "sleep", "1")
    assert (await kubectl("-n", "team", "get", "secret", "s", "-o", "jsonpath={.data.key}")) == "dmFsdWU="
    deployment = json.loads(await kubectl("-n", "team", "get", "deploy", "d", "-o", "json"))
    assert deployment["spec"]["replicas"] == 2
    assert deployment["spec"]["template"]["spec"]["containers"][0]["ports"] == [
        {"containerPort": 80, "protocol": "TCP"}
    ]
    await kubectl("delete", "namespace", "team", "--timeout=30s")
    assert "NotFound" in await kubectl("get", "namespace", "team", code=1)


async def test_label_annotate_patch_and_scale(kubectl: Run):
    await kubectl("create", "-f", "-", stdin=POD)
    await kubectl("label", "pod", "train", "team=a")
    await kubectl("annotate", "pod", "train", "why=because")
    await kubectl(
        "patch", "pod", "train", "-p", '{"spec":{"containers":[{"name":"main","image":"train:2"}]}}'
    )
    await kubectl(
        "patch", "pod", "train", "--type=json", "-p", '[{"op":"add","path":"/metadata/labels/x","value":"y"}]'
    )
    await kubectl("patch", "pod", "train", "--type=merge", "-p", '{"metadata":{"labels":{"app":null}}}')
    held = json.loads(await kubectl("get", "pod", "-l", "team=a", "-o", "json"))["items"][0]
    assert held["metadata"]["labels"] == {"team": "a", "x": "y"}
    assert held["metadata"]["annotations"] == {"why": "because"}
    assert held["spec"]["containers"][0]["image"] == "train:2"
    await kubectl("create", "deployment", "d", "--image=nginx")
    await kubectl("scale", "deployment", "d", "--replicas=3")
    assert await kubectl("get", "deployment", "d", "-o", "jsonpath={.spec.replicas}") == "3"


async def test_wait_and_delete_follow_the_object(kubectl: Run):
    await kubectl("create", "-f", "-", stdin=POD)
    waiting = asyncio.create_task(
        kubectl("wait", "pod/train", "--for=jsonpath={.status.phase}=Running", "--timeout=30s")
    )
    await asyncio.sleep(0.5)
    await kubectl(
        "patch",
        "pod",
        "train",
        "--subresource=status",
        "--type=merge",
        "-p",
        '{"status":{"phase":"Running"}}',
    )
    assert "condition met" in await waiting
    await kubectl("delete", "pod", "train", "--timeout=30s")
    assert "NotFound" in await kubectl("get", "pod", "train", code=1)


async def test_watch_prints_a_row_for_each_change(kubectl: Run):
    await kubectl("create", "-f", "-", stdin=POD)
    watching = asyncio.create_task(kubectl("get", "pods", "-w", "--request-timeout=4s"))
    await asyncio.sleep(1.5)
    await kubectl(
        "patch",
        "pod",
        "train",
        "--subresource=status",
        "--type=merge",
        "-p",
        '{"status":{"phase":"Succeeded"}}',
    )
    lines = (await watching).splitlines()
    assert [line.split()[2] for line in lines] == ["STATUS", "Pending", "Succeeded"]


async def test_explain_and_api_resources_know_the_custom_kinds(kubectl: Run):
    resources = await kubectl("api-resources", "--api-group=batch.volcano.sh")
    assert "vcjob,vj" in resources
    assert "minAvailable" in await kubectl("explain", "vcjob.spec")
    assert "containers" in await kubectl("explain", "pod.spec")


async def test_custom_resources_have_their_columns_and_rules(kubectl: Run):
    queue = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: q}\nspec: {weight: 2}\n"
    await kubectl("apply", "-f", "-", stdin=queue)
    header, row = (await kubectl("get", "queue")).splitlines()
    assert header.split()[0] == "NAME"
    assert row.split()[0] == "q"
    refused = await kubectl("apply", "-f", "-", stdin=queue.replace("weight: 2", "weight: 70000"), code=1)
    assert "spec.weight" in refused


async def test_permissions_are_all_granted(kubectl: Run):
    assert (await kubectl("auth", "can-i", "create", "pods")).strip() == "yes"
