"""Answers a watch request: headers, lines as they come, bookmarks, and an end in good time."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

import orjson
from aiohttp import web

from shared.clock import Clock
from simulator.core import tables
from simulator.core.errors import bad_request, forbidden_field, internal, invalid_options
from simulator.core.read import Selection
from simulator.core.world import World
from simulator.web.content import Form
from simulator.web.paths import Target
from simulator.web.watching import Render, Subscription

JSON = dict[str, Any]

BOOKMARK_SECONDS: Final = 60.0
_LONGEST: Final = 1800.0


def _render(world: World, clock: Clock, target: Target, form: Form, include: str) -> Render | None:
    del world
    if form.view == "object":
        return None
    if form.view == "metadata":
        return lambda type_, obj: orjson.dumps({"type": type_, "object": tables.metadata_of(obj)}) + b"\n"
    columns = tables.columns_of(target.kind)
    headers: list[JSON] | None = tables.definitions(columns)

    def render(type_: str, obj: JSON) -> bytes:
        nonlocal headers
        table: JSON = {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": obj["metadata"]["resourceVersion"]},
        }
        table["columnDefinitions"] = headers
        headers = None  # the first table of a stream tells them
        if type_ == "BOOKMARK":
            empty = target.kind.decode({})[0] if target.kind.builtin else {"metadata": {}}
            cells = tables.row(columns, empty, clock.now().timestamp(), "None")["cells"]
            table["rows"] = [{"cells": cells, "object": tables.metadata_of(obj)}]
        else:
            table["rows"] = [tables.row(columns, obj, clock.now().timestamp(), include or "Metadata")]
        return orjson.dumps({"type": type_, "object": table}) + b"\n"

    return render


def _seconds(text: str) -> float:
    if not text:
        return _LONGEST
    if not text.isdigit():
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return float(text) or _LONGEST


def _check(version: str, match: str, initial: str | None) -> None:
    if version and not version.isdigit():
        words = f'strconv.ParseUint: parsing "{version}": invalid syntax'
        raise internal(f'resourceVersion: Invalid value: "{version}": {words}')
    words = ""
    if initial is None and match:
        words = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
    elif initial is not None and match != "NotOlderThan":
        words = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    if words:
        raise invalid_options("ListOptions", forbidden_field("resourceVersionMatch", words))


async def stream(
    world: World, clock: Clock, request: web.BaseRequest, target: Target, chosen: Selection, form: Form
) -> web.StreamResponse:
    """Send events until the client leaves, the time is over, or the client is too slow."""
    query = request.query
    version = query.get("resourceVersion", "")
    initial = query.get("sendInitialEvents")
    _check(version, query.get("resourceVersionMatch", ""), initial)
    limit = _seconds(query.get("timeoutSeconds", ""))
    kind = target.kind
    namespace = target.namespace if kind.namespaced else None
    render = _render(world, clock, target, form, query.get("includeObject", ""))
    subscription = Subscription(world, kind, namespace, chosen, render)
    bookmarks = query.get("allowWatchBookmarks") in ("true", "1")
    begins = initial in ("true", "1")
    skip = initial in ("false", "0") and version in ("", "0")
    response = web.StreamResponse(
        headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"}
    )
    response.enable_chunked_encoding()
    await response.prepare(request)
    try:
        if target.name:  # a watch of one object goes through fieldSelector in every client; kept out
            return response
        subscription.start(str(world.store.rv) if skip else version, initial=begins)
        if bookmarks and (begins or (version in ("", "0") and not skip)):
            subscription.push(subscription.bookmark(initial_end=True))
        await _send(clock, response, subscription, limit, bookmarks=bookmarks)
    except ConnectionResetError:
        pass  # the client has left, as clients do
    finally:
        subscription.stop()
    with contextlib.suppress(ConnectionResetError):
        await response.write_eof()
    return response


async def _send(
    clock: Clock, response: web.StreamResponse, subscription: Subscription, limit: float, *, bookmarks: bool
) -> None:
    timer = asyncio.create_task(_timer(clock, subscription, limit, bookmarks=bookmarks))
    try:
        while lines := await subscription.lines():
            await response.write(lines)
    finally:
        timer.cancel()


async def _timer(clock: Clock, subscription: Subscription, limit: float, *, bookmarks: bool) -> None:
    """Send a bookmark now and then, and end the watch in ``limit`` seconds."""
    end = clock.monotonic() + limit
    while (left := end - clock.monotonic()) > 0:
        await clock.sleep(min(left, BOOKMARK_SECONDS))
        if bookmarks and end - clock.monotonic() > 0:
            subscription.push(subscription.bookmark())
    subscription.end()
