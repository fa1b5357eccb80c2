"""The simulated API server as one object: start it, ask for its address, stop it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from shared.api.meta import format_time
from shared.clock import Clock
from shared.errors import StartupError
from simulator import seed
from simulator.builtin import KINDS, TYPES
from simulator.core import collector, custom
from simulator.core.kinds import Registry
from simulator.core.world import Call, World
from simulator.core.write import create
from simulator.strategies import crds as crd_strategy
from simulator.web.handler import MAX_BODY, Handler
from simulator.web.webhooks import Webhooks

JSON = dict[str, Any]


class Simulator:
    """An API server on a port of its own. ``port`` 0 takes a free one; ``crds`` is a directory or objects."""

    def __init__(
        self,
        clock: Clock,
        ids: Callable[[], str],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        crds: str | Path | Sequence[JSON] = (),
        history: int = 20_000,
    ) -> None:
        self.clock = clock
        self.world = World(Registry(KINDS), history)
        self.world.defined = lambda crd: custom.kinds(crd, TYPES.metadata)
        self._ids = lambda: _dashed(ids())
        self._host = host
        self._port = port
        self._hooks = Webhooks()
        self._runner: web.ServerRunner | None = None
        self._work: asyncio.Task[None] | None = None
        self._due = asyncio.Event()
        self._seed([*seed.objects(), *(_manifests(Path(crds)) if isinstance(crds, (str, Path)) else crds)])

    def _seed(self, objects: Sequence[JSON]) -> None:
        call = Call(self.clock.now(), self._ids, "pumice-simulator")
        for obj in objects:
            kind = self.world.registry.by_kind(obj["apiVersion"], obj["kind"])
            if kind is None:
                raise StartupError(f"cannot serve {obj['apiVersion']} {obj['kind']}")
            namespace = obj["metadata"].get("namespace", "default") if kind.namespaced else ""
            for _ in create(self.world, kind, namespace, obj, call):
                raise StartupError("webhooks cannot be called before the server runs")
            self._establish()

    @property
    def url(self) -> str:
        """Return the server's address. Only valid once started."""
        return f"http://{self._host}:{self._port}"

    def kubeconfig(self, url: str | None = None) -> JSON:
        """Return a client configuration for this server, at ``url`` if clients see it elsewhere."""
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "pumice",
            "clusters": [{"name": "pumice", "cluster": {"server": url or self.url}}],
            "users": [{"name": "pumice", "user": {}}],
            "contexts": [{"name": "pumice", "context": {"cluster": "pumice", "user": "pumice"}}],
        }

    async def start(self) -> None:
        """Listen. Raises StartupError when the port is taken."""
        handler = Handler(self.world, self.clock, self._ids, self._hooks, self._settle)
        # A client that leaves ends its request: a watch must not wait for an event to notice.
        server = web.Server(handler, request_factory=_request, access_log=None, handler_cancellation=True)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port, backlog=1024)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            raise StartupError(f"cannot listen on {self._host}:{self._port}: {error.strerror}") from error
        if not self._port:
            self._port = self._runner.addresses[0][1]
        self._work = asyncio.create_task(self._collect(), name="simulator-collector")
        self._due.set()

    async def stop(self) -> None:
        """Stop listening, end every watch."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
        if self._runner is not None:
            await self._runner.cleanup()
        await self._hooks.close()

    def _settle(self) -> None:
        self._establish()
        if self.world.gone or self.world.suspects:
            self._due.set()

    def _establish(self) -> None:
        """Give new CustomResourceDefinitions the conditions that say they are served."""
        world = self.world
        while world.unestablished:
            kind = world.registry.require("apiextensions.k8s.io", "v1", "customresourcedefinitions")
            entry = world.store.collection(kind.storage).get("", world.unestablished.pop())
            if entry is not None and not entry.obj["status"].get("conditions"):
                stamp = format_time(self.clock.now())
                world.save(kind, crd_strategy.established(entry.obj, stamp), entry.creator)

    async def _collect(self) -> None:
        while True:
            await self._due.wait()
            self._due.clear()
            more = True
            while more:
                call = Call(self.clock.now(), self._ids, "kube-controller-manager")
                more = await self._hooks.run(collector.collect(self.world, call))
                await self.clock.sleep(0)  # let requests in between


def _dashed(identifier: str) -> str:
    """Write an identifier as Kubernetes writes UIDs, where it is one of 32 hexadecimal digits."""
    try:
        return str(uuid.UUID(identifier))
    except ValueError:
        return identifier


def _request(*parts: Any) -> web.BaseRequest:
    """Make a request whose body may be as large as the API server takes."""
    message, payload, protocol, writer, task = parts
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=MAX_BODY)


def _manifests(directory: Path) -> list[JSON]:
    found: list[JSON] = []
    for path in sorted([*directory.glob("*.yaml"), *directory.glob("*.yml")]):
        found += [one for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if one]
    return found
