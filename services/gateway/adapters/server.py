"""The HTTP server, as a part of the service and not as its master."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator

import uvicorn
from starlette.types import ASGIApp

from shared.errors import StartupError


def listen(host: str, port: int) -> socket.socket:
    """Bind a port; 0 takes a free one. Raises StartupError, one line, when it is in use."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, proto, _, address = found[0]
        bound = socket.socket(family, kind, proto)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            bound.listen(2048)
            bound.setblocking(False)  # noqa: FBT003
        except OSError:
            bound.close()
            raise
    except OSError as error:
        raise StartupError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    return bound


class _Server(uvicorn.Server):
    """Leaves signals to the process's entry point."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take no signals."""
        yield


async def serve(
    app: ASGIApp, bound: socket.socket, *, keep_alive: float, patience: float, on_stop: Callable[[], None]
) -> None:
    """Serve until cancelled; then call ``on_stop`` and give open requests ``patience`` seconds to end.

    A connection that is idle for ``keep_alive`` seconds is closed.
    """
    config = uvicorn.Config(
        app,
        lifespan="off",
        ws="none",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_keep_alive=round(keep_alive),
        timeout_graceful_shutdown=max(1, round(patience)),
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[bound]), name="gateway-http")
    try:
        await asyncio.shield(serving)
    finally:
        server.should_exit = True
        on_stop()
        await serving
