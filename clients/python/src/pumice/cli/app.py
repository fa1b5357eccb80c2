"""The commands: their flags and help. What each does is in the modules that it calls.

Nothing heavy is imported here, so that ``pumice --help`` and wrong flags answer at once.
"""

# ruff: noqa: ARG001 - the flags of the short form are read together, from ctx.params

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pumice.cli import exits
from pumice.cli.flags import (
    SHORT,
    Command,
    Cpus,
    Env,
    Expose,
    Form,
    Gpus,
    Image,
    JobName,
    Kind,
    Master,
    Memory,
    Minimum,
    Mounts,
    Name,
    Names,
    Namespace,
    Output,
    Pool,
    Priority,
    Queue,
    QueueName,
    Retries,
    Server,
    Timeout,
    Until,
    Wait,
    Workers,
)
from pumice.cli.group import Root

if TYPE_CHECKING:
    from pumice.cli.place import Place

HELP = f"""Submit jobs to a Pumice server and see where they are and why they wait.

The server is --server, else $PUMICE_SERVER, else `server:` in the configuration file
(~/.config/pumice/config.yaml, or $PUMICE_CLIENT_CONFIG), else http://127.0.0.1:8080. The namespace is
--namespace, else $PUMICE_NAMESPACE, else `namespace:` in that file, else "default".

{exits.HELP}"""

app = typer.Typer(
    cls=Root,
    help=HELP,
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: a third of the time, and readable in a pipe
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def root(
    ctx: typer.Context,
    server: Server = None,
    namespace: Namespace = None,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="PUMICE_DEBUG", help="Show where an error arose.")
    ] = False,
) -> None:
    """Keep the flags that may stand before the command."""
    ctx.obj = {"server": server, "namespace": namespace, "debug": debug}


@app.command()
def submit(
    ctx: typer.Context,
    *,
    command: Command = None,
    file: Annotated[
        list[str] | None,
        typer.Option("--file", "-f", metavar="FILE", help="Job manifests; - reads standard input."),
    ] = None,
    name: JobName = None,
    image: Image = None,
    workers: Workers = None,
    master: Master = False,
    gpus: Gpus = None,
    cpus: Cpus = None,
    memory: Memory = None,
    minimum: Minimum = None,
    queue: Queue = None,
    priority: Priority = None,
    retries: Retries = None,
    env: Env = None,
    mounts: Mounts = None,
    expose: Expose = None,
    wait: Annotated[Until, typer.Option("--wait", help="Wait for this of each job.")] = Until.ADMITTED,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Submit nothing: say where it would go, or why it would wait.")
    ] = False,
    timeout: Timeout = None,
    output: Output = Form.TABLE,
    server: Server = None,
    namespace: Namespace = None,
) -> None:
    """Submit jobs: from manifests, or one in the short form.

    \b
      pumice submit -f job.yaml
      pumice submit --name train --image trainer:1 --gpus 8 --workers 4 -- python train.py
      pumice submit -f job.yaml --dry-run
    """  # noqa: D301 - a real backspace: it keeps the lines
    from pumice.cli import submitting

    flags = {key: ctx.params[key] for key in SHORT}
    with reach(ctx, server, namespace) as place:
        if dry_run:
            submitting.try_out(place, file or [], flags, timeout=timeout, form=output.value)
            return
        submitting.submit(place, file or [], flags, wait=wait.value, timeout=timeout, form=output.value)


@app.command()
def run(
    ctx: typer.Context,
    *,
    command: Command = None,
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", metavar="FILE", help="One job's manifest; - reads standard input."),
    ] = None,
    name: JobName = None,
    image: Image = None,
    workers: Workers = None,
    master: Master = False,
    gpus: Gpus = None,
    cpus: Cpus = None,
    memory: Memory = None,
    minimum: Minimum = None,
    queue: Queue = None,
    priority: Priority = None,
    retries: Retries = None,
    env: Env = None,
    mounts: Mounts = None,
    expose: Expose = None,
    timeout: Timeout = None,
    server: Server = None,
    namespace: Namespace = None,
) -> None:
    """Submit one job and follow it to its end; the exit code says how it ended.

    \b
      pumice run --name hello --image busybox -- echo hello
    """  # noqa: D301
    from pumice.cli import submitting

    flags = {key: ctx.params[key] for key in SHORT}
    with reach(ctx, server, namespace) as place:
        submitting.run(place, file, flags, timeout=timeout)


