"""The simulated nodes as a process: ``python -m simulator.kubelet``."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Final

from shared.clock import SystemClock
from shared.errors import ConfigurationError
from shared.kube.client import connect
from shared.process import Arguments, exit_code, new_id, run, until_stopped
from shared.telemetry.logs import setup_logging
from simulator.kubelet.core.nodes import NodeSpec, parse_nodes
from simulator.kubelet.kubelets import KubeletOptions, Kubelets
from simulator.kubelet.server import serve_kubelet_api

_LEASE_SECONDS: Final = 10.0
"""As the real kubelet."""


def _arguments() -> argparse.ArgumentParser:
    parser = Arguments(
        prog="python -m simulator.kubelet", description="Simulated nodes for a cluster, until Ctrl-C."
    )
    parser.add_argument(
        "--nodes",
        action="append",
        default=[],
        metavar="COUNTxGPUS",
        help="nodes to simulate, e.g. 4x8 or a100=2x8,cpu=96; may be given again",
    )
    parser.add_argument("--kubeconfig", help="the cluster (default: that of the pod it runs in)")
    parser.add_argument("--context", help="context in the kubeconfig")
    parser.add_argument(
        "--lease-seconds",
        type=_seconds,
        default=_LEASE_SECONDS,
        metavar="SECONDS",
        help="renew each node's lease so often; 0: never, for a cluster where nobody looks (default: 10)",
    )
    parser.add_argument(
        "--start-seconds",
        type=_seconds,
        default=0.0,
        metavar="SECONDS",
        help="from a pod's binding to its containers' start (default: 0)",
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address where the API server fetches containers' logs; empty: no logs (default: loopback)",
    )
    return parser


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0.0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return seconds


async def _simulate(nodes: list[NodeSpec], options: KubeletOptions, cluster_of: argparse.Namespace) -> None:
    clock = SystemClock()
    cluster = connect(cluster_of.kubeconfig, clock=clock, context=cluster_of.context)
    try:
        await cluster.ping()
        if not cluster_of.host:
            await _run(Kubelets(cluster, clock, new_id, nodes, options=options), len(nodes))
        async with serve_kubelet_api(cluster, clock, host=cluster_of.host) as endpoint:
            kubelets = Kubelets(cluster, clock, new_id, nodes, options=options, endpoint=endpoint)
            await _run(kubelets, len(nodes))
    finally:
        await cluster.close()


async def _run(kubelets: Kubelets, count: int) -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(kubelets.run())
        await kubelets.ready()
        sys.stdout.write(f"{count} nodes are ready\n")
        sys.stdout.flush()


def main(arguments: list[str] | None = None) -> int:
    """Run until a signal. Exit code 1: it cannot start; 2: an argument is wrong."""

    def work() -> None:
        told = _arguments().parse_args(arguments)
        setup_logging()
        nodes = list(parse_nodes(*told.nodes))
        if not nodes:
            raise ConfigurationError("--nodes is missing, for example --nodes 4x8")
        options = KubeletOptions(start_seconds=told.start_seconds, lease_seconds=told.lease_seconds or None)
        run(until_stopped(_simulate(nodes, options, told)))

    return exit_code("python -m simulator.kubelet", work)
