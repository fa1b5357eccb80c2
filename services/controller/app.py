"""The controller's composition root."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final, NoReturn

from services.controller.adapters.allocating import Allocating
from services.controller.adapters.api import Api
from services.controller.adapters.applier import Applier, by_gang
from services.controller.adapters.command_objects import CommandObjects
from services.controller.adapters.dependents import Dependents
from services.controller.adapters.device_views import DeviceViews
from services.controller.adapters.dry_runs import DryRuns
from services.controller.adapters.evictor import Evictor
from services.controller.adapters.expiry import Expiry
from services.controller.adapters.groups import GroupController
from services.controller.adapters.hands import Hands
from services.controller.adapters.intake import Intake
from services.controller.adapters.jobs import JobController
from services.controller.adapters.keys import Keys, rsa_keys
from services.controller.adapters.limits import Limits
from services.controller.adapters.marks import Marks
from services.controller.adapters.memory import Memories
from services.controller.adapters.observer import Observer
from services.controller.adapters.owning import Ownership
from services.controller.adapters.plain import PlainGangs
from services.controller.adapters.plain_applier import PlainApplier
from services.controller.adapters.provisioning import Provisioning
from services.controller.adapters.publisher import Publisher
from services.controller.adapters.queues import QueueController
from services.controller.adapters.recorder import Recorder
from services.controller.adapters.run_times import RunTimes
from services.controller.adapters.start import ensure_queues
from services.controller.adapters.storage import StorageViews
from services.controller.adapters.trail import Trail
from services.controller.adapters.trials import Trials
from services.controller.adapters.views import Views, job_key
from services.controller.core.exposing import Outside, check_pattern
from services.controller.settings import ControllerSettings
from shared.api import resources as r
from shared.clock import Clock
from shared.errors import Conflict, Unavailable
from shared.events import topics
from shared.events.consuming import Consuming, Handler, Message
from shared.events.contracts import (
    CommandJob,
    CommandQueue,
    Contract,
    CycleDecided,
    GangDecided,
    JobAdmitted,
)
from shared.events.tailing import tail
from shared.keyed import KeyedLocks
from shared.kube.events import EventRecorder
from shared.kube.port import JSON, Cluster, Resource
from shared.liveness import watch, watch_views
from shared.log.port import EventLog
from shared.service import Health, Ids
from shared.telemetry.telemetry import Telemetry

GROUP: Final = "controller"
_START_PAUSE: Final = 0.5
_HEALTH_PAUSE: Final = 1.0


@dataclass(frozen=True, slots=True)
class Controller:
    """The service: see :mod:`services.controller`."""

    name: str
    health: Health
    hands: Hands
    dependents: Dependents
    limits: Limits
    storage: StorageViews
    devices: DeviceViews
    jobs: JobController
    applier: Applier
    intake: Intake
    groups: GroupController
    queues: QueueController
    expiry: Expiry
    commands: CommandObjects
    consuming: Consuming
    trials: Trials
    log: EventLog
    cluster: Cluster
    ownership: Ownership

    async def run(self) -> None:
        """Run until cancelled."""
        self.health.waits("start", "reading what exists")
        async with asyncio.TaskGroup() as group:
            group.create_task(self.hands.views.run())
            group.create_task(self.dependents.run())
            group.create_task(self.limits.run())
            group.create_task(self.storage.run())
            group.create_task(self.devices.run())
            group.create_task(self._watch_views())
            group.create_task(self._watch("api-server", self.cluster.ping, "the API server"))
            group.create_task(self._watch("log", self.log.ping))
            await self.hands.views.synced()
            await self.dependents.synced()
            await self.limits.synced()
            await self.storage.synced()
            await self.devices.synced()
            await self._recover()
            group.create_task(self.hands.observer.run())
            group.create_task(self.hands.recorder.run())
            group.create_task(self.hands.placements.run())
            group.create_task(self.commands.run())
            group.create_task(self.jobs.run())
            group.create_task(self.groups.run())
            group.create_task(self.queues.run())
            group.create_task(self.expiry.run())
            group.create_task(self.intake.reports(self.log))
            group.create_task(self.consuming.run())
            group.create_task(self._answer_trials())
            self.health.ok("start")

    async def _answer_trials(self) -> NoReturn:
        hands = self.hands
        await tail(self.log, topics.TRIALS, self.trials.handle, clock=hands.clock, telemetry=hands.telemetry)

    async def _recover(self) -> None:
        """Bring the topics in line with what exists, before anything is decided or carried out."""
        while True:
            try:
                await self.ownership.claim()
                await self.hands.run_times.read()
                await ensure_queues(self.hands.api, self.hands.views)
                self.jobs.vanished(await self.hands.observer.recover())
                await self.hands.observer.flush()
                await self.applier.recover(self.log)
            except (Conflict, Unavailable) as error:
                self.health.waits("start", str(error))
                await self.hands.clock.sleep(_START_PAUSE)
            else:
                return

    async def _watch(
        self, part: str, ping: Callable[[], Awaitable[None]], what: str | None = None
    ) -> NoReturn:
        """Keep the readiness true; ``what`` names it in the log where nobody else says that it is away."""
        hands = self.hands
        await watch(
            ping,
            part=part,
            health=self.health,
            clock=hands.clock,
            pause=hands.settings.ping_pause,
            patience=hands.settings.ping_patience,
            outage=None if what is None else hands.telemetry.outage(what, hands.clock),
        )

    async def _watch_views(self) -> NoReturn:
        followed = (self.hands.views, self.dependents, self.limits, self.storage, self.devices)
        await watch_views(
            lambda: ", ".join(filter(None, (one.waiting for one in followed))),
            health=self.health,
            clock=self.hands.clock,
            pause=_HEALTH_PAUSE,
        )


def build(
    settings: ControllerSettings,
    *,
    clock: Clock,
    log: EventLog,
    cluster: Cluster,
    ids: Ids,
    telemetry: Telemetry,
    keys: Keys = rsa_keys,
) -> Controller:
    """Put the controller together. Nothing is touched before ``run``. ``keys`` makes SSH keys.

    Raises ConfigurationError for an ``expose_url`` that makes no URLs.
    """
    check_pattern(settings.expose_url)
    del ids  # everything that the controller names is named by what it is about
    listeners: list[_Listener] = []

    def changed(resource: Resource, old: JSON | None, new: JSON | None) -> None:
        for listener in listeners:
            listener.changed(resource, old, new)

    schedulers = frozenset(settings.scheduler_names)
    policy = (settings.policy_namespace, settings.policy_config_map)
    storage, devices = StorageViews(cluster, clock=clock), DeviceViews(cluster, clock=clock)
    views = Views(
        cluster,
        clock=clock,
        on_change=changed,
        schedulers=schedulers,
        policy=policy,
        storage=storage,
        devices=devices,
    )
    gangs = PlainGangs(views, schedulers)
    api = Api(
        cluster,
        "controller",
        fold=views.fold,
        concurrency=settings.api_concurrency,
        registry=telemetry.registry,
    )
    recorder = Recorder(partial(api.create, r.EVENTS), clock, "pumice-controller")
    hands = Hands(
        settings=settings,
        clock=clock,
        views=views,
        api=api,
        observer=Observer(
            views,
            log,
            gangs=gangs,
            clock=clock,
            schedulers=schedulers,
            policy_key=settings.policy_key,
            debounce=settings.observe_delay_seconds,
            telemetry=telemetry,
            recorder=recorder,
        ),
        publisher=Publisher(log, clock),
        recorder=recorder,
        placements=EventRecorder(partial(api.create, r.EVENTS), clock, "pumice-scheduler"),
        trail=Trail(telemetry),
        run_times=RunTimes(log, clock, telemetry),
        telemetry=telemetry,
        memories=Memories(),
        locks=KeyedLocks(),
    )
    outside = Outside(
        settings.expose_url,
        settings.expose_ingress_class,
        settings.expose_tls_secret,
        settings.expose_annotations,
    )
    dependents = Dependents(cluster, api, clock=clock, keys=keys, outside=outside, on_change=changed)
    dry_runs = DryRuns(api, clock, gangs.shapes, age=settings.dry_run_seconds)
    jobs = JobController(hands, dependents, dry_runs)
    limits = Limits(cluster, clock=clock, on_change=jobs.limits_changed)
    groups = GroupController(hands, gangs)
    queues = QueueController(hands)
    expiry = Expiry(hands)
    intake = Intake(hands, jobs, groups)
    commands = CommandObjects(hands, intake, queues)
    storage.claims = dependents.store(r.PVCS)
    provisioning = Provisioning(
        api,
        storage,
        partial(dependents.fold, r.PVCS),
        clock=clock,
        nodes=lambda: views.store(r.NODES),
        limit=settings.volume_binding_seconds,
    )
    allocating = Allocating(
        api,
        devices,
        clock=clock,
        pod=partial(views.get, r.PODS),
        node=partial(views.get, r.NODES, ""),
    )
    listener = _Listener(hands, jobs, groups, queues, expiry, commands, storage, provisioning)
    listeners.append(listener)
    evictor = Evictor(hands)
    marks = Marks(hands, gangs.shapes)
    plain = PlainApplier(hands, gangs, groups, provisioning, allocating, evictor, marks)
    applier = Applier(hands, jobs.touch, plain, provisioning, allocating, dry_runs, evictor, marks)
    handlers: dict[type[Contract], Handler] = {
        JobAdmitted: intake.admitted,
        CommandJob: intake.command,
        CommandQueue: queues.command,
        GangDecided: applier.handle,
    }
    consuming = Consuming(
        log,
        group=GROUP,
        topics=[topics.JOB_ADMITTED, topics.JOB_COMMANDS, topics.QUEUE_COMMANDS, topics.BIND_DECISIONS],
        handlers=handlers,
        passed_over=(CycleDecided,),
        clock=clock,
        telemetry=telemetry,
        serial_by=_serial_key,
        max_in_flight=settings.decisions_in_flight,
    )
    return Controller(
        name="controller",
        health=Health(),
        hands=hands,
        dependents=dependents,
        limits=limits,
        storage=storage,
        devices=devices,
        jobs=jobs,
        applier=applier,
        intake=intake,
        groups=groups,
        queues=queues,
        expiry=expiry,
        commands=commands,
        consuming=consuming,
        trials=Trials(log, hands, dry_runs),
        log=log,
        cluster=cluster,
        ownership=Ownership(log, cluster, clock, where=settings.log, replace=settings.replace_cluster),
    )


def _serial_key(message: Message) -> object:
    return by_gang(message)


class _Listener:
    """Tells each loop of a change in the cluster."""

    def __init__(
        self,
        hands: Hands,
        jobs: JobController,
        groups: GroupController,
        queues: QueueController,
        expiry: Expiry,
        commands: CommandObjects,
        storage: StorageViews,
        provisioning: Provisioning,
    ) -> None:
        self._hands = hands
        self._jobs = jobs
        self._groups = groups
        self._queues = queues
        self._expiry = expiry
        self._commands = commands
        self._storage = storage
        self._provisioning = provisioning
        hands.observer.on_refusal = self._refused
        storage.on_claim = self._claim_changed
        storage.on_volume = provisioning.claim_changed
        storage.on_node = partial(hands.observer.touch, r.NODES, "")
        storage.on_host = self._host_changed
        devices = hands.views.devices
        devices.on_node = partial(hands.observer.touch, r.NODES, "")
        devices.on_claim = self._device_claim_changed
        devices.on_asking = self._claims_changed
        devices.on_gang = self._tell_gang

    def _refused(self, namespace: str, name: str) -> None:
        """Have a gang looked at that is too large for the log."""
        group = self._hands.views.get(r.PODGROUPS, namespace, name)
        job = None if group is None else self._hands.views.job_of_group(group)
        if job is None:
            self._groups.touch(job_key(namespace, name))
        else:
            self._jobs.touch(job)

    def _claim_changed(self, namespace: str, name: str, gangs: Iterable[str]) -> None:
        """Tell anew of pods and gangs whose claim comes to something else."""
        self._tell_pods(self._hands.views.pods_with_claim(namespace, name))
        for key in gangs:
            self._tell_gang(key)

    def _device_claim_changed(self, namespace: str, name: str) -> None:
        self._tell_pods(self._hands.views.pods_with_device_claim(namespace, name))

    def _claims_changed(self, namespace: str) -> None:
        """Tell anew of the pods with claims on devices of a namespace; of none: of all."""
        pods = self._hands.views.pods_with_device_claims()
        self._tell_pods(one for one in pods if namespace in ("", one["metadata"]["namespace"]))

    def _tell_pods(self, pods: Iterable[JSON]) -> None:
        for pod in pods:
            meta = pod["metadata"]
            self._hands.observer.touch(r.PODS, meta["namespace"], meta["name"])
            self._groups.changed(r.PODS, None, pod)

    def _tell_gang(self, key: str) -> None:
        """Tell anew of a job's gang whose claims come to something else."""
        views = self._hands.views
        views.forget_gang(key)
        wanted = views.wanted(key)
        if wanted is not None:
            self._hands.observer.touch(r.PODGROUPS, wanted.namespace, wanted.podgroup)

    def _host_changed(self, host: str) -> None:
        for node in self._hands.views.nodes_of_host(host):
            self._hands.observer.touch(r.NODES, "", node["metadata"]["name"])

    def changed(self, resource: Resource, old: JSON | None, new: JSON | None) -> None:
        obj = new or old
        if obj is None:
            return
        meta = obj["metadata"]
        namespace, name = meta.get("namespace") or "", meta["name"]
        observer = self._hands.observer
        observer.changed(resource, old, new)
        self._jobs.changed(resource, old, new)
        self._groups.changed(resource, old, new)
        if resource is r.JOBS:
            self._expiry.changed(new)
            self._hands.trail.job_seen(old, new)
            observer.touch(r.PODGROUPS, namespace, f"{name}-{meta['uid']}")
        elif resource is r.PODS:
            self._pod_changed(namespace, old, new)
        elif resource is r.QUEUES:
            self._queues.queue_changed(old, new)
        elif resource is r.PODGROUPS:
            self._queues.group_changed(old, new)
        elif resource is r.COMMANDS:
            self._commands.changed(new)
        elif resource is r.PRIORITYCLASSES:
            self._tell_groups()
        elif resource is r.PVCS:
            self._storage.claim_changed(namespace, name)
            self._provisioning.claim_changed(namespace, name)

    def _tell_groups(self) -> None:
        """Tell anew of all PodGroups."""
        for namespace, name in self._hands.views.store(r.PODGROUPS):
            self._hands.observer.touch(r.PODGROUPS, namespace, name)

    def _pod_changed(self, namespace: str, old: JSON | None, new: JSON | None) -> None:
        """A pod that ended or went may change what its gang needs."""
        ended = new is None or ((new.get("status") or {}).get("phase") in ("Succeeded", "Failed"))
        annotations = ((new or old or {}).get("metadata") or {}).get("annotations") or {}
        group = annotations.get("scheduling.k8s.io/group-name")
        if ended and group:
            self._hands.observer.touch(r.PODGROUPS, namespace, group)
