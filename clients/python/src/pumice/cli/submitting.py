"""``submit`` and ``run``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import typer

from pumice.calls import State
from pumice.cli.exits import Exit, UsageError, code_of
from pumice.cli.group import report
from pumice.cli.place import Place, seconds
from pumice.errors import PumiceError, Unavailable
from pumice.manifest import Job, documents, name_of, short_form
from pumice.models import JobView, Trial
from pumice.render.live import progress
from pumice.render.text import trial, why

_STATES: Final[dict[str, State]] = {"admitted": "admitted", "running": "running", "finished": "finished"}
Submission = Job | dict[str, Any]


def job_of(given: dict[str, Any]) -> Job:
    """Return the job that the flags of the short form describe."""
    missing = [f"--{name}" for name in ("name", "image") if name not in given]
    if missing:
        raise UsageError(f"the short form of a job needs {' and '.join(missing)}")
    env = {"env": dict(_pair(text) for text in given["env"])} if "env" in given else {}
    return short_form(**{**given, **env})


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"--env: {text!r} is not NAME=VALUE")
    return name, value


def submit(
    place: Place, files: list[str], flags: dict[str, Any], *, wait: str, timeout: str | None, form: str
) -> None:
    """Submit each job and report it; the exit code is the first failure's."""
    limit, state = seconds(timeout), _STATES.get(wait)
    write = typer.echo if form in {"table", "wide"} else _whisper
    code = Exit.OK
    views: list[JobView] = []
    for job in _jobs(files, flags):
        try:
            view = _submitted(place, job, state, limit, write)
        except Unavailable:
            raise
        except PumiceError as error:
            report(error, _name(job))
            code = code or code_of(error)
        else:
            views.append(view)
            code = code or _outcome(view, state)
    _say(place, views, form)
    if code:
        raise typer.Exit(code)


def try_out(place: Place, files: list[str], flags: dict[str, Any], *, timeout: str | None, form: str) -> None:
    """Say of each job what would become of it; the exit code is the first failure's."""
    limit = seconds(timeout)
    code = Exit.OK
    found: list[Trial] = []
    for job in _jobs(files, flags):
        try:
            found.append(place.client.try_out(job, timeout=limit))
        except Unavailable:
            raise
        except PumiceError as error:
            report(error, _name(job))
            code = code or code_of(error)
    if form in {"json", "yaml"}:
        dumped = [one.dump() for one in found]
        place.dump(dumped[0] if len(dumped) == 1 else {"items": dumped}, form)
    else:
        now = datetime.now(UTC)
        place.lines([line for one in found for line in trial(one, now)])
    if code:
        raise typer.Exit(code)


def run(place: Place, file: str | None, flags: dict[str, Any], *, timeout: str | None) -> None:
    """Submit one job and follow it to its end."""
    jobs = _jobs([file] if file else [], flags)
    if len(jobs) != 1:
        raise UsageError(f"{file}: has {len(jobs)} jobs, run follows one; use submit")
    try:
        view = _submitted(place, jobs[0], "finished", seconds(timeout), typer.echo)
    except KeyboardInterrupt:
        typer.echo(f"job {_name(jobs[0])} goes on; 'pumice delete {_name(jobs[0])}' ends it", err=True)
        raise
    code = _outcome(view, "finished")
    if code:
        typer.echo(f"error: job {view.namespace}/{view.name} ended {view.phase}{_because(view)}", err=True)
        raise typer.Exit(code)


def _submitted(
    place: Place, job: Submission, state: State | None, limit: float | None, write: Callable[[str], None]
) -> JobView:
    view = place.client.submit(job, wait="admitted" if state else None, timeout=limit)
    if state in {None, "admitted"}:
        return view
    changes = place.client.watch(
        view.name, until=state or "finished", namespace=view.namespace, timeout=limit
    )
    console = place.console if write is typer.echo else None
    return progress(changes, console=console, write=write) or view


def _jobs(files: list[str], flags: dict[str, Any]) -> list[Submission]:
    given = {
        key: value
        for key, value in flags.items()
        if value is not None and value is not False and value not in ([], ())
    }
    if not files:
        if not given:
            raise UsageError("give a manifest with -f FILE, or the short form with --name and --image")
        return [job_of(given)]
    if given:
        raise UsageError("-f FILE and the flags of the short form exclude each other")
    found: list[Submission] = [document for file in files for document in documents(_text(file), file)]
    if not found:
        raise UsageError(f"{', '.join(files)}: no job in it")
    return found


def _text(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file}: not UTF-8 text") from error


def _name(job: Submission) -> str:
    return name_of(job.body() if isinstance(job, Job) else job) or "job without a name"


def _outcome(view: JobView, state: State | None) -> Exit:
    failed = state in {"running", "finished"} and view.ended and not view.succeeded
    return Exit.FAILED if failed else Exit.OK


def _because(view: JobView) -> str:
    return f": {why(view)}" if why(view) else ""


def _say(place: Place, views: list[JobView], form: str) -> None:
    if form in {"json", "yaml"}:
        found = [view.dump() for view in views]
        place.dump(found[0] if len(found) == 1 else {"items": found}, form)
    elif form == "name":
        place.lines([f"job/{view.name}" for view in views])
    else:
        place.lines(
            [
                f"job {view.namespace}/{view.name}: {view.phase or 'Submitted'}{_because(view)}"
                for view in views
            ]
        )


def _whisper(line: str) -> None:
    typer.echo(line, err=True)
