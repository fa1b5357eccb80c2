"""The control plane that the other tests stand on: what it is and what it outlives."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared.api.resources import CONFIGMAPS, NAMESPACES
from shared.clock import SystemClock
from shared.errors import NotFound, Refused, Unavailable
from shared.kube.client import HttpCluster, Options, connect
from shared.kube.informer import Informer
from shared.kube.pace import Backoff
from shared.kube.port import JSON, Resource
from tests.fixtures.kube import start_control_plane, until, until_gone
from tests.fixtures.processes import ROOT
from tests.fixtures.waiting import eventually
from tools.kube import ControlPlane
from tools.kube.program import kubernetes_version

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")


@pytest.fixture
async def cluster(own_control_plane: ControlPlane) -> AsyncIterator[HttpCluster]:
    cluster = connect(
        str(own_control_plane.kubeconfig), clock=SystemClock(), options=Options(retries=0, connect_seconds=1)
    )
    yield cluster
    await cluster.close()


def config_map(name: str) -> JSON:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


async def test_an_informer_outlives_the_death_of_the_api_server_without_listing_again(
    cluster: HttpCluster, own_control_plane: ControlPlane
):
    changes: list[tuple[str, str]] = []

    def note(old: JSON | None, new: JSON | None) -> None:
        word = "new" if old is None else "gone" if new is None else "changed"
        changes.append((word, (new or old or {})["metadata"]["name"]))

    backoff = Backoff(first=0.05, longest=0.5)
    informer = Informer(
        cluster, CONFIGMAPS, clock=SystemClock(), namespace="default", on_change=note, backoff=backoff
    )
    running = asyncio.create_task(informer.run())
    await informer.synced()
    await cluster.create(CONFIGMAPS, "default", config_map("before"))
    await eventually(lambda: ("new", "before") in changes)
    changes.clear()

    own_control_plane.api_server.kill()
    with pytest.raises(Unavailable):
        await cluster.get(CONFIGMAPS, "default", "before")
    await eventually(lambda: not informer.healthy)
    await asyncio.to_thread(own_control_plane.start_api_server)

    await cluster.create(CONFIGMAPS, "default", config_map("after"))
    await eventually(lambda: len(changes) > 0)
    assert changes == [("new", "after")]
    assert informer.healthy
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_data_and_kubeconfig_are_those_of_before_after_a_stop(
    cluster: HttpCluster, own_control_plane: ControlPlane
):
    made = await cluster.create(CONFIGMAPS, "default", config_map("kept"))
    await asyncio.to_thread(own_control_plane.stop)
    assert not own_control_plane.running
    await asyncio.to_thread(own_control_plane.start)
    assert await cluster.get(CONFIGMAPS, "default", "kept") == made


async def test_a_part_that_cannot_start_is_named_with_the_end_of_its_log(
    own_control_plane: ControlPlane, tmp_path: Path
):
    port = own_control_plane.port
    with pytest.raises(RuntimeError, match=rf"kube-apiserver did not start:(.|\n)*{port}"):
        await asyncio.to_thread(start_control_plane, tmp_path / "second", port=port)


async def test_deployments_namespaces_and_accounts_are_controlled_as_in_any_cluster(kube, namespace):
    template = {
        "metadata": {"labels": {"app": "a"}},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "a"}}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    await kube.create(DEPLOYMENTS, namespace, body)
    await until(
        kube, DEPLOYMENTS, namespace, "d", lambda found: found["status"].get("unavailableReplicas") == 2
    )
    started = asyncio.get_running_loop().time()
    await kube.delete(NAMESPACES, None, namespace)
    await until_gone(kube, NAMESPACES, None, namespace)
    assert asyncio.get_running_loop().time() - started < 5, "an empty namespace goes at once"
    await kube.create(NAMESPACES, None, {"metadata": {"name": namespace}})


async def test_who_is_not_known_is_told_nothing(control_plane: ControlPlane):
    anybody = {
        "clusters": [
            {
                "name": "c",
                "cluster": {
                    "server": control_plane.url,
                    "certificate-authority": str(control_plane.folder / "pki" / "ca.crt"),
                },
            }
        ],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    cluster = connect(anybody, clock=SystemClock())
    with pytest.raises(Refused) as refused:
        await cluster.list(CONFIGMAPS)
    assert refused.value.status == 403
    await cluster.close()


async def test_nothing_is_left_of_a_control_plane_whose_owner_was_killed(tmp_path: Path, control_plane):
    # The environment is that of a test: control_plane says whether one can run here at all.
    with (tmp_path / "out").open("wb") as out:
        owner = subprocess.Popen(  # noqa: ASYNC220 - it is to be killed
            [sys.executable, "-m", "tools.kube", "up", "--port", "0", "--dir", str(tmp_path / "plane")],
            cwd=ROOT,
            stdout=out,
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": ""},
        )
    kubeconfig = tmp_path / "plane" / "kubeconfig"
    await eventually(lambda: str(kubeconfig) in (tmp_path / "out").read_text(), what="the kubeconfig")
    assert len(processes_of(tmp_path)) == 4
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    await eventually(lambda: processes_of(tmp_path) == [], seconds=10, what="the end of its parts")


def processes_of(folder: Path) -> list[int]:
    """Return the parts of a control plane that run with data in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"tools.kube" not in words and any(str(folder).encode() in word for word in words):
            found.append(int(process.name))
    return found


async def test_the_version_is_that_of_the_modules(control_plane: ControlPlane, kube: HttpCluster):
    version = await kube._json("GET", "/version")
    assert version["gitVersion"] == f"v{kubernetes_version()}"
    with pytest.raises(NotFound):
        await kube.get(NAMESPACES, None, "nobody-made-this")
