"""``AdmissionReview`` (``admission.k8s.io/v1``): what the API server asks, and what it is told."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from services.admission.core.violations import Violation
from shared.api.base import JSON
from shared.errors import ContractError

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
MAX_REASONS: Final = 100
"""Violations named in one answer: an answer is read by people."""
_UNPROCESSABLE: Final = 422


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody wants to do. ``object`` is absent for DELETE, ``old`` for CREATE."""

    uid: str
    operation: str
    group: str
    kind: str
    resource: str
    namespace: str = ""
    name: str = ""
    object: JSON | None = None
    old: JSON | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Allowed, with a JSON patch or without; or refused, when there are violations."""

    violations: Sequence[Violation] = ()
    patch: Sequence[JSON] = ()

    @property
    def allowed(self) -> bool:
        """Whether the request may go on."""
        return not self.violations

    @property
    def word(self) -> str:
        """One word for metrics: allowed, patched or denied."""
        return "denied" if self.violations else "patched" if self.patch else "allowed"


def read_review(body: bytes) -> Request:
    """Read a review. Raises ContractError ``bad-review`` that says what is missing or wrong."""
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise _bad(f"not JSON: {error}") from error
    if not isinstance(review, dict):
        raise _bad("not an object")
    if review.get("apiVersion") != API_VERSION or review.get("kind") != KIND:
        got = f"{str(review.get('kind'))[:80]} of {str(review.get('apiVersion'))[:80]}"
        raise _bad(f"expected {KIND} of {API_VERSION}, not {got}")
    request = review.get("request")
    if not isinstance(request, dict):
        raise _bad("request is missing")
    kind, resource = _mapping(request, "kind"), _mapping(request, "resource")
    return Request(
        uid=_text(request, "uid"),
        operation=_text(request, "operation"),
        group=str(kind.get("group") or ""),
        kind=_text(kind, "kind", "kind."),
        resource=_text(resource, "resource", "resource."),
        namespace=str(request.get("namespace") or ""),
        name=str(request.get("name") or ""),
        object=_object(request, "object"),
        old=_object(request, "oldObject"),
    )


def answer(request: Request, verdict: Verdict) -> JSON:
    """Return the review that answers a request.

    A refusal is a ``Status`` as the API server's own of an invalid object, so that kubectl shows a line for
    each violation; other clients get them all in the message.
    """
    response: JSON = {"uid": request.uid, "allowed": verdict.allowed}
    if not verdict.allowed:
        response["status"] = _status(request, verdict.violations)
    elif verdict.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(orjson.dumps(list(verdict.patch))).decode()
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}


def _status(request: Request, violations: Sequence[Violation]) -> JSON:
    named = list(violations[:MAX_REASONS])
    if len(violations) > MAX_REASONS:
        left_out = len(violations) - MAX_REASONS
        named.append(Violation("too-many-violations", "", f"{left_out} more violations are left out"))
    return {
        "status": "Failure",
        "code": _UNPROCESSABLE,
        "reason": "Invalid",
        "message": "; ".join(_sentence(violation) for violation in named),
        "details": {
            "name": request.name,
            "group": request.group,
            "kind": request.kind,
            "causes": [
                {"reason": "FieldValueInvalid", "field": one.path, "message": one.message} for one in named
            ],
        },
    }


def _sentence(violation: Violation) -> str:
    return f"{violation.path}: {violation.message}" if violation.path else violation.message


def _bad(message: str) -> ContractError:
    return ContractError("bad-review", message)


def _text(parent: JSON, field: str, at: str = "") -> str:
    value = parent.get(field)
    if not isinstance(value, str) or not value:
        raise _bad(f"request.{at}{field} is missing")
    return value


def _mapping(parent: JSON, field: str) -> JSON:
    value = parent.get(field)
    if not isinstance(value, dict):
        raise _bad(f"request.{field} is missing")
    return value


def _object(request: JSON, field: str) -> JSON | None:
    value: Any = request.get(field)
    if value is None or isinstance(value, dict):
        return value
    raise _bad(f"request.{field} is not an object")
