"""What a simulated container echoes is what kubectl logs shows."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from shared.api.resources import PODS
from shared.clock import SystemClock
from shared.kube.client import connect
from shared.process import new_id
from simulator.cluster import simulated_cluster
from simulator.kubelet import parse_nodes

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH"),
]


async def kubectl(kubeconfig: Path, *words: str) -> str:
    process = await asyncio.create_subprocess_exec(
        "kubectl", "--kubeconfig", str(kubeconfig), *words, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode()


async def test_kubectl_logs_follows_a_container_to_its_end(tmp_path: Path):
    kubeconfig, clock = tmp_path / "kubeconfig", SystemClock()
    async with simulated_cluster(parse_nodes("1x0"), kubeconfig, clock=clock, ids=new_id):
        cluster = connect(str(kubeconfig), clock=clock)
        container = {"name": "c", "image": "i", "command": ["sh", "-c", "echo first; sleep 1; echo second"]}
        spec = {"nodeName": "node-0", "restartPolicy": "Never", "containers": [container]}
        await cluster.create(PODS, "default", {"metadata": {"name": "talker"}, "spec": spec})
        await kubectl(kubeconfig, "wait", "pod/talker", "--for=condition=Ready", "--timeout=20s")
        assert await kubectl(kubeconfig, "logs", "-f", "talker") == "first\nsecond\n"
        assert await kubectl(kubeconfig, "logs", "talker", "--tail=1") == "second\n"
        await cluster.close()
