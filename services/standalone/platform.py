"""All services on one event loop, over an embedded log and a simulated cluster unless told otherwise."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from services.admission.app import build as build_admission
from services.admission.settings import AdmissionSettings
from services.controller.app import Controller
from services.controller.app import build as build_controller
from services.controller.settings import ControllerSettings
from services.gateway.app import build as build_gateway
from services.gateway.settings import GatewaySettings
from services.scheduler.app import build as build_scheduler
from services.scheduler.settings import SchedulerSettings
from services.standalone.options import Options, read_config
from services.workflows.app import build as build_workflows
from services.workflows.settings import WorkflowsSettings
from shared.api.resources import (
    COMMANDS,
    CRONJOBS,
    HYPERNODES,
    JOBFLOWS,
    JOBS,
    JOBTEMPLATES,
    NUMATOPOLOGIES,
    PODGROUPS,
    QUEUES,
)
from shared.clock import Clock
from shared.errors import ConfigurationError, NotFound, StartupError, Unavailable
from shared.events.topics import SPECS
from shared.kube.client import connect
from shared.kube.port import Cluster
from shared.log.connect import open_log
from shared.log.port import EventLog
from shared.process import serve_operations
from shared.service import Ids, Service
from shared.settings import CommonSettings, load_settings
from shared.telemetry.telemetry import Telemetry, from_environment
from simulator.cluster import simulated_cluster
from simulator.kubelet import NodeSpec, parse_nodes

_READY_PAUSE: Final = 0.02
_PARTING_SECONDS: Final = 2.0

S = TypeVar("S", bound=CommonSettings)


@dataclass(frozen=True, slots=True)
class Ready:
    """Where the running platform is."""

    gateway: str
    kubeconfig: Path
    simulated: bool


async def run_platform(
    options: Options,
    *,
    clock: Clock,
    ids: Ids,
    on_ready: Callable[[Ready], None],
    telemetry_of: Callable[[str], Telemetry] = from_environment,
) -> None:
    """Run until cancelled; call ``on_ready`` once, when every service is ready.

    Raises ConfigurationError, StartupError or Unavailable when it cannot start.
    """
    config = _Config(options)
    nodes = parse_nodes(*options.nodes)
    async with AsyncExitStack() as stack:
        log = await _open_log(options, clock, stack)
        kubeconfig = options.kubeconfig or await _simulate(options, nodes, clock, ids, stack)
        cluster = connect(str(kubeconfig), clock=clock, context=options.context)
        stack.push_async_callback(cluster.close)
        await _require_crds(cluster, kubeconfig)

        measured: list[Telemetry] = []

        def telemetry(name: str) -> Telemetry:
            made = telemetry_of(name)
            stack.callback(made.shutdown)
            measured.append(made)
            return made

        gateway = build_gateway(
            config.of("gateway", GatewaySettings, host=options.host, port=options.port),
            clock=clock,
            log=log,
            ids=ids,
            telemetry=telemetry("gateway"),
        )
        admission = build_admission(
            config.of("admission", AdmissionSettings),
            clock=clock,
            log=log,
            cluster=cluster,
            ids=ids,
            telemetry=telemetry("admission"),
        )
        controller = build_controller(
            config.of("controller", ControllerSettings, log=options.log_url, **_replacing(options)),
            clock=clock,
            log=log,
            cluster=cluster,
            ids=ids,
            telemetry=telemetry("controller"),
        )
        scheduler = build_scheduler(
            config.of("scheduler", SchedulerSettings),
            clock=clock,
            log=log,
            ids=ids,
            telemetry=telemetry("scheduler"),
        )
        workflows = build_workflows(
            config.of("workflows", WorkflowsSettings),
            clock=clock,
            cluster=cluster,
            ids=ids,
            telemetry=telemetry("workflows"),
        )
        await controller.ownership.claim()
        if options.kubeconfig is None:
            stack.push_async_callback(_release, controller)
        services: list[Service] = [gateway, admission, controller, scheduler, workflows]
        if options.operations_port:
            operations = await serve_operations(services, measured, options.host, options.operations_port)
            stack.push_async_callback(operations.cleanup)
        async with asyncio.TaskGroup() as tasks:
            for service in services:
                tasks.create_task(service.run())
            await _until_ready(services, clock)
            on_ready(Ready(gateway.url, kubeconfig, simulated=options.kubeconfig is None))


class _Config:
    """The configuration file's sections, read once."""

    def __init__(self, options: Options) -> None:
        self._file = options.config
        self._sections = read_config(options.config)

    def of(self, service: str, kind: type[S], **fixed: object) -> S:
        source = f"configuration file {self._file}: {service}"
        return load_settings(kind, self._sections.get(service), source=source, **fixed)


async def _open_log(options: Options, clock: Clock, stack: AsyncExitStack) -> EventLog:
    url = options.log_url
    if options.data is not None:
        try:
            options.data.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"--data {options.data}: {error.strerror}") from error
    access = load_settings(CommonSettings).kafka_access
    log = open_log(url, clock=clock, client_id="pumice", access=access)
    stack.push_async_callback(log.close)
    await log.start()
    await log.create_topics(SPECS)
    return log


async def _simulate(
    options: Options, nodes: Sequence[NodeSpec], clock: Clock, ids: Ids, stack: AsyncExitStack
) -> Path:
    """Start a simulated cluster and return the path of a kubeconfig for it."""
    directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="pumice-"))
    kubeconfig = Path(directory) / "kubeconfig"
    await stack.enter_async_context(
        simulated_cluster(nodes, kubeconfig, clock=clock, ids=ids, host=options.host)
    )
    return kubeconfig


def _replacing(options: Options) -> dict[str, bool]:
    """A log that no other process can open is any simulated cluster's: each start makes a new one."""
    return {"replace_cluster": True} if options.kubeconfig is None and options.log is None else {}


async def _release(controller: Controller) -> None:
    """Let the next platform have the log of a simulated cluster, which ends here."""
    with suppress(Unavailable, TimeoutError):
        async with asyncio.timeout(_PARTING_SECONDS):
            await controller.ownership.release()


async def _require_crds(cluster: Cluster, kubeconfig: Path) -> None:
    for resource in (
        JOBS,
        PODGROUPS,
        QUEUES,
        COMMANDS,
        JOBFLOWS,
        JOBTEMPLATES,
        CRONJOBS,
        HYPERNODES,
        NUMATOPOLOGIES,
    ):
        try:
            await cluster.list(resource, page=1)
        except NotFound as error:
            raise StartupError(
                f"the cluster of {kubeconfig} does not know {resource.plural}.{resource.group}: "
                f"pumice install --kubeconfig {kubeconfig}"
            ) from error


async def _until_ready(services: Sequence[Service], clock: Clock) -> None:
    while not all(service.health.ready for service in services):
        await clock.sleep(_READY_PAUSE)
