"""A request that waits, for no longer than its client does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable

from fastapi import Request

from services.gateway.adapters.watching import Watchers


async def wait_for(
    watchers: Watchers, request: Request, key: Hashable, done: Callable[[], bool], seconds: float
) -> bool:
    """Return whether ``done`` came true within ``seconds``; False at once when the client goes away."""
    if done():
        return True
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(watchers.until(key, done, seconds))
        leaving = tasks.create_task(_disconnected(request))
        await asyncio.wait((waiting, leaving), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        leaving.cancel()
    return done()


async def _disconnected(request: Request) -> None:
    """Return when the client has hung up; the body was read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
