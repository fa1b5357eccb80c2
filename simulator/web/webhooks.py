"""Calls admission webhooks over HTTPS and gives their answers to the verb that waits for them."""

from __future__ import annotations

import base64
import ssl
from typing import Any, TypeVar

import aiohttp
import orjson

from simulator.core.world import HookAnswer, HookCall, Steps

JSON = dict[str, Any]
T = TypeVar("T")


class Webhooks:
    """One HTTP session for all webhooks; contexts for their certificates are kept by caBundle."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[str, ssl.SSLContext] = {}

    async def run(self, steps: Steps[T]) -> T:
        """Run a verb to its end. Raises what it raises."""
        try:
            call = next(steps)
            while True:
                call = steps.send(await self._ask(call))
        except StopIteration as end:
            result: T = end.value
            return result

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def _ask(self, call: HookCall) -> HookAnswer:
        url = call.client.get("url")
        if not url:
            service = call.client.get("service") or {}
            return HookAnswer(
                None,
                f"no address for service {service.get('namespace')}/{service.get('name')}: "
                "this server reaches webhooks by url only",
            )
        if self._session is None:
            self._session = aiohttp.ClientSession()
        timeout = aiohttp.ClientTimeout(total=call.timeout)
        words = f'failed to call webhook: Post "{url}?timeout={call.timeout:g}s": '
        try:
            async with self._session.post(
                url,
                params={"timeout": f"{call.timeout:g}s"},
                data=orjson.dumps(call.review),
                headers={"Content-Type": "application/json"},
                ssl=self._context(call.client.get("caBundle", "")),
                timeout=timeout,
            ) as response:
                body = await response.read()
                if response.status != 200:  # noqa: PLR2004
                    return HookAnswer(
                        None, f"failed to call webhook: the server responded with status {response.status}"
                    )
                return HookAnswer(orjson.loads(body))
        except TimeoutError:
            return HookAnswer(None, words + "context deadline exceeded")
        except (aiohttp.ClientError, ValueError, OSError) as error:
            return HookAnswer(None, words + str(error))

    def _context(self, bundle: str) -> ssl.SSLContext:
        found = self._contexts.get(bundle)
        if found is None:
            pem = base64.b64decode(bundle).decode() if bundle else None
            found = self._contexts[bundle] = ssl.create_default_context(cadata=pem)
        return found
