"""From the body of a request to a ``JobSubmitted``.

Only what is needed to name the job is looked at here: whether it may run is admission's to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import Any, Final

from pydantic import ValidationError

from services.gateway.core.digest import digest
from services.gateway.core.facts import JobKey
from services.gateway.core.shortform import ShortJob, expand, missing
from shared.errors import ContractError
from shared.events.contracts import JobSubmitted, Violation
from shared.events.envelope import Envelope
from shared.telemetry.spans import JobTrace, job_trace

API_VERSION: Final = "batch.volcano.sh/v1alpha1"
SOURCE: Final = "/pumice/gateway"
_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"  # as Kubernetes: no vowels, no look-alikes
_SUFFIX_LENGTH: Final = 5
_NAME_LIMIT: Final = 63


class Invalid(Exception):  # noqa: N818 - an outcome of reading, not a failure of ours
    """The body names no job; every reason."""

    def __init__(self, violations: tuple[Violation, ...]) -> None:
        super().__init__("; ".join(violation.message for violation in violations))
        self.violations = violations


@dataclass(frozen=True, slots=True)
class Prepared:
    """A submission ready for the log."""

    key: JobKey
    envelope: Envelope[JobSubmitted]
    trace: JobTrace
    digest: str


def submission_id(idempotency_key: str) -> str:
    """Return the id that all submissions with this key share."""
    return "idem-" + blake2b(idempotency_key.encode(), digest_size=16).hexdigest()


def prepare(
    body: Any,
    *,
    id: str,  # noqa: A002 - CloudEvents' word
    now: datetime,
    submitted_by: str = "",
    traceparent: str | None = None,
    tracestate: str | None = None,
) -> Prepared:
    """Return the submission in a body: a Job object, or the short form.

    Raises:
        ContractError: ``not-a-job``: another kind of object, or none.
        Invalid: the short form has mistakes, or the job has no name.
    """
    if not isinstance(body, dict):
        raise ContractError("not-a-job", f"expected a Job object or the short form, got {_kind(body)}")
    job = _job_object(body) if "kind" in body or "apiVersion" in body else _short_form(body)
    job, key = _named(job, id)
    # The context depends on the id alone, so that a repeated request with its key joins the same trace.
    trace = job_trace(id, traceparent, tracestate)
    event = JobSubmitted(job=job, submitted_by=submitted_by, submitted_at=now)
    envelope = Envelope(
        id=id,
        source=SOURCE,
        time=now,
        data=event,
        subject="/".join(key),
        traceparent=trace.traceparent,
        tracestate=trace.tracestate,
    )
    return Prepared(key, envelope, trace, digest(job))


def _kind(body: object) -> str:
    return "nothing" if body is None else f"a {type(body).__name__}"


def _job_object(body: dict[str, Any]) -> dict[str, Any]:
    version, kind = body.get("apiVersion"), body.get("kind")
    if (version, kind) != (API_VERSION, "Job"):
        raise ContractError(
            "not-a-job", f"expected apiVersion {API_VERSION}, kind Job; got apiVersion {version}, kind {kind}"
        )
    return body


def _short_form(body: dict[str, Any]) -> dict[str, Any]:
    lacking = missing(body)
    try:
        short = ShortJob.model_validate(body)
    except ValidationError as error:
        raise Invalid((*lacking, *(_violation(problem) for problem in error.errors()))) from error
    if lacking:
        raise Invalid(lacking)
    return expand(short)


def _violation(problem: Mapping[str, Any]) -> Violation:
    path = ""
    for part in problem["loc"]:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    message = str(problem["msg"]).removeprefix("Value error, ")
    return Violation(code=str(problem["type"]).replace("_", "-"), path=path, message=message)


def _named(job: dict[str, Any], id: str) -> tuple[dict[str, Any], JobKey]:  # noqa: A002
    """Give the job its namespace and, from ``generateName``, its name."""
    metadata = job.get("metadata")
    if not isinstance(metadata, dict):
        raise Invalid(
            (Violation(code="required", path="metadata", message="metadata with a name is required"),)
        )
    name, prefix = metadata.get("name"), metadata.get("generateName")
    namespace = metadata.get("namespace")
    wrong = [
        Violation(code="invalid-type", path=f"metadata.{field}", message=f"{field} must be a text")
        for field, value in (("name", name), ("generateName", prefix), ("namespace", namespace))
        if value is not None and not isinstance(value, str)
    ]
    if wrong:
        raise Invalid(tuple(wrong))
    if not name and not prefix:
        message = "a job needs a name or a generateName"
        raise Invalid((Violation(code="required", path="metadata.name", message=message),))
    name, namespace = name or generated_name(prefix or "", id), namespace or "default"
    named = {**metadata, "name": name, "namespace": namespace}
    return {**job, "metadata": named}, (namespace, name)


def generated_name(prefix: str, id: str) -> str:  # noqa: A002
    """Return the name that a submission gets from a ``generateName``: a prefix and five letters."""
    number = int.from_bytes(blake2b(id.encode(), digest_size=8).digest())
    suffix = ""
    for _ in range(_SUFFIX_LENGTH):
        number, letter = divmod(number, len(_SUFFIX_LETTERS))
        suffix += _SUFFIX_LETTERS[letter]
    return prefix[: _NAME_LIMIT - _SUFFIX_LENGTH] + suffix
