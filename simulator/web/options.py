"""The options of a request, from its query, headers and body."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from aiohttp import web

from simulator.core.errors import bad_request, invalid_options, unsupported
from simulator.core.world import Call
from simulator.web import content

JSON = dict[str, Any]

_TRUE: Final = ("true", "1", "")
_DELETE: Final = "DeleteOptions"
_KINDS: Final = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}


def call(request: web.BaseRequest, now: datetime, ids: Callable[[], str]) -> Call:
    """Return what a write carries. Raises StatusError 422."""
    query = request.query
    dry_run = query.getall("dryRun", [])
    kind = _KINDS.get(request.method, _DELETE)
    if any(word != "All" for word in dry_run):
        raise invalid_options(kind, unsupported("dryRun", list(dry_run), ("All",)))
    validation = query.get("fieldValidation") or "Warn"
    if validation not in ("Ignore", "Warn", "Strict"):
        cause = unsupported("fieldValidation", validation, ("", "Ignore", "Strict", "Warn"))
        raise invalid_options(kind, cause)
    manager = query.get("fieldManager") or request.headers.get("User-Agent", "unknown").split("/")[0]
    return Call(now, ids, manager, bool(dry_run), validation)


async def of_deletion(request: web.BaseRequest) -> JSON:
    """Return a deletion's options: those of the body, or without one of the query. Raises StatusError 400."""
    raw = await request.read()
    body = content.read_body(content.media(request), raw) if raw else None
    found: JSON = dict(body) if isinstance(body, dict) else {}
    if found.get("kind", _DELETE) != _DELETE:
        kind, version = found["kind"], found.get("apiVersion", "")
        where = 'in scheme "pkg/runtime/scheme.go:111"'  # part of the API's words
        raise bad_request(f'no kind "{kind}" is registered for version "{version}" {where}')
    if raw:
        return found
    query = request.query
    if "dryRun" in query:
        found["dryRun"] = query.getall("dryRun")
    if "gracePeriodSeconds" in query:
        found["gracePeriodSeconds"] = _integer(query["gracePeriodSeconds"])
    if "propagationPolicy" in query:
        found["propagationPolicy"] = query["propagationPolicy"]
    if "orphanDependents" in query:
        found["orphanDependents"] = query["orphanDependents"] in _TRUE
    return found


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
