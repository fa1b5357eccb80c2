"""The workflows service's composition root."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, NoReturn

from services.workflows.adapters.api import Api
from services.workflows.adapters.cron import PREFIX as CRON
from services.workflows.adapters.cron import CronController
from services.workflows.adapters.flows import FLOW, TEMPLATE, FlowController, Prober, sync_template
from services.workflows.adapters.hands import Hands
from services.workflows.adapters.hypernodes import (
    DISCOVERY,
    HYPERNODE,
    DiscoveryController,
    HyperNodeController,
)
from services.workflows.adapters.listening import Listener
from services.workflows.adapters.probes import PodProber
from services.workflows.adapters.views import OWN_KINDS, Views
from services.workflows.settings import WorkflowsSettings
from shared.api import resources as r
from shared.clock import Clock
from shared.errors import NotFound, StartupError, Unavailable
from shared.keyed import KeyedQueue
from shared.kube.events import EventRecorder
from shared.kube.port import JSON, Cluster, Resource
from shared.liveness import watch, watch_views
from shared.log.port import EventLog
from shared.service import Health, Ids
from shared.telemetry.telemetry import Telemetry

_START_PAUSE: Final = 0.5


@dataclass(frozen=True, slots=True)
class Workflows:
    """The service: see :mod:`services.workflows`."""

    name: str
    health: Health
    hands: Hands
    queue: KeyedQueue
    cluster: Cluster

    async def run(self) -> None:
        """Run until cancelled. Raises StartupError when the cluster does not know the kinds."""
        self.health.waits("start", "reading what exists")
        await self._require_kinds()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.hands.views.run())
            group.create_task(self._watch_server())
            await self.hands.views.synced()
            group.create_task(self._watch_views())
            group.create_task(self.hands.recorder.run())
            group.create_task(self.queue.run())
            self.health.ok("start")

    async def _require_kinds(self) -> None:
        for resource in OWN_KINDS:
            while True:
                try:
                    await self.cluster.list(resource, page=1)
                except NotFound as error:
                    raise StartupError(
                        f"the cluster does not know {resource.plural}.{resource.group}: "
                        "pumice install puts them there"
                    ) from error
                except Unavailable as error:
                    self.health.waits("start", str(error))
                    await self.hands.clock.sleep(_START_PAUSE)
                else:
                    break

    async def _watch_server(self) -> NoReturn:
        hands = self.hands
        await watch(
            self.cluster.ping,
            part="api-server",
            health=self.health,
            clock=hands.clock,
            pause=hands.settings.ping_pause,
            patience=hands.settings.ping_patience,
            outage=hands.telemetry.outage("the API server", hands.clock),
        )

    async def _watch_views(self) -> NoReturn:
        views = self.hands.views
        await watch_views(
            lambda: views.waiting,
            health=self.health,
            clock=self.hands.clock,
            pause=self.hands.settings.ping_pause,
        )


def build(
    settings: WorkflowsSettings,
    *,
    clock: Clock,
    cluster: Cluster,
    ids: Ids,
    telemetry: Telemetry,
    log: EventLog | None = None,
    start_log: Callable[[], Awaitable[None]] | None = None,
    prober: Prober | None = None,
) -> Workflows:
    """Put the service together. Nothing is touched before ``run``; it needs no log and makes no ids."""
    del ids, log, start_log
    listeners: list[Listener] = []

    def changed(resource: Resource, old: JSON | None, new: JSON | None) -> None:
        for listener in listeners:
            listener.changed(resource, old, new)

    views = Views(
        cluster,
        clock=clock,
        on_change=changed,
        config_map=(settings.discovery_namespace, settings.discovery_config_map),
    )
    api = Api(cluster, views, concurrency=settings.api_concurrency, registry=telemetry.registry)
    handlers: dict[str, Callable[[str], Awaitable[None]]] = {}

    async def handle(key: str) -> None:
        await handlers[key[: key.index(":") + 1]](key)

    def retried(key: str, error: Exception, failures: int) -> None:
        telemetry.log.debug("tried again: %s", error, extra={"object": key, "tries": failures})

    queue = KeyedQueue(handle, clock=clock, workers=settings.workers, on_retry=retried)
    hands = Hands(
        settings=settings,
        clock=clock,
        views=views,
        api=api,
        recorder=EventRecorder(partial(api.create, r.EVENTS), clock, "pumice-workflows"),
        telemetry=telemetry,
        add_after=queue.add_after,
    )
    probing = PodProber(
        cluster, timeout=settings.probe_timeout_seconds, concurrency=settings.probe_concurrency
    )
    flows, cron = FlowController(hands, prober or probing), CronController(hands)
    hypernodes, discovery = HyperNodeController(hands), DiscoveryController(hands)
    handlers |= {
        FLOW: flows.handle,
        TEMPLATE: lambda key: sync_template(hands, key),
        CRON: cron.handle,
        HYPERNODE: hypernodes.handle,
        DISCOVERY: discovery.handle,
    }
    listeners.append(Listener(hands, queue, flows, hypernodes, discovery))
    return Workflows("workflows", Health(), hands, queue, cluster)
