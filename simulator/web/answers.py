"""Answers as HTTP responses."""

from __future__ import annotations

from aiohttp import web

from simulator.core.world import Call

Headers = list[tuple[str, str]]


def no_page() -> web.Response:
    """404 outside of all resources: plain text."""
    return web.Response(status=404, text="404 page not found\n")


def warning_headers(call: Call | None) -> Headers | None:
    """Return the headers that carry the warnings of a call, one for each."""
    if call is None or not call.warnings:
        return None
    return [("Warning", f'299 - "{_quoted(text)}"') for text in dict.fromkeys(call.warnings)]


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def json_answer(
    body: bytes, code: int = 200, headers: Headers | None = None, media: str = "application/json"
) -> web.Response:
    """Return a body that is JSON (or YAML) already."""
    if headers is None:
        return web.Response(body=body, status=code, headers={"Content-Type": media})
    return web.Response(body=body, status=code, headers=[("Content-Type", media), *headers])
