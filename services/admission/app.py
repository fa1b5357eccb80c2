"""Admission's composition root."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from functools import partial
from typing import Any, Final

from services.admission.adapters.following import Follower
from services.admission.adapters.submissions import Submissions, by_job
from services.admission.adapters.view import LiveView
from services.admission.core.defaults import Defaults
from services.admission.settings import AdmissionSettings
from shared.clock import Clock
from shared.events import topics
from shared.events.consuming import Consuming
from shared.events.contracts import JobSubmitted
from shared.liveness import watch
from shared.log.port import EventLog
from shared.service import Health, Ids
from shared.telemetry.telemetry import Telemetry

GROUP: Final = "admission"


class Admission:
    """The service: see :mod:`services.admission`."""

    name = "admission"

    def __init__(
        self,
        follower: Follower,
        consuming: Consuming,
        health: Health,
        watching: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        self._follower = follower
        self._consuming = consuming
        self._watching = watching
        self.health = health

    async def run(self) -> None:
        """Follow the cluster, and decide once its view can be trusted, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follower.run())
            tasks.create_task(self._watching())
            await self._follower.trusted()
            tasks.create_task(self._consuming.run())


def build(
    settings: AdmissionSettings, *, clock: Clock, log: EventLog, ids: Ids, telemetry: Telemetry
) -> Admission:
    """Put admission together. Nothing is touched before ``run``."""
    del ids  # every answer is named by its submission
    health = Health()
    view = LiveView(timedelta(seconds=settings.admitted_memory_seconds))
    follower = Follower(log, view, clock=clock, health=health, telemetry=telemetry)
    submissions = Submissions(
        log,
        follower,
        Defaults(
            queue=settings.default_queue,
            scheduler=settings.scheduler_name,
            max_retry=settings.default_max_retry,
            namespace=settings.default_namespace,
        ),
        queue_patience=settings.queue_patience_seconds,
        clock=clock,
        telemetry=telemetry,
    )
    consuming = Consuming(
        log,
        group=GROUP,
        topics=[topics.JOB_SUBMITTED],
        handlers={JobSubmitted: submissions.submitted},
        clock=clock,
        telemetry=telemetry,
        serial_by=by_job,
        max_in_flight=settings.in_flight,
    )
    watching = partial(
        watch,
        log.ping,
        part="log",
        health=health,
        clock=clock,
        pause=settings.ping_pause,
        patience=settings.ping_patience,
    )
    return Admission(follower, consuming, health, watching)
