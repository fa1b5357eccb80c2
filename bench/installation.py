"""A whole installation on this machine, each part a process of its own, as in production.

Control plane and broker are started unless they are given. The services have their own accounts and the
webhooks are on, as ``pumice install`` puts them there.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp
import yaml
from prometheus_client.parser import text_string_to_metric_families

from services.installer.adapters.cluster import install
from services.installer.core.objects import Wish, installation
from shared.api.names import SYSTEM_NAMESPACE
from shared.clock import SystemClock
from shared.errors import StartupError
from shared.events.topics import SPECS
from shared.kube.client import connect
from shared.kube.port import Cluster, Resource
from shared.log.connect import open_log
from tools.kafka import Broker, fetch_jars, find_java, free_port
from tools.kafka import Missing as NoKafka
from tools.kube import ControlPlane, build_program
from tools.kube import Missing as NoKube
from tools.kube.part import Part

SERVICES: Final = ("gateway", "admission", "controller", "scheduler", "workflows")
_WRITERS: Final = ("controller", "workflows")
"""The services that write to Kubernetes in the course of a job's life."""
_PATIENCE: Final = 180.0
_LOOK: Final = 0.05
_STOP_SECONDS: Final = 10.0
_TOKEN_SECONDS: Final = 86_400


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to install; a control plane and a broker that are not given are started."""

    nodes: int
    gpus: int
    kubeconfig: Path | None
    log: str | None
    webhooks: bool


@dataclass(slots=True)
class Installation:
    """A running installation, its services apart."""

    folder: Path
    kubeconfig: Path
    log: str
    webhooks: bool
    webhook_port: int
    pids: dict[str, int]
    """The processes that were started here, by what they are."""


@asynccontextmanager
async def an_installation(wanted: Wanted, folder: Path) -> AsyncIterator[Installation]:
    """Have all there but the services: definitions, accounts, webhooks, topics and ready nodes.

    Raises StartupError, Unavailable or ConfigurationError where something does not start.
    """
    with ExitStack() as stack:
        pids: dict[str, int] = {}
        kubeconfig = wanted.kubeconfig or _control_plane(folder, stack, pids)
        log = wanted.log or _broker(folder, stack, pids)
        made = Installation(folder, kubeconfig, log, wanted.webhooks, free_port(), pids)
        await _make_topics(log)
        async with admin(kubeconfig) as cluster:
            await _install(cluster, made)
            for service in SERVICES:
                await _give_account(cluster, made, service)
        words = ["--kubeconfig", str(kubeconfig), "--nodes", f"{wanted.nodes}x{wanted.gpus}"]
        # A thousand nodes that renew their leases take half a core; nobody looks at them in our own plane.
        words += ["--lease-seconds", "0"] if wanted.kubeconfig is None else []
        kubelets = stack.enter_context(_program(folder, "kubelets", "simulator.kubelet", *words))
        pids["kubelets"] = kubelets.pid
        await _until(kubelets, lambda: "nodes are ready" in kubelets.log_tail)
        yield made


@asynccontextmanager
async def admin(kubeconfig: Path) -> AsyncIterator[Cluster]:
    """Connect to the API server as its administrator."""
    cluster = connect(str(kubeconfig), clock=SystemClock())
    try:
        await cluster.ping()
        yield cluster
    finally:
        await cluster.close()


class Services:
    """The services, running."""

    def __init__(self, made: Installation, stack: ExitStack, http: aiohttp.ClientSession) -> None:
        self._http = http
        self._ports = {name: free_port() for name in SERVICES}
        port = free_port()
        self.gateway = f"http://127.0.0.1:{port}"
        self._parts = {
            name: stack.enter_context(
                _program(made.folder, name, f"services.{name}", env=self._environment(made, name, port))
            )
            for name in SERVICES
        }

    def _environment(self, made: Installation, name: str, port: int) -> dict[str, str]:
        webhooks = {
            "PUMICE_WEBHOOK_PORT": str(made.webhook_port),
            "PUMICE_WEBHOOK_HOST": "127.0.0.1",
            "PUMICE_WEBHOOK_NAMES": json.dumps(["127.0.0.1"]),
        }
        return {
            "PUMICE_LOG": made.log,
            "PUMICE_KUBECONFIG": str(_kubeconfig_of(made, name)),
            "PUMICE_OPERATIONS_HOST": "127.0.0.1",
            "PUMICE_OPERATIONS_PORT": str(self._ports[name]),
            "PUMICE_PORT": str(port),
            **(webhooks if made.webhooks else {}),
        }

    @property
    def pids(self) -> dict[str, int]:
        """Their processes, by name."""
        return {name: part.pid for name, part in self._parts.items()}

    async def ready(self) -> None:
        """Return when all are ready. Raises StartupError when one ends instead."""
        end = time.monotonic() + _PATIENCE
        for name, part in self._parts.items():
            while not await self._is_ready(name):
                _check(part, end)
                await asyncio.sleep(_LOOK)

    async def _is_ready(self, name: str) -> bool:
        try:
            async with self._http.get(f"http://127.0.0.1:{self._ports[name]}/readyz") as answer:
                return answer.ok
        except aiohttp.ClientError:
            return False

    async def writes(self) -> dict[str, float]:
        """Return how many writes to Kubernetes were done so far, by verb and kind."""
        counted: dict[str, float] = {}
        for name in _WRITERS:
            async with self._http.get(f"http://127.0.0.1:{self._ports[name]}/metrics") as answer:
                text = await answer.text()
            for family in text_string_to_metric_families(text):
                if family.name == f"pumice_{name}_api_writes":
                    for sample in family.samples:
                        if sample.name.endswith("_total"):
                            what = f"{sample.labels['verb']} {sample.labels['kind']}"
                            counted[what] = counted.get(what, 0) + sample.value
        return counted

    async def settled(self, pause: float = 1.0) -> dict[str, float]:
        """Return the writes when no more are done."""
        before: dict[str, float] = {}
        while (counted := await self.writes()) != before:
            before = counted
            await asyncio.sleep(pause)
        return counted


@asynccontextmanager
async def services(made: Installation) -> AsyncIterator[Services]:
    """Run the services until the block ends."""
    with ExitStack() as stack:
        async with aiohttp.ClientSession() as http:
            running = Services(made, stack, http)
            await running.ready()
            yield running


def _control_plane(folder: Path, stack: ExitStack, pids: dict[str, int]) -> Path:
    try:
        plane = ControlPlane(folder / "kube", program=build_program(), node_lifecycle=False)
        plane.start()
    except (NoKube, RuntimeError) as error:
        raise StartupError(f"no control plane: {error}") from error
    stack.callback(plane.kill)
    parts = (plane.api_server, plane.etcd, plane.controllers, plane.namespaces)
    pids |= {part.name: part.pid for part in parts}
    return plane.kubeconfig


def _broker(folder: Path, stack: ExitStack, pids: dict[str, int]) -> str:
    try:
        broker = Broker(folder / "kafka", java=find_java(), jars=fetch_jars())
        broker.start()
    except (NoKafka, RuntimeError) as error:
        raise StartupError(f"no broker: {error}") from error
    stack.callback(broker.kill)
    pids["broker"] = broker.pid
    return f"kafka://{broker.bootstrap}"


async def _make_topics(url: str) -> None:
    log = open_log(url, clock=SystemClock(), client_id="bench")
    try:
        await log.start()
        await log.create_topics(SPECS)
    finally:
        await log.close()


async def _install(cluster: Cluster, made: Installation) -> None:
    url = f"https://127.0.0.1:{made.webhook_port}"
    wish = Wish(SYSTEM_NAMESPACE, made.webhooks, url if made.webhooks else None)
    await install(cluster, installation(wish), take_over=False, clock=SystemClock(), say=lambda _: None)


async def _give_account(cluster: Cluster, made: Installation, service: str) -> None:
    """Write a kubeconfig with the token of a service's own account."""
    tokens = Resource("", "v1", f"serviceaccounts/pumice-{service}/token", "TokenRequest")
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": _TOKEN_SECONDS},
    }
    token = (await cluster.create(tokens, SYSTEM_NAMESPACE, request))["status"]["token"]
    config = yaml.safe_load(made.kubeconfig.read_text(encoding="utf-8"))
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    file = _kubeconfig_of(made, service)
    file.touch(mode=0o600)
    file.write_text(yaml.safe_dump(config), encoding="utf-8")


def _kubeconfig_of(made: Installation, service: str) -> Path:
    return made.folder / f"kubeconfig-{service}"


@contextmanager
def _program(
    folder: Path, name: str, module: str, *words: str, env: Mapping[str, str] | None = None
) -> Iterator[Part]:
    """Run one of our programs; what it says is in a file."""
    part = Part(name, (sys.executable, "-m", module, *words), folder, env)
    part.start()
    try:
        yield part
    finally:
        part.stop(_STOP_SECONDS)


async def _until(part: Part, condition: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE
    while not condition():
        _check(part, end)
        await asyncio.sleep(_LOOK)


def _check(part: Part, end: float) -> None:
    if part.has_ended or time.monotonic() > end:
        raise StartupError(f"{part.name} did not start:\n{part.log_tail}")
