"""The answer to a request for a container's log: what it would have written by now, and goes on to write."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from aiohttp import web

from shared.clock import Clock
from shared.kube.port import JSON
from simulator.kubelet.core.log import container_log

Line = tuple[datetime, str]
_FOLLOW_SECONDS: Final = 0.2
_YES: Final = ("true", "1")


async def send_log(
    request: web.BaseRequest, container: str, pod: Callable[[], Awaitable[JSON]], clock: Clock
) -> web.StreamResponse:
    """Send what a container wrote; with ``follow`` until it ends. ``pod`` gives the pod as it is now.

    The query is that of the API server's ``log`` subresource, which hands it on to the kubelet as it is.
    """
    query = request.query
    stamps, previous = query.get("timestamps") in _YES, query.get("previous") in _YES
    follow = query.get("follow") in _YES
    lines = container_log(await pod(), container, clock.now(), previous=previous)
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    await response.prepare(request)
    await response.write(_text(_chosen(lines, query, clock.now()), stamps=stamps))
    while follow:
        seen = await pod()
        follow = _runs(seen, container)
        fresh = container_log(seen, container, clock.now(), previous=previous)
        await response.write(_text(fresh[len(lines) :], stamps=stamps))
        lines = fresh
        if follow:
            await clock.sleep(_FOLLOW_SECONDS)
    await response.write_eof()
    return response


def _chosen(lines: list[Line], query: Any, now: datetime) -> list[Line]:
    if query.get("sinceSeconds"):
        since = now - timedelta(seconds=int(query["sinceSeconds"]))
        lines = [line for line in lines if line[0] >= since]
    if query.get("sinceTime"):
        moment = datetime.fromisoformat(query["sinceTime"])
        lines = [line for line in lines if line[0] >= moment]
    if query.get("tailLines"):
        tail = int(query["tailLines"])
        lines = lines[-tail:] if tail else []
    return lines


def _text(lines: list[Line], *, stamps: bool) -> bytes:
    parts = []
    for at, text in lines:
        stamp = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z ") if stamps else ""
        parts.append(f"{stamp}{text}\n")
    return "".join(parts).encode()


def _runs(pod: JSON, container: str) -> bool:
    if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return False
    statuses = pod.get("status", {}).get("containerStatuses", ())
    return not any(one["name"] == container and "terminated" in (one.get("state") or {}) for one in statuses)
