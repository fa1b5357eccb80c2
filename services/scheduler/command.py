"""``pumice policy``: commands that join the light command line by their entry point."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from services.scheduler.core.configuration import Configured

policy = typer.Typer(
    help="Look at configurations of the scheduler.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@policy.callback()
def _root() -> None:
    """Look at configurations of the scheduler."""


@policy.command()
def check(
    file: Annotated[Path, typer.Argument(help="Volcano's scheduler configuration: actions, tiers, plugins.")],
    output: Annotated[
        Literal["table", "json"], typer.Option("-o", "--output", help="What is printed: tables or JSON.")
    ] = "table",
) -> None:
    """Say what a configuration means, and all that is wrong with it: then the exit code is 2."""
    from services.scheduler.adapters.policies import read_file
    from services.scheduler.core.configuration import configure
    from services.scheduler.settings import SchedulerSettings
    from shared.errors import ConfigurationError
    from shared.plugin_entries import installed
    from shared.settings import load_settings

    try:
        read = configure(read_file(file), load_settings(SchedulerSettings).policy(), installed())
    except ConfigurationError as error:
        typer.echo(f"pumice policy check: {error}", err=True)
        raise typer.Exit(2) from error
    if output == "json":
        _print_json(read)
    else:
        _print_tables(read)
    if read.problems:
        raise typer.Exit(2)


def _print_json(read: Configured) -> None:
    from services.scheduler.core.configuration.meaning import choices, words

    content = {
        "digest": read.policy.digest,
        "words": [{"name": name, "stand": stand, "says": says} for name, stand, says in words(read)],
        "policy": dict(choices(read.policy)),
        "notes": list(read.notes),
        "problems": [
            {"path": one.path, "kind": one.code.value, "message": one.message} for one in read.problems
        ],
    }
    typer.echo(json.dumps(content, indent=2))


def _print_tables(read: Configured) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from services.scheduler.core.configuration.meaning import choices, words

    console = Console(highlight=False)

    def table(*heads: str) -> Table:
        made = Table(*heads, box=box.SIMPLE_HEAD, pad_edge=False)
        made.columns[0].no_wrap = True
        return made

    named = table("NAMED", "IS", "MEANS")
    for row in words(read):
        named.add_row(*row)
    chosen = table("CHOICE", "VALUE")
    for choice in choices(read.policy):
        chosen.add_row(*choice)
    if not read.problems:
        console.print(named, chosen)
        console.print(f"policy {read.policy.digest}")
    for note in read.notes:
        console.print(f"note: {note}", soft_wrap=True, markup=False)
    for problem in read.problems:
        typer.echo(f"error: {problem}", err=True)
