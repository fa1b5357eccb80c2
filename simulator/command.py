"""The simulated cluster as a process: ``python -m simulator``."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Final

from shared.clock import SystemClock
from shared.process import Arguments, exit_code, new_id, run, until_stopped
from shared.telemetry.logs import setup_logging
from simulator.cluster import simulated_cluster
from simulator.kubelet import NodeSpec, parse_nodes

_LAST_PORT: Final = 65535


def _arguments() -> argparse.ArgumentParser:
    parser = Arguments(prog="python -m simulator", description="A simulated Kubernetes cluster.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: loopback)")
    parser.add_argument(
        "--port", type=_port, default=8001, help="port to listen on; 0 takes a free one (default: 8001)"
    )
    parser.add_argument(
        "--nodes",
        action="append",
        default=[],
        metavar="COUNTxGPUS",
        help="simulated nodes, e.g. 4x8 or a100=2x8,cpu=96; may be given again",
    )
    parser.add_argument("--url", help="where clients find it, for the kubeconfig (default: where it listens)")
    parser.add_argument("--kubeconfig", type=Path, help="write a kubeconfig for the server to this file")
    return parser


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > _LAST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 0 to {_LAST_PORT}")
    return int(text)


async def _serve(nodes: list[NodeSpec], kubeconfig: Path, host: str, port: int, url: str | None) -> None:
    async with simulated_cluster(
        nodes, kubeconfig, clock=SystemClock(), ids=new_id, host=host, port=port, url=url
    ) as simulator:
        sys.stdout.write(f"server      {simulator.url}\nkubeconfig  {kubeconfig}\n")
        sys.stdout.flush()
        await asyncio.get_running_loop().create_future()


def main(arguments: list[str] | None = None) -> int:
    """Run until a signal. Exit code 1: it cannot start; 2: an argument is wrong."""

    def work() -> None:
        options = _arguments().parse_args(arguments)
        setup_logging()
        with tempfile.TemporaryDirectory(prefix="pumice-") as directory:
            kubeconfig = options.kubeconfig or Path(directory) / "kubeconfig"
            nodes = list(parse_nodes(*options.nodes))
            run(until_stopped(_serve(nodes, kubeconfig, options.host, options.port, options.url)))

    return exit_code("python -m simulator", work)
