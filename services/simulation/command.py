"""``pumice simulate``: the command that joins the light command line by its entry point."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from datetime import timedelta

_FILES = "YAML or JSON files with manifests, each of one or several documents; - reads standard input."


def simulate(
    files: Annotated[list[str], typer.Argument(help=_FILES, metavar="FILE")],
    output: Annotated[
        Literal["table", "json"],
        typer.Option("-o", "--output", help="What is printed: tables, or all as JSON."),
    ] = "table",
    until: Annotated[
        str | None,
        typer.Option(help="End of virtual time, e.g. 1h. Default: when nothing is left to happen."),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(help="Volcano's scheduler configuration; it wins over a ConfigMap in the manifests."),
    ] = None,
    events: Annotated[bool, typer.Option("--events", help="Print all that happened, too.")] = False,
) -> None:
    """Run a scenario in virtual time and say what would happen.

    A scenario is Kubernetes manifests with the annotations pumice.dev/at, run-for, delete-at and exit-code.
    """
    from services.simulation.core.scenario import ScenarioError
    from shared.errors import ConfigurationError

    try:
        _scenario(files, output, until, policy, events=events)
    except ScenarioError as error:
        for problem in error.problems:
            sys.stderr.write(f"pumice simulate: {problem}\n")
        raise typer.Exit(2) from error
    except ConfigurationError as error:
        sys.stderr.write(f"pumice simulate: {error}\n")
        raise typer.Exit(2) from error


def _scenario(files: list[str], output: str, until: str | None, policy: str | None, *, events: bool) -> None:
    from services.simulation.adapters.files import policy_of, scenario_of
    from services.simulation.core.engine import Simulation

    chosen, notes = policy_of(policy)
    end = None if until is None else _until(until)
    scenario = scenario_of(files)
    for note in (*notes, *scenario.notes):
        sys.stderr.write(f"pumice simulate: {note}\n")
    outcome = Simulation(chosen, fixed=policy is not None).run(scenario, end)
    if output == "json":
        import orjson

        sys.stdout.write(orjson.dumps(outcome.as_json(), option=orjson.OPT_INDENT_2).decode() + "\n")
        return
    from rich.console import Console

    from services.simulation.adapters.tables import show

    show(outcome, Console(highlight=False), events=events)


def _until(text: str) -> timedelta:
    from shared.api.duration import parse_duration
    from shared.errors import ConfigurationError

    try:
        return parse_duration(text)
    except ValueError as error:
        raise ConfigurationError(f"--until {error}") from error
