"""Commands to jobs: delete, suspend, resume. Written to the log; the controller carries them out."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from services.gateway.adapters.context import DURATION, Context, answer
from services.gateway.adapters.documents import PROBLEMS
from services.gateway.adapters.problems import Problem, not_found
from services.gateway.adapters.waiting import wait_for
from services.gateway.core.goals import carried_out, impossible
from services.gateway.core.incarnation import exists
from services.gateway.core.views import CommandAccepted
from shared.events.contracts import CommandJob, JobAction

Wait = Annotated[bool, Query(description="Answer when it is done: 200; 202 when the time is over before.")]
Timeout = Annotated[str | None, Query(pattern=DURATION, description="Of the wait: seconds, or like 5m.")]


class CommandRoutes:
    """The routes that command a job."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.router = APIRouter(tags=["jobs"])
        responses: dict[int | str, dict[str, Any]] = {
            200: {"model": CommandAccepted, "description": "It is done (`wait`)."},
            202: {"model": CommandAccepted, "description": "It is in the log."},
            **{code: PROBLEMS[code] for code in (404, 409, 503)},
        }
        path = "/v1/jobs/{namespace}/{name}"
        for method, suffix, handler, text in (
            ("POST", ":suspend", self.suspend, "Take a job's pods away, keep the job"),
            ("POST", ":resume", self.resume, "Let a suspended job run again"),
            ("DELETE", "", self.delete, "Delete a job and all that it owns"),
        ):
            self.router.add_api_route(
                path + suffix, handler, methods=[method], status_code=202, responses=responses, summary=text
            )

    async def suspend(
        self, request: Request, namespace: str, name: str, wait: Wait = False, timeout: Timeout = None
    ) -> Response:
        """Suspend a job. Done when none of its pods runs any more (phase Aborted)."""
        return await self._command(request, JobAction.SUSPEND, namespace, name, wait=wait, timeout=timeout)

    async def resume(
        self, request: Request, namespace: str, name: str, wait: Wait = False, timeout: Timeout = None
    ) -> Response:
        """Resume a suspended job. Done when it is in its queue again."""
        return await self._command(request, JobAction.RESUME, namespace, name, wait=wait, timeout=timeout)

    async def delete(
        self, request: Request, namespace: str, name: str, wait: Wait = False, timeout: Timeout = None
    ) -> Response:
        """Delete a job. Done when the Job object is gone."""
        return await self._command(request, JobAction.DELETE, namespace, name, wait=wait, timeout=timeout)

    async def _command(
        self,
        request: Request,
        action: JobAction,
        namespace: str,
        name: str,
        *,
        wait: bool,
        timeout: str | None,
    ) -> Response:
        context = self._context
        record, job = context.job(namespace, name)
        if not exists(context.model, record):
            raise not_found(namespace, name)
        if problem := impossible(action, job):
            raise Problem(409, "impossible", f"cannot {action.value} {namespace}/{name}: {problem}")
        uid = job.life.uid if job.life else None
        command = CommandJob(namespace=namespace, name=name, uid=uid, action=action)
        id_ = context.ids()
        await context.publisher.command(id_, context.clock.now(), command, job.traceparent)
        done = wait and await wait_for(
            context.watchers,
            request,
            record.key,
            lambda: carried_out(action, context.model, record.key, uid),
            context.seconds(timeout),
        )
        view = CommandAccepted(
            id=id_,
            namespace=namespace,
            name=name,
            action=action.value,
            phase=context.phase(namespace, name),
            done=done,
        )
        return answer(view, 200 if done else 202)
