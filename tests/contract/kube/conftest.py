"""The API servers that the contract of ``shared.kube`` is kept with: the simulator's and a real one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from shared.api.resources import NAMESPACES, SERVICEACCOUNTS
from shared.clock import SystemClock
from shared.kube.client import HttpCluster, connect
from shared.process import new_id
from simulator.cluster import CRDS
from simulator.server import Simulator
from tests.fixtures.kube import install_crds, until


@pytest.fixture(params=["simulator", pytest.param("kubernetes", marks=pytest.mark.kube)])
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[HttpCluster]:
    """A connection to a cluster that knows our kinds and has no nodes."""
    if request.param == "kubernetes":
        client = connect(str(request.getfixturevalue("control_plane").kubeconfig), clock=SystemClock())
        await install_crds(client)
        yield client
        await client.close()
        return
    simulator = Simulator(SystemClock(), new_id, crds=CRDS, history=20)
    await simulator.start()
    client = connect(simulator.kubeconfig(), clock=SystemClock())
    yield client
    await client.close()
    await simulator.stop()


@pytest.fixture
async def namespace(cluster: HttpCluster, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """A namespace for one test."""
    name = f"contract-{uuid4().hex[:8]}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await cluster.create(NAMESPACES, None, body)
    if request.node.callspec.params["cluster"] == "kubernetes":
        await until(cluster, SERVICEACCOUNTS, name, "default")
    yield name
    await cluster.delete(NAMESPACES, None, name)
