"""What every service is: a name, its health, and one coroutine that runs until it is cancelled.

``main`` is the whole of a service's process: settings from the environment and a file, logging,
connections, the operations port (``/healthz``, ``/readyz``, ``/metrics``), signals, exit codes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar

import yaml
from aiohttp import web
from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared.errors import ConfigurationError, Fenced, StartupError, Unavailable
from shared.telemetry.telemetry import Telemetry, setup_logging

Ids = Callable[[], str]
"""Gives a new unique identifier at each call."""


class Health:
    """The reasons why a service is not ready; none means ready. Live as long as the process answers."""

    def __init__(self) -> None:
        self._waiting: dict[str, str] = {}

    def waits(self, part: str, reason: str) -> None:
        """Say that ``part`` keeps the service from being ready."""
        self._waiting[part] = reason

    def ok(self, part: str) -> None:
        """Say that ``part`` no longer does."""
        self._waiting.pop(part, None)

    @property
    def ready(self) -> bool:
        """Whether nothing is missing."""
        return not self._waiting

    @property
    def reasons(self) -> Mapping[str, str]:
        """What is missing, by part."""
        return dict(self._waiting)


class Service(Protocol):
    """A running part of Pumice."""

    @property
    def name(self) -> str:
        """Return ``gateway``, ``admission``, ``controller`` or ``scheduler``."""
        ...

    @property
    def health(self) -> Health:
        """Return the readiness of this service."""
        ...

    async def run(self) -> None:
        """Run until cancelled, then finish what is in flight; raise only for our own mistakes."""
        ...


class CommonSettings(BaseSettings):
    """What every service can be told. Environment variables ``PUMICE_<FIELD>`` win over the file."""

    model_config = SettingsConfigDict(env_prefix="PUMICE_", frozen=True, extra="ignore")

    log: str = Field(
        "kafka://127.0.0.1:9092",
        description="The event log: kafka://host:port[,host:port…], sqlite:///path or memory://.",
    )
    kubeconfig: str | None = Field(
        None, description="Path of a kubeconfig; unset: the pod's service account."
    )
    context: str | None = Field(None, description="Context in the kubeconfig; unset: its current one.")
    operations_host: str = Field("0.0.0.0", description="Address of the operations port.")  # noqa: S104 - probes come from outside the pod
    operations_port: int = Field(
        0, ge=0, le=65535, description="Port of /healthz, /readyz and /metrics; 0: none."
    )
    log_level: str = Field("info", description="debug, info, warning or error.")
    log_json: bool | None = Field(None, description="JSON log lines; unset: JSON unless on a terminal.")


S = TypeVar("S", bound=CommonSettings)


def load_settings(kind: type[S], *, file: str | None = None, **overrides: Any) -> S:
    """Read settings: overrides, then the environment, then the YAML file. Raises ConfigurationError."""
    values: dict[str, Any] = {}
    if file:
        try:
            with open(file, encoding="utf-8") as stream:  # noqa: PTH123
                values = yaml.safe_load(stream) or {}
        except (OSError, yaml.YAMLError) as error:
            raise ConfigurationError(f"configuration file {file}: {' '.join(str(error).split())}") from error
        if not isinstance(values, dict):
            raise ConfigurationError(f"configuration file {file}: not a mapping")
        unknown = sorted(set(values) - set(kind.model_fields))
        if unknown:
            raise ConfigurationError(f"configuration file {file}: unknown setting {', '.join(unknown)}")
    prefix = kind.model_config.get("env_prefix", "")
    in_environment = {
        name for name in kind.model_fields if f"{prefix}{name}".upper() in map(str.upper, os.environ)
    }
    values = {name: value for name, value in values.items() if name not in in_environment} | overrides
    try:
        return kind(**values)
    except ValidationError as error:
        problem = error.errors()[0]
        field = str(problem["loc"][0]) if problem["loc"] else "?"
        source = f"{prefix}{field}".upper() if field in in_environment else field
        raise ConfigurationError(f"{source}: {problem['msg']} (got {problem.get('input')!r})") from error


async def serve_operations(
    services: list[Service], telemetry: list[Telemetry], host: str, port: int
) -> web.AppRunner:
    """Serve /healthz, /readyz and /metrics of some services. Raises StartupError when the port is in use."""

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        missing = {f"{s.name}.{part}": why for s in services for part, why in s.health.reasons.items()}
        return web.json_response({"ready": not missing, "waiting": missing}, status=503 if missing else 200)

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(text="".join(t.exposition() for t in telemetry), content_type="text/plain")

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


async def until_stopped(work: Awaitable[None]) -> None:
    """Run ``work`` until it ends or SIGINT or SIGTERM cancels it; a cancelled work is awaited to its end."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        if not task.cancelled():
            raise
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def exit_code(program: str, work: Callable[[], None]) -> int:
    """Run ``work`` and turn its errors into one line and an exit code: 2 wrong use, 1 the world."""
    try:
        work()
    except ConfigurationError as error:
        sys.stderr.write(f"{program}: {error}\n")
        return 2
    except (StartupError, Unavailable, Fenced) as error:
        sys.stderr.write(f"{program}: {error}\n")
        return 1
    except BaseExceptionGroup as group:
        told = group.subgroup((StartupError, Unavailable, Fenced))
        if told is None:
            raise
        for error in _leaves(told):
            sys.stderr.write(f"{program}: {error}\n")
        return 1
    return 0


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    return [
        leaf
        for error in group.exceptions
        for leaf in (_leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    ]


def main(
    name: str,
    settings_class: type[S],
    build: Callable[..., Service],
    *,
    needs_cluster: bool = False,
) -> int:
    """Run one service as a process and return its exit code."""

    def work() -> None:
        settings = load_settings(settings_class, file=os.environ.get("PUMICE_CONFIG"))
        setup_logging(level=settings.log_level, as_json=settings.log_json)
        runner = _loop_runner()
        with runner:
            runner.run(_process(name, settings, build, needs_cluster=needs_cluster))

    return exit_code(f"pumice-{name}", work)


def _loop_runner() -> asyncio.Runner:
    try:
        import uvloop
    except ImportError:  # not made for this platform
        return asyncio.Runner()
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


async def _process(
    name: str, settings: CommonSettings, build: Callable[..., Service], *, needs_cluster: bool
) -> None:
    from uuid import uuid4

    from shared.clock import SystemClock
    from shared.events.topics import SPECS
    from shared.kube.client import connect
    from shared.log.connect import open_log

    clock = SystemClock()

    def ids() -> str:
        return uuid4().hex

    log = open_log(settings.log, clock=clock, client_id=f"pumice-{name}")
    telemetry = Telemetry(name)
    cluster = connect(settings.kubeconfig, clock=clock, context=settings.context) if needs_cluster else None
    operations: web.AppRunner | None = None
    try:
        await log.start()
        await log.create_topics(SPECS)
        parts = {"clock": clock, "log": log, "ids": ids, "telemetry": telemetry}
        if cluster is not None:
            parts["cluster"] = cluster
        service = build(settings, **parts)
        if settings.operations_port:
            operations = await serve_operations(
                [service], [telemetry], settings.operations_host, settings.operations_port
            )
        await until_stopped(service.run())
    finally:
        if operations is not None:
            await operations.cleanup()
        if cluster is not None:
            await cluster.close()
        await log.close()
        telemetry.shutdown()
