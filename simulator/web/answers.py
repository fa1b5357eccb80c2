"""Answers as HTTP responses."""

from __future__ import annotations

from aiohttp import web

from simulator.core.world import Call


def no_page() -> web.Response:
    """404 outside of all resources: plain text."""
    return web.Response(status=404, text="404 page not found\n")


def warning_headers(call: Call | None) -> dict[str, str] | None:
    """Return the header that carries the warnings of a call."""
    if call is None or not call.warnings:
        return None
    return {"Warning": ", ".join(f'299 - "{_quoted(text)}"' for text in call.warnings)}


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def json_answer(
    body: bytes, code: int = 200, headers: dict[str, str] | None = None, media: str = "application/json"
) -> web.Response:
    """Return a body that is JSON (or YAML) already."""
    made = {"Content-Type": media}
    if headers:
        made |= headers
    return web.Response(body=body, status=code, headers=made)
