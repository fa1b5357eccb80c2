"""Simulated nodes beside a simulated API server in one process."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

from shared.kube.client import connect
from simulator.kubelet.core.nodes import parse_nodes
from simulator.kubelet.kubelets import Kubelets
from simulator.server import Simulator


async def run(simulator: Simulator, lines: Sequence[str]) -> None:
    """Run the nodes that ``lines`` describe (see :mod:`simulator.kubelet.core.nodes`) until cancelled.

    Raises ConfigurationError for a wrong line.
    """
    nodes = parse_nodes(*lines)
    cluster = connect(simulator.kubeconfig(), clock=simulator.clock)
    try:
        await Kubelets(cluster, simulator.clock, lambda: str(uuid4()), nodes).run()
    finally:
        await cluster.close()
