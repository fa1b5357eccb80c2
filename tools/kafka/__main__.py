"""``python -m tools.kafka up [--port N] [--dir DIR]`` and ``python -m tools.kafka fetch``."""

from __future__ import annotations

import argparse
import signal
import socket
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tools.kafka import Broker, Missing, fetch_jars, find_java

if TYPE_CHECKING:
    from types import FrameType


def main() -> int:
    """Run a broker in the foreground until Ctrl-C, or only get its jars."""
    parser = argparse.ArgumentParser(prog="python -m tools.kafka", description=main.__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("fetch", help="get the jars into the cache and say where they are")
    up = commands.add_parser("up", help="run a broker until Ctrl-C; prints its address when it is ready")
    up.add_argument("--port", type=int, default=9092, help="port on 127.0.0.1 (default 9092)")
    up.add_argument("--dir", type=Path, help="keep the data here (default: a folder that goes at the end)")
    arguments = parser.parse_args()
    try:
        if arguments.command == "fetch":
            print(fetch_jars())
            return 0
        return _up(arguments.port, arguments.dir)
    except (Missing, RuntimeError, OSError) as error:
        print(f"kafka: {error}", file=sys.stderr)
        return 1


def _up(port: int, folder: Path | None) -> int:
    with socket.socket() as probe:  # the broker itself would only say so in its log
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise OSError(f"port {port} is in use") from error
    with tempfile.TemporaryDirectory(prefix="pumice-kafka-") as scratch:
        where = (folder or Path(scratch)).resolve()
        broker = Broker(where, java=find_java(), jars=fetch_jars(), port=port)
        signal.signal(signal.SIGTERM, _interrupt)
        try:
            broker.start()
            print(broker.bootstrap, flush=True)
            return broker.wait()
        except KeyboardInterrupt:
            return 0
        finally:
            broker.stop()


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
