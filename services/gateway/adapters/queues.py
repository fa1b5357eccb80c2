"""Commands to queues: open, close. Written to the log; the controller obeys them."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from services.gateway.adapters.commands import Timeout, Wait
from services.gateway.adapters.context import Context, answer
from services.gateway.adapters.documents import PROBLEMS
from services.gateway.adapters.problems import Problem, away
from services.gateway.adapters.waiting import wait_for
from services.gateway.adapters.watching import queue_key
from services.gateway.core.goals import SHUT, queue_obeyed
from services.gateway.core.views import QueueCommandAccepted
from shared.api.names import ROOT_QUEUE
from shared.events.contracts import CommandQueue, QueueAction, QueueState


class QueueRoutes:
    """The routes that command a queue."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.router = APIRouter(tags=["cluster"])
        responses: dict[int | str, dict[str, Any]] = {
            200: {"model": QueueCommandAccepted, "description": "It is done (`wait`)."},
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

    async def open(
        self, request: Request, name: str, wait: Wait = False, timeout: Timeout = None
    ) -> Response:
        """Open a queue, and with it those below that were closed because of it. Done when it is open."""
        return await self._command(request, QueueAction.OPEN, name, wait=wait, timeout=timeout)

    async def close(
        self, request: Request, name: str, wait: Wait = False, timeout: Timeout = None
    ) -> Response:
        """Close a queue and those below it; its running jobs go on, and it is closed when they have ended.

        Done when it takes no new jobs (state Closing or Closed).
        """
        return await self._command(request, QueueAction.CLOSE, name, wait=wait, timeout=timeout)

    async def _command(
        self, request: Request, action: QueueAction, name: str, *, wait: bool, timeout: str | None
    ) -> Response:
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
        done = wait and await wait_for(
            context.watchers,
            request,
            queue_key(name),
            lambda: queue_obeyed(action, context.model, name),
            context.seconds(timeout),
        )
        known = context.model.queues.get(name)
        state = known.state if known is not None else ""
        view = QueueCommandAccepted(id=id_, name=name, action=action.value, state=state, done=done)
        return answer(view, 200 if done else 202)

    def _impossible(self, action: QueueAction, queue: QueueState) -> str:
        if action is QueueAction.CLOSE:
            return "the root holds all other queues" if queue.name == ROOT_QUEUE else ""
        parent = self._context.model.queues.get(queue.parent)
        if parent is not None and parent.state in SHUT:
            return f"the queue above it, {parent.name}, is {parent.state.lower()}: open that one first"
        return ""
