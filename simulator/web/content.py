"""Content types: what a request's body is, and in which form the client wants the answer."""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple

import orjson
import yaml
from aiohttp import web

from simulator.builtin import TYPES
from simulator.core.errors import bad_request, not_acceptable, unsupported_media_type
from simulator.web import protobuf

_ACCEPTED: Final = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
_OFFERED: Final = ("application/json", "application/yaml", "application/json;stream=watch")
_YAML: Final = ("application/yaml", "text/yaml", "application/x-yaml")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class Form(NamedTuple):
    """How an answer is written: as JSON or YAML, as the object, a table or only its metadata."""

    yaml: bool = False
    view: Literal["object", "table", "metadata"] = "object"


def media(request: web.BaseRequest) -> str:
    """Return the content type that a request gives, or ''."""
    return request.content_type if "Content-Type" in request.headers else ""


def read_body(media_type: str, body: bytes, kind: str = "") -> Any:
    """Parse a request's body; ``kind`` is the one that is expected. Raises StatusError 400 or 415."""
    try:
        if media_type in ("application/json", "", "application/octet-stream"):
            return orjson.loads(body)
        if media_type == protobuf.MEDIA:
            return protobuf.read(TYPES.structs, body)
        if media_type in _YAML:
            return yaml.load(body, Loader=_LOADER)  # noqa: S506 - a safe loader
    except orjson.JSONDecodeError as error:
        words = f"{error}" if body else "unexpected end of JSON input (<empty>)"
        of = f"the object provided is unrecognized (must be of type {kind}): " if kind else ""
        raise bad_request(f"{of}couldn't get version/kind; json parse error: {words}") from None
    except yaml.YAMLError as error:
        raise bad_request(
            f"couldn't get version/kind; json parse error: error converting YAML to JSON: {error}"
        ) from None
    raise unsupported_media_type(_ACCEPTED)


def accepted(header: str) -> Form:
    """Choose the form of the answer. Raises StatusError 406 when none that is offered is accepted."""
    if not header:
        return Form()
    for part in header.split(","):
        media, *parameters = (piece.strip() for piece in part.split(";"))
        options = {name: value for name, _, value in (part.partition("=") for part in parameters)}
        if media not in ("application/json", "*/*", "application/*", *_YAML):
            continue
        as_kind = options.get("as")
        yaml_form = media in _YAML
        if as_kind is None:
            return Form(yaml_form)
        if options.get("g") == "meta.k8s.io" and options.get("v") == "v1":
            if as_kind == "Table":
                return Form(yaml_form, "table")
            if as_kind in ("PartialObjectMetadata", "PartialObjectMetadataList"):
                return Form(yaml_form, "metadata")
    raise not_acceptable(_OFFERED)


def write(form: Form, body: bytes) -> tuple[bytes, str]:
    """Return the body in the form wanted and its content type."""
    if not form.yaml:
        return body, "application/json"
    text = yaml.dump(orjson.loads(body), Dumper=_DUMPER, sort_keys=True, default_flow_style=False)
    return text.encode(), "application/yaml"
