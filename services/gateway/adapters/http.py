"""The ASGI application."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.gateway.adapters import problems
from services.gateway.adapters.commands import CommandRoutes
from services.gateway.adapters.context import Context
from services.gateway.adapters.documents import short_definitions
from services.gateway.adapters.jobs import JobRoutes
from services.gateway.adapters.pools import PoolRoutes
from services.gateway.adapters.queues import QueueRoutes
from services.gateway.adapters.streams import StreamRoutes
from services.gateway.adapters.trials import TrialRoutes
from services.gateway.adapters.world import WorldRoutes
from shared.clock import Clock
from shared.telemetry.telemetry import Telemetry

_ABOUT = """Submit jobs to Pumice, follow them, and see why they wait.

Every error is problem details (RFC 9457) with a stable `code`."""


def make_app(context: Context) -> ASGIApp:
    """Return the whole API."""
    app = FastAPI(title="Pumice", version="1", description=_ABOUT, docs_url="/docs", redoc_url=None)
    problems.install(app)
    for routes in (
        JobRoutes(context),
        TrialRoutes(context),
        StreamRoutes(context),
        CommandRoutes(context),
        QueueRoutes(context),
        PoolRoutes(context),
        WorldRoutes(context),
    ):
        app.include_router(routes.router)
    _describe(app)
    return Measured(app, context)


def _describe(app: FastAPI) -> None:
    """Let the document be made once, with the parts of the short form."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        document = made()
        document["components"]["schemas"].update(short_definitions())
        return document

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way


class Measured:
    """Counts and times requests; an error of ours becomes a log line with its traceback."""

    def __init__(self, app: ASGIApp, context: Context) -> None:
        self._app = app
        self._metrics = context.metrics
        self._clock: Clock = context.clock
        self._telemetry: Telemetry = context.telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, code = self._clock.monotonic(), 0

        async def noting(message: Message) -> None:
            nonlocal code
            if message["type"] == "http.response.start":
                code = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except ClientDisconnect:
            pass  # nobody is left to answer
        except Exception:
            # The answer, a 500 problem, has been given: the framework raises again, to be logged here.
            self._telemetry.log.exception("%s %s failed", scope["method"], scope["path"])
        finally:
            route = getattr(scope.get("route"), "path", "none")
            self._metrics.requests.labels(scope["method"], route, str(code)).inc()
            self._metrics.seconds.labels(scope["method"], route).observe(self._clock.monotonic() - began)
