"""The gateway's composition root."""

from __future__ import annotations

import asyncio
import socket

from starlette.types import ASGIApp

from services.gateway.adapters.asking import Trials
from services.gateway.adapters.context import Context
from services.gateway.adapters.following import Follower
from services.gateway.adapters.http import make_app
from services.gateway.adapters.metrics import Metrics
from services.gateway.adapters.publishing import Publisher
from services.gateway.adapters.server import listen, serve
from services.gateway.adapters.watching import Watchers
from services.gateway.core.facts import Model
from services.gateway.settings import GatewaySettings
from shared.clock import Clock
from shared.log.port import EventLog
from shared.service import Health, Ids
from shared.telemetry.telemetry import Telemetry


class Gateway:
    """The running gateway. ``asgi`` is its API, also without a port."""

    name = "gateway"

    def __init__(self, context: Context) -> None:
        self._context = context
        self._url: str | None = None
        self.asgi: ASGIApp = make_app(context)

    @property
    def health(self) -> Health:
        """Return what it waits for."""
        return self._context.health

    @property
    def model(self) -> Model:
        """Return the read model."""
        return self._context.model

    @property
    def listening(self) -> bool:
        """Say whether there is an address yet."""
        return self._url is not None

    @property
    def url(self) -> str:
        """Return the address it listens on, once it does."""
        if self._url is None:
            raise RuntimeError("the gateway does not listen yet")
        return self._url

    async def run(self) -> None:
        """Serve and follow the topics until cancelled. Raises StartupError when the port is in use."""
        settings = self._context.settings
        bound = None if settings.port is None else listen(settings.host, settings.port)
        if bound is not None:
            self._url = _url(settings.host, bound)
            self._context.telemetry.log.info("listening on %s", self._url)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._context.follower.run())
            tasks.create_task(self._context.trials.run())
            if bound is not None:
                tasks.create_task(
                    serve(
                        self.asgi,
                        bound,
                        keep_alive=settings.keep_alive,
                        patience=settings.shutdown_patience,
                        on_stop=self._context.watchers.stop,
                    )
                )


def _url(host: str, bound: socket.socket) -> str:
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    return f"http://{shown}:{bound.getsockname()[1]}"


def build(
    settings: GatewaySettings, *, clock: Clock, log: EventLog, ids: Ids, telemetry: Telemetry
) -> Gateway:
    """Put a gateway together; it needs no cluster."""
    health, watchers, metrics = Health(), Watchers(), Metrics(telemetry.registry)
    follower = Follower(
        log,
        settings,
        watchers=watchers,
        metrics=metrics,
        clock=clock,
        health=health,
    )
    publisher = Publisher(log, follower.model, patience=settings.log_patience, metrics=metrics)
    return Gateway(
        Context(
            settings=settings,
            follower=follower,
            watchers=watchers,
            publisher=publisher,
            trials=Trials(log, clock, telemetry),
            metrics=metrics,
            clock=clock,
            ids=ids,
            health=health,
            telemetry=telemetry,
        )
    )
