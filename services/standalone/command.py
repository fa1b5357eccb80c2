"""``pumice up``: the command that joins the light command line by its entry point."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer
from rich.console import Console

from services.standalone.options import DEFAULT_NODES, Options
from shared.errors import ConfigurationError

if TYPE_CHECKING:
    from services.standalone.platform import Ready

_NODES_HELP: Final = (
    "Simulated nodes: [NAME=]COUNTxGPUS[,RESOURCE=AMOUNT…], e.g. 4x8 or a100=2x8,cpu=96. Repeatable."
)


def up(
    nodes: Annotated[list[str] | None, typer.Option(help=_NODES_HELP)] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The gateway's port; 0 takes a free one.")
    ] = 8080,
    log: Annotated[
        str | None, typer.Option(help="Event log: kafka://host:port[,host:port…]. Default: in memory.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Keep the log on disk in this directory; survives a kill.")
    ] = None,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Use the cluster of this kubeconfig instead of the simulator.")
    ] = None,
    context: Annotated[str | None, typer.Option(help="Context in the kubeconfig.")] = None,
    config: Annotated[
        Path | None, typer.Option(help="YAML with a section of settings for each service.")
    ] = None,
    ready_file: Annotated[
        Path | None,
        typer.Option(help="Write {gateway, kubeconfig, pid} as JSON here when everything is ready."),
    ] = None,
    operations_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of /readyz and /metrics of all services; 0: none.")
    ] = 0,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], typer.Option(help="Least serious messages shown.")
    ] = "warning",
) -> None:
    """Start the whole platform in one process, until Ctrl-C."""
    options = Options(
        nodes=tuple(nodes or DEFAULT_NODES),
        host=host,
        port=port,
        log=log,
        data=data,
        kubeconfig=kubeconfig,
        context=context,
        config=config,
        ready_file=ready_file,
        operations_port=operations_port,
        log_level=log_level,
    )
    from shared.process import exit_code

    raise typer.Exit(exit_code("pumice up", lambda: _run(options)))


def _run(options: Options) -> None:
    from services.standalone.platform import run_platform
    from shared.clock import SystemClock
    from shared.process import new_id, run, until_stopped
    from shared.telemetry.logs import setup_logging

    setup_logging(level=options.log_level)
    clock = SystemClock()
    try:
        run(
            until_stopped(
                run_platform(options, clock=clock, ids=new_id, on_ready=lambda ready: _tell(ready, options))
            )
        )
    finally:
        if options.ready_file is not None:
            options.ready_file.unlink(missing_ok=True)


def _tell(ready: Ready, options: Options) -> None:
    """Say where everything is; the ready file appears whole or not at all."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"gateway     {ready.gateway}")
    console.print(f"kubeconfig  {ready.kubeconfig}")
    if ready.simulated:
        console.print(f"cluster     simulated: {' '.join(options.nodes)}")
    console.print("Ctrl-C stops it.")
    if options.ready_file is not None:
        content = {"gateway": ready.gateway, "kubeconfig": str(ready.kubeconfig), "pid": os.getpid()}
        partial = options.ready_file.with_name(options.ready_file.name + ".partial")
        try:
            partial.write_text(json.dumps(content), encoding="utf-8")
            partial.replace(options.ready_file)
        except OSError as error:
            raise ConfigurationError(f"--ready-file {options.ready_file}: {error.strerror}") from error
