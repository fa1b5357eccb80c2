"""``pumice replay``: the decisions of a stretch of the log, made again."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from datetime import datetime

    from services.scheduler.adapters.replaying import Again, Stretch
    from services.scheduler.core.replay import Difference
    from services.scheduler.settings import SchedulerSettings
    from shared.events.contracts import GangDecided

_LOG = "The event log, as a service is told it; without it PUMICE_LOG says which."
_POLICY = "Volcano's configuration: another to compare with, or that of a scheduler which has it from a file."
_FROM = "Beginning of the stretch, e.g. 2026-03-01T10:00:00Z."


def replay(
    log: Annotated[str | None, typer.Option(help=_LOG)] = None,
    pool: Annotated[str, typer.Option(help="The node pool.")] = "default",
    since: Annotated[str | None, typer.Option("--from", help=_FROM)] = None,
    until: Annotated[str | None, typer.Option("--to", help="Its end.")] = None,
    policy: Annotated[Path | None, typer.Option(help=_POLICY)] = None,
    output: Annotated[
        Literal["table", "json"], typer.Option("-o", "--output", help="What is printed.")
    ] = "table",
) -> None:
    """Make decisions again from the log, and say what differs.

    With the policy that decided then nothing does: if something does, the exit code is 1. With another policy
    each cycle is compared in the world as it was.
    """
    from services.scheduler.settings import SchedulerSettings
    from shared.errors import ConfigurationError, NotFound, StartupError, Unavailable
    from shared.settings import load_settings

    try:
        given: dict[str, Any] = {} if log is None else {"log": log}
        settings = load_settings(SchedulerSettings, None, **given)
        stretch = asyncio.run(_read(settings, pool, _time("--from", since), _time("--to", until)))
        made = _again(stretch, settings, policy)
    except (ConfigurationError, NotFound) as error:
        typer.echo(f"pumice replay: {error}", err=True)
        raise typer.Exit(2) from error
    except (StartupError, Unavailable) as error:
        typer.echo(f"pumice replay: {error}", err=True)
        raise typer.Exit(1) from error
    for gap in stretch.gaps:
        typer.echo(f"pumice replay: {gap}: what they said for a while is not known any more", err=True)
    if output == "json":
        typer.echo(json.dumps(_document(stretch, made), indent=2))
    else:
        _show(made)
    if any(one.differences and one.policy == one.cycle.policy for one in made):
        raise typer.Exit(1)


async def _read(
    settings: SchedulerSettings, pool: str, since: datetime | None, until: datetime | None
) -> Stretch:
    from services.scheduler.adapters.replaying import read_stretch
    from shared.clock import SystemClock
    from shared.log.connect import open_log

    access = settings.kafka_access
    log = open_log(settings.log, clock=SystemClock(), client_id="pumice-replay", access=access, make=False)
    await log.start()
    try:
        return await read_stretch(log, pool, since, until)
    finally:
        await log.close()


def _again(stretch: Stretch, settings: SchedulerSettings, file: Path | None) -> list[Again]:
    from services.scheduler.adapters.policies import read_file
    from services.scheduler.adapters.replaying import replay as make_again
    from services.scheduler.core.configuration import configure
    from shared.errors import ConfigurationError
    from shared.plugin_entries import installed
    from shared.telemetry.telemetry import Telemetry

    own, policy = installed(), settings.policy()
    if file is not None:
        read = configure(read_file(file), policy, own)
        if read.problems:
            raise ConfigurationError(f"{file}: {read.problems[0]} (pumice policy check says all)")
        policy = read.policy
    return list(make_again(stretch, policy, Telemetry("replay"), fixed=file is not None, own=own))


def _time(option: str, text: str | None) -> datetime | None:
    from shared.api.meta import parse_time
    from shared.errors import ConfigurationError

    try:
        return None if text is None else parse_time(text)
    except ValueError as error:
        raise ConfigurationError(f"{option} {text}: write for example 2026-03-01T10:00:00Z") from error


def _document(stretch: Stretch, made: Sequence[Again]) -> dict[str, Any]:
    return {
        **_summary(made),
        "gaps": stretch.gaps,
        "differences": [
            {
                "at": one.cycle.at.isoformat(),
                "cycle": one.cycle.cycle,
                "gang": difference.gang,
                "then": _placed(difference.logged),
                "now": _placed(difference.again),
            }
            for one in made
            for difference in one.differences
        ],
    }


def _summary(made: Sequence[Again]) -> dict[str, Any]:
    return {
        "from": made[0].cycle.at.isoformat(),
        "to": made[-1].cycle.at.isoformat(),
        "cycles": len(made),
        "decisions": sum(len(one.logged) for one in made),
        "identical": sum(len(one.logged) for one in made)
        - sum(difference.logged is not None for one in made for difference in one.differences),
        "same_policy": all(one.policy == one.cycle.policy for one in made),
    }


def _placed(event: GangDecided | None) -> dict[str, Any] | None:
    """Return what a decision says: pods by node, and who has to go."""
    if event is None:
        return None
    return {
        "nodes": dict(sorted(Counter(one.node for one in event.bindings).items())),
        "evicted": [f"{one.namespace}/{one.pod}" for one in event.evictions],
    }


def _show(made: Sequence[Again]) -> None:
    from rich.console import Console

    from pumice.render.table import Table

    summary = _summary(made)
    table = Table(
        ("AT", "GANG", "THEN", "NOW"),
        tuple(
            (one.cycle.at.isoformat(), difference.gang, *_words(difference))
            for one in made
            for difference in one.differences
        ),
    )
    console = Console(highlight=False)
    if table.rows and console.is_terminal:
        console.print(table.rich())
    elif table.rows:
        typer.echo("\n".join(table.lines()))
    policy = "the same policy" if summary["same_policy"] else "another policy than then"
    typer.echo(
        f"{summary['cycles']} cycles from {summary['from']} to {summary['to']}, by {policy}: "
        f"{summary['identical']} of {summary['decisions']} decisions are identical"
    )


def _words(difference: Difference) -> tuple[str, str]:
    return _said(difference.logged), _said(difference.again)


def _said(event: GangDecided | None) -> str:
    found = _placed(event)
    if found is None:
        return "waits"
    nodes = ", ".join(f"{count} on {node}" for node, count in found["nodes"].items())
    evicted = f"takes away {', '.join(found['evicted'])}" if found["evicted"] else ""
    return "; ".join(filter(None, (nodes, evicted))) or "is let in"
