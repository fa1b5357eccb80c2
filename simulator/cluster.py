"""A simulated cluster whole: the API server, a kubeconfig for it, its nodes, and volumes for claims."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import yaml

from shared.api import crds
from shared.clock import Clock
from shared.errors import ConfigurationError
from shared.kube.client import connect
from shared.service import Ids
from simulator.kubelet import Kubelets, NodeSpec
from simulator.server import Simulator
from simulator.volumes import Provisioner

CRDS: Final = tuple(crds.manifest(crd) for crd in crds.CRDS)
"""Manifests of our kinds, which every simulated cluster has."""


@asynccontextmanager
async def simulated_cluster(
    nodes: Sequence[NodeSpec],
    kubeconfig: Path,
    *,
    clock: Clock,
    ids: Ids,
    host: str = "127.0.0.1",
    port: int = 0,
    url: str | None = None,
) -> AsyncIterator[Simulator]:
    """Run a cluster for as long as the block lasts; its nodes are registered when it begins.

    Writes ``kubeconfig``, for ``url`` if clients find the server elsewhere than where it listens. Raises
    ConfigurationError when that cannot be written, StartupError when the port is in use.
    """
    simulator = Simulator(clock, ids, host=host, port=port, crds=CRDS)
    await simulator.start()
    try:
        _write(kubeconfig, yaml.safe_dump(simulator.kubeconfig(url), sort_keys=False))
        cluster = connect(str(kubeconfig), clock=clock)
        kubelets = Kubelets(cluster, clock, ids, nodes)
        try:
            async with asyncio.TaskGroup() as tasks:
                running = [
                    tasks.create_task(work) for work in (kubelets.run(), Provisioner(cluster, clock).run())
                ]
                await kubelets.ready()
                yield simulator
                for one in running:
                    one.cancel()
        finally:
            await cluster.close()
    finally:
        await simulator.stop()


def _write(path: Path, text: str) -> None:
    """Write a file that others wait for: it appears whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror}") from error
