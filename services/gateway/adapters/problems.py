"""Every error as problem details (RFC 9457).

``code`` is stable and for programs, ``detail`` for people; what else there is to say (violations, sizes)
stands beside them.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from services.gateway.core.submission import Invalid
from shared.errors import Conflict, ContractError, TooLarge, Unavailable
from shared.events.contracts import Violation

PROBLEM_TYPE: Final = "application/problem+json"
RETRY_AFTER: Final = 5
"""Seconds until a client should try again while the log is away."""


class ProblemDetails(BaseModel):
    """An error's body, RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    violations: list[Violation] | None = Field(default=None, description="Every reason, with its field path.")
    size: int | None = Field(default=None, description="413: bytes of the message.")
    limit: int | None = Field(default=None, description="413: the most there may be.")


class Problem(Exception):  # noqa: N818 - the standard's word
    """An answer that is an error."""

    def __init__(
        self, status: int, code: str, detail: str, *, headers: dict[str, str] | None = None, **extra: Any
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = headers or {}
        self.extra = extra

    def response(self) -> Response:
        """Return the answer."""
        body = {
            "type": f"urn:pumice:problem:{self.code}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            **self.extra,
        }
        return Response(
            orjson.dumps(body), status_code=self.status, media_type=PROBLEM_TYPE, headers=self.headers
        )


def violations(items: tuple[Violation, ...]) -> list[dict[str, Any]]:
    """Return violations as plain data."""
    return [violation.model_dump(by_alias=True) for violation in items]


def not_found(namespace: str, name: str) -> Problem:
    """Return the problem of a job that is not known."""
    return Problem(404, "not-found", f"there is no job {namespace}/{name}")


def install(app: FastAPI) -> None:
    """Turn every error that a request can end with into a problem."""

    @app.exception_handler(Problem)
    async def problem(_: Request, error: Problem) -> Response:
        return error.response()

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> Response:
        phrase = HTTPStatus(error.status_code).phrase
        detail = str(error.detail or phrase)
        found = Problem(error.status_code, phrase.lower().replace(" ", "-"), detail)
        found.headers = dict(error.headers or {})
        return found.response()

    @app.exception_handler(RequestValidationError)
    async def parameters(_: Request, error: RequestValidationError) -> Response:
        found = [
            Violation(
                code=str(one["type"]).replace("_", "-"),
                path=".".join(map(str, one["loc"][1:])),
                message=str(one["msg"]),
            )
            for one in error.errors()
        ]
        detail = "; ".join(f"{one.path}: {one.message}" for one in found)
        return Problem(422, "invalid-parameters", detail, violations=violations(tuple(found))).response()

    @app.exception_handler(Exception)
    async def ours(_: Request, __: Exception) -> Response:
        return Problem(500, "internal", "a mistake of the gateway's own: its log says more").response()

    @app.exception_handler(Invalid)
    async def invalid(_: Request, error: Invalid) -> Response:
        return Problem(422, "invalid-job", str(error), violations=violations(error.violations)).response()

    @app.exception_handler(ContractError)
    async def contract(_: Request, error: ContractError) -> Response:
        return Problem(400, error.reason, str(error)).response()

    @app.exception_handler(Conflict)
    async def conflict(_: Request, error: Conflict) -> Response:
        return Problem(409, "conflict", str(error)).response()

    @app.exception_handler(TooLarge)
    async def too_large(_: Request, error: TooLarge) -> Response:
        return Problem(413, "too-large", str(error), size=error.size, limit=error.limit).response()

    @app.exception_handler(Unavailable)
    async def unavailable(_: Request, error: Unavailable) -> Response:
        return away(str(error)).response()


def away(detail: str) -> Problem:
    """Return the problem of a part that is away for now."""
    return Problem(503, "unavailable", detail, headers={"Retry-After": str(RETRY_AFTER)})
