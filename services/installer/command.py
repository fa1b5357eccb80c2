"""``pumice install`` and ``pumice uninstall``: commands that join the light command line by entry points."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from shared.api.names import SYSTEM_NAMESPACE
from shared.errors import ConfigurationError, NotFound, Refused, StartupError

if TYPE_CHECKING:
    from services.installer.core.objects import Wish
    from shared.kube.port import Cluster

_KUBECONFIG: Final = typer.Option(help="The cluster's kubeconfig.", envvar="KUBECONFIG")
_CONTEXT: Final = typer.Option(help="Context in the kubeconfig.")


def install(
    kubeconfig: Annotated[Path | None, _KUBECONFIG] = None,
    context: Annotated[str | None, _CONTEXT] = None,
    namespace: Annotated[
        str, typer.Option(help="Where the services and their accounts live.")
    ] = SYSTEM_NAMESPACE,
    webhook_url: Annotated[
        str | None, typer.Option(help="https://host:port of admission, where it runs outside the cluster.")
    ] = None,
    webhook_ca: Annotated[
        Path | None,
        typer.Option(help="PEM file of who signed admission's certificate, when it does not make its own."),
    ] = None,
    webhooks: Annotated[
        bool, typer.Option(help="Whether the API server asks admission about objects.")
    ] = True,
    take_over: Annotated[
        bool, typer.Option(help="Stop a Volcano that runs here; its jobs, podgroups and queues go on.")
    ] = False,
    print_only: Annotated[
        bool, typer.Option("--print", help="Print the manifests as YAML instead of applying them.")
    ] = False,
) -> None:
    """Put definitions, first queues, accounts and webhooks into a cluster. May be run again."""
    from services.installer.core.objects import Wish

    def work() -> None:
        wish = Wish(namespace, webhooks, _url(webhook_url), _read(webhook_ca))
        if print_only:
            _print(wish)
        else:
            _with_cluster(kubeconfig, context, lambda cluster: _install(cluster, wish, take_over=take_over))

    _end("pumice install", work)


def uninstall(
    kubeconfig: Annotated[Path | None, _KUBECONFIG] = None,
    context: Annotated[str | None, _CONTEXT] = None,
    crds: Annotated[
        bool, typer.Option("--crds", help="Take out the definitions too, and with them every job and queue.")
    ] = False,
) -> None:
    """Take out what install put into a cluster, and say what is left. May be run again."""
    from services.installer.adapters.cluster import uninstall as take_out

    _end(
        "pumice uninstall",
        lambda: _with_cluster(
            kubeconfig, context, lambda cluster: take_out(cluster, with_crds=crds, say=typer.echo)
        ),
    )


async def _install(cluster: Cluster, wish: Wish, *, take_over: bool) -> None:
    from services.installer.adapters.cluster import install as put_in
    from services.installer.core.objects import installation
    from shared.clock import SystemClock

    await put_in(cluster, installation(wish), take_over=take_over, clock=SystemClock(), say=typer.echo)


def _print(wish: Wish) -> None:
    import yaml

    from services.installer.core.objects import installation

    typer.echo(yaml.safe_dump_all(installation(wish).all, sort_keys=False), nl=False)


def _with_cluster(
    kubeconfig: Path | None, context: str | None, work: Callable[[Cluster], Awaitable[None]]
) -> None:
    from shared.clock import SystemClock
    from shared.kube.client import connect
    from shared.process import run

    if kubeconfig is None:
        raise ConfigurationError("--kubeconfig: say which cluster (or set KUBECONFIG)")

    async def connected() -> None:
        cluster = connect(str(kubeconfig), clock=SystemClock(), context=context)
        try:
            await cluster.ping()
            await work(cluster)
        except (Refused, NotFound) as error:
            raise StartupError(f"the API server said: {error}") from error
        finally:
            await cluster.close()

    run(connected())


def _url(url: str | None) -> str | None:
    if url is not None and not url.startswith("https://"):
        raise ConfigurationError(f"--webhook-url {url}: the API server calls https://host:port only")
    return url


def _read(path: Path | None) -> bytes:
    try:
        return b"" if path is None else path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"--webhook-ca {path}: {error.strerror}") from error


def _end(program: str, work: Callable[[], None]) -> None:
    from shared.process import exit_code

    raise typer.Exit(exit_code(program, work))
