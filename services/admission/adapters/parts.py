"""The two halves of admission: each runs whatever becomes of the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from services.admission.adapters.following import Follower
from services.admission.adapters.keeping import Keeper
from services.admission.adapters.webhooks import Webhooks
from services.admission.adapters.world import LiveWorld
from shared.clock import Clock
from shared.errors import Unavailable
from shared.events.consuming import Consuming
from shared.service import Health
from shared.telemetry.telemetry import Telemetry

_LOG_PAUSE: Final = 1.0
StartLog = Callable[[], Awaitable[None]]


class TopicPart:
    """Answers what comes by the log."""

    def __init__(
        self,
        follower: Follower,
        consuming: Consuming,
        watching: Callable[[], Coroutine[Any, Any, None]],
        trials: Callable[[], Coroutine[Any, Any, None]],
        *,
        start_log: StartLog | None,
        clock: Clock,
        health: Health,
        telemetry: Telemetry,
    ) -> None:
        self._follower = follower
        self._consuming = consuming
        self._watching = watching
        self._trials = trials
        self._start_log = start_log
        self._clock = clock
        self._health = health
        self._log = telemetry.log
        if start_log is not None:
            health.waits("log", "connecting")

    async def run(self) -> None:
        """Follow the cluster, and decide once its view can be trusted, until cancelled."""
        await self._until_started()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follower.run())
            tasks.create_task(self._watching())
            await self._follower.trusted()
            tasks.create_task(self._consuming.run())
            tasks.create_task(self._trials())

    async def _until_started(self) -> None:
        """Start the log, if nobody has; say once that it is away."""
        away = False
        while self._start_log is not None:
            try:
                await self._start_log()
            except Unavailable as error:
                self._health.waits("log", str(error))
                if not away:
                    self._log.warning("the log is away, webhooks work without it: %s", error)
                away = True
                await self._clock.sleep(_LOG_PAUSE)
            else:
                self._health.ok("log")
                if away:
                    self._log.warning("the log is there")
                return


class WebhookPart:
    """Answers what comes by the API server."""

    def __init__(
        self, webhooks: Webhooks, world: LiveWorld, keeper: Keeper, *, host: str, port: int, health: Health
    ) -> None:
        self._webhooks = webhooks
        self._world = world
        self._keeper = keeper
        self._host = host
        self._port = port
        self._health = health
        self.port: int | None = None
        """Where it listens, once it does."""
        health.waits("webhooks", "reading queues and namespaces")

    async def run(self) -> None:
        """Serve as soon as the cluster is known and there is a certificate, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._world.run())
            tasks.create_task(self._keeper.run())
            await self._world.synced()
            await self._keeper.ready()
            runner = await self._webhooks.serve(self._host, self._port, self._keeper.context)
            try:
                self.port = runner.addresses[0][1]
                self._health.ok("webhooks")
                await asyncio.get_running_loop().create_future()
            finally:
                await runner.cleanup()
