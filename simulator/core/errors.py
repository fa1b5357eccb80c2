"""Errors as the API server words them: an HTTP status and a ``Status`` object for its body."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from simulator.core.kinds import Kind

JSON = dict[str, Any]

OPTIMISTIC_LOCK = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new "
    "list without the continue parameter, or use the continue token in this response to retrieve the "
    "remainder of the results. Continuing with the provided token results in an inconsistent list - "
    "objects that were created, modified, or deleted between the time the first chunk was returned and "
    "now may show up in the list."
)


class Cause(NamedTuple):
    """One violation: a machine code, words for people, and the field's path."""

    reason: str
    message: str
    field: str

    def text(self) -> str:
        """Return the violation as the summary shows it."""
        return f"{self.field}: {self.message}" if self.field else self.message


def required(field: str, detail: str = "") -> Cause:
    """A field that must be there is not."""
    return Cause("FieldValueRequired", f"Required value: {detail}" if detail else "Required value", field)


def invalid(field: str, value: object, detail: str) -> Cause:
    """A value breaks a rule."""
    return Cause("FieldValueInvalid", f"Invalid value: {shown(value)}: {detail}", field)


def forbidden_field(field: str, detail: str) -> Cause:
    """A value may not be set or changed here."""
    return Cause("FieldValueForbidden", f"Forbidden: {detail}", field)


def unsupported(field: str, value: object, allowed: Iterable[str]) -> Cause:
    """A value is not one of the words that are allowed."""
    words = ", ".join(f'"{word}"' for word in allowed)
    return Cause(
        "FieldValueNotSupported", f"Unsupported value: {shown(value)}: supported values: {words}", field
    )


def duplicate(field: str, value: object) -> Cause:
    """A value that must be unique in its list is there twice."""
    return Cause("FieldValueDuplicate", f"Duplicate value: {shown(value)}", field)


def shown(value: object) -> str:
    """Write a value as Go's field errors do."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        if '"' in value or "\\" in value:
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        return f'"{value}"'
    if value is None:
        return "null"
    if isinstance(value, (dict, list)):
        import orjson

        return orjson.dumps(value).decode()
    return str(value)


class StatusError(Exception):
    """The answer to a refused request. ``body`` is the Status object."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: JSON | None = None,
        metadata: JSON | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        body: JSON = {"kind": "Status", "apiVersion": "v1", "metadata": metadata or {}, "status": "Failure"}
        body["message"] = message
        if reason:
            body["reason"] = reason
        if details is not None:
            body["details"] = details
        body["code"] = code
        self.body = body


def success(details: JSON | None = None, code: int | None = None) -> JSON:
    """Return the Status of a request that worked and has no object to show."""
    body: JSON = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details:
        body["details"] = details
    if code:
        body["code"] = code
    return body


def details_of(kind: Kind, name: str, *, by_kind: bool = False) -> JSON:
    """Return ``details`` that name an object, by its resource or (validation) by its kind."""
    details: JSON = {"name": name} if name else {}
    if kind.group:
        details["group"] = kind.group
    details["kind"] = kind.kind if by_kind else kind.plural
    return details


def not_found(kind: Kind, name: str) -> StatusError:
    """404: no such object."""
    return StatusError(404, "NotFound", f'{kind.qualified} "{name}" not found', details_of(kind, name))


def already_exists(kind: Kind, name: str, *, going: bool = False) -> StatusError:
    """409: the name is taken, maybe by an object that is being deleted."""
    message = f'{kind.qualified} "{name}" already exists'
    if going:
        message = f"object is being deleted: {message}"
    return StatusError(409, "AlreadyExists", message, details_of(kind, name))


def conflict(kind: Kind, name: str, why: str = OPTIMISTIC_LOCK, *, subject: str = "") -> StatusError:
    """409: the object is not as the caller thinks."""
    message = f'Operation cannot be fulfilled on {subject or kind.qualified} "{name}": {why}'
    details = details_of(kind, name)
    if subject:
        details["kind"] = subject
    return StatusError(409, "Conflict", message, details)


def invalid_object(kind: Kind, name: str, causes: list[Cause]) -> StatusError:
    """422 with every violation."""
    details = details_of(kind, name, by_kind=True)
    details["causes"] = [
        {"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes
    ]
    subject = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    return StatusError(422, "Invalid", f'{subject} "{name}" is invalid: {_summary(causes)}', details)


def bad_request(message: str) -> StatusError:
    """400: the request cannot be read."""
    return StatusError(400, "BadRequest", message)


def forbidden(kind: Kind, name: str, why: str, causes: list[Cause] | None = None) -> StatusError:
    """403: an admission rule says no."""
    details = details_of(kind, name)
    if causes:
        details["causes"] = [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes]
    return StatusError(403, "Forbidden", f'{kind.qualified} "{name}" is forbidden: {why}', details)


def expired(message: str, token: str = "") -> StatusError:
    """410: a resource version or continue token is older than the history kept."""
    return StatusError(410, "Expired", message, metadata={"continue": token} if token else None)


def method_not_allowed() -> StatusError:
    """405: the resource is there, the verb is not."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, {})


def not_supported(kind: Kind, verb: str) -> StatusError:
    """405 as custom kinds word it, whose paths take every verb."""
    details = details_of(kind, "")
    message = f'{verb} is not supported on resources of kind "{kind.qualified}"'
    return StatusError(405, "MethodNotAllowed", message, details)


def unsupported_media_type(accepted: Iterable[str] = ()) -> StatusError:
    """415: the body's content type is not known (without a list: not known as a patch)."""
    listed = ", ".join(accepted)
    if not listed:
        return StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    message = f"the body of the request was in an unknown format - accepted media types include: {listed}"
    return StatusError(415, "UnsupportedMediaType", message)


def not_acceptable(accepted: Iterable[str]) -> StatusError:
    """406: none of the media types that the client accepts can be served."""
    message = f"406: Not Acceptable\n\nAvailable representations: {', '.join(accepted)}"
    return StatusError(406, "NotAcceptable", message, {})


def no_resource() -> StatusError:
    """404: nothing is served at a path of a known version."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def internal(message: str) -> StatusError:
    """500 as the server words errors that it did not classify: a message alone."""
    return StatusError(500, "", message)


def invalid_options(kind: str, *causes: Cause) -> StatusError:
    """422 for the options of a request (``ListOptions``, ``DeleteOptions`` …)."""
    details = {"group": "meta.k8s.io", "kind": kind, "causes": [cause._asdict() for cause in causes]}
    return StatusError(422, "Invalid", f'{kind}.meta.k8s.io "" is invalid: {_summary(causes)}', details)


def unreadable_patch(text: str, why: str) -> StatusError:
    """422: what a patch leaves is no object of the kind. ``text`` is that object as JSON."""
    cause = invalid("patch", text, why)
    return StatusError(422, "Invalid", f' "" is invalid: {cause.text()}', {"causes": [cause._asdict()]})


def _summary(causes: Sequence[Cause]) -> str:
    if len(causes) == 1:
        return causes[0].text()
    return "[" + ", ".join(dict.fromkeys(cause.text() for cause in causes)) + "]"
