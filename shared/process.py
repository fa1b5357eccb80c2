"""A service as a process: connections, the operations port, signals, exit codes.

The operations port serves ``/healthz`` (the process answers), ``/readyz`` (503 with what is missing) and
``/metrics``.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar
from uuid import uuid4

from aiohttp import web

from shared.clock import SystemClock
from shared.errors import ConfigurationError, StartupError, Unavailable
from shared.events.topics import SPECS
from shared.kube.client import connect
from shared.log.connect import open_log
from shared.service import Service
from shared.settings import CommonSettings, load_settings, read_mapping
from shared.telemetry.logs import setup_logging
from shared.telemetry.telemetry import Telemetry, from_environment

S = TypeVar("S", bound=CommonSettings)
_log = logging.getLogger("pumice.process")
_LONG_STOP: Final = 8.0
"""Seconds after which it is said what a stop waits for."""
_MOST_PLACES: Final = 20
_WRITTEN_TOO_LATE: Final = "the handler is closed"
_OF_TLS: Final = "on SSL protocol"


async def serve_operations(
    services: Sequence[Service], telemetry: Sequence[Telemetry], host: str, port: int
) -> web.AppRunner:
    """Serve /healthz, /readyz and /metrics of some services. Raises StartupError when the port is in use."""

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        missing = {f"{s.name}.{part}": why for s in services for part, why in s.health.reasons.items()}
        return web.json_response({"ready": not missing, "waiting": missing}, status=503 if missing else 200)

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(text="".join(one.exposition() for one in telemetry), content_type="text/plain")

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", metrics)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        await runner.cleanup()
        raise StartupError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    return runner


async def until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Run ``work`` until it ends or SIGINT or SIGTERM cancels it; a cancelled work is awaited to its end.

    When that takes long, it is said what it waits for: an orchestrator kills what does not end.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(work)
    late: list[asyncio.TimerHandle] = []

    def stop() -> None:
        task.cancel()
        late.append(loop.call_later(_LONG_STOP, _tell_what_is_left))

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        await task
    except asyncio.CancelledError:
        if not task.cancelled():
            raise
    finally:
        for timer in late:
            timer.cancel()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def _tell_what_is_left() -> None:
    places = sorted({_place(task) for task in asyncio.all_tasks()})
    _log.warning("still stopping after %g s: %s", _LONG_STOP, "; ".join(places[:_MOST_PLACES]))


def _place(task: asyncio.Task[Any]) -> str:
    """Return where a task waits: the innermost of its coroutines that can be seen."""
    inner: Any = task.get_coro()
    place = task.get_name()
    while inner is not None:
        frame = getattr(inner, "cr_frame", None) or getattr(inner, "gi_frame", None)
        if frame is not None:
            place = f"{frame.f_code.co_qualname} ({Path(frame.f_code.co_filename).name}:{frame.f_lineno})"
        inner = getattr(inner, "cr_await", None) or getattr(inner, "gi_yieldfrom", None)
    return place


def exit_code(program: str, work: Callable[[], None]) -> int:
    """Run ``work`` and turn its errors into one line each and an exit code: 2 wrong use, 1 the world."""
    try:
        work()
    except* KeyboardInterrupt:  # before there is a loop that takes it for a wish to stop
        code = 0
    except* ConfigurationError as group:
        _tell(program, group)
        code = 2
    except* (StartupError, Unavailable) as group:
        _tell(program, group)
        code = 1
    else:
        code = 0
    return code


def _tell(program: str, group: BaseExceptionGroup[BaseException]) -> None:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            _tell(program, error)
        else:
            sys.stderr.write(f"{program}: {error}\n")


class Arguments(argparse.ArgumentParser):
    """An argument parser whose complaint is one line, as every wrong use is here."""

    def error(self, message: str) -> NoReturn:
        """Raise ConfigurationError."""
        raise ConfigurationError(message)


def _read_arguments(name: str, settings_class: type[CommonSettings]) -> None:
    """Take ``--help``, which names every setting, and nothing else."""
    told = [
        f"  {'PUMICE_' + field.upper():<32} {about.description}"
        for field, about in settings_class.model_fields.items()
    ]
    Arguments(
        prog=f"python -m services.{name}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(["environment:", f"  {'PUMICE_CONFIG':<32} YAML file of settings.", *told]),
    ).parse_args()


def main(
    name: str,
    settings_class: type[S],
    build: Callable[..., Service],
    *,
    needs_cluster: Callable[[S], bool] | bool = False,
    starts_log: Callable[[S], bool] | None = None,
) -> int:
    """Run one service as a process until it is stopped, and return the process's exit code.

    ``build(settings, *, clock, log, ids, telemetry[, cluster][, start_log])`` is the service's composition
    root. A service of which ``starts_log`` is true works without the log as well: it starts the log itself.
    """

    def work() -> None:
        _read_arguments(name, settings_class)
        file = os.environ.get("PUMICE_CONFIG")
        values = read_mapping(Path(file)) if file else {}
        settings = load_settings(settings_class, values, source=f"configuration file {file}")
        setup_logging(level=settings.log_level, as_json=settings.log_json)
        wants_cluster = needs_cluster(settings) if callable(needs_cluster) else needs_cluster
        waits = starts_log is None or not starts_log(settings)
        run(until_stopped(_process(name, settings, build, needs_cluster=wants_cluster, needs_log=waits)))

    return exit_code(f"pumice-{name}", work)


def new_id() -> str:
    """Return a new unique identifier: 32 hex digits."""
    return uuid4().hex


def collect_seldom() -> None:
    """Let the collector of cyclic garbage run seldom.

    A large list of API objects would wake it every few hundred of them, in vain, and take half of the time.
    """
    gc.set_threshold(100_000, 50, 100)


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run ``work`` on a new event loop, uvloop's where there is one."""
    collect_seldom()
    try:
        import uvloop
    except ImportError:
        asyncio.run(work)
    else:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.get_loop().set_exception_handler(_report)
            runner.run(work)


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report what nobody awaited, but for a TLS connection lost while we wrote to it.

    The connection's user gets its own error. asyncio and uvloop say nothing of any other lost connection,
    but uvloop calls this one fatal: its write to a closed handle raises no OSError.
    """
    error = context.get("exception")
    if isinstance(error, RuntimeError) and _WRITTEN_TOO_LATE in str(error) and _OF_TLS in context["message"]:
        _log.debug("a connection was lost", extra={"error": str(error)})
    else:
        loop.default_exception_handler(context)


async def _process(
    name: str,
    settings: CommonSettings,
    build: Callable[..., Service],
    *,
    needs_cluster: bool,
    needs_log: bool,
) -> None:
    clock = SystemClock()
    telemetry = from_environment(name)
    async with AsyncExitStack() as stack:
        stack.callback(telemetry.shutdown)
        log = open_log(settings.log, clock=clock, client_id=f"pumice-{name}", access=settings.kafka_access)
        stack.push_async_callback(log.close)

        async def start_log() -> None:
            await log.start()
            await log.create_topics(SPECS)

        parts: dict[str, Any] = {"clock": clock, "log": log, "ids": new_id, "telemetry": telemetry}
        if needs_log:
            await start_log()
        else:
            parts["start_log"] = start_log
        if needs_cluster:
            parts["cluster"] = connect(settings.kubeconfig, clock=clock, context=settings.context)
            stack.push_async_callback(parts["cluster"].close)
        service = build(settings, **parts)
        if settings.operations_port:
            operations = await serve_operations(
                [service], [telemetry], settings.operations_host, settings.operations_port
            )
            stack.push_async_callback(operations.cleanup)
        await service.run()
