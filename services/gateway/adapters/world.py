"""``/v1/queues`` and ``/v1/nodes``, and the endpoints for probes and Prometheus."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse, Response

from services.gateway.adapters.context import Context, answer, plain
from services.gateway.core.rendering import nodes
from services.gateway.core.views import NodeList, QueueList


class WorldRoutes:
    """The routes of what jobs run in."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.router = APIRouter()
        add = self.router.add_api_route
        add(
            "/v1/queues",
            self.queues,
            methods=["GET"],
            tags=["cluster"],
            response_model=QueueList,
            summary="List queues",
        )
        add(
            "/v1/nodes",
            self.nodes,
            methods=["GET"],
            tags=["cluster"],
            response_model=NodeList,
            summary="List nodes",
        )
        add("/healthz", self.healthz, methods=["GET"], tags=["operations"], summary="Is the process alive?")
        add(
            "/readyz",
            self.readyz,
            methods=["GET"],
            tags=["operations"],
            summary="Is it ready, and if not, why?",
        )
        add("/metrics", self.metrics, methods=["GET"], tags=["operations"], summary="Metrics for Prometheus")

    async def queues(self) -> Response:
        """List queues with their limits, what their pods hold, and their jobs by phase."""
        return answer(QueueList(items=tuple(self._context.follower.listing.queues())))

    async def nodes(self) -> Response:
        """List nodes with what can be allocated, is allocated and is free."""
        return answer(NodeList(items=tuple(nodes(self._context.model))))

    async def healthz(self) -> Response:
        """Answer as long as the process answers."""
        return PlainTextResponse("ok\n")

    async def readyz(self) -> Response:
        """Answer 200 when all topics were read and the log answers; else 503 and what is missing."""
        health = self._context.health
        return plain({"ready": health.ready, "waiting": dict(health.reasons)}, 200 if health.ready else 503)

    async def metrics(self) -> Response:
        """Return the metrics in Prometheus' text format."""
        text = self._context.telemetry.exposition()
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")
