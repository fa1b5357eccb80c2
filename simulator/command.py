"""The simulator as a process: an API server, and simulated nodes when the kubelet is part of the project."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import signal
import sys
import uuid
from pathlib import Path
from typing import Any

import yaml

from shared.clock import SystemClock
from shared.errors import ConfigurationError, StartupError
from simulator.server import Simulator


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m simulator", description="A simulated Kubernetes cluster.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: loopback)")
    parser.add_argument("--port", type=int, default=8001, help="port to listen on; 0 takes a free one (default: 8001)")
    parser.add_argument("--crds", type=Path, default=Path("deploy/crds"), help="directory of CustomResourceDefinitions")
    parser.add_argument("--nodes", action="append", default=[], metavar="COUNTxGPUS", help="simulated nodes; may be given again")
    parser.add_argument("--kubeconfig", type=Path, help="write a kubeconfig for the server to this file")
    return parser


async def _serve(options: argparse.Namespace) -> None:
    clock = SystemClock()
    simulator = Simulator(clock, _identifier, host=options.host, port=options.port, crds=options.crds)
    await simulator.start()
    try:
        if options.kubeconfig:
            options.kubeconfig.write_text(yaml.safe_dump(simulator.kubeconfig(), sort_keys=False), encoding="utf-8")
        sys.stdout.write(f"{simulator.url}\n")
        sys.stdout.flush()
        await _until_stopped(_nodes(simulator, options.nodes))
    finally:
        await simulator.stop()


def _identifier() -> str:
    return str(uuid.uuid4())


def _nodes(simulator: Simulator, wanted: list[str]) -> Any:  # noqa: ANN401 - a coroutine, or None
    if not wanted:
        return None
    try:
        composition = importlib.import_module("simulator.kubelet.composition")
    except ModuleNotFoundError as error:
        raise ConfigurationError("--nodes: simulated nodes are not installed") from error
    return composition.run(simulator, wanted)


async def _until_stopped(nodes: Any) -> None:  # noqa: ANN401
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(name, stopped.set)
    waits = [asyncio.ensure_future(stopped.wait())]
    if nodes is not None:
        waits.append(asyncio.ensure_future(nodes))
    done, pending = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    for task in done:
        task.result()


def main(arguments: list[str] | None = None) -> int:
    """Run until a signal. Exit code 1: it cannot start; 2: an argument is wrong."""
    options = _arguments().parse_args(arguments)
    try:
        asyncio.run(_serve(options))
    except ConfigurationError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except StartupError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0
