"""The two sides of a comparison: an API server by its address, asked over plain HTTP/1.1."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import ssl
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import yaml

from shared.clock import SystemClock
from simulator.server import Simulator

JSON = dict[str, Any]

AGENT: Final = "differential"
"""The user agent of both sides, so that both find the same field manager."""
PATIENCE: Final = 30.0
"""Seconds that one answer may take; a real API server under load needs some."""


class Answer(NamedTuple):
    """What came back: the body parsed where it is JSON, else as text; a watch's events as a list."""

    status: int
    body: Any
    media: str = "application/json"
    warnings: tuple[str, ...] = ()


class Server:
    """One API server. Not for use by two threads at once."""

    def __init__(self, name: str, url: str, token: str = "", tls: ssl.SSLContext | None = None) -> None:
        self.name = name
        self.address = urlsplit(url).netloc
        self._tls = tls
        self._headers = {"User-Agent": AGENT} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._kept: http.client.HTTPConnection | None = None

    @staticmethod
    def of_kubeconfig(name: str, path: Path) -> Server:
        """Read address, authority and token of a kubeconfig's first cluster and user."""
        config = yaml.safe_load(path.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        inline = cluster.get("certificate-authority-data")
        tls = ssl.create_default_context(
            cafile=cluster.get("certificate-authority"),
            cadata=base64.b64decode(inline).decode() if inline else None,
        )
        if "client-certificate" in user:
            tls.load_cert_chain(user["client-certificate"], user["client-key"])
        return Server(name, cluster["server"], user.get("token", ""), tls)

    def _connect(self) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self.address, timeout=PATIENCE)
        return http.client.HTTPSConnection(self.address, timeout=PATIENCE, context=self._tls)

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Ask once, on a connection that is kept; a watch is read to its end."""
        for attempt in (1, 2):
            connection, self._kept = self._kept or self._connect(), None
            try:
                connection.request(method, path, body, self._headers | dict(headers or {}))
                response = connection.getresponse()
                raw = response.read()
            except (http.client.RemoteDisconnected, ConnectionError):
                connection.close()  # the server had closed it while it was idle
                if attempt == 2:
                    raise
                continue
            self._kept = connection
            media = response.headers.get("Content-Type", "")
            warnings = tuple(response.headers.get_all("Warning") or ())
            return Answer(response.status, _parsed(raw, media, watch="watch=" in path), media, warnings)
        raise AssertionError("two attempts return or raise")

    def send(
        self, method: str, path: str, body: JSON | None = None, media: str = "application/json"
    ) -> Answer:
        """Ask with a JSON body."""
        raw = json.dumps(body).encode() if body is not None else None
        return self.request(method, path, raw, {"Content-Type": media} if raw else {})

    def events(self, path: str, last: str) -> list[JSON]:
        """Read a watch up to the event of an object called ``last``, without it."""
        connection = self._connect()
        found: list[JSON] = []
        try:
            connection.request("GET", path, headers=self._headers)
            response = connection.getresponse()
            for line in iter(response.readline, b""):
                event = json.loads(line)
                if event["object"].get("metadata", {}).get("name") == last:
                    return found
                found.append(event)
        finally:
            connection.close()
        raise AssertionError(f"{self.name}: the watch ended before {last!r} was seen: {found}")

    def close(self) -> None:
        """Close the kept connection."""
        if self._kept is not None:
            self._kept.close()


def _parsed(raw: bytes, media: str, *, watch: bool) -> Any:
    if not raw or not media.startswith("application/json"):
        return raw.decode("utf-8", "backslashreplace")
    if watch and raw.startswith(b'{"type":'):
        return [json.loads(line) for line in raw.splitlines() if line]
    return json.loads(raw)


@contextmanager
def simulator() -> Iterator[Server]:
    """Run the simulator on an event loop in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="simulator", daemon=True)
    thread.start()

    def run(what: Any) -> None:
        asyncio.run_coroutine_threadsafe(what, loop).result(PATIENCE)

    made = Simulator(SystemClock(), lambda: str(uuid.uuid4()))
    try:
        run(made.start())
        server = Server("simulator", made.url)
        yield server
        server.close()
    finally:
        run(made.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()
