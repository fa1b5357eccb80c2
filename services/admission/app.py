"""Admission's composition root."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import Final

from services.admission.adapters.following import Follower
from services.admission.adapters.keeping import (
    FileKeeper,
    Files,
    Keeper,
    SecretKeeper,
    SecretPlace,
    Trust,
)
from services.admission.adapters.parts import StartLog, TopicPart, WebhookPart
from services.admission.adapters.submissions import Submissions, by_job
from services.admission.adapters.trials import Trials
from services.admission.adapters.view import LiveView
from services.admission.adapters.webhooks import Metrics, Webhooks
from services.admission.adapters.world import LiveWorld
from services.admission.core.defaults import Defaults
from services.admission.core.queues import QueueLimits
from services.admission.core.renewal import Lifetimes
from services.admission.core.schema import schema_of
from services.admission.core.webhooks import Rules
from services.admission.settings import AdmissionSettings
from shared.api.batch import Job
from shared.clock import Clock
from shared.errors import ConfigurationError
from shared.events import topics
from shared.events.consuming import Consuming
from shared.events.contracts import JobSubmitted
from shared.events.tailing import tail
from shared.kube.port import Cluster
from shared.liveness import watch
from shared.log.port import EventLog
from shared.service import Health, Ids
from shared.telemetry.telemetry import Telemetry

GROUP: Final = "admission"


class Admission:
    """The service: see :mod:`services.admission`."""

    name = "admission"

    def __init__(self, topic_part: TopicPart, webhook_part: WebhookPart | None, health: Health) -> None:
        self._topic_part = topic_part
        self._webhook_part = webhook_part
        self.health = health

    @property
    def webhook_port(self) -> int | None:
        """Where the webhooks listen, once they do."""
        return self._webhook_part.port if self._webhook_part else None

    async def run(self) -> None:
        """Answer the log and the API server, each whatever becomes of the other, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._topic_part.run())
            if self._webhook_part is not None:
                tasks.create_task(self._webhook_part.run())


def build(
    settings: AdmissionSettings,
    *,
    clock: Clock,
    log: EventLog,
    ids: Ids,
    telemetry: Telemetry,
    cluster: Cluster | None = None,
    start_log: StartLog | None = None,
) -> Admission:
    """Put admission together. Nothing is touched before ``run``.

    ``cluster`` is needed for webhooks only. With ``start_log`` the log is not started yet: admission calls
    it until the log is there.
    """
    del ids  # every answer is named by its submission
    schema_of(Job)  # takes a quarter of a second: now, and not while the first job waits
    health = Health()
    defaults = Defaults(
        queue=settings.default_queue,
        scheduler=settings.scheduler_name,
        max_retry=settings.default_max_retry,
        namespace=settings.default_namespace,
        host_paths=settings.host_paths,
    )
    topic_part = _topic_part(settings, defaults, log, start_log, clock, health, telemetry)
    metrics = Metrics(telemetry.registry)
    webhook_part = None
    if settings.webhook_port is not None:
        if cluster is None:
            raise ConfigurationError("webhook_port is set, but there is no Kubernetes")
        webhooks, world = _webhooks(settings, defaults, cluster, clock, metrics, telemetry)
        webhook_part = WebhookPart(
            webhooks,
            world,
            _keeper(settings, cluster, clock, health, metrics, telemetry),
            host=settings.webhook_host,
            port=settings.webhook_port,
            health=health,
        )
    return Admission(topic_part, webhook_part, health)


def _topic_part(
    settings: AdmissionSettings,
    defaults: Defaults,
    log: EventLog,
    start_log: StartLog | None,
    clock: Clock,
    health: Health,
    telemetry: Telemetry,
) -> TopicPart:
    view = LiveView(timedelta(seconds=settings.admitted_memory_seconds))
    follower = Follower(log, view, clock=clock, health=health, telemetry=telemetry)
    submissions = Submissions(
        log,
        follower,
        defaults,
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
    trials = Trials(log, follower, defaults, clock)
    answering = partial(tail, log, topics.TRIALS, trials.handle, clock=clock, telemetry=telemetry)
    return TopicPart(
        follower,
        consuming,
        watching,
        answering,
        start_log=start_log,
        clock=clock,
        health=health,
        telemetry=telemetry,
    )


def _webhooks(
    settings: AdmissionSettings,
    defaults: Defaults,
    cluster: Cluster,
    clock: Clock,
    metrics: Metrics,
    telemetry: Telemetry,
) -> tuple[Webhooks, LiveWorld]:
    rules = Rules(
        defaults=defaults,
        limits=QueueLimits(
            max_depth=settings.queue_depth,
            protect_root=settings.protect_root_queue,
            check_allocated_pods=settings.check_allocated_pods,
        ),
        schedulers=settings.scheduler_names,
        resource_groups=settings.resource_groups,
        gate=settings.queue_allocation_gate,
    )
    world = LiveWorld(cluster, clock)
    paths = settings.webhook_paths
    return Webhooks(world, rules, paths, clock=clock, metrics=metrics, telemetry=telemetry), world


def _keeper(
    settings: AdmissionSettings,
    cluster: Cluster,
    clock: Clock,
    health: Health,
    metrics: Metrics,
    telemetry: Telemetry,
) -> Keeper:
    trust = Trust(cluster, settings.webhook_configuration)
    if settings.webhook_certificate_file is not None and settings.webhook_key_file is not None:
        files = Files(
            settings.webhook_certificate_file, settings.webhook_key_file, settings.webhook_authority_file
        )
        return FileKeeper(files, trust, clock=clock, health=health, metrics=metrics, telemetry=telemetry)
    place = SecretPlace(
        settings.webhook_namespace,
        settings.webhook_secret,
        settings.webhook_names,
        Lifetimes(
            timedelta(days=settings.webhook_authority_days), timedelta(days=settings.webhook_certificate_days)
        ),
    )
    return SecretKeeper(
        cluster, place, trust, clock=clock, health=health, metrics=metrics, telemetry=telemetry
    )
