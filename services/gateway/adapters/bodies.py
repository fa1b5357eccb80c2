"""Reading the body of a request: no longer than the limit, JSON or YAML."""

from __future__ import annotations

from typing import Any

from fastapi import Request

from shared.errors import ContractError, TooLarge
from shared.events.codec import parse


async def read_body(request: Request, limit: int) -> bytes:
    """Return the body. Raises TooLarge as soon as it is over ``limit`` bytes, without reading the rest."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise _too_large(int(declared), limit)
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise _too_large(size, limit)
        parts.append(part)
    return b"".join(parts)


def parse_body(body: bytes, content_type: str) -> Any:
    """Return the content of a body. Raises ContractError ``empty-body`` or one of :func:`parse`.

    Content that is declared as JSON must be JSON, so that a mistake is told in its terms; everything else
    is tried as JSON and then as YAML (which clients send under many names, and ``curl`` as a form).
    """
    if not body.strip():
        raise ContractError("empty-body", "the body is empty: send a Job object or the short form")
    kind = content_type.partition(";")[0].strip().lower()
    return parse(body, json_only=kind.endswith("json"))


def _too_large(size: int, limit: int) -> TooLarge:
    return TooLarge(f"the body has at least {size} bytes, at most {limit} are taken", size=size, limit=limit)
