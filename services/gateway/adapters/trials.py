"""``POST /v1/trials``: what would become of a job. The log is asked, and nothing is submitted."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from services.gateway.adapters.bodies import parse_body, read_body
from services.gateway.adapters.context import DURATION, Context, answer
from services.gateway.adapters.documents import PROBLEMS, SUBMISSION_BODY
from services.gateway.adapters.problems import Problem, violations
from services.gateway.core.rendering import trial_view
from services.gateway.core.submission import prepare
from services.gateway.core.views import TrialView
from shared.events import contracts as c

_PATIENCE: Final = 10.0
"""Seconds that an answer may take, unless the request says it."""


class TrialRoutes:
    """The route of trials."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.router = APIRouter(tags=["jobs"])
        self.router.add_api_route(
            "/v1/trials",
            self.try_out,
            methods=["POST"],
            response_model=TrialView,
            summary="Say what would become of a job",
            responses={code: PROBLEMS[code] for code in (400, 413, 422, 503, 504)},
            openapi_extra=SUBMISSION_BODY,
        )

    async def try_out(
        self,
        request: Request,
        timeout: Annotated[
            str | None, Query(pattern=DURATION, description="For the answer: seconds, or like 5s.")
        ] = None,
    ) -> Response:
        """Say where a job would go, who would leave for it, or why it would wait and until when.

        It is judged and decided against the live state by those who would do it, and it is not submitted. The
        body is as for a submission; a job that would be rejected is answered as one that was.
        """
        context = self._context
        body = await read_body(request, context.settings.max_body)
        identifier = context.ids()
        prepared = prepare(
            parse_body(body, request.headers.get("content-type", "")),
            id=identifier,
            now=context.clock.now(),
        )
        question = c.TrialRequested(trial=identifier, job=prepared.envelope.data.job)
        seconds = _PATIENCE if timeout is None else context.seconds(timeout)
        found = await context.trials.ask(question, seconds)
        namespace, name = prepared.key
        if found.outcome is c.TrialOutcome.REJECTED:
            messages = "; ".join(one.message for one in found.violations)
            raise Problem(
                422,
                "rejected",
                f"job {namespace}/{name} would be rejected: {messages}",
                violations=violations(found.violations),
                namespace=namespace,
                name=name,
            )
        return answer(trial_view(found, namespace, name))
