"""HTTP to one API server: a connection pool, limits, safe retries, errors by their meaning."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp
import orjson
from yarl import URL

from shared.clock import Clock
from shared.errors import Unavailable
from shared.kube.answers import error_of, retry_after
from shared.kube.credentials import Credentials
from shared.kube.pace import Backoff, Throttle

_BIG_BODY: Final = 256 * 1024
_READ_BUFFER: Final = 2 * 1024 * 1024  # etcd's limit of an object is 1.5 MiB
_SAME_CLOCK: Final = 5.0
"""Seconds between two clocks that may be the way of an answer, and its Date's whole seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a client treats its API server. The defaults suit one service on a healthy cluster."""

    max_in_flight: int = 64
    """Requests at once, watches apart; at about 50 an API server is busy, more only wait there."""
    qps: float | None = None
    """Requests a second in the long run; None leaves fairness to the server (APF)."""
    burst: int = 100
    """Requests that may go at once when ``qps`` is set."""
    connect_seconds: float = 5.0
    """Patience for a TCP and TLS connection."""
    request_seconds: float = 60.0
    """Patience for a whole answer; the server's own limit is 60 s."""
    watch_read_seconds: float = 150.0
    """Silence after which a watch counts as cut; a server sends a bookmark about once a minute."""
    watch_seconds: tuple[int, int] = (300, 600)
    """The server is asked to end a watch after a random time in this range, as client-go does."""
    retries: int = 4
    """How often a safe request is tried again before it raises Unavailable."""
    backoff: Backoff = field(default_factory=lambda: Backoff(first=0.1, longest=5.0))
    """The waits between tries; a server's Retry-After comes on top, up to ``longest``."""
    compress: bool = False
    """Whether to ask for gzip: spares a thin line, costs CPU on both sides."""
    user_agent: str = "pumice"
    """Shown in audit logs and used by the server's flow schemas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request.

    ``safe``: doing it twice is the same as once, so it is tried again whatever failed. ``patient``:
    whether to try again at all.
    """

    method: str
    path: str
    params: Mapping[str, str | int] | None = None
    body: Any = None
    content_type: str = "application/json"
    safe: bool = False
    patient: bool = True

    def __str__(self) -> str:
        """Return what error messages call it."""
        return f"{self.method} {self.path}"


class _TryAgain(Exception):  # noqa: N818 - internal signal
    def __init__(self, error: Unavailable, at_least: float = 0.0) -> None:
        super().__init__(str(error))
        self.error = error
        self.at_least = at_least


