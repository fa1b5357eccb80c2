"""``python -m tools.kube up [--dir DIR] [--port N] [--nodes 4x8]``, ``build [PROGRAM]`` and ``go``."""

from __future__ import annotations

import argparse
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools.kube import ControlPlane, Missing, build_program
from tools.kube.program import CONTROL_PLANE, VCCTL, find_go

if TYPE_CHECKING:
    from types import FrameType

_PROGRAMS: Final = {"controlplane": CONTROL_PLANE, "vcctl": VCCTL}


def main() -> int:
    """Run a control plane in the foreground until Ctrl-C, or only build it, or Volcano's vcctl."""
    parser = argparse.ArgumentParser(prog="python -m tools.kube", description=main.__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="build a program into the cache and say where it is")
    build.add_argument("program", nargs="?", choices=tuple(_PROGRAMS), default="controlplane")
    commands.add_parser("go", help="say which Go would build it")
    up = commands.add_parser(
        "up", help="run a control plane until Ctrl-C; prints a kubeconfig when it is ready"
    )
    up.add_argument(
        "--port", type=int, default=6443, help="the API server's port on 127.0.0.1 (default 6443)"
    )
    up.add_argument("--dir", type=Path, help="keep the data here (default: a folder that goes at the end)")
    up.add_argument(
        "--nodes",
        action="append",
        default=[],
        metavar="COUNTxGPUS",
        help="simulated nodes, as `python -m simulator.kubelet` takes them (default: none)",
    )
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        if arguments.command == "go":
            print(find_go())
            return 0
        if arguments.command == "build":
            print(build_program(program=_PROGRAMS[arguments.program]))
            return 0
        return _up(arguments.port, arguments.dir, arguments.nodes)
    except KeyboardInterrupt:
        return 130
    except (Missing, RuntimeError, OSError) as error:
        print(f"kube: {error}", file=sys.stderr)
        return 1


def _up(port: int, folder: Path | None, nodes: list[str]) -> int:
    with socket.socket() as probe:  # the API server itself would only say so in its log
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise OSError(f"port {port} is in use") from error
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="pumice-kube-"))
        plane = ControlPlane((folder or Path(scratch)).resolve(), program=build_program(), port=port)
        stack.callback(plane.stop)
        try:
            plane.start()
            if nodes:
                _start_kubelets(plane.kubeconfig, nodes, stack)
            print(plane.kubeconfig, flush=True)
            print(f"kube: {plane.wait()} has ended; its log is in {plane.folder}", file=sys.stderr)
        except KeyboardInterrupt:
            return 0
        return 1


def _start_kubelets(kubeconfig: Path, nodes: list[str], stack: ExitStack) -> None:
    """Start them and return when the nodes are ready; they end with the stack."""
    words = ["--kubeconfig", str(kubeconfig)]
    for line in nodes:
        words += ["--nodes", line]
    command = [sys.executable, "-m", "simulator.kubelet", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    if process.stdout is not None and not process.stdout.readline():
        raise RuntimeError("the simulated nodes did not start")


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
