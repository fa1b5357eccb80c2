"""``/v1/jobs``: submit, list, look at."""

from __future__ import annotations

import asyncio
import base64
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from services.gateway.adapters.bodies import parse_body, read_body
from services.gateway.adapters.context import DURATION, Context, answer
from services.gateway.adapters.documents import PROBLEMS, SUBMISSION_BODY
from services.gateway.adapters.problems import Problem, away, violations
from services.gateway.adapters.waiting import wait_for
from services.gateway.core.goals import Goal, reached
from services.gateway.core.incarnation import Incarnation, of_submission
from services.gateway.core.rendering import detail, links
from services.gateway.core.submission import Invalid, Prepared, prepare, submission_id
from services.gateway.core.tracing import trace
from services.gateway.core.views import Accepted, JobDetail, JobList, JobSummary, TraceView
from shared.errors import Conflict, ContractError
from shared.telemetry.phases import Phase, job_attributes, phase_span

_KEY_LIMIT: Final = 255
_PAGE: Final = 500
_LARGEST_PAGE: Final = 5000


class JobRoutes:
    """The routes of jobs. Answers of a wait: 200 or 201 it came to that, 202 not yet, 422 rejected."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.router = APIRouter(tags=["jobs"])
        add = self.router.add_api_route
        add(
            "/v1/jobs",
            self.submit,
            methods=["POST"],
            status_code=202,
            summary="Submit a job",
            responses={
                200: {"model": JobDetail, "description": "It runs, or has finished (`wait`)."},
                201: {"model": JobDetail, "description": "It was admitted (`wait=admitted`)."},
                202: {"model": Accepted, "description": "It is in the log; with `wait`, the job as it is."},
                **{code: PROBLEMS[code] for code in (400, 409, 413, 422, 503)},
            },
            openapi_extra=SUBMISSION_BODY,
        )
        add("/v1/jobs", self.list, methods=["GET"], response_model=JobList, summary="List jobs")
        add(
            "/v1/jobs/{namespace}/{name}/trace",
            self.trace,
            methods=["GET"],
            response_model=TraceView,
            responses={404: PROBLEMS[404]},
            summary="The spans of a job, with what goes on now",
        )
        add(
            "/v1/jobs/{namespace}/{name}",
            self.get,
            methods=["GET"],
            response_model=JobDetail,
            responses={404: PROBLEMS[404]},
            summary="Everything about a job",
        )

    async def submit(
        self,
        request: Request,
        wait: Annotated[Goal | None, Query(description="Answer when the job has come this far.")] = None,
        timeout: Annotated[
            str | None, Query(pattern=DURATION, description="Of the wait: seconds, or like 5m.")
        ] = None,
    ) -> Response:
        """Write a job to the log: a Job object in JSON or YAML, or the short form.

        With an `Idempotency-Key`, a repeated request makes no second job and gets the same answer. A
        `traceparent` is continued. `wait=finished` answers whichever way the job ended: look at `phase`.
        """
        context = self._context
        prepared = await self._prepare(request)
        try:
            new = await context.publisher.submit(prepared)
        except Conflict:
            context.metrics.submissions.labels("conflict").inc()
            raise
        traceparent = prepared.trace.traceparent
        if new:
            self._emit_submit(prepared)
        elif (job := of_submission(context.model, prepared.envelope.id)) is not None and job.traceparent:
            traceparent = job.traceparent
        if wait is not None:
            return await self._waited(request, prepared, wait, context.seconds(timeout))
        namespace, name = prepared.key
        accepted = Accepted(
            submission=prepared.envelope.id,
            namespace=namespace,
            name=name,
            traceparent=traceparent,
            links=links(namespace, name),
        )
        return answer(accepted, 202, {"Location": accepted.links.self, "traceparent": traceparent})

    async def _prepare(self, request: Request) -> Prepared:
        context, received = self._context, self._context.clock.now()
        key = request.headers.get("idempotency-key")
        if key is not None:
            await self._check_key(key)
        try:
            body = await read_body(request, context.settings.max_body)
            header = context.settings.user_header
            return prepare(
                parse_body(body, request.headers.get("content-type", "")),
                id=submission_id(key) if key else context.ids(),
                now=received,
                submitted_by=request.headers.get(header, "") if header else "",
                traceparent=request.headers.get("traceparent"),
                tracestate=request.headers.get("tracestate"),
            )
        except (Invalid, ContractError):
            context.metrics.submissions.labels("invalid").inc()
            raise

    async def _check_key(self, key: str) -> None:
        """A key means nothing before the submissions of earlier requests have been read."""
        if not 0 < len(key) <= _KEY_LIMIT:
            raise Problem(
                400, "invalid-idempotency-key", f"an Idempotency-Key has 1 to {_KEY_LIMIT} characters"
            )
        try:
            async with asyncio.timeout(self._context.settings.log_patience):
                await self._context.follower.ready.wait()
        except TimeoutError as error:
            raise away("the gateway is still reading the topics and cannot check the key") from error

    def _emit_submit(self, prepared: Prepared) -> None:
        event = prepared.envelope
        namespace, name = prepared.key
        self._context.telemetry.emit(
            phase_span(
                Phase.SUBMIT,
                prepared.trace.traceparent,
                event.time,
                self._context.clock.now(),
                attributes={**job_attributes(namespace, name), "pumice.submission": event.id},
            )
        )

    async def _waited(self, request: Request, prepared: Prepared, goal: Goal, seconds: float) -> Response:
        context, id_ = self._context, prepared.envelope.id
        done = await wait_for(
            context.watchers,
            request,
            prepared.key,
            lambda: reached(goal, of_submission(context.model, id_)),
            seconds,
        )
        job = of_submission(context.model, id_)
        if job is None:  # not even read back yet
            namespace, name = prepared.key
            waiting = Accepted(
                submission=id_,
                namespace=namespace,
                name=name,
                traceparent=prepared.trace.traceparent,
                links=links(namespace, name),
            )
            return answer(waiting, 202, {"Location": waiting.links.self})
        if job.rejected:
            raise rejection(job)
        view = detail(job, context.model)
        status = (201 if goal is Goal.ADMITTED else 200) if done else 202
        return answer(view, status, {"Location": view.links.self, "traceparent": view.traceparent or ""})

    async def list(
        self,
        namespace: Annotated[str | None, Query(description="Only of this namespace.")] = None,
        queue: Annotated[str | None, Query(description="Only of this queue.")] = None,
        phase: Annotated[
            list[str] | None, Query(description="Only in one of these phases; repeat or join by commas.")
        ] = None,
        limit: Annotated[int, Query(ge=1, le=_LARGEST_PAGE, description="Jobs in a page.")] = _PAGE,
        continue_: Annotated[str | None, Query(alias="continue", description="From the page before.")] = None,
    ) -> Response:
        """List jobs that exist, are on their way or were rejected, in order of namespace and name."""
        phases = frozenset(one for text in phase or () for one in text.split(",") if one)
        after = _position(continue_) if continue_ else None
        items: list[JobSummary] = []
        total = 0
        more = False
        for job in self._context.follower.listing.jobs(namespace=namespace, queue=queue, phases=phases):
            total += 1
            if after is not None and (job.namespace, job.name) <= after:
                continue
            if len(items) == limit:
                more = True
                continue
            items.append(job)
        token = _token(items[-1].namespace, items[-1].name) if more else None
        return answer(JobList(items=tuple(items), next_page=token, total=total))

    async def get(self, namespace: str, name: str) -> Response:
        """Show a job: its phase, pods and their nodes, why it waits, its way so far."""
        _, job = self._context.job(namespace, name)
        return answer(detail(job, self._context.model))

    async def trace(self, namespace: str, name: str) -> Response:
        """Show the job's one trace, drawn from the topics: no collector is needed."""
        _, job = self._context.job(namespace, name)
        view = trace(job)
        if view is None:
            raise Problem(404, "no-trace", f"job {namespace}/{name} has no trace context yet")
        return answer(view)


def rejection(job: Incarnation) -> Problem:
    """Return the problem of a job that was rejected, with every reason."""
    asked = job.submission
    found = asked.violations if asked else ()
    count = f"{len(found)} violation{'' if len(found) == 1 else 's'}"
    messages = "; ".join(violation.message for violation in found)
    return Problem(
        422,
        "rejected",
        f"job {job.record.namespace}/{job.record.name} was rejected, {count}: {messages}",
        violations=violations(found),
        namespace=job.record.namespace,
        name=job.record.name,
        submission=asked.id if asked else None,
        traceparent=job.traceparent,
    )


def _token(namespace: str, name: str) -> str:
    return base64.urlsafe_b64encode(f"{namespace}/{name}".encode()).decode()


def _position(token: str) -> tuple[str, str]:
    try:
        namespace, name = base64.urlsafe_b64decode(token.encode()).decode().split("/", 1)
    except ValueError as error:
        raise Problem(400, "invalid-continue", "continue is not from a page of this list") from error
    return namespace, name
