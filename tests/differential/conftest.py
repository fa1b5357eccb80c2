"""The two servers that are compared, and one with Kubernetes' own scheduler."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator
from typing import Final

import pytest

from shared.clock import SystemClock
from shared.kube.client import connect
from shared.kube.port import Cluster
from tests.differential.comparing import Pair
from tests.differential.servers import Server, simulator
from tests.differential.world import install
from tests.fixtures.kube import start_control_plane
from tools.kube import ControlPlane

_WORKING: Final = (
    "cronjob",
    "daemonset",
    "deployment",
    "disruption",
    "endpoints",
    "endpointslice",
    "endpointslice-mirroring",
    "job",
    "persistentvolume-binder",
    "persistentvolume-protection",
    "persistentvolumeclaim-protection",
    "pod-garbage-collector",
    "replicaset",
    "resourcequota",
    "root-ca-certificate-publisher",
    "statefulset",
    "taint-eviction",
    "ttl",
    "ttl-after-finished",
)
"""Controllers that would write into what is compared. Those that do what the simulator does too stay:
garbage collection by owners, namespaces, service accounts."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A real API server of its own and the simulator, both with the project's CRDs.

    For a module only: sequences leave objects with finalizers behind, and whoever empties their namespaces
    tries that for as long as the server runs, at the cost of half a core.
    """
    off = ",".join(f"-{name}-controller" for name in _WORKING)
    folder = tmp_path_factory.mktemp("differential")
    plane = start_control_plane(folder, node_lifecycle=False, controller_flags=(f"--controllers={off}",))
    try:
        with simulator() as simulated:
            real = Server.of_kubeconfig("real", plane.kubeconfig)
            made = Pair(real, simulated, f"d{secrets.token_hex(3)}")
            for server in (real, simulated):
                install(server)
            yield made
            made.close()
    finally:
        plane.kill()


@pytest.fixture(scope="module")
def scheduling_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with kube-scheduler, where nobody takes pods off tainted nodes."""
    plane = start_control_plane(
        tmp_path_factory.mktemp("kube"),
        node_lifecycle=False,
        scheduler=True,
        controller_flags=("--controllers=-taint-eviction-controller",),
    )
    yield plane
    plane.kill()


@pytest.fixture
async def cluster(scheduling_plane: ControlPlane) -> AsyncIterator[Cluster]:
    found = connect(str(scheduling_plane.kubeconfig), clock=SystemClock())
    yield found
    await found.close()
