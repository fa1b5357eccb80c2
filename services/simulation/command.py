"""``pumice simulate``: the command that joins the light command line by its entry point."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from datetime import timedelta

_FILES = "YAML or JSON files with manifests, each of one or several documents; - reads standard input."
_MOST_GPUS = 1_000_000
_OUTPUT = "What is printed: tables, or all as JSON."
_UNTIL = "End of virtual time, e.g. 1h. Default: when nothing is left to happen."
_POLICY = "Volcano's scheduler configuration; it wins over a ConfigMap in the manifests."
_TRACE = (
    "Run a CSV of jobs instead of manifests: columns arrival_s, duration_s, gpus, and queue if there is one."
)


def simulate(
    files: Annotated[list[str] | None, typer.Argument(help=_FILES, metavar="FILE")] = None,
    output: Annotated[Literal["table", "json"], typer.Option("-o", "--output", help=_OUTPUT)] = "table",
    until: Annotated[str | None, typer.Option(help=_UNTIL)] = None,
    policy: Annotated[str | None, typer.Option(help=_POLICY)] = None,
    events: Annotated[bool, typer.Option("--events", help="Print all that happened, too.")] = False,
    trace: Annotated[str | None, typer.Option(help=_TRACE)] = None,
    gpus: Annotated[int, typer.Option(min=1, max=_MOST_GPUS, help="GPUs of the cluster of a trace.")] = 512,
    gpus_per_node: Annotated[int, typer.Option(min=1, max=_MOST_GPUS, help="GPUs of each of its nodes.")] = 8,
    report: Annotated[
        Path | None, typer.Option(help="Write a trace's figures and charts into this directory.")
    ] = None,
) -> None:
    """Run a scenario in virtual time and say what would happen.

    A scenario is Kubernetes manifests with the annotations pumice.dev/at, run-for, delete-at and exit-code.
    """
    if trace is not None:
        _guarded(lambda: _trace(files, output, until, policy, trace, gpus, gpus_per_node, report))
    else:
        _guarded(lambda: _scenario(files, output, until, policy, report, events=events))


def _guarded(work: Callable[[], None]) -> None:
    """Run; what is wrong with the input is a line each, and exit code 2."""
    from services.scheduler.core.own import PluginError
    from services.simulation.core.scenario import ScenarioError
    from shared.errors import ConfigurationError

    try:
        work()
    except ScenarioError as error:
        _note(error.problems)
        raise typer.Exit(2) from error
    except (ConfigurationError, PluginError) as error:
        _note(str(error).splitlines())
        raise typer.Exit(2) from error


def _scenario(
    files: list[str] | None,
    output: str,
    until: str | None,
    policy: str | None,
    report: Path | None,
    *,
    events: bool,
) -> None:
    from services.simulation.adapters.files import policy_of, scenario_of, skipped_answers
    from services.simulation.core.engine import Simulation
    from shared.errors import ConfigurationError

    if not files:
        raise ConfigurationError("name a file with manifests, or a trace with --trace")
    if report is not None:
        raise ConfigurationError("--report is for a trace")
    chosen, notes = policy_of(policy)
    end = None if until is None else _until(until)
    scenario = scenario_of(files)
    _note((*notes, *scenario.notes, *scenario.problems))
    outcome = Simulation(chosen, fixed=policy is not None).run(scenario, end)
    _note(skipped_answers(chosen))
    if output == "json":
        _print_json(outcome.as_json())
    else:
        from rich.console import Console

        from services.simulation.adapters.tables import show

        show(outcome, Console(highlight=False), events=events)
    if scenario.problems:
        raise typer.Exit(2)


def _trace(
    files: list[str] | None,
    output: str,
    until: str | None,
    policy: str | None,
    path: str,
    gpus: int,
    node: int,
    report: Path | None,
) -> None:
    from services.simulation.adapters.files import policy_of, skipped_answers, trace_of, write_report
    from services.simulation.core.tracerun import Cluster, TraceRun
    from shared.errors import ConfigurationError

    if files or until is not None:
        raise ConfigurationError("--trace excludes manifests and --until: a trace runs alone and to its end")
    chosen, notes = policy_of(policy)
    trace = trace_of(path)
    _note((*notes, *trace.problems))
    outcome = TraceRun(trace, Cluster(gpus, node), chosen).run()
    _note([*skipped_answers(chosen), *outcome.unstarted()])
    if report is not None:
        write_report(report, f"{Path(path).name} on {gpus} GPUs", outcome, trace.problems)
    if output == "json":
        _print_json({**outcome.as_json(), "problems": list(trace.problems)})
        return
    from rich.console import Console

    from services.simulation.adapters.tables import show_trace

    show_trace(outcome, Console(highlight=False))


def _print_json(document: dict[str, Any]) -> None:
    import orjson

    sys.stdout.write(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n")


def _note(lines: list[str] | tuple[str, ...]) -> None:
    for line in lines:
        sys.stderr.write(f"pumice simulate: {line}\n")


def _until(text: str) -> timedelta:
    from shared.api.duration import parse_duration
    from shared.errors import ConfigurationError

    try:
        end = parse_duration(text)
    except ValueError as error:
        raise ConfigurationError(f"--until {error}") from error
    if end.days < 0:
        raise ConfigurationError(f"--until {text} is before the beginning")
    return end
