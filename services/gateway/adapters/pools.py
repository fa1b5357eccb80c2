"""Commands to the schedulers of node pools. Written to the log; the pool's scheduler obeys them."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from services.gateway.adapters.context import Context, answer
from services.gateway.adapters.documents import PROBLEMS
from services.gateway.adapters.problems import Problem, away
from services.gateway.core.views import PoolCommandAccepted
from shared.events.contracts import CommandPool, PoolAction


class PoolRoutes:
    """The routes that command a pool's scheduler."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.router = APIRouter(tags=["cluster"])
        responses: dict[int | str, dict[str, Any]] = {
            202: {"model": PoolCommandAccepted, "description": "It is in the log."},
            **{code: PROBLEMS[code] for code in (404, 503)},
        }
        self.router.add_api_route(
            "/v1/pools/{name}:defragment",
            self.defragment,
            methods=["POST"],
            status_code=202,
            responses=responses,
            summary="Have gangs move for those that wait",
        )

    async def defragment(self, name: str) -> Response:
        """Have running gangs move now, where each has room elsewhere and one that waits then starts.

        It is done once, for gangs that wait for room in one piece. Who moves is told of the jobs.
        """
        context = self._context
        if not any(node.pool == name for node in context.model.nodes.values()):
            if not context.follower.ready.is_set():
                raise away("the gateway has just started and is still reading the topics")
            raise Problem(404, "not-found", f"there is no node pool {name}")
        id_, now = context.ids(), context.clock.now()
        command = CommandPool(pool=name, action=PoolAction.DEFRAGMENT, at=now)
        await context.publisher.pool_command(id_, now, command)
        return answer(PoolCommandAccepted(id=id_, pool=name, action=command.action.value), 202)