@app.command()
def get(
    ctx: typer.Context,
    *,
    kind: Annotated[Kind, typer.Argument(metavar="jobs|queues|nodes", help="What to list.")],
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Only this one.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", "-q", help="Only jobs of this queue.")] = None,
    everywhere: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Jobs of all namespaces.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on, and print what changes.")] = False,
    output: Output = Form.TABLE,
    server: Server = None,
    namespace: Namespace = None,
) -> None:
    """List jobs, queues or nodes."""
    from pumice.cli import showing

    plural = kind.value.removeprefix("vc").removesuffix("s") + "s"
    with reach(ctx, server, namespace) as place:
        showing.get(place, plural, name, queue=queue, everywhere=everywhere, watch=watch, form=output.value)


@app.command()
def describe(ctx: typer.Context, *, name: Name, server: Server = None, namespace: Namespace = None) -> None:
    """Show all that is known of a job."""
    from pumice.cli import showing

    with reach(ctx, server, namespace) as place:
        showing.describe(place, name)


@app.command()
def explain(
    ctx: typer.Context,
    *,
    name: Name,
    output: Output = Form.TABLE,
    server: Server = None,
    namespace: Namespace = None,
) -> None:
    """Say why a job waits, its place in the queue and what can be done; or where it is placed."""
    from pumice.cli import showing

    with reach(ctx, server, namespace) as place:
        showing.explain(place, name, form=output.value)


@app.command()
def events(
    ctx: typer.Context,
    *,
    name: Name,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job has ended.")] = False,
    output: Output = Form.TABLE,
    server: Server = None,
    namespace: Namespace = None,
) -> None:
    """Show what happened to a job. With -o json one object a line."""
    from pumice.cli import showing

    with reach(ctx, server, namespace) as place:
        showing.events(place, name, follow=follow, form=output.value)


@app.command()
def trace(
    ctx: typer.Context,
    *,
    name: Name,
    output: Output = Form.TABLE,
    server: Server = None,
    namespace: Namespace = None,
) -> None:
    """Show where a job's time went: its phases as a waterfall."""
    from pumice.cli import showing

    with reach(ctx, server, namespace) as place:
        showing.trace(place, name, form=output.value)


@app.command()
def suspend(
    ctx: typer.Context,
    *,
    names: Names,
    wait: Wait = False,
    timeout: Timeout = None,
    server: Server = None,
    namespace: Namespace = None,
) -> None:
    """Stop the pods of jobs and keep the jobs."""
    from pumice.cli import commanding

    with reach(ctx, server, namespace) as place:
        commanding.command(place, "suspend", names, wait=wait, timeout=timeout)


@app.command()
def resume(
    ctx: typer.Context,
    *,
    names: Names,
    wait: Wait = False,
    timeout: Timeout = None,
    server: Server = None,
    namespace: Namespace = None,
) -> None:
    """Let suspended jobs go on."""
    from pumice.cli import commanding

    with reach(ctx, server, namespace) as place:
        commanding.command(place, "resume", names, wait=wait, timeout=timeout)


@app.command()
def delete(
    ctx: typer.Context,
    *,
    names: Names,
    wait: Wait = False,
    timeout: Timeout = None,
    server: Server = None,
    namespace: Namespace = None,
) -> None:
    """Delete jobs and what they own."""
    from pumice.cli import commanding

    with reach(ctx, server, namespace) as place:
        commanding.command(place, "delete", names, wait=wait, timeout=timeout)


queue_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Open and close queues.")
app.add_typer(queue_app, name="queue")


@queue_app.command("open")
def open_queue(
    ctx: typer.Context, *, name: QueueName, wait: Wait = False, timeout: Timeout = None, server: Server = None
) -> None:
    """Let a queue take jobs again, and those below it that were closed with it."""
    from pumice.cli import commanding

    with reach(ctx, server, None) as place:
        commanding.command_queue(place, "open", name, wait=wait, timeout=timeout)


@queue_app.command("close")
def close_queue(
    ctx: typer.Context, *, name: QueueName, wait: Wait = False, timeout: Timeout = None, server: Server = None
) -> None:
    """Let a queue and those below it take no new jobs; running ones go on."""
    from pumice.cli import commanding

    with reach(ctx, server, None) as place:
        commanding.command_queue(place, "close", name, wait=wait, timeout=timeout)


@app.command()
def defragment(ctx: typer.Context, *, pool: Pool = "default", server: Server = None) -> None:
    """Have running jobs move so that waiting ones start: if each of them has room elsewhere."""
    from pumice.cli import commanding

    with reach(ctx, server, None) as place:
        commanding.defragment(place, pool)


@app.command()
def version() -> None:
    """Print the version of this command line."""
    from importlib.metadata import version as installed

    typer.echo(f"pumice {installed('pumice')}")


def reach(ctx: typer.Context, server: str | None, namespace: str | None) -> Place:
    """Return the server and namespace that a command works with; its own flags count first."""
    from pumice.cli.place import Place

    flags = ctx.find_root().obj
    return Place(server or flags["server"], namespace or flags["namespace"])