class Transport:
    """Sends requests. The session opens at the first one, in the loop which runs then."""

    def __init__(
        self, credentials: Credentials, options: Options, *, clock: Clock, rng: random.Random
    ) -> None:
        self.options = options
        self.ahead = 0.0
        """By how many seconds the server's clock is ahead of ours, as its answers say."""
        self._date = ""
        self._credentials = credentials
        self._clock = clock
        self._rng = rng
        self._throttle = Throttle(options.qps, options.burst, clock)
        self._in_flight = asyncio.Semaphore(options.max_in_flight)
        self._patience = aiohttp.ClientTimeout(
            total=options.request_seconds, sock_connect=options.connect_seconds
        )
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    async def send(self, request: Request) -> Any:
        """Return the answer's JSON. Raises what :mod:`shared.kube.port` promises."""
        async with self._in_flight:
            attempt, retries = 0, self.options.retries if request.patient else 0
            while True:
                await self._throttle.take()
                try:
                    return await self._once(request)
                except _TryAgain as failure:
                    if attempt >= retries:
                        raise failure.error from failure.__cause__
                    wait = self.options.backoff.seconds(attempt, self._rng)
                    attempt += 1
                    await self._clock.sleep(wait + min(failure.at_least, self.options.backoff.longest))

    async def _once(self, request: Request) -> Any:
        try:
            async with await self._open(request, self._patience) as response:
                body = await response.read()
        except aiohttp.ClientConnectorError as error:
            raise _TryAgain(Unavailable(f"{request}: {error}")) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            lost = Unavailable(f"{request}: {str(error) or type(error).__name__}")
            if request.safe:
                raise _TryAgain(lost) from error
            raise lost from error
        if response.ok:
            return _decode(body)
        raise self._failure(request, response, body)

    def _failure(self, request: Request, response: aiohttp.ClientResponse, body: bytes) -> Exception:
        error = error_of(response.status, body, str(request))
        busy = response.status == 429  # noqa: PLR2004 - the one status which says that nothing was begun
        if isinstance(error, Unavailable) and (request.safe or busy):
            return _TryAgain(error, retry_after(response.headers.get("Retry-After")) or 0.0)
        return error

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[aiohttp.StreamReader]:
        """Open a watch and give its body. Raises like :meth:`send`, without retries."""
        timeout = aiohttp.ClientTimeout(
            total=None,
            sock_connect=self.options.connect_seconds,
            sock_read=self.options.watch_read_seconds,
        )
        try:
            async with await self._open(request, timeout) as response:
                if not response.ok:
                    raise error_of(response.status, await response.read(), str(request))
                yield response.content
        except (aiohttp.ClientError, OSError) as error:
            raise Unavailable(f"{request}: {str(error) or type(error).__name__}") from error

    async def _open(self, request: Request, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        """Send; read the credentials once more when the server does not know us (a token has expired)."""
        response = await self._send_with_token(request, timeout)
        if response.status == 401:  # noqa: PLR2004
            response.release()
            self._credentials.expire()
            response = await self._send_with_token(request, timeout)
        self._compare_clocks(response.headers.get("Date", ""))
        return response

    def _compare_clocks(self, date: str) -> None:
        """Note what an answer's Date says, once for each second."""
        if date == self._date:
            return
        self._date = date
        try:
            ahead = (parsedate_to_datetime(date) - self._clock.now()).total_seconds()
        except (TypeError, ValueError):
            return  # no date, or one without a zone
        self.ahead = ahead if abs(ahead) > _SAME_CLOCK else 0.0

    async def _send_with_token(
        self, request: Request, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        authorization = await self._credentials.authorization()
        session = self._session or self._connect()
        headers = {"Authorization": authorization} if authorization else {}
        data: bytes | None = None
        if request.body is not None:
            data = orjson.dumps(request.body)
            headers["Content-Type"] = request.content_type
        url = self._credentials.server + request.path
        if request.params:
            url += "?" + urlencode(request.params)
        return await session.request(
            request.method,
            URL(url, encoded=True),
            data=data,
            headers=headers,
            timeout=timeout,
            allow_redirects=False,
            proxy=self._credentials.proxy,
            server_hostname=self._credentials.server_hostname,
        )

    def _connect(self) -> aiohttp.ClientSession:
        if self._closed:
            raise Unavailable(f"connection to {self._credentials.server} is closed")
        self._session = aiohttp.ClientSession(
            # No limit of connections: `max_in_flight` is the limit, and watches must not use it up.
            connector=aiohttp.TCPConnector(limit=0, ssl=self._credentials.tls()),
            cookie_jar=aiohttp.DummyCookieJar(),  # an API server sets none; a jar is asked at each request
            headers={
                "Accept": "application/json",
                "Accept-Encoding": "gzip" if self.options.compress else "identity",
                "User-Agent": self.options.user_agent,
            },
            read_bufsize=_READ_BUFFER,
            trust_env=not self._credentials.is_loopback,
        )
        return self._session

    async def close(self) -> None:
        """Close all connections. Safe to call twice."""
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def _decode(body: bytes) -> Any:
    """Decode an answer. Of a big one all is kept, so that collections on the way would find nothing."""
    if len(body) < _BIG_BODY or not gc.isenabled():
        return orjson.loads(body)
    gc.disable()
    try:
        return orjson.loads(body)
    finally:
        gc.enable()
