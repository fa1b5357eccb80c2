"""Commands to queues: open, close. Written to the log; the controller obeys them."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter
from fastapi.responses import Response

from services.gateway.adapters.context import Context, answer
from services.gateway.adapters.documents import PROBLEMS
from services.gateway.adapters.problems import Problem, away
from services.gateway.core.views import QueueCommandAccepted
from shared.api.names import ROOT_QUEUE
from shared.events.contracts import CommandQueue, QueueAction, QueueState

_SHUT: Final = frozenset({"Closed", "Closing"})


class QueueRoutes:
    """The routes that command a queue."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.router = APIRouter(tags=["cluster"])
        responses: dict[int | str, dict[str, Any]] = {
            202: {"model": QueueCommandAccepted, "description": "It is in the log."},
            **{code: PROBLEMS[code] for code in (404, 409, 503)},
        }
        for suffix, handler, text in (
            (":open", self.open, "Let a queue take jobs again"),
            (":close", self.close, "Let a queue take no new jobs"),
        ):
            self.router.add_api_route(
                "/v1/queues/{name}" + suffix,
                handler,
                methods=["POST"],
                status_code=202,
                responses=responses,
                summary=text,
            )

    async def open(self, name: str) -> Response:
        """Open a queue, and with it those below that were closed because of it."""
        return await self._command(QueueAction.OPEN, name)

    async def close(self, name: str) -> Response:
        """Close a queue and those below it; its running jobs go on, and it is closed when they have ended."""
        return await self._command(QueueAction.CLOSE, name)

    async def _command(self, action: QueueAction, name: str) -> Response:
        context = self._context
        queue = context.model.queues.get(name)
        if queue is None:
            if not context.follower.ready.is_set():
                raise away("the gateway has just started and is still reading the topics")
            raise Problem(404, "not-found", f"there is no queue {name}")
        if problem := self._impossible(action, queue):
            raise Problem(409, "impossible", f"cannot {action.value} queue {name}: {problem}")
        id_ = context.ids()
        command = CommandQueue(name=name, action=action)
        await context.publisher.queue_command(id_, context.clock.now(), command)
        return answer(QueueCommandAccepted(id=id_, name=name, action=action.value, state=queue.state), 202)

    def _impossible(self, action: QueueAction, queue: QueueState) -> str:
        if action is QueueAction.CLOSE:
            return "the root holds all other queues" if queue.name == ROOT_QUEUE else ""
        parent = self._context.model.queues.get(queue.parent)
        if parent is not None and parent.state in _SHUT:
            return f"the queue above it, {parent.name}, is {parent.state.lower()}: open that one first"
        return ""
