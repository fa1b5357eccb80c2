"""What can go wrong, by what the caller can do about it.

Every error of this package is a :class:`PumiceError`. An answer of the server that is an error is
read as problem details (RFC 9457) and becomes one of the classes below by its status.
"""

# ruff: noqa: N818 - the names say what happened, as in HTTP

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class PumiceError(Exception):
    """Base of every error that this package raises on purpose."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One reason why a job was not admitted."""

    code: str
    """Stable, kebab-case: for programs."""
    path: str
    """Kubernetes field path, e.g. ``spec.tasks[0].replicas``; empty for the whole object."""
    message: str

    def __str__(self) -> str:
        return f"{self.path or '(job)'}: {self.message}" + (f" [{self.code}]" if self.code else "")


class Rejected(PumiceError):
    """The job breaks rules (HTTP 422): ``violations`` has all of them. Change it, then submit again."""

    def __init__(self, message: str, violations: tuple[Violation, ...] = ()) -> None:
        super().__init__(message)
        self.violations = violations


class BadRequest(PumiceError):
    """The server could not read the request (HTTP 400, 415): not YAML or JSON, not a Job, a wrong value."""


class Forbidden(PumiceError):
    """The server does not let this caller do that (HTTP 401, 403)."""


class NotFound(PumiceError):
    """There is no such thing (HTTP 404), or it went away while it was waited for."""


class Conflict(PumiceError):
    """What is there is in the way (HTTP 409): the name is taken, or the key was used for another request."""


class TooLarge(PumiceError):
    """The job is over the limit for one message (HTTP 413)."""


class Unavailable(PumiceError):
    """The server is away, starting or overloaded; it was tried several times.

    ``retry_after`` is the number of seconds which the server asked to wait, if it said so.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class TimedOut(PumiceError):
    """The awaited state was not reached in the time given (the job goes on), or nobody answered in it."""


class ProtocolError(PumiceError):
    """The server answered in a way that this client does not understand."""


class ManifestError(PumiceError):
    """A manifest that cannot be read. It says where."""


_NO_ANSWER = "no-answer"
"""Code of the answer that a service which was asked gave none: asked again it would take as long."""
_TOO_MANY, _UNAVAILABLE = 429, frozenset({502, 503, 504})
_BY_STATUS: Mapping[int, type[PumiceError]] = {
    400: BadRequest,
    401: Forbidden,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: TooLarge,
    415: BadRequest,
}


def from_answer(status: int, headers: Mapping[str, str], body: bytes) -> PumiceError:
    """Return the error that an answer of status 400 or more means."""
    problem = _problem(body)
    text = _text(problem) or body.decode(errors="replace").strip()[:300] or f"HTTP {status}"
    if status == 422:  # noqa: PLR2004 - the table above says what the others mean
        return Rejected(text, _violations(problem))
    if problem.get("code") == _NO_ANSWER:
        return TimedOut(text)
    if status == _TOO_MANY or status in _UNAVAILABLE:
        return Unavailable(text, _seconds(headers.get("retry-after", "")))
    kind = _BY_STATUS.get(status)
    return kind(text) if kind else ProtocolError(f"HTTP {status}: {text}")


def _problem(body: bytes) -> dict[str, Any]:
    try:
        problem = json.loads(body)
    except ValueError:
        return {}
    return problem if isinstance(problem, dict) else {}


def _text(problem: dict[str, Any]) -> str:
    return next((str(problem[key]) for key in ("detail", "title") if problem.get(key)), "")


def _violations(problem: dict[str, Any]) -> tuple[Violation, ...]:
    found = problem.get("violations")
    return tuple(
        Violation(str(one.get("code", "")), str(one.get("path", "")), str(one.get("message", "")))
        for one in (found if isinstance(found, list) else [])
        if isinstance(one, dict)
    )


def _seconds(text: str) -> float | None:
    try:
        return max(0.0, float(text))
    except ValueError:
        return None
